"""What a tool that asks for permission would change in a file, as a diff that a person can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from clew.core.branching.edits import EditKind, FileEdit, content_after
from clew.core.record import Record

CONTEXT_LINES = 3
MAX_COMPARED_LINES = 2_000  # on each side, without what both have in common: the work grows with the product
MAX_LINES = 2_000  # of a diff
MAX_LINE_CHARS = 2_000

NEW_FILE = "A new file."
NO_MATCH = "The text to replace is not in the file as it is now. This is the edit itself."
PART_OF_NOTEBOOK = "What it replaces in the notebook is not shown."


class ProposedEdit(Record):
    """What would change in one file."""

    path: str  # as the agent wrote it
    lines: tuple[str, ...]  # of a unified diff: hunks without the names of the files
    note: str = ""  # what the reader must know of the diff; "": it is against the file as it is now
    omitted: int = 0  # how many more lines the diff has


def proposed_edit(path: str, edits: Sequence[FileEdit], current: str | None, note: str = "") -> ProposedEdit:
    """The change of one file. `current` is its text now ("": there is no file); None: it is not known, for the reason
    in `note`."""
    after = None if current is None else content_after(edits, current)
    if current is not None and after is not None:
        lines = _diff(current, after)
        if not lines:
            note = "Nothing changes." if current == after else "Only the end of the last line changes."
        return _bounded(path, lines, note)
    if current is not None:
        note = PART_OF_NOTEBOOK if any(_is_cell(edit) for edit in edits) else NO_MATCH
    return _bounded(path, [line for edit in edits for line in _diff(edit.old or "", edit.new or "")], note)


def _is_cell(edit: FileEdit) -> bool:
    return edit.kind is EditKind.CHANGE and edit.old is None


def _bounded(path: str, lines: Sequence[str], note: str) -> ProposedEdit:
    kept = tuple(line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS]}…" for line in lines[:MAX_LINES])
    return ProposedEdit(path, kept, note, omitted=len(lines) - len(kept))


def _diff(old: str, new: str) -> list[str]:
    """A long file with a short edit costs little: only what differs is compared."""
    a, b = _lines(old), _lines(new)
    most = min(len(a), len(b))
    head = next((n for n in range(most) if a[n] != b[n]), most)
    tail = next((n for n in range(most - head) if a[-1 - n] != b[-1 - n]), most - head)
    if head == len(a) == len(b):
        return []
    before, after = max(0, head - CONTEXT_LINES), min(tail, CONTEXT_LINES)
    a, b = a[before : len(a) - tail + after], b[before : len(b) - tail + after]
    if max(len(a), len(b)) > MAX_COMPARED_LINES:
        hunks = [[("replace", 0, len(a), 0, len(b))]]
    else:
        hunks = list(SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(CONTEXT_LINES))
    return [line for hunk in hunks for line in _hunk(hunk, a, b, before)]


def _hunk(codes: Sequence[tuple[str, int, int, int, int]], a: list[str], b: list[str], before: int) -> Iterator[str]:
    (_, a_from, _, b_from, _), (_, _, a_to, _, b_to) = codes[0], codes[-1]
    yield f"@@ -{_place(before + a_from, a_to - a_from)} +{_place(before + b_from, b_to - b_from)} @@"
    for code, a1, a2, b1, b2 in codes:
        if code == "equal":
            yield from (f" {line}" for line in a[a1:a2])
            continue
        yield from (f"-{line}" for line in a[a1:a2])
        yield from (f"+{line}" for line in b[b1:b2])


def _place(start: int, count: int) -> str:
    return f"{start + 1 if count else start},{count}"


def _lines(text: str) -> list[str]:
    """Only a newline ends a line: another character that does so in some programs stays where a person sees it."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines
