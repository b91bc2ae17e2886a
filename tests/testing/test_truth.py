"""The ledger says what law 3 allows. Its sessions hold what these tests say: no agent runs."""

from __future__ import annotations

from typing import Any

import pytest

from clew.core.history import Role, Turn, Visibility
from clew.core.ids import AttemptId, RunId, SessionId, TurnId
from clew.core.record import replace
from clew.core.runs.run import Attempt
from clew.testing.truth import Ask, Ledger, Source

MODEL, OTHER = "model", "other model"


class Thread:
    """A thread whose asks do what the ledger allows."""

    def __init__(self, **settings: Any) -> None:
        self.ledger = Ledger(**settings)
        self.turns: list[Turn] = []
        self.count = 0

    def token(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}z"

    def next(self, agent: str = "claude", model: str = MODEL, **more: Any) -> Ask:
        return Ask(agent, model, tuple(self.turns), "", **more)

    def source(self, agent: str = "claude", model: str = MODEL, **more: Any) -> Source | None:
        return self.ledger.source(self.next(agent, model, **more))

    def kept(self, **more: Any) -> list[str] | None:
        source = self.source(**more)
        return [*source.kept] if source is not None else None

    def ask(
        self, agent: str = "claude", model: str = MODEL, outcome: str = "success", saved: bool = True, **more: Any
    ) -> str:
        """Asks, and returns the session."""
        ask = replace(self.next(agent, model, **more), prompt=self.token("u"))
        source = self.ledger.source(ask)
        in_place = source is not None and source.is_whole and agent in source.session_id and model in source.session_id
        session = source.session_id if source is not None and in_place else f"{agent} {model} {self.count}"
        answer = self.token("a") if outcome == "success" else ""
        attempt = Attempt(
            AttemptId("a"), RunId("r"), 1, SessionId(session), "uuid", resumed=source is not None, outcome=outcome
        )
        kept = [ask.prompt, answer, *self.ledger.seen(ask)] if saved else []
        self.ledger.ended(ask, [attempt], answer, saved={session: kept})
        self.add(agent, model, ask.prompt, answer)
        return session

    def outside(self, session: str, *, comes_in: bool = True) -> None:
        prompt, answer = self.token("f"), self.token("a")
        self.ledger.continued(session, prompt, answer)
        if comes_in:
            self.add("claude", MODEL, prompt, answer)

    def add(self, agent: str, model: str, prompt: str, answer: str) -> None:
        for role, text in ((Role.USER, prompt), (Role.ASSISTANT, answer)):
            if text:
                self.turns.append(Turn(TurnId(text), role, text, agent, model))

    def edit(self, place: int) -> None:
        self.turns[place] = replace(self.turns[place], text=self.token("u"))


@pytest.fixture
def thread() -> Thread:
    """With three turns, in one session."""
    return made()


def made(**settings: Any) -> Thread:
    thread = Thread(**settings)
    for _ in range(3):
        thread.ask()
    return thread


def test_a_straight_conversation_is_continued(thread: Thread) -> None:
    assert thread.kept() == ["u1z", "a2z", "u3z", "a4z", "u5z", "a6z"]
    assert (thread.ledger.allowed, thread.ledger.resumed) == (2, 2)


def test_the_first_turn_and_a_forced_one_are_fresh(thread: Thread) -> None:
    assert Thread().source() is None
    assert thread.source(fresh=True) is None


@pytest.mark.parametrize(("place", "kept"), [(0, None), (1, None), (2, 2), (3, 2), (4, 4), (5, 4)])
def test_after_an_edit_a_session_is_rewound_to_the_turn_before(thread: Thread, place: int, kept: int | None) -> None:
    thread.edit(place)
    source = thread.source()
    assert (len(source.kept) if source is not None else None) == kept
    assert source is None or not source.is_whole


def test_without_rewinds_a_changed_session_is_not_used() -> None:
    thread = made(rewind=False)
    assert thread.kept() is not None
    assert thread.source(retries=True) is None
    thread.edit(4)
    assert thread.source() is None


def test_a_rewound_copy_can_be_rewound_again(thread: Thread) -> None:
    thread.edit(4)
    thread.ask()
    thread.edit(2)
    assert thread.kept() == ["u1z", "a2z"]


def test_a_session_that_was_given_a_transcript_has_only_its_own_ends(thread: Thread) -> None:
    session = thread.ask(fresh=True)
    thread.ask()
    thread.edit(-1)
    source = thread.source()
    assert source is not None and source.session_id == session and source.kept[-1] == "a8z"


def test_an_older_session_is_used_when_the_newest_is_gone(thread: Thread) -> None:
    old = thread.ask()
    thread.ledger.deleted(thread.ask(fresh=True))
    source = thread.source()
    assert source is not None and source.session_id == old and source.is_whole


def test_a_retry_is_rewound_but_fresh_after_a_failure(thread: Thread) -> None:
    thread.turns = thread.turns[:4]
    assert thread.kept(retries=True) == ["u1z", "a2z", "u3z", "a4z"]
    thread.ask(outcome="network")
    assert thread.source(retries=True) is None
    assert thread.source() is not None, "the session was kept"


@pytest.mark.parametrize(
    ("outcomes", "allowed"),
    [
        (["usage_limit"], True),
        (["cancelled"], True),
        (["killed"], True),
        (["failed"], True),
        (["failed", "failed"], False),
        (["failed", "network", "failed"], True),
        (["poisoned"], False),
        (["rejected"], False),
        (["overflow"], False),
    ],
)
def test_a_session_counts_by_the_outcome_table(thread: Thread, outcomes: list[str], allowed: bool) -> None:
    for outcome in outcomes:
        thread.ask(outcome=outcome)
    assert (thread.source() is not None) is allowed


def test_what_was_not_saved_is_not_held(thread: Thread) -> None:
    thread.ask(outcome="killed", saved=False)
    assert thread.kept() == ["u1z", "a2z", "u3z", "a4z", "u5z", "a6z"]
    alone = Thread()
    alone.ask(outcome="killed", saved=False)
    assert alone.source() is None


def test_turns_from_outside_come_in_first(thread: Thread) -> None:
    session = thread.ask()
    thread.outside(session, comes_in=False)
    assert thread.ledger.due() == ["f9z", "a10z"]
    thread.add("claude", MODEL, "f9z", "a10z")
    assert thread.kept() == [turn.text for turn in thread.turns]


def test_without_following_a_session_that_was_continued_outside_is_not_used() -> None:
    thread = made(follow_moves=False)
    session = thread.ask()
    assert thread.source() is not None
    thread.outside(session, comes_in=False)
    assert thread.source() is None and thread.ledger.due() == []


def test_without_resumes_every_ask_is_fresh() -> None:
    assert made(enable_resume=False).source() is None


def test_only_turns_from_outside_may_be_out_of_order(thread: Thread) -> None:
    session = thread.ask()
    thread.ledger.continued(session, "f20z", "a21z")
    thread.add("other", MODEL, "u9z", "a10z")
    thread.add("claude", MODEL, "f20z", "a21z")
    assert thread.source() is not None
    thread.turns[1], thread.turns[3] = thread.turns[3], thread.turns[1]
    assert thread.source() is None


def test_a_session_that_branched_off_is_not_used_any_more(thread: Thread) -> None:
    session = thread.ask()
    thread.ledger.went_back(session, "a4z")
    thread.outside(session, comes_in=False)
    assert thread.source() is None and thread.ledger.due() == []


def test_going_back_to_what_clew_has_not_seen_is_no_branch(thread: Thread) -> None:
    session = thread.ask()
    thread.outside(session, comes_in=False)
    thread.ledger.went_back(session, "a8z")
    thread.outside(session)
    assert thread.source() is not None


def test_nothing_before_a_compaction_can_be_rewound_to(thread: Thread) -> None:
    session = thread.ask()
    thread.ledger.compacted(session)
    thread.ask()
    thread.ask()
    source = thread.source()
    assert source is not None and len(source.summarised) == 8
    thread.edit(-1)
    assert thread.kept() == [turn.text for turn in thread.turns[:-2]]
    thread.edit(7)
    assert thread.source() is None


def test_another_model_gets_a_copy_only_if_that_is_set(thread: Thread) -> None:
    assert thread.source(model=OTHER) is None
    copying = made(model_switch="copy")
    assert copying.kept(model=OTHER) == copying.kept()
    assert copying.source("other") is None, "another agent cannot use the session"


def test_an_agent_that_sees_only_its_own_turns_is_fresh_after_another() -> None:
    thread = made(visibility=Visibility.OWN)
    assert thread.source() is not None
    thread.ask("other")
    assert thread.source() is None
