"""Markdown on a terminal while it streams. What is finished is printed once; only the lines after it are redrawn.

    pieces of text → Document (blocks) → Passage (inline markup) → Flow (rows of words) → Drawing (the terminal)

A Document reads its text character by character as far as layout goes: where a passage is cut, which widths a table
has and where a line that is far too long is broken depend on the text alone, never on how it was cut into pieces. So
a text that was streamed looks as it does when it is printed at once, and a piece costs as much as it is long, however
long the answer has become.
"""
