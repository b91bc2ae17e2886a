"""Shows the comparison of two threads: signs and colours on a terminal, signs and marks in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from clew.cli.ui.formatting import agent_words, harmless, one_line, plural, speaker
from clew.cli.ui.printing import has_colours
from clew.core.branching.compare import DiffKind, TextPiece, TurnDiff, unmarked, words
from clew.core.branching.edits import FileDiff, FileDiffKind, diff_lines
from clew.core.ids import SHORT_ID

if TYPE_CHECKING:
    from clew.api.branching import Comparison
    from clew.core.history import Turn

SAME_TURN_CHARS = 70  # how much is shown of a turn that is the same
SIGNS = {"same": "=", "changed": "~", "both": "?", "only_a": "-", "only_b": "+"}  # for a turn or a file
COLOURS = {"-": "\x1b[31m", "+": "\x1b[32m", "@": "\x1b[36m", "~": "\x1b[33m"}
MARKS = {DiffKind.ONLY_A: ("[-", "-]"), DiffKind.ONLY_B: ("{+", "+}")}
LEFT_OUT = "…"
MIN_ALIKE = 0.4  # the least ratio of equal to differing text for which the words that differ are marked


def lines_of(compared: Comparison, context: int) -> Iterator[str]:
    a, b = compared.a, compared.b
    if compared.part is not None:
        yield _painted("@", f"@ {compared.part}s")
    yield _painted("-", f"- {a.name}  {agent_words(a.agent, a.model)}  {harmless(a.cwd)}")
    yield _painted("+", f"+ {b.name}  {agent_words(b.agent, b.model)}  {harmless(b.cwd)}")
    yield ""
    for is_shown, some in groupby(_near(compared.turns, context), key=lambda each: each[0]):
        steps = [step for _, step in some]
        if not is_shown:
            yield f"{LEFT_OUT} {plural(len(steps), 'turn is the same', 'turns are the same')}"
        for step in steps if is_shown else ():
            yield from _turn_lines(step, context)
    if compared.files:
        yield "\nfiles:"
    for file in compared.files:
        yield from _file_lines(file, (a.name, b.name), context)
    yield f"\n{_sum(compared)}"


def _near(steps: Sequence[TurnDiff], context: int) -> list[tuple[bool, TurnDiff]]:
    """Each turn, and whether it is shown: a turn that differs is, and so are `context` turns around it."""
    differing = [place for place, step in enumerate(steps) if step.step is not DiffKind.SAME]
    shown = _context(differing, len(steps), context)
    return [(place in shown, step) for place, step in enumerate(steps)]


def _context(places: Sequence[int], count: int, context: int) -> set[int]:
    context = min(context, count)
    return {near for place in places for near in range(max(0, place - context), min(count, place + context + 1))}


def _turn_lines(step: TurnDiff, context: int) -> Iterator[str]:
    turn = step.a or step.b
    assert turn is not None
    sign = SIGNS[step.step.value]
    if step.step is DiffKind.SAME:
        yield f"= {_who(turn)}: {one_line(turn.text, SAME_TURN_CHARS)}"
        return
    speakers = dict.fromkeys(_who(each) for each in (step.a, step.b) if each is not None)
    yield _painted(sign, f"{sign} {' | '.join(speakers)}")
    pieces = words(unmarked(step.a.text), unmarked(step.b.text)) if step.a is not None and step.b is not None else []
    if _is_alike(pieces):
        yield from _word_lines(pieces, context)
        return
    for mark, each in (("-", step.a), ("+", step.b)):
        lines = harmless(each.text).splitlines() if each is not None else []
        yield from (_painted(mark, f"{mark}   {line}".rstrip()) for line in lines)


def _is_alike(pieces: Sequence[TextPiece]) -> bool:
    """False for two texts with little in common: with their words mixed, they could not be read."""
    same = sum(len(piece.text) for piece in pieces if piece.step is DiffKind.SAME)
    other = sum(len(piece.text) for piece in pieces if piece.step is not DiffKind.SAME)
    return bool(pieces) and 2 * same >= other * MIN_ALIKE


def _who(turn: Turn) -> str:
    return f"{speaker(turn)} ({turn.id[:SHORT_ID]})"


def _word_lines(pieces: Sequence[TextPiece], context: int) -> Iterator[str]:
    """The text with the differing words marked. Lines without a difference are shown only near one."""
    lines, differing = [""], set[int]()
    for piece in pieces:
        for number, part in enumerate(harmless(piece.text).split("\n")):
            if number:
                lines.append("")
            if piece.step is not DiffKind.SAME:
                differing.add(len(lines) - 1)
            lines[-1] += _marked(piece.step, part)
    shown = _context(sorted(differing), len(lines), context)
    for is_shown, some in groupby(enumerate(lines), key=lambda each: each[0] in shown):
        if is_shown:
            yield from (f"    {line}".rstrip() for _, line in some)
        else:
            yield f"    {LEFT_OUT}"


def _marked(step: DiffKind, text: str) -> str:
    if step is DiffKind.SAME or not text:
        return text
    if has_colours(sys.stdout):
        return _painted(SIGNS[step.value], text)
    return text.join(MARKS[step])


def _file_lines(file: FileDiff, names: tuple[str, str], context: int) -> Iterator[str]:
    sign = SIGNS[file.step.value]
    counts = " | ".join(plural(len(edits), "edit") if edits else "-" for edits in (file.a, file.b))
    yield _painted(sign, f"{sign} {one_line(file.path, 200)}  {counts}")
    if file.step is FileDiffKind.SAME:
        return
    for line in diff_lines(file, names, context):
        yield _painted(line[:1] or " ", f"    {harmless(line)}".rstrip())


def _sum(compared: Comparison) -> str:
    count = {step: sum(turn.step is step for turn in compared.turns) for step in DiffKind}
    differ = sum(file.step not in (FileDiffKind.SAME, FileDiffKind.BOTH) for file in compared.files)
    turns = (
        f"{plural(count[DiffKind.SAME], 'turn')} the same, {count[DiffKind.CHANGED]:,} changed, "
        f"{count[DiffKind.ONLY_A]:,} only in {compared.a.name}, {count[DiffKind.ONLY_B]:,} only in {compared.b.name}"
    )
    return f"{turns}; {plural(differ, 'file differs', 'files differ')} of {len(compared.files):,}"


def _painted(sign: str, text: str) -> str:
    colour = COLOURS.get(sign, "") if has_colours(sys.stdout) else ""
    return f"{colour}{text}\x1b[0m" if colour else text
