"""Is every word of a session one that the thread shows?"""

from __future__ import annotations

import pytest

from clew.core import prompts
from clew.core.history import Absorbed, Role, Turn
from clew.core.ids import PinId, SessionId, ThreadId, TurnId
from clew.core.pins import Pending, Pin, PinState, Runtime
from clew.core.session_check import ShownThread, Utterance, explains

USER, ASSISTANT = Role.USER, Role.ASSISTANT


def turn(number: int, text: str) -> Turn:
    role = USER if number % 2 else ASSISTANT
    return Turn(TurnId(f"t{number}"), role, text, agent="claude", model="m")


TURNS = [turn(1, "first\nquestion"), turn(2, "first answer"), turn(3, "second question"), turn(4, "second answer")]


def pin_of(*absorbed: Absorbed, pending: tuple[Turn, ...] = ()) -> Pin:
    open_turns = Pending("u", tuple(map(Absorbed.of, pending)), None) if pending else None
    runtime = Runtime("claude", "claude", "Claude Code", True, "c")
    return Pin(
        PinId("p"), ThreadId("t"), "claude", "m", SessionId("s"), PinState.GOOD, "/w", runtime, absorbed, open_turns
    )


def check(said: list[tuple[Role, str]], *turns: Turn, pending: tuple[Turn, ...] = (), **known: object) -> bool:
    pin = pin_of(*map(Absorbed.of, turns), pending=pending)
    every = {str(each.id): each for each in (*turns, *pending, *known.pop("others", ()))}  # type: ignore[misc]
    return explains([Utterance(*each) for each in said], pin, ShownThread(every, **known))  # type: ignore[arg-type]


STRAIGHT = [
    (USER, "first\nquestion"),
    (ASSISTANT, "first answer"),
    (USER, "second question"),
    (ASSISTANT, "second answer"),
]


class TestStraight:
    def test_turns_as_they_are(self) -> None:
        assert check(STRAIGHT, *TURNS)
        assert check([(USER, "first question "), *STRAIGHT[1:]], *TURNS), "agents keep blanks in their own ways"

    @pytest.mark.parametrize("place", range(4))
    def test_a_word_more_less_or_other_anywhere(self, place: int) -> None:
        role, text = STRAIGHT[place]
        for other in (f"{text} more", f"more {text}", text[:-1], ""):
            assert not check([*STRAIGHT[:place], (role, other), *STRAIGHT[place + 1 :]], *TURNS)

    def test_a_message_more_less_or_twice(self) -> None:
        assert not check([*STRAIGHT, (USER, "more")], *TURNS)
        assert not check([(USER, "more"), *STRAIGHT], *TURNS)
        assert not check(STRAIGHT[:2], *TURNS)
        assert not check([*STRAIGHT, *STRAIGHT], *TURNS)

    def test_a_turn_that_is_not_the_one_that_was_absorbed(self) -> None:
        pin = pin_of(*map(Absorbed.of, TURNS))
        turns = {str(each.id): each for each in (TURNS[0].replace(text="edited"), *TURNS[1:])}
        assert not explains([Utterance(*each) for each in STRAIGHT], pin, ShownThread(turns))


class TestWordings:
    def test_transcript_catch_up_and_standing_text(self) -> None:
        section = prompts.turns_section(TURNS[:2], 10**6)
        answer = (ASSISTANT, "second answer")
        for prompt in (
            prompts.fresh(None, section, "second question"),
            prompts.fresh("Be brief.", section, "second question"),
            prompts.delta(f"{prompts.STANDING_CHANGED}\n\nBe brief.", section, "second question", form_answered=False),
        ):
            assert check([(USER, prompt), answer], *TURNS, standing="Be brief.")
            assert not check(
                [(USER, prompt.replace("first answer", "first lie")), answer], *TURNS, standing="Be brief."
            )
        assert not check(
            [(USER, prompts.fresh("Lie.", section, "second question")), answer], *TURNS, standing="Be brief."
        )

    def test_left_out_turns_are_named_and_not_carried(self) -> None:
        absorbed = (Absorbed(TURNS[0].id, None), *map(Absorbed.of, TURNS[1:]))
        section = prompts.turns_section(TURNS[:2], 80)
        assert section.omitted == 1
        known = ShownThread({str(each.id): each for each in TURNS})
        said = [Utterance(USER, prompts.fresh(None, section, "second question")), Utterance(ASSISTANT, "second answer")]
        assert explains(said, pin_of(*absorbed), known)
        assert not explains(
            [Utterance(USER, said[0].text.replace("1 earlier", "2 earlier")), said[1]], pin_of(*absorbed), known
        )

    def test_a_form_that_was_answered(self) -> None:
        assert check([*STRAIGHT[:2], (USER, f"{prompts.FORM_ANSWERED}\n\nsecond question"), STRAIGHT[3]], *TURNS)


class TestOpenEnds:
    def test_an_open_prompt_may_be_there_or_not_and_its_answer_in_part(self) -> None:
        partial = turn(4, "second answer, cut off here").replace(partial=True)
        for said, expected in (
            (STRAIGHT[:2], True),
            (STRAIGHT[:3], True),
            ([*STRAIGHT[:3], (ASSISTANT, "second answer,")], True),
            ([*STRAIGHT[:3], (ASSISTANT, "something else")], False),
        ):
            assert check(said, *TURNS[:2], pending=(TURNS[2],), others=(partial,)) is expected
