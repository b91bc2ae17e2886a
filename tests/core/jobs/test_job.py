"""A job's states, and what follows from the end of a run."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.ids import ThreadId
from clew.core.jobs.job import (
    ACTIVE,
    BACKOFF_MAX_S,
    BACKOFF_S,
    JOB_MOVES,
    STOPPED,
    UNUSABLE_SESSION,
    IllegalJobMove,
    Job,
    JobStatus,
    Limits,
    NextStep,
    advance_job,
    after_run,
    backoff_s,
    is_session_expired,
)
from clew.core.outcome import Outcome
from clew.core.record import replace
from clew.core.runs.limits import (
    FIRST_PAUSE_S,
    JITTER_S,
    LONGEST_LIMIT_S,
    LONGEST_PAUSE_S,
    SHORTEST_PAUSE_S,
    reset_time,
    wake_time,
)
from clew.core.thread import Permissions

NOW = 1_800_000_000.0


def a_job(**more: object) -> Job:
    return Job(  # type: ignore[arg-type]
        id="j",
        thread_id=ThreadId("t"),
        prompt="do it",
        cwd="/",
        agent="claude",
        model=None,
        permissions=Permissions.EDITS,
        key="j",
        **{"status": JobStatus.RUNNING, "runs": 1, **more},
    )


@pytest.mark.parametrize(("before", "to"), list(product(JobStatus, JobStatus)))
def test_a_status_goes_only_where_the_table_leads(before: JobStatus, to: JobStatus) -> None:
    if to is before or to in JOB_MOVES[before]:
        assert advance_job(before, to) is to
    else:
        with pytest.raises(IllegalJobMove):
            advance_job(before, to)


def test_only_a_retry_leads_out_of_what_is_over() -> None:
    assert {to for status in STOPPED for to in JOB_MOVES[status]} == {JobStatus.QUEUED, JobStatus.CANCELLED}
    assert JOB_MOVES[JobStatus.SUCCEEDED] == frozenset()


WILD = [None, 0.0, -1.0, -math.inf, math.inf, math.nan, NOW - 61, 1e18, 1e300, 253_402_300_800.0, NOW + 1e9]


@pytest.mark.parametrize("told", WILD)
def test_a_reset_time_that_cannot_be_is_waited_for_as_one_that_nobody_told(told: float | None) -> None:
    what = after_run(a_job(), Outcome.USAGE_LIMIT, resets_at=told, now=NOW, jitter=0.0)
    assert (what.status, what.wake_at) == (JobStatus.WAITING, NOW + FIRST_PAUSE_S)
    assert what.excused_s == FIRST_PAUSE_S


@pytest.mark.parametrize("told", [NOW + 60, (NOW + 60) * 1000])
def test_a_reset_time_is_taken_in_seconds_or_in_milliseconds(told: float) -> None:
    assert reset_time(told, NOW) == pytest.approx(NOW + 60)


def test_a_limit_wakes_a_little_after_its_reset_and_not_everybody_at_once() -> None:
    woken = [wake_time(NOW + 60, limits_before=3, now=NOW, jitter=dice / 10) for dice in range(11)]
    assert all(NOW + 60 <= at <= NOW + 60 + JITTER_S for at in woken)
    assert len(set(woken)) == 11


@pytest.mark.parametrize("told", [NOW - 59, NOW - 1, NOW])
def test_a_limit_that_has_just_reset_is_asked_again_soon_and_later_each_time(told: float) -> None:
    pauses = [wake_time(told, limits_before=before, now=NOW, jitter=0.0) - NOW for before in range(3)]
    assert pauses == [SHORTEST_PAUSE_S, 2 * SHORTEST_PAUSE_S, 4 * SHORTEST_PAUSE_S]


def test_a_limit_that_is_always_about_to_reset_makes_nobody_hurry() -> None:
    pauses = [wake_time(NOW + 1, limits_before=before, now=NOW, jitter=0.0) - NOW for before in range(12)]
    assert pauses[:4] == [5, 10, 20, 40] and pauses[-1] == LONGEST_PAUSE_S


def test_without_a_reset_time_the_pauses_grow_from_5_to_30_minutes() -> None:
    pauses = [wake_time(None, limits_before=before, now=NOW, jitter=0.0) - NOW for before in range(6)]
    assert pauses == [300, 600, 1200, 1800, 1800, 1800]
    assert (FIRST_PAUSE_S, LONGEST_PAUSE_S) == (300, 1800)


def test_no_wait_is_longer_than_any_accounts_limit() -> None:
    told = [NOW + 2.0**power for power in range(1024 - 31)]
    known = [reset_time(at, NOW) for at in told]
    assert all(at is None or NOW < at <= NOW + LONGEST_LIMIT_S for at in known)


@pytest.mark.parametrize("limits", [Limits(max_runs=1, retries=0, max_resumes=0), Limits()])
def test_waiting_for_a_limit_counts_towards_nothing_but_the_deadline(limits: Limits) -> None:
    job = a_job(runs=limits.max_runs, limits=limits, resume_count=limits.max_resumes, troubles=limits.retries)
    earlier = [Outcome.USAGE_LIMIT.value] * 500
    what = after_run(job, Outcome.USAGE_LIMIT, earlier=earlier, resumed=True, resets_at=None, now=NOW, jitter=0.0)
    assert (what.status, what.wake_at) == (JobStatus.WAITING, NOW + LONGEST_PAUSE_S)
    assert not (what.counts or what.counts_as_trouble or what.fresh_session), "the session is kept"
    late = replace(job, limits=replace(limits, deadline_at=NOW + 60))
    assert after_run(late, Outcome.USAGE_LIMIT, resets_at=NOW + 61, now=NOW, jitter=0.0).status is JobStatus.FAILED


@pytest.mark.parametrize("troubles", [0, 1, 5, 100, 10**6])
def test_a_pause_after_trouble_grows_and_has_an_end(troubles: int) -> None:
    assert 0 < backoff_s(troubles, 0.0) < backoff_s(troubles, 1.0) <= BACKOFF_MAX_S


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_way_round_has_an_end(outcome: Outcome) -> None:
    """At the last run that is allowed, nothing continues by itself but a job that somebody stopped, or that must wait
    for the account."""
    job = a_job(runs=50, limits=Limits(max_runs=50))
    what = after_run(job, outcome, resets_at=None, now=NOW, jitter=0.5)
    assert what.status in STOPPED or outcome in (Outcome.CANCELLED, Outcome.USAGE_LIMIT)


@pytest.mark.parametrize("outcome", [Outcome.USAGE_LIMIT, Outcome.NETWORK, Outcome.TIMED_OUT, Outcome.KILLED])
def test_a_deadline_that_comes_before_the_next_run_ends_the_job(outcome: Outcome) -> None:
    late = a_job(limits=Limits(deadline_at=NOW - 1))
    early = a_job(limits=Limits(deadline_at=NOW + 10 * LONGEST_LIMIT_S))
    assert after_run(late, outcome, resets_at=None, now=NOW, jitter=0.5).status is JobStatus.FAILED
    assert after_run(early, outcome, resets_at=None, now=NOW, jitter=0.5).status in ACTIVE


def test_a_session_is_too_old_by_its_last_event_and_not_by_the_wait_for_a_limit() -> None:
    job = a_job(limits=Limits(max_age_s=60))
    assert not is_session_expired(job, NOW)
    assert is_session_expired(a_job(limits=Limits(max_age_s=60), session_saved_at=NOW - 61), NOW)
    what = after_run(job, Outcome.USAGE_LIMIT, resets_at=NOW + 3600, now=NOW, jitter=0.5)
    woken = a_job(limits=Limits(max_age_s=60), session_saved_at=NOW + what.excused_s)
    assert what.wake_at is not None and not is_session_expired(woken, what.wake_at + 59)


ENDS = st.tuples(st.sampled_from(Outcome), st.booleans(), st.sampled_from([None, NOW + 0.001, NOW + 60]))
LIMITS = st.builds(Limits, retries=st.integers(0, 4), max_resumes=st.integers(0, 6), max_runs=st.integers(1, 60))


def carried_out(limits: Limits, ends: list[tuple[Outcome, bool, float | None]]) -> list[NextStep]:
    """The step after each run, until the job stops. Runs and troubles are counted as the host counts them."""
    job, seen = a_job(runs=0, limits=limits), list[NextStep]()
    for number, (outcome, resumed, told) in enumerate(ends):
        job = replace(job, runs=job.runs + 1)
        earlier = [each.value for each, _, _ in reversed(ends[:number])]
        what = after_run(job, outcome, earlier=earlier, resumed=resumed, resets_at=told, now=NOW, jitter=0.0)
        troubles = job.troubles + 1 if what.counts_as_trouble else 0
        job = replace(job, troubles=troubles) if what.counts else replace(job, runs=job.runs - 1)
        seen.append(what)
        if what.status in STOPPED:
            break
    return seen


@given(LIMITS, st.lists(ENDS, max_size=80))
def test_only_so_many_runs_begin_without_a_pause(
    limits: Limits, ends: list[tuple[Outcome, bool, float | None]]
) -> None:
    """However runs end, and whatever a spoiled session, a dying agent or a worker that comes and goes make of it."""
    seen = carried_out(limits, ends)
    at_once = [what for what in seen if what.status is JobStatus.QUEUED]
    pauses = [(what.wake_at or 0) - NOW for what in seen if what.status is JobStatus.WAITING]
    assert len(at_once) <= limits.max_resumes + 2
    assert sum(what.fresh_session for what in at_once) <= 1, "a session that is spoiled is left at once a single time"
    assert all(pause >= BACKOFF_S / 2 for pause in pauses)
    uncounted = sum(outcome in (Outcome.CANCELLED, Outcome.USAGE_LIMIT) for outcome, _, _ in ends[: len(seen)])
    assert len(seen) <= limits.max_runs + uncounted, "only who stops a worker, or an account, can make more of them"


@given(LIMITS, st.lists(st.sampled_from(sorted(UNUSABLE_SESSION)), min_size=80, max_size=80))
def test_a_task_that_spoils_every_new_session_is_given_up_after_its_retries(
    limits: Limits, outcomes: list[Outcome]
) -> None:
    seen = carried_out(limits, [(outcome, False, None) for outcome in outcomes])
    assert seen[-1].status is JobStatus.FAILED
    assert len(seen) == min(limits.retries + 1, limits.max_runs)
    assert all(what.status is JobStatus.WAITING and what.fresh_session for what in seen[:-1])


@pytest.mark.parametrize("outcome", sorted(UNUSABLE_SESSION))
def test_a_session_that_is_spoiled_is_left_at_once_and_a_second_one_after_a_pause(outcome: Outcome) -> None:
    cut_off = (Outcome.TIMED_OUT, False, None)
    seen = carried_out(Limits(retries=3), [cut_off, (outcome, True, None)] * 9)
    after_spoiled = [what.status for what in seen[1::2]]
    assert after_spoiled == [JobStatus.QUEUED, JobStatus.WAITING, JobStatus.WAITING, JobStatus.FAILED]
    assert {what.status for what in seen[::2]} == {JobStatus.QUEUED}, "a time-out does not begin the count anew"
