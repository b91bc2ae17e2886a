"""What a plain `--resume` of the agent's own session, every turn, would have cost: an estimate, run by run.

Many people do that today, so it stands beside what the transcript would have cost. Where Clew resumed the one session
of a thread, it is what the run cost. Where Clew started afresh or rewound, the plain session would have carried on: its
first request would have held that whole session and the new prompt, read from the cache if the last run was less than
`CACHE_LIFE_S` ago with the same model, else written again; every later request would have been larger or smaller by the
same difference, read from the cache. The difference stays with the thread, so later runs carry it along.

Some runs count as what they cost, and the plain session as starting anew with them: the first of an agent in a
thread; those where a plain resume would have failed outright (the session was gone, unknown to the agent, broken or
full, or is another directory's or another program's); those at which either session was compacted; and those whose
agent does not say what its requests used. ADR 13 says what this leaves out.
"""

from __future__ import annotations

from clew.core.decision import Reason
from clew.core.record import Record, replace
from clew.core.run import Run
from clew.core.usage import CHARS_PER_TOKEN, Requests, Usage

CACHE_LIFE_S = 300.0  # of a cached prefix that nobody reads
COMPACTED_AT = 160_000  # tokens: about where Claude compacts a session by itself

# Clew starts afresh, and a plain resume would not: sometimes wrongly, as it does not know of an edit.
CARRIES_ON = frozenset(
    {
        Reason.DISABLED,
        Reason.FORCED_FRESH,
        Reason.NO_PIN,  # another model: a plain session goes with it
        Reason.HISTORY_CHANGED,
        Reason.EXPIRED,
        Reason.WORN_OUT,
        Reason.SESSION_DIVERGED,
        Reason.SESSION_DAMAGED,
        Reason.UNCONFIRMED,
    }
)


class PlainResume(Record):
    usage: Usage  # of the run, had its session been resumed plainly
    context_tokens: int  # what such a session would hold afterwards


def plain_resume(run: Run, requests: Requests, before: Run | None) -> PlainResume:
    """`before`: the last run of the same agent in the thread that has `context_tokens`."""
    first = requests.first
    as_it_was = PlainResume(run.usage, requests.context_tokens)
    if before is None or not _carries_on(run):
        return as_it_was
    held, plain = before.context_tokens or 0, before.plain_context_tokens or 0
    in_place = run.session_id == before.session_id
    if in_place and first.shown_tokens < held:
        return as_it_was  # compacted meanwhile, and so would the plain one have been
    size = plain + (first.shown_tokens - held if in_place else len(run.prompt) // CHARS_PER_TOKEN)
    if size > COMPACTED_AT:
        return as_it_was
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


def _carries_on(run: Run) -> bool:
    return run.session_resumed or run.reason in CARRIES_ON


def _is_warm(run: Run, before: Run) -> bool:
    if run.started_at is None or before.ended_at is None or run.model != before.model:
        return False
    return run.started_at - before.ended_at <= CACHE_LIFE_S


def _shifted(used: Usage, *, new: int, read: int) -> Usage:
    """With so many more tokens (or fewer): new ones, paid as the run itself paid them, and some from the cache."""
    column = "cache_creation_input_tokens" if used.is_written else "input_tokens"
    changes = {column: getattr(used, column) + new}
    changes["cache_read_input_tokens"] = used.cache_read_input_tokens + read
    return replace(used, **{name: max(0, count) for name, count in changes.items()})
