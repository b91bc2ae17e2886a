"""What a job's next run asks of the agent: its prompt, the prompt once more, or to go on."""

from __future__ import annotations

from clew.core.decision import Reason
from clew.core.jobs.job import CONTINUE, SUBMITTED, Job, StartMode, is_session_expired
from clew.core.outcome import Outcome
from clew.core.record import replace
from clew.core.runs.options import TurnOptions
from clew.engine.request import Slots, TurnRequest
from clew.hosts.jobs.rows import JobContext


def ask(job: Job, state: JobContext, slots: Slots | None, now: float) -> TurnRequest:
    """Go on, where that may be of use; else the original prompt."""
    limits, last, turns = job.limits, state.last, state.turns
    left_s = None if limits.deadline_at is None else max(1.0, limits.deadline_at - now)
    times = [seconds for seconds in (limits.timeout_s, left_s) if seconds is not None]
    options = TurnOptions(agent=job.agent, model=job.model, timeout_s=min(times) if times else None, wait=False)
    request = TurnRequest(
        state.thread,
        job.prompt,
        options,
        full=job.full_prompt,
        slots=slots,
        # Whoever had it when it was cut off may only be asleep: it is left a session that nobody reads any more.
        fork=last is not None and last.outcome == Outcome.KILLED,
        allowed_tools=job.allowed_tools,
        allowed_by="--permissions"
        if job.kind == SUBMITTED
        else "permissions and allowed_tools of its agent in clew.toml",
    )
    first = next((turn for turn in turns if turn.id == job.prompt_turn_id and not state.went_on), None)
    if first is None:
        return replace(request, max_age_s=limits.max_age_s)
    heard_at = max(job.session_saved_at or 0.0, state.heard_at or 0.0) or None
    why = why_afresh(replace(job, session_saved_at=heard_at), now)
    if why is not None:
        afresh = replace(options, fresh_session=True)
        return replace(request, text=first.text, options=afresh, retry_of=first.id, fresh_because=why)
    any_age = job.kind == SUBMITTED or limits.max_age_s is not None or job.start_mode is StartMode.RESUME
    request = replace(request, any_age=any_age)
    unheard = None if last is None or state.asked else last.prompt_turn_id
    for turn in turns:
        if turn.id == unheard:  # its worker died before anybody was asked: nothing was cut off by that
            of = None if turn.id == first.id else first.id
            done = None if of is None else state.done
            return replace(request, text=turn.text, full_of=of, retry_of=turn.id, done=done)
    return replace(request, text=CONTINUE, full_of=first.id, done=state.done)


def why_afresh(job: Job, now: float) -> Reason | None:
    """Why the session is not to be tried at all; None: the engine decides."""
    if job.start_mode is StartMode.FRESH:
        return Reason(job.outcome) if job.outcome in (Reason.OVERFLOW, Reason.POISONED) else Reason.FORCED_FRESH
    if job.start_mode is StartMode.RESUME:
        return None
    if is_session_expired(job, now):
        return Reason.EXPIRED
    if job.session_resumes >= job.limits.max_resumes and job.outcome != Outcome.USAGE_LIMIT:  # that keeps the session
        return Reason.WORN_OUT
    return None
