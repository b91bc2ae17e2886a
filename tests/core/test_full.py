"""A prompt with a long form: a fresh session is sent the long form, a resumed one the short form, never both."""

from __future__ import annotations

from clew.core.decision import Abilities, DecisionCase, DecisionRequest, Fresh, Policy, Reason, decide, fresh
from clew.core.history import Absorbed, Role, Turn
from clew.core.ids import TurnId
from clew.core.pins import NOTHING_OBSERVED, Runtime
from clew.core.record import replace

RUNTIME = Runtime("claude", "/bin/claude", "Claude", True, "/config")
FIRST, CUT = (
    Turn(TurnId("u1"), Role.USER, "SHORT"),
    Turn(TurnId("a1"), Role.ASSISTANT, "half of an", agent="claude", partial=True),
)
PROMPT = Turn(TurnId("u2"), Role.USER, "go on")
REQUEST = DecisionRequest("claude", "m", "/project", RUNTIME, PROMPT)


def test_a_fresh_session_is_sent_the_long_form_of_the_prompt() -> None:
    decision = fresh(replace(REQUEST, full_prompt="LONG"), (), Policy(), Reason.FIRST_TURN)
    assert decision.prompt == "LONG"
    assert decision.shown == (Absorbed.of(PROMPT),), "it is the same turn"


def test_a_fresh_session_is_sent_the_long_form_of_an_earlier_turn_in_its_place() -> None:
    request = replace(REQUEST, full_prompt="LONG", full_prompt_of=FIRST.id)
    abilities = Abilities(resume=True, choose_id=True)
    decision = decide(DecisionCase(request, (FIRST, CUT), (), abilities, NOTHING_OBSERVED, Policy(), 0.0))
    assert isinstance(decision, Fresh)
    assert decision.prompt.count("LONG") == 1 and "SHORT" not in decision.prompt
    assert decision.prompt.index("LONG") < decision.prompt.index("half of an") < decision.prompt.index("go on")
    assert decision.shown == tuple(Absorbed.of(turn) for turn in (FIRST, CUT, PROMPT))
