"""Aligns two histories: which turns are the same, which differ, and which are in one history only.

Theory of operation. The unit of alignment is the round: a user's turn and the answers to it. Two models answer the same
prompt in quite different words, and their answers still belong together, so rounds are matched mainly by their prompts.
The rounds that both have in common at the beginning and at the end are paired first. From the rest, the pairs are
chosen, in order, whose total similarity is the greatest. Every turn of both histories appears once, in its order.

Time is bounded. The similarity of long texts is computed from their beginnings and ends only, by comparing a fixed
number of word hashes (a sketch). Histories that are too long for one table of all pairs are split first.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from enum import StrEnum

from clew.core.continuation import words_of_user
from clew.core.history import Role, Turn
from clew.core.record import Record

HEAD_CHARS, TAIL_CHARS = 4_000, 1_000  # how much of a text's beginning and end goes into its sketch
SKETCH_WORDS = 32
MAX_PAIRS = 250_000  # how many pairs of rounds one table may hold
MIN_LIKENESS = 1.2  # rounds that are less alike are not paired; the maximum is 3: prompts count 2, answers 1
FENCE = "<<<data "  # the beginning of an opening fence line; its mark follows
MAX_WORDS = 20_000  # of both texts together; longer texts are compared line by line
WORD_CHARS = 6  # the average length of a word


class DiffKind(StrEnum):
    SAME = "same"
    CHANGED = "changed"
    ONLY_A = "only_a"
    ONLY_B = "only_b"


class TurnDiff(Record):
    """A turn of one history, or two turns that are at the same place."""

    step: DiffKind
    a: Turn | None
    b: Turn | None


class TextPiece(Record):
    """Some words of both texts, or of one text only."""

    step: DiffKind  # never CHANGED
    text: str


class PromptRound(Record):
    """A user's turn and the answers to it. The first round of a history may lack the user's turn."""

    turns: tuple[Turn, ...]

    @property
    def prompt(self) -> str:
        return self.turns[0].text if self.turns[0].role is Role.USER else ""

    @property
    def answers(self) -> tuple[Turn, ...]:
        return self.turns[1:] if self.turns[0].role is Role.USER else self.turns

    @property
    def answer(self) -> str:
        return "\n\n".join(turn.text for turn in self.answers)


def rounds(history: Sequence[Turn]) -> list[PromptRound]:
    found: list[list[Turn]] = []
    for turn in history:
        if turn.role is Role.USER or not found:
            found.append([turn])
        else:
            found[-1].append(turn)
    return [PromptRound(tuple(turns)) for turns in found]


def asked_by_user(history: Sequence[Turn]) -> list[PromptRound]:
    """The rounds whose prompts a user worded. An answer to Clew's own "continue" belongs to the prompt before it."""
    asked: list[PromptRound] = []
    for round_ in rounds(history):
        first = round_.turns[0]
        words = words_of_user(first.text) if first.role is Role.USER else ""
        if words:
            asked.append(PromptRound((first.replace(text=words), *round_.answers)))
        elif asked:
            asked[-1] = PromptRound((*asked[-1].turns, *round_.answers))
    return asked


def is_same(a: Turn, b: Turn) -> bool:
    return a.role is b.role and a.text == b.text and a.images == b.images


def in_common(a: Sequence[Turn], b: Sequence[Turn]) -> int:
    """How many turns at the beginning are the same, in whole rounds: an answer is never separated from its prompt."""
    count = 0
    for one, other in zip(rounds(a), rounds(b), strict=False):
        if len(one.turns) != len(other.turns) or not all(map(is_same, one.turns, other.turns)):
            break
        count += len(one.turns)
    return count


def align(a: Sequence[Turn], b: Sequence[Turn]) -> list[TurnDiff]:
    """Both histories in one list: every turn once, in its order. The marks of fence lines are ignored."""
    ours, theirs = ({turn.id: turn for turn in history} for history in (a, b))
    plain = [[turn.replace(text=unmarked(turn.text)) for turn in history] for history in (a, b)]
    return [
        TurnDiff(step.step, ours[step.a.id] if step.a else None, theirs[step.b.id] if step.b else None)
        for one, other in _paired(rounds(plain[0]), rounds(plain[1]))
        for step in _steps(one, other)
    ]


def unmarked(text: str) -> str:
    """The text without the marks of fence lines: they are random, so they differ even if two prompts are the same."""
    if FENCE not in text:
        return text
    return re.sub(rf"(?m)^({FENCE}|>>>data )[0-9a-f-]{{8,}}$", r"\1…", text)


def _steps(one: PromptRound | None, other: PromptRound | None) -> Iterator[TurnDiff]:
    a = list(one.turns) if one is not None else []
    b = list(other.turns) if other is not None else []
    while a and b:
        if a[0].role is not b[0].role:  # one round has no prompt: the other round's prompt stands alone
            alone = b if b[0].role is Role.USER else a
            yield TurnDiff(DiffKind.ONLY_A, a.pop(0), None) if alone is a else TurnDiff(DiffKind.ONLY_B, None, b.pop(0))
            continue
        yield TurnDiff(DiffKind.SAME if is_same(a[0], b[0]) else DiffKind.CHANGED, a.pop(0), b.pop(0))
    yield from (TurnDiff(DiffKind.ONLY_A, turn, None) for turn in a)
    yield from (TurnDiff(DiffKind.ONLY_B, None, turn) for turn in b)


Pairs = Iterator[tuple[PromptRound | None, PromptRound | None]]


def _paired(a: list[PromptRound], b: list[PromptRound]) -> Pairs:
    """Pairs all rounds. Those with the same prompts at the beginning and at the end need no search."""
    ours, theirs = [each.prompt for each in a], [each.prompt for each in b]
    begin = _shared(ours, theirs)
    end = _shared(ours[begin:][::-1], theirs[begin:][::-1])
    yield from zip(a[:begin], b[:begin], strict=True)
    yield from _middle(a[begin : len(a) - end], b[begin : len(b) - end])
    yield from zip(a[len(a) - end :], b[len(b) - end :], strict=True)


def _middle(a: list[PromptRound], b: list[PromptRound]) -> Pairs:
    if not a or not b:
        yield from ((one, None) for one in a)
        yield from ((None, other) for other in b)
    elif len(a) * len(b) > MAX_PAIRS:
        half_a, half_b = len(a) // 2, len(b) // 2
        yield from _middle(a[:half_a], b[:half_b])
        yield from _middle(a[half_a:], b[half_b:])
    else:
        yield from _best(a, b)


def _best(a: list[PromptRound], b: list[PromptRound]) -> Pairs:
    """Pairs, in order, with the greatest total likeness: a table is filled from the end, and read from the start."""
    sketches_a = [(_sketch(each.prompt), _sketch(each.answer)) for each in a]
    sketches_b = [(_sketch(each.prompt), _sketch(each.answer)) for each in b]
    below = [0.0] * (len(b) + 1)
    taken: list[bytearray] = []  # the best choice for each pair of rounds. 1: pair them, 2: a alone, 3: b alone
    for sketch in reversed(sketches_a):
        row, moves = [0.0] * (len(b) + 1), bytearray(len(b))
        for place in range(len(b) - 1, -1, -1):
            like = _likeness(sketch, sketches_b[place])
            paired = below[place + 1] + like if like >= MIN_LIKENESS else -1.0
            best = max(paired, below[place], row[place + 1])
            row[place] = best
            moves[place] = 1 if best == paired else 2 if best == below[place] else 3
        taken.append(moves)
        below = row
    taken.reverse()
    at_a, at_b = 0, 0
    while at_a < len(a) and at_b < len(b):
        move = taken[at_a][at_b]
        yield (a[at_a] if move != 3 else None), (b[at_b] if move != 2 else None)
        at_a, at_b = at_a + (move != 3), at_b + (move != 2)
    yield from ((one, None) for one in a[at_a:])
    yield from ((None, other) for other in b[at_b:])


Sketch = frozenset[int]


def _sketch(text: str) -> Sketch:
    """The words with the lowest hashes, so that the sketches of similar texts have most words in common."""
    ends = text if len(text) <= HEAD_CHARS + TAIL_CHARS else text[:HEAD_CHARS] + " " + text[-TAIL_CHARS:]
    words = set(re.findall(r"\w+|[^\w\s]", ends.casefold()))
    return frozenset(sorted(zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in words)[:SKETCH_WORDS])


def _likeness(one: tuple[Sketch, Sketch], other: tuple[Sketch, Sketch]) -> float:
    """From 0 to 3. Below MIN_LIKENESS the value is not exact."""
    prompts = 2 * _overlap(one[0], other[0])
    return prompts + _overlap(one[1], other[1]) if prompts + 1 >= MIN_LIKENESS else 0.0


def _overlap(one: Sketch, other: Sketch) -> float:
    if not one or not other:
        return 0.0
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


def words(a: str, b: str) -> list[TextPiece]:
    """The common and the differing parts: word by word, line by line for long texts, as a whole for very long ones."""
    part = r"\s*\S+|\s+" if len(a) + len(b) <= MAX_WORDS * WORD_CHARS else r"[^\n]*\n|[^\n]+"
    ours, theirs = re.findall(part, a), re.findall(part, b)
    begin = _shared(ours, theirs)
    end = _shared(ours[begin:][::-1], theirs[begin:][::-1])
    found = [(DiffKind.SAME, "".join(ours[:begin]))]
    found += _differing(ours[begin : len(ours) - end], theirs[begin : len(theirs) - end])
    found.append((DiffKind.SAME, "".join(ours[len(ours) - end :])))
    return [TextPiece(step, text) for step, text in found if text]


def _shared(ours: list[str], theirs: list[str]) -> int:
    """How many items at the beginning of both lists are the same."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(ours), len(theirs)))


def _differing(ours: list[str], theirs: list[str]) -> list[tuple[DiffKind, str]]:
    if len(ours) + len(theirs) > MAX_WORDS:
        return [(DiffKind.ONLY_A, "".join(ours)), (DiffKind.ONLY_B, "".join(theirs))]
    found: list[tuple[DiffKind, str]] = []
    for kind, from_a, to_a, from_b, to_b in SequenceMatcher(None, ours, theirs).get_opcodes():
        if kind == "equal":
            found.append((DiffKind.SAME, "".join(ours[from_a:to_a])))
        else:
            found += [(DiffKind.ONLY_A, "".join(ours[from_a:to_a])), (DiffKind.ONLY_B, "".join(theirs[from_b:to_b]))]
    return found
