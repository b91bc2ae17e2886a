"""What a job's next run asks the agent: the job's prompt, the last prompt again, or to continue."""

from __future__ import annotations

from clew.core.decision import Reason
from clew.core.jobs.job import CONTINUE, SUBMITTED, Job, StartMode, is_session_expired
from clew.core.outcome import Outcome
from clew.core.record import replace
from clew.core.runs.options import TurnOptions
from clew.engine.request import Slots, TurnRequest
from clew.hosts.jobs.rows import JobContext


def next_request(job: Job, context: JobContext, slots: Slots | None, now: float) -> TurnRequest:
    limits, last, turns = job.limits, context.last, context.turns
    left_s = None if limits.deadline_at is None else max(1.0, limits.deadline_at - now)
    times = [seconds for seconds in (limits.timeout_s, left_s) if seconds is not None]
    options = TurnOptions(agent=job.agent, model=job.model, timeout_s=min(times) if times else None, wait=False)
    request = TurnRequest(
        context.thread,
        job.prompt,
        options,
        full=job.full_prompt,
        job_id=job.id,
        slots=slots,
        # A run counts as killed even if its worker is only suspended and may wake up: so the job continues in a copy.
        fork=last is not None and last.outcome == Outcome.KILLED,
        allowed_tools=job.allowed_tools,
        allowed_by="--permissions"
        if job.kind == SUBMITTED
        else "permissions and allowed_tools of its agent in clew.toml",
    )
    first = next((turn for turn in turns if turn.id == job.prompt_turn_id and not context.is_overtaken), None)
    if first is None:
        return replace(request, max_age_s=limits.max_age_s)
    used_at = max(job.session_saved_at or 0.0, context.last_event_at or 0.0) or None
    reason = fresh_reason(replace(job, session_saved_at=used_at), now)
    if reason is not None:
        fresh = replace(options, fresh_session=True)
        return replace(request, text=first.text, options=fresh, retry_of=first.id, fresh_because=reason)
    any_age = job.kind == SUBMITTED or limits.max_age_s is not None or job.start_mode is StartMode.RESUME
    request = replace(request, any_age=any_age)
    unsent = None if last is None or context.was_prompt_sent else last.prompt_turn_id
    for turn in turns:
        if turn.id == unsent:  # the worker died before the agent got the prompt, so the same prompt is sent again
            if turn.id == first.id:
                return replace(request, text=turn.text, retry_of=turn.id)
            return replace(request, text=turn.text, full_of=first.id, retry_of=turn.id, done=context.done)
    return replace(request, text=CONTINUE, full_of=first.id, done=context.done)


def fresh_reason(job: Job, now: float) -> Reason | None:
    """Why the next run must not resume the session; None: the engine decides."""
    if job.start_mode is StartMode.FRESH:
        return Reason(job.outcome) if job.outcome in (Reason.OVERFLOW, Reason.POISONED) else Reason.FORCED_FRESH
    if job.start_mode is StartMode.RESUME:
        return None
    if is_session_expired(job, now):
        return Reason.EXPIRED
    # After a usage limit the session is resumed in any case: the session was not the cause.
    if job.session_resumes >= job.limits.max_resumes and job.outcome != Outcome.USAGE_LIMIT:
        return Reason.WORN_OUT
    return None
