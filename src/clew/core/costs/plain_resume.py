"""Estimates, run by run, what a plain `--resume` of the agent's own session on every turn would have cost.

Many people work that way, so the estimate is shown beside the one for the transcript. If Clew resumed the only session
of a thread, the estimate is what the run cost. If Clew started fresh or rewound, the plain session would have
continued: its first request would have held that whole session and the new prompt, read from the cache if the last run
was less than `CACHE_LIFE_S` ago with the same model, else written again. Every later request would have been larger or
smaller by the same difference, read from the cache. The difference remains in the session, so later runs include it
too.

For some runs the estimate is what they cost, and the plain session counts as started with them: the first run of an
agent in a thread; runs where a plain resume would have failed (the session was missing, unknown to the agent, broken or
full, or belongs to another directory or program); runs at which either session was compacted; and runs whose agent does
not report what its requests used. ADR 13 says what this leaves out.
"""

from __future__ import annotations

from clew.core.costs.usage import CHARS_PER_TOKEN, RequestUsage, Usage
from clew.core.decision import Reason
from clew.core.record import Record, replace
from clew.core.runs.run import Run

CACHE_LIFE_S = 300.0  # how long a cached prefix lives after it was last read
COMPACTED_AT_TOKENS = 160_000  # about where Claude compacts a session by itself

# Reasons for which Clew starts fresh, but a plain resume would continue the session, even when that is wrong: a plain
# resume ignores edits of the history.
CONTINUES_WHEN_RESUMED_PLAINLY = frozenset(
    {
        Reason.DISABLED,
        Reason.FORCED_FRESH,
        Reason.NO_PIN,  # the model was changed: a plain resume continues the same session with it
        Reason.HISTORY_CHANGED,
        Reason.EXPIRED,
        Reason.WORN_OUT,
        Reason.SESSION_DIVERGED,
        Reason.SESSION_DAMAGED,
        Reason.UNCONFIRMED,
    }
)


class PlainResume(Record):
    usage: Usage  # what the run would have used if its session had been resumed plainly
    context_tokens: int  # what the plainly resumed session would hold afterwards


def plain_resume(run: Run, requests: RequestUsage, before: Run | None) -> PlainResume:
    """`before` is the last run of the same agent in the thread for which `context_tokens` is known."""
    first = requests.first
    as_run = PlainResume(run.usage, requests.context_tokens)
    if before is None or not _would_continue(run):
        return as_run
    held = before.context_tokens or 0
    # A turn that was made outside Clew was made in the plain session.
    plain = held if before.plain_context_tokens is None else before.plain_context_tokens
    in_place = run.session_id == before.session_id
    if in_place and first.shown_tokens < held:
        return as_run  # the session was compacted in between; a plainly resumed one would have been compacted too
    size = plain + (first.shown_tokens - held if in_place else len(run.prompt) // CHARS_PER_TOKEN)
    if size > COMPACTED_AT_TOKENS:
        return as_run
    more = size - first.shown_tokens
    if in_place:
        read = first.cache_read_input_tokens + (more if _is_warm(run, before) else 0)
    else:
        read = plain if _is_warm(run, before) else min(first.cache_read_input_tokens, plain)
    read = max(0, min(read, size))
    return PlainResume(
        _shifted(
            run.usage,
            new=size - read - first.new_tokens,
            read=read - first.cache_read_input_tokens + (requests.count - 1) * more,
        ),
        requests.context_tokens + more,
    )


def _would_continue(run: Run) -> bool:
    return run.session_resumed or run.reason in CONTINUES_WHEN_RESUMED_PLAINLY


def _is_warm(run: Run, before: Run) -> bool:
    if run.started_at is None or before.ended_at is None or run.model != before.model:
        return False
    return run.started_at - before.ended_at <= CACHE_LIFE_S


def _shifted(used: Usage, *, new: int, read: int) -> Usage:
    """The usage with more tokens (or fewer): `new` ones, charged as the run's own were, and `read` from the cache."""
    column = "cache_creation_input_tokens" if used.is_written else "input_tokens"
    changes = {column: getattr(used, column) + new}
    changes["cache_read_input_tokens"] = used.cache_read_input_tokens + read
    return replace(used, **{name: max(0, count) for name, count in changes.items()})
