"""What a plain `--resume` every turn would have cost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.costs.plain_resume import CACHE_LIFE_S, COMPACTED_AT_TOKENS, CONTINUES_WHEN_RESUMED_PLAINLY, plain_resume
from clew.core.costs.usage import RequestUsage, Usage
from clew.core.decision import Reason
from clew.core.ids import RunId, SessionId, ThreadId, TurnId
from clew.core.runs.run import Run, RunStatus


def a_run(**changes: Any) -> Run:
    fields: dict[str, Any] = {
        "id": RunId("r"),
        "thread_id": ThreadId("t"),
        "prompt_turn_id": TurnId("p"),
        "prompt": "x" * 400,  # a hundred tokens
        "agent": "claude",
        "model": "m",
        "status": RunStatus.ANSWERED,
        "session_id": SessionId("new"),
        "started_at": 1000.0,
    }
    return Run(**{**fields, **changes})


BEFORE = a_run(
    session_id=SessionId("old"), context_tokens=30_000, plain_context_tokens=30_000, started_at=900.0, ended_at=990.0
)
FIRST = Usage(0, 50, 19_000, 6_000)  # of a fresh session: a beginning that all sessions share, and the transcript
ONE = RequestUsage(FIRST, FIRST, 1)


def fresh(reason: Reason = Reason.WORN_OUT, **changes: Any) -> Run:
    return a_run(**{"usage": FIRST, "reason": reason.value, **changes})


def test_if_clew_resumed_the_only_session_it_is_what_the_run_cost() -> None:
    used = Usage(0, 10, 30_000, 150)
    run = a_run(session_id=SessionId("old"), session_resumed=True, usage=used)
    plain = plain_resume(run, RequestUsage(used, used, 1), BEFORE)
    assert (plain.usage, plain.context_tokens) == (used, 30_160)


def test_if_clew_started_fresh_the_old_session_is_read_from_the_cache_and_the_prompt_is_new() -> None:
    plain = plain_resume(fresh(), ONE, BEFORE)
    assert plain.usage == Usage(0, 50, 30_000, 100)
    assert plain.context_tokens == 30_000 + 100 + 50


@pytest.mark.parametrize("changes", [{"started_at": 990.0 + CACHE_LIFE_S + 1}, {"model": "other"}])
def test_after_a_long_pause_or_with_another_model_the_old_session_is_written_again(changes: dict[str, Any]) -> None:
    plain = plain_resume(fresh(**changes), ONE, BEFORE)
    assert plain.usage == Usage(0, 50, 19_000, 30_100 - 19_000), (
        "everything except the beginning that all sessions share"
    )


def test_every_later_request_is_larger_by_the_same_amount() -> None:
    rest = Usage(0, 20, 25_050, 500)
    plain = plain_resume(fresh(usage=FIRST + rest), RequestUsage(FIRST, rest, 2), BEFORE)
    assert plain.usage == Usage(0, 70, 30_000 + 25_050 + 5_100, 600)
    assert plain.context_tokens == 25_550 + 20 + 5_100


def test_later_runs_in_the_new_session_keep_the_difference() -> None:
    before = a_run(context_tokens=25_050, plain_context_tokens=30_150, ended_at=999.0)
    used = Usage(0, 10, 25_050, 100)
    run = a_run(session_resumed=True, usage=used)
    plain = plain_resume(run, RequestUsage(used, used, 1), before)
    assert (plain.usage, plain.context_tokens) == (Usage(0, 10, 30_150, 100), 30_260)
    cold = plain_resume(run.replace(started_at=2000.0), RequestUsage(used, used, 1), before)
    assert cold.usage == Usage(0, 10, 25_050, 5_200), "what is no longer cached is written"


def test_a_plain_session_may_cost_less() -> None:
    plain = plain_resume(fresh(Reason.FORCED_FRESH), ONE, BEFORE)
    assert plain.usage.units < FIRST.units


@pytest.mark.parametrize("reason", sorted(set(Reason) - CONTINUES_WHEN_RESUMED_PLAINLY))
def test_if_a_plain_resume_would_have_failed_the_run_counts_with_its_cost(reason: Reason) -> None:
    plain = plain_resume(fresh(reason), ONE, BEFORE)
    assert (plain.usage, plain.context_tokens) == (FIRST, 25_050)


def test_the_first_run_of_an_agent_counts_with_its_cost() -> None:
    assert plain_resume(fresh(), ONE, None).usage == FIRST


def test_after_a_compaction_both_sessions_have_the_same_size() -> None:
    used = Usage(0, 10, 9_000, 1_000)
    run = a_run(session_id=SessionId("old"), session_resumed=True, usage=used)
    grown = BEFORE.replace(plain_context_tokens=50_000)
    assert plain_resume(run, RequestUsage(used, used, 1), grown).context_tokens == 10_010
    full = BEFORE.replace(plain_context_tokens=COMPACTED_AT_TOKENS)
    assert plain_resume(fresh(), ONE, full).usage == FIRST, "the agent would have compacted it"


def test_an_agent_that_does_not_pay_for_cache_writes_pays_for_new_tokens() -> None:
    used = Usage(6_000, 50, 19_000, 0)
    plain = plain_resume(fresh(usage=used), RequestUsage(used, used, 1), BEFORE)
    assert plain.usage == Usage(100, 50, 30_000, 0)


counts = st.integers(0, 200_000)
usages = st.builds(Usage, counts, counts, counts, counts)


@given(usages, usages, st.integers(1, 5), counts, counts, st.booleans(), st.sampled_from(["old", "new"]))
def test_no_count_is_ever_negative(
    first: Usage, rest: Usage, count: int, held: int, plain: int, resumed: bool, session: str
) -> None:
    run = fresh(usage=first + rest, session_resumed=resumed, session_id=session)
    before = BEFORE.replace(context_tokens=held, plain_context_tokens=plain)
    found = plain_resume(run, RequestUsage(first, rest, count), before)
    assert min(found.usage.as_dict().values()) >= 0
    assert found.usage.output_tokens == run.usage.output_tokens
