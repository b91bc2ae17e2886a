"""Checks that a session from elsewhere holds nothing but what the thread shows.

Somebody else may have written a session's file, and the model is shown all of it. So it is used only when each prompt
in it is exactly how Clew words the thread's own turns (catch-up, transcript, standing text), each answer is the
thread's own, and both are in the pin's order. Anything else could be an instruction that the thread does not show.

Rules
1. The pin's absorbed turns and the session are walked through in order. A prompt takes the turns that it carries and
   the turn that it asks; an answer takes its own turn. At the end, all absorbed turns are taken.
2. Turns without a digest were left out of a transcript that was too long: a prompt need not carry them.
3. The turns of an attempt whose outcome is not known may follow, and the beginning of an answer that was cut off.
4. An image can hold instructions too, and agents change images before they store them, so none can be compared: a
   session of turns with images is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from clew.core import prompts
from clew.core.history import Absorbed, Role, Turn, digest
from clew.core.pins import Pin
from clew.core.record import Record

NO_LIMIT = 10**12


class Utterance(Record):
    """A prompt in a session, or the whole answer to it."""

    role: Role
    text: str
    message_id: str | None = None  # the agent's own id of an answer's last entry


class ShownThread(Record):
    """What the thread shows to the model."""

    turns: Mapping[str, Turn]  # by id
    standing: str | None = None


def explains(utterances: Sequence[Utterance], pin: Pin, shown: ShownThread) -> bool:
    """The session holds what the pin says it absorbed, in order, and nothing that the thread does not show."""
    open_turns = pin.pending.shown if pin.pending is not None else ()
    walk = _Walk((*pin.absorbed, *open_turns), shown)
    if not walk.is_unchanged:
        return False
    for place, each in enumerate(utterances):
        is_last = place == len(utterances) - 1
        if each.role is Role.USER:
            taken = walk.take_prompt(each.text)
        else:
            taken = walk.take_answer(each.text) or (is_last and walk.is_beginning_of_an_answer(each.text))
        if not taken:
            return False
    return walk.has_taken(len(pin.absorbed))


class _Walk:
    """The walk through the absorbed turns of a pin."""

    def __init__(self, absorbed: Sequence[Absorbed], shown: ShownThread) -> None:
        self._absorbed = absorbed
        self._shown = shown
        self._turns = [shown.turns.get(each.turn_id) for each in absorbed]
        self._at = 0

    @property
    def is_unchanged(self) -> bool:
        """Whether every turn is still as it was absorbed."""
        return all(
            each.digest is None or (turn is not None and digest(turn) == each.digest and not turn.images)
            for each, turn in zip(self._absorbed, self._turns, strict=True)
        )

    def has_taken(self, count: int) -> bool:
        """Whether the first `count` turns have been taken, except those that were left out of a transcript."""
        return all(each.digest is None for each in self._absorbed[self._at : count])

    def take_prompt(self, text: str) -> bool:
        said = squeezed(text)
        for place in range(self._at, len(self._turns)):
            turn = self._turns[place]
            if turn is None or turn.role is not Role.USER or self._absorbed[place].digest is None:
                continue
            if any(said == squeezed(wording) for wording in self._wordings(said, place, turn)):
                self._at = place + 1
                return True
        return False

    def take_answer(self, text: str) -> bool:
        while self._at < len(self._turns) and self._absorbed[self._at].digest is None:
            self._at += 1
        turn = self._turns[self._at] if self._at < len(self._turns) else None
        if turn is None or turn.role is not Role.ASSISTANT or squeezed(turn.text) != squeezed(text):
            return False
        self._at += 1
        return True

    def is_beginning_of_an_answer(self, text: str) -> bool:
        """Whether an answer of the thread begins with this text: it was cut off, or the session lacks its end."""
        said = squeezed(text)
        return any(
            turn.role is Role.ASSISTANT and squeezed(turn.text).startswith(said) for turn in self._shown.turns.values()
        )

    def _wordings(self, said: str, place: int, turn: Turn) -> Iterator[str]:
        """All prompts that Clew may have made of this turn, the likeliest first."""
        carried = range(self._at, place)
        given = [n for n in carried if self._absorbed[n].digest is not None]
        left_out = [n for n in carried if self._absorbed[n].digest is None]
        if any(self._turns[n] is None for n in given):
            return
        for body in (turn.text, f"{prompts.FORM_ANSWERED}\n\n{turn.text}"):
            if not said.endswith(squeezed(body)):
                continue
            for section in self._sections(given, left_out):
                for standing in self._standing_notes():
                    if section is None:
                        yield prompts.delta(standing, None, body, form_answered=False)
                    else:
                        yield prompts.fresh(standing, section, body)
                        yield prompts.delta(standing, section, body, form_answered=False)

    def _sections(self, given: Sequence[int], left_out: Sequence[int]) -> Iterator[prompts.Section | None]:
        if not given:
            yield None
            return
        turns = [turn for n in given if (turn := self._turns[n]) is not None]
        section = prompts.turns_section(turns, NO_LIMIT)
        yield section
        gone = [turn for n in left_out if (turn := self._turns[n]) is not None]
        if gone:
            note = prompts.left_out_note(len(gone), sum(len(turn.text) for turn in gone))
            yield prompts.Section(f"{note}\n\n{section.text}", len(gone))

    def _standing_notes(self) -> Iterator[str | None]:
        yield None
        yield prompts.STANDING_GONE
        if self._shown.standing:
            yield self._shown.standing
            yield f"{prompts.STANDING_CHANGED}\n\n{self._shown.standing}"


def squeezed(text: str) -> str:
    """The text for a comparison: agents differ in how they store white space and lone surrogates."""
    return re.sub(r"\s+", " ", text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")).strip()
