"""The decision and the laws under random inputs."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from clew.core.decision import (
    Abilities,
    Decision,
    DecisionCase,
    DecisionRequest,
    Fresh,
    ModelSwitch,
    Policy,
    Reason,
    Resume,
    candidate,
    objection,
    resumes,
)
from clew.core.history import Absorbed, History, Role, Turn, Visibility, text_digest, visible
from clew.core.ids import PinId, SessionId, TurnId
from clew.core.pins import (
    Mark,
    Observed,
    Pending,
    Pin,
    PinState,
    SessionEnd,
)
from clew.core.session import SessionState
from core.decision_cases import NOW, RUNTIME, ask, long, make_pin

MARKS = st.none() | st.builds(Mark, st.integers(0, 3), st.sampled_from(["e1", "e2", None]))
AGENTS = st.sampled_from(["claude", "claude", "codex"])
MODELS = st.sampled_from(["", "m1", "m2"])


def rarely(draw: st.DrawFn) -> bool:
    return draw(st.integers(0, 11)) == 5


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Turns whose texts contain unique tokens, between random characters. Some were made outside Clew."""
    count = 0 if rarely(draw) else draw(st.integers(2, 8))
    junk = st.text(max_size=20).map(lambda text: text.replace("token", "").replace("<question-form", ""))
    return tuple(
        Turn(
            TurnId(f"t{n}"),
            list(Role)[(n + rarely(draw)) % 2],
            f"{draw(junk)}token{n};{draw(junk)}",
            draw(AGENTS),
            draw(MODELS),
            partial=rarely(draw),
            message_id=None if rarely(draw) else f"m{n}",
            outside=draw(st.sampled_from([False, False, False, True])),
        )
        for n in range(count)
    )


@st.composite
def pins_of(draw: st.DrawFn, seen: History, agent: str, number: int) -> Pin:
    """A pin that holds the beginning of what its agent sees. Some of it may have changed since, or be in the order in
    which outside turns came in."""
    held = list(seen[: draw(st.integers(1, 8))] if not rarely(draw) else ())
    if draw(st.booleans()):
        held = [turn for turn in held if not turn.outside] + [turn for turn in held if turn.outside]
    absorbed = [Absorbed.of(turn) for turn in held]
    if absorbed and draw(st.integers(0, 2)) == 0:
        place = draw(st.integers(0, len(absorbed) - 1).map(lambda place: len(absorbed) - 1 - place))
        absorbed[place] = Absorbed(absorbed[place].turn_id, draw(st.sampled_from([None, "stale", "stale"])))
    return make_pin(
        id=PinId(f"p{number}"),
        session_id=SessionId(f"s{number}"),
        agent="codex" if rarely(draw) else agent,
        model="m2" if rarely(draw) else "m1",
        state=draw(st.sampled_from(PinState)) if rarely(draw) else PinState.GOOD,
        absorbed=tuple(absorbed),
        pending=Pending("uuid", (Absorbed(TurnId("t0"), "x"),), None) if rarely(draw) else None,
        standing=draw(st.sampled_from([None, text_digest("be brief"), "old"])),
        mark=draw(MARKS),
        resume_count=draw(st.integers(0, 3)),
        used_at=draw(st.floats(NOW - 10, NOW + 10)),
    )


@st.composite
def observations(draw: st.DrawFn, seen: History) -> Observed:
    asked = list(accumulate(turn.role is Role.USER for turn in seen))
    return Observed(
        draw(st.sampled_from([None, *SessionState])) if rarely(draw) else SessionState.SAME,
        mark=draw(MARKS),
        ends=tuple(
            SessionEnd(f"end-{turn.id}", frozenset({turn.message_id or "?"}), prompts=count + rarely(draw))
            for turn, count in zip(seen, asked, strict=True)
            if not rarely(draw)
        ),
    )


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Each guard objects rarely, so that many cases are resumed or rewound."""
    history, agent = draw(histories()), draw(AGENTS)
    policy = Policy(
        enable_resume=not rarely(draw),
        rewind=not rarely(draw),
        model_switch=draw(st.sampled_from(ModelSwitch)),
        max_age_s=draw(st.floats(0, 10)) if rarely(draw) else None,
        max_resumes=draw(st.integers(0, 3)) if rarely(draw) else None,
        visibility=draw(st.sampled_from([Visibility.SHARED, Visibility.SHARED, Visibility.OWN])),
        limit_chars=draw(st.sampled_from([0, 100, 400, 100_000, 100_000])),
    )
    seen = visible(history, agent, policy.visibility)
    count = 0 if rarely(draw) else draw(st.integers(1, 3))
    pins = tuple(draw(pins_of(history if rarely(draw) else seen, agent, n)) for n in range(count))
    newest = candidate(pins, agent, "m1")
    return {
        "request": DecisionRequest(
            agent,
            "m1",
            "/other" if rarely(draw) else "/project",
            RUNTIME,
            Turn(TurnId("new"), Role.USER, draw(st.text(max_size=20)) + "tokenNEW", agent),
            draw(st.sampled_from([None, "", "be brief"])),
            rarely(draw),
        ),
        "history": history,
        "pins": pins,
        "abilities": Abilities(
            resume=not rarely(draw), choose_id=draw(st.booleans()), fork=not rarely(draw), rewind=not rarely(draw)
        ),
        "observed": draw(observations(seen)),
        "policy": policy,
        "now": NOW,
        "others": tuple(
            (pin, draw(observations(seen)))
            for pin in reversed(pins)
            if pin is not newest and pin.agent == agent and (newest is None or pin.model == "m1")
        ),
    }


def stands(held: tuple[Absorbed, ...], seen: History) -> bool:
    """Law 3, in other words than the code's: each turn is there and unchanged, Clew's own turns are in order, and the
    session lacks nothing before the last of them."""
    places = {turn.id: place for place, turn in enumerate(seen)}
    if any(known.turn_id not in places for known in held):
        return False
    turns = [seen[places[known.turn_id]] for known in held]
    own = [places[turn.id] for turn in turns if not turn.outside]
    unchanged = all(known.digest in (None, Absorbed.of(turn).digest) for known, turn in zip(held, turns, strict=True))
    return (
        unchanged
        and own == sorted(own)
        and {turn.id for turn in seen[: own[-1] if own else 0]} <= {turn.id for turn in turns}
    )


def kind_of(decision: Decision) -> str:
    if isinstance(decision, Fresh):
        return "fresh"
    return "rewound" if decision.rewind is not None else "copied" if decision.copies else "resumed"


@pytest.mark.hypothesis  # it takes as long as the tests that it is about
def test_the_random_cases_have_every_kind_of_decision() -> None:
    """Within one search the cases resemble each other, and Hypothesis takes values from the code itself: so there are
    several searches."""
    found: Counter[str] = Counter()
    for number in range(3):

        @seed(number)
        @settings(max_examples=400, deadline=None, database=None, phases=[Phase.generate])
        @given(cases())
        def look(case: dict[str, Any]) -> None:
            found[kind_of(ask(**case))] += 1

        look()
    assert min(found[kind] for kind in ("fresh", "resumed", "rewound", "copied")) >= 3, found


@settings(max_examples=400, deadline=None)
@given(cases())
def test_the_prompt_always_has_exactly_what_the_session_does_not_know(case: dict[str, Any]) -> None:
    decision = ask(**case)
    request: DecisionRequest = case["request"]
    seen = visible(case["history"], request.agent, case["policy"].visibility)
    whole = case["policy"].limit_chars == 100_000
    if isinstance(decision, Resume):
        held = decision.pin.absorbed
        [known] = [pin for pin in case["pins"] if pin.id == decision.pin.id]
        assert known == decision.pin or decision.rewind is not None
        if decision.rewind is not None:
            assert decision.copies and case["abilities"].rewind and case["policy"].rewind
            assert known.absorbed[: len(held)] == held, "a rewound session holds the beginning of what it held"
            assert held[-1].turn_id == decision.rewind.turn_id
            assert case["history"][decision.rewind.number - 1].id == decision.rewind.turn_id
        assert decision.pin.agent == request.agent
        assert decision.pin.model == request.model or (decision.copies and decision.reason is Reason.NO_PIN)
        assert held and stands(held, seen)
        ids = {each.turn_id for each in held}
        missed = tuple(turn for turn in seen if turn.id not in ids)
        assert not any(
            turn.text[turn.text.index("token") :].split(";")[0] + ";" in decision.prompt
            for turn in seen
            if turn.id in ids
        )
    else:
        assert isinstance(decision.reason, Reason)
        assert not hasattr(decision, "session_id")
        missed = seen
        assert decision.omitted <= len(seen)
    names = [f"token{turn.id[1:]};" for turn in missed]
    if whole:
        assert [decision.prompt.count(name) for name in names] == [1] * len(names)
    else:
        assert all(decision.prompt.count(name) == 1 or "left out here" in decision.prompt for name in names)
    assert decision.prompt.endswith(request.prompt.text)
    assert decision.prompt.count("tokenNEW") == 1
    assert [known.turn_id for known in decision.shown] == [*(turn.id for turn in missed), request.prompt.id]


@settings(max_examples=400, deadline=None)
@given(cases())
def test_a_session_that_stands_is_never_given_up_for_its_history(case: dict[str, Any]) -> None:
    whole = DecisionCase(**case)
    if objection(whole) is Reason.HISTORY_CHANGED:
        assert not stands(whole.pin.absorbed, whole.seen)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_the_decision_is_deterministic(case: dict[str, Any]) -> None:
    assert ask(**case) == ask(**case)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_the_session_that_would_be_resumed_is_known_without_a_prompt(case: dict[str, Any]) -> None:
    decision, whole = ask(**case), DecisionCase(**case)
    assert resumes(whole, objection(whole)) == (decision.session_id if isinstance(decision, Resume) else None)


@settings(max_examples=400, deadline=None)
@given(cases())
def test_the_decision_is_the_same_if_the_turns_are_read_only_when_they_are_looked_at(case: dict[str, Any]) -> None:
    assert ask(**{**case, "history": long(case["history"])}) == ask(**case)
