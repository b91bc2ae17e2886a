"""Is every word of a session that came from elsewhere one that the thread shows?

A session's file may have been written by somebody else, and what stands in it is shown to the model. So it is used only
when each prompt in it is worded just as Clew words the thread's own turns (catch-up, transcript, standing text), each
answer is the thread's own, and the two follow each other in the pin's order. Anything beyond that could be an
instruction that nobody sees in the thread.

Rules
1. The pin's absorbed turns are walked through in order, and so is the session. A prompt takes the turns that it
   carries and the turn that it asks; an answer takes the turn that it is. At the end all absorbed turns are taken.
2. Turns without a digest were left out of a transcript that was too long: a prompt need not carry them.
3. After them the turns of an attempt whose outcome is open may follow, and the beginning of an answer that was cut off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from clew.core import prompts
from clew.core.history import Role, Turn, digest
from clew.core.pins import Absorbed, Pin
from clew.core.record import Record

NO_LIMIT = 10**12


class Said(Record):
    """A prompt, or all that the agent said until the next one."""

    role: Role
    text: str


class Known(Record):
    """All that the thread shows."""

    turns: Mapping[str, Turn]  # by id
    standing: str | None = None


def explains(said: Sequence[Said], pin: Pin, known: Known) -> bool:
    """The session holds what the pin says it absorbed, in order, and nothing that the thread does not show."""
    open_turns = pin.pending.shown if pin.pending is not None else ()
    walk = _Walk((*pin.absorbed, *open_turns), known)
    if not walk.is_sound:
        return False
    for place, each in enumerate(said):
        is_last = place == len(said) - 1
        if each.role is Role.USER:
            taken = walk.take_prompt(each.text)
        else:
            taken = walk.take_answer(each.text) or (is_last and walk.is_beginning_of_an_answer(each.text))
        if not taken:
            return False
    return walk.has_taken(len(pin.absorbed))


class _Walk:
    """Through the turns of a pin."""

    def __init__(self, absorbed: Sequence[Absorbed], known: Known) -> None:
        self._absorbed = absorbed
        self._known = known
        self._turns = [known.turns.get(each.turn_id) for each in absorbed]
        self._at = 0

    @property
    def is_sound(self) -> bool:
        """Every turn is the one that was absorbed."""
        return all(
            each.digest is None or (turn is not None and digest(turn) == each.digest)
            for each, turn in zip(self._absorbed, self._turns, strict=True)
        )

    def has_taken(self, count: int) -> bool:
        """All of the first so many, but for those that were left out."""
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
        """The thread kept more of it: it was cut off, or the session lacks its end."""
        said = squeezed(text)
        return any(
            turn.role is Role.ASSISTANT and squeezed(turn.text).startswith(said) for turn in self._known.turns.values()
        )

    def _wordings(self, said: str, place: int, turn: Turn) -> Iterator[str]:
        """Every way in which Clew may have worded this turn as a prompt, the likeliest first."""
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
            note = prompts.left_out(len(gone), sum(len(turn.text) for turn in gone))
            yield prompts.Section(f"{note}\n\n{section.text}", len(gone))

    def _standing_notes(self) -> Iterator[str | None]:
        yield None
        yield prompts.STANDING_GONE
        if self._known.standing:
            yield self._known.standing
            yield f"{prompts.STANDING_CHANGED}\n\n{self._known.standing}"


def squeezed(text: str) -> str:
    """Agents differ in how they keep blanks, and in what they make of half a character."""
    return re.sub(r"\s+", " ", text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")).strip()
