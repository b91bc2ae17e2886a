"""How a prompt is worded: standing text, transcript, catch-up, the answered-form line.

Theory of operation. A prompt with nothing to add is the user's text, byte for byte. Otherwise it consists of sections
under first-level headings, the new message last. Each turn has a second-level heading that says who spoke. So that a
turn's own text is never taken for a heading, whatever looks like a heading is escaped with a backslash, and so is an
escaped heading, so that the escape can be undone. Text that changes from turn to turn is sent only here, never in a
launch flag, so that the agent's cached prefix stays the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from clew.core.history import LongHistory, Role, Turn
from clew.core.images import words
from clew.core.record import Record

STANDING = "# Standing instructions"
TRANSCRIPT = "# Conversation so far"
CATCH_UP = "# Since your last answer"
WORK_DONE = "# Work done so far"
MESSAGE = "# New message"

TRANSCRIPT_NOTE = "This is the record of the conversation up to now. Continue it: answer the new message at the end."
CATCH_UP_NOTE = "These turns of the conversation have not reached you yet. Read them, then answer the new message."
STANDING_CHANGED = "These replace the standing instructions that you were given earlier."
STANDING_GONE = "The standing instructions that you were given earlier no longer apply."
FORM_ANSWERED = "(The question form in your last answer has been answered by this message. Do not show it again.)"
FORM_NOTE = "[A question form was shown here; it has been answered since.]"
CUT_OFF = "[This answer was cut off here.]"
IMAGE_NOTE = "[Image: {image}, shown in this turn. It is not part of this transcript.]"
DROPPED_NOTE = (
    "You continue from an earlier point of this conversation: turns after that point were changed or removed. What was "
    "done in them has not been undone, and the files are as it left them. Read a file again before you rely on it."
)

MAX_NAMED_FILES = 200  # in a list of changed files

_ENDS = r"\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"  # a model may read any of these as the end of a line
_BLANK = rf"[^\S{_ENDS}]"
_HEADING = (
    rf"(^|(?<=[{_ENDS}]))"
    rf"(?=(?:{_BLANK}|[\\>*_\u200b-\u200f\u2060\ufeff])*(?:"  # blanks, quote and emphasis marks, invisible characters
    rf"[#\uff03]{{1,6}}{_BLANK}*(?:user|assistant|human|system|standing instructions|conversation so far"
    r"|since your last answer|work done so far|new message)\b"
    rf"|(?:user|assistant|human|system)(?:{_BLANK}|[*_])*[:\uff1a]))"
)
# `re` compiles and caches a pattern when it is first used, so that importing this module stays fast.
_FORM = r"(?is)<question-form\b.*?</question-form\s*>"
_OPEN_FORM = r"(?is)<question-form\b.*\Z"  # matches a form without its end, in an answer that was cut off

_HEADING_CHARS = 64  # how many characters a turn counts against the limit in addition to its text


class Section(Record):
    """Turns as prompt text, and how many were left out."""

    text: str
    omitted: int  # how many of the first turns are not in it


def escape(text: str) -> str:
    """The text with everything escaped that looks like a heading of ours or names a role."""
    return re.sub(_HEADING, r"\1\\", text, flags=re.IGNORECASE)


def has_form(text: str) -> bool:
    return "<question-form" in text.lower() and re.search(_FORM, text) is not None


def without_forms(text: str) -> str:
    return re.sub(_FORM, FORM_NOTE, text)


def heading(turn: Turn) -> str:
    """A heading that says who spoke. The names lose their line breaks: a host may let users choose them."""
    if turn.role is Role.USER:
        return "## User"
    who = " ".join(part for part in (turn.agent, turn.model) if part)
    return f"## Assistant ({' '.join(who.split())})" if who else "## Assistant"


def turns_section(turns: Sequence[Turn], limit_chars: int) -> Section:
    """The newest turns that fit, and a line that says what was left out.

    If the newest turn alone is too long, its beginning and its end are kept.
    """
    blocks: list[str] = []
    remaining_chars = limit_chars
    for turn in reversed(turns):
        text = _turn_text(turn)
        if len(text) + _HEADING_CHARS > remaining_chars:
            if blocks:
                break
            text = _turn_text(turn.replace(text=cut_middle(turn.text, max(remaining_chars - _HEADING_CHARS, 0))))
        remaining_chars -= len(text) + _HEADING_CHARS
        blocks.append(f"{heading(turn)}\n\n{text}")
    omitted = len(turns) - len(blocks)
    if omitted:
        blocks.append(left_out_note(omitted, sum(len(turn.text) for turn in turns[:omitted])))
    return Section("\n\n".join(reversed(blocks)), omitted)


def left_out_note(turns: int, chars: int) -> str:
    what = "1 earlier turn" if turns == 1 else f"{turns:,} earlier turns"
    return f"[{what} ({chars:,} characters) left out here: the conversation is too long.]"


def _turn_text(turn: Turn) -> str:
    text = without_forms(turn.text) if turn.role is Role.ASSISTANT else turn.text
    if turn.partial:
        text = re.sub(_OPEN_FORM, FORM_NOTE, text)
    notes = [IMAGE_NOTE.format(image=words(image)) for image in turn.images]
    return "\n\n".join([escape(text), *notes, *([CUT_OFF] if turn.partial else [])])


def cut_middle(text: str, limit: int) -> str:
    """The beginning and the end of a text that is longer than `limit`, with a line between them that says so."""
    head = limit * 2 // 3
    tail = limit - head
    omitted = len(text) - head - tail
    return f"{text[:head]}\n\n[{omitted:,} characters left out here.]\n\n{text[len(text) - tail :]}"


def fresh(standing: str | None, transcript: Section | None, text: str, done: str | None = None) -> str:
    """Standing + transcript + work done + text."""
    turns = f"{TRANSCRIPT_NOTE}\n\n{transcript.text}" if transcript is not None else None
    return _with_sections(((STANDING, standing), (TRANSCRIPT, turns), (WORK_DONE, done)), text)


def fenced(text: str, mark: str, kind: str = "data") -> str:
    """The text between two lines that tell the model where data begins and ends.

    `mark` is random. If it occurs in the text all the same, it is removed.
    """
    while mark in text:  # removing one occurrence may create another
        text = text.replace(mark, "")
    inside = escape(text).rstrip("\n")
    return f"<<<{kind} {mark}\n{inside}\n>>>{kind} {mark}"


def fresh_chars(standing: str | None, turns: Sequence[Turn], text: str, limit_chars: int) -> int:
    """About how long `fresh` would be, without building a transcript that is not sent."""
    turns_chars = turns.chars if isinstance(turns, LongHistory) else sum(map(turn_chars, turns))
    transcript = Section(" " * min(turns_chars, limit_chars), 0) if turns else None
    return len(fresh(standing, transcript, text))


def turn_chars(turn: Turn) -> int:
    """About how many characters the turn has in a transcript. The store keeps it with each turn."""
    return len(heading(turn)) + len(turn.text) + 4


def delta(
    standing_note: str | None, catch_up: Section | None, text: str, *, form_answered: bool, done: str | None = None
) -> str:
    """Catch-up + work done + text, and the standing text only when it changed."""
    turns = f"{CATCH_UP_NOTE}\n\n{catch_up.text}" if catch_up is not None else None
    if form_answered:
        text = f"{FORM_ANSWERED}\n\n{text}"
    return _with_sections(((STANDING, standing_note), (CATCH_UP, turns), (WORK_DONE, done)), text)


def dropped_effects(effects: Sequence[str]) -> str | None:
    """What turns did that a rewound session does not hold any more: each effect is one or more lines of a list."""
    lines = list(dict.fromkeys(line for each in effects for line in each.splitlines() if line))
    if not lines:
        return None
    left_out = len(lines) - MAX_NAMED_FILES
    shown = lines if left_out <= 0 else [f"[{left_out:,} earlier lines left out here.]", *lines[left_out:]]
    return "\n".join([DROPPED_NOTE, "", *(escape(line) for line in shown)])


def _with_sections(sections: Iterable[tuple[str, str | None]], text: str) -> str:
    """The text below the sections that have content, each under its title."""
    blocks = [f"{title}\n\n{content}" for title, content in sections if content]
    return "\n\n".join([*blocks, f"{MESSAGE}\n\n{text}"]) if blocks else text
