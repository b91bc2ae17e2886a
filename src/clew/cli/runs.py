"""`clew runs`"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from clew.cli.lazy import SuggestingGroup
from clew.cli.options import AS_JSON
from clew.cli.output import ago, columns, dollars, lasted, note, one_line, print_json, say, short_ids, stamp
from clew.cli.session import complete_thread, with_client
from clew.errors import ClewError, NotFound, UsageError

if TYPE_CHECKING:
    from clew.cli.tools import ToolCall
    from clew.client import Client
    from clew.core.run import Attempt, Run

SHOWN_CHARS = 200  # of a prompt, an error or the agent's last words
CANCEL_S = 20.0  # a gentle stop, then TERM, then KILL
POLL_S = 0.1


@click.group(cls=SuggestingGroup)
def runs() -> None:
    """List, show and cancel runs, also those of other processes.

    ID is a run's id as `runs list` shows it, or any unambiguous beginning of it.
    """


@runs.command("list")
@click.option("--thread", metavar="NAME", shell_complete=complete_thread, help="Only those of this thread.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@AS_JSON
def list_(thread: str | None, limit: int, as_json: bool) -> None:
    """List runs, the newest first."""

    async def work(client: Client) -> None:
        of_thread = await client.find(thread) if thread is not None else None
        found = await client.runs(thread=of_thread, limit=limit)
        names = await _thread_names(client, found)
        if as_json:
            print_json([_run_object(run, names[run.thread_id]) for run in found])
        elif not found:
            note("No runs yet.")
        else:
            short = short_ids(run.id for run in found)
            rows = [[short[run.id], names[run.thread_id], *_row(run)] for run in found]
            say(columns(["RUN", "THREAD", "STATUS", "STARTED", "SESSION", "COST", "PROMPT"], rows))

    with_client(work)


@runs.command()
@click.argument("run_id", metavar="ID")
@AS_JSON
def show(run_id: str, as_json: bool) -> None:
    """Show a run, its attempts and what the agent did with its tools."""

    async def work(client: Client) -> None:
        run = await client.run(run_id)
        name = (await _thread_names(client, [run]))[run.thread_id]
        attempts = await client.attempts(run.id)
        used = await _tools(client, run)
        if as_json:
            parts = {
                "attempts": [_attempt_object(attempt) for attempt in attempts],
                "tools": [call.as_object() for call in used],
            }
            print_json(_run_object(run, name) | parts)
            return
        for label, words in (*_facts(run, name), *map(_attempt_words, attempts)):
            say(f"{label:<11}{words}")
        for call in used:
            say(f"{'tools' if call is used[0] else '':<11}{call}")

    with_client(work)


@runs.command()
@click.argument("run_id", metavar="[ID]", required=False)
@click.option("--thread", metavar="NAME", shell_complete=complete_thread, help="Whatever is going on in this thread.")
def cancel(run_id: str | None, thread: str | None) -> None:
    """Stop a run of any process, and wait until it has ended. What the agent said so far is kept."""
    if run_id is not None and thread is not None:
        raise UsageError("Give an ID or --thread, not both.")
    if run_id is None and thread is None:
        raise UsageError("Name the run to cancel.", hint="Give its ID (clew runs list), or --thread NAME.")

    async def work(client: Client) -> None:
        if run_id is not None:
            meant = [await client.run(run_id)]
        else:
            assert thread is not None
            meant = await _going_on(client, thread)
        asked = [run for run in meant if await client.cancel(run.id)]
        for run in meant:
            if run not in asked:
                note(f"run {run.id[:8]} is over already: {run.status}")
        for run in asked:
            ended = await _ended(client, run)
            note(f"run {run.id[:8]}: {ended.status}{f' ({ended.error})' if ended.error else ''}")

    with_client(work)


async def _going_on(client: Client, thread: str) -> list[Run]:
    from clew.core.run import LIVE

    found = await client.find(thread)
    live = [run for run in await client.runs(thread=found, limit=1000) if run.status in LIVE]
    if not live:
        raise NotFound(f"No run is going on in {found.name}.", hint=f"clew runs list --thread {found.name} shows all.")
    return live


async def _ended(client: Client, run: Run) -> Run:
    import asyncio

    from clew.core.run import LIVE

    deadline = time.monotonic() + CANCEL_S
    while (now := await client.run(run.id)).status in LIVE:
        if time.monotonic() > deadline:
            raise ClewError(
                f"Run {run.id[:8]} has been told to stop, but has not ended within {CANCEL_S:.0f} s.",
                hint="See clew runs show; on another machine it may take longer.",
            )
        await asyncio.sleep(POLL_S)
    return now


async def _thread_names(client: Client, found: list[Run]) -> dict[str, str]:
    return {thread_id: (await client.find(thread_id)).name for thread_id in {run.thread_id for run in found}}


def _row(run: Run) -> list[str]:
    session = "resumed" if run.session_resumed else f"fresh: {run.reason}" if run.reason else "-"
    return [run.status, ago(run.started_at or run.created_at), session, dollars(run.cost_usd), one_line(run.prompt, 40)]


def _run_object(run: Run, thread: str) -> dict[str, Any]:
    return {
        "id": run.id,
        "thread": thread,
        "status": run.status,
        "agent": run.agent,
        "model": run.model,
        "prompt": run.prompt,
        "prompt_turn_id": run.prompt_turn_id,
        "answer_turn_id": run.answer_turn_id,
        "session_id": run.session_id,
        "session_resumed": run.session_resumed,
        "reason": run.reason,
        "fallback": run.fallback,
        "outcome": run.outcome,
        "error": run.error,
        "usage": run.usage.as_dict(),
        "cost_usd": run.cost_usd,
        "estimate_usd": run.estimate_usd,
        "cancel_requested": run.cancel_requested,
        "created_at": stamp(run.created_at),
        "started_at": stamp(run.started_at),
        "ended_at": stamp(run.ended_at),
    }


def _attempt_object(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "session_id": attempt.session_id,
        "resumed": attempt.resumed,
        "pid": attempt.pid,
        "outcome": attempt.outcome,
        "exit_status": attempt.exit_status,
        "stderr_tail": attempt.stderr_tail,
        "started_at": stamp(attempt.started_at),
        "ended_at": stamp(attempt.ended_at),
    }


async def _tools(client: Client, run: Run) -> list[ToolCall]:
    from clew.cli.tools import calls

    stored = await client.engine.database.call(lambda store: store.events(run.id))
    return calls(each.event for each in stored)


def _facts(run: Run, thread: str) -> list[tuple[str, str]]:
    """The run for a person: what is not known is left out."""
    from clew.cli.display import session_words

    usage = run.usage
    tokens = (
        f"{usage.shown_tokens:,} read ({usage.cache_read_input_tokens:,} cached), {usage.output_tokens:,} written"
        if usage.shown_tokens or usage.output_tokens
        else ""
    )
    pairs = [
        ("run", run.id),
        ("thread", thread),
        ("prompt", one_line(run.prompt, SHOWN_CHARS)),
        ("agent", " ".join(part for part in (run.agent, run.model) if part)),
        ("status", f"{_words(run.status)}{lasted(run.started_at, run.ended_at)}"),
        ("error", one_line(run.error or "", SHOWN_CHARS)),
        ("started", ago(run.started_at) if run.started_at is not None else ""),
        ("session", " · ".join(part for part in (session_words(run), run.session_id) if part)),
        ("tokens", tokens),
        ("cost", f"{dollars(run.cost_usd)}{_compared(run)}" if tokens or run.cost_usd else ""),
    ]
    return [(label, words) for label, words in pairs if words]


def _compared(run: Run) -> str:
    if not run.session_resumed or run.estimate_usd is None:
        return ""
    return f" ({dollars(run.estimate_usd)} with the whole transcript, an estimate)"


def _attempt_words(attempt: Attempt) -> tuple[str, str]:
    how = "resumed" if attempt.resumed else "fresh"
    outcome = f"{_words(attempt.outcome or 'going on')}{lasted(attempt.started_at, attempt.ended_at)}"
    exit_status = f"exit status {attempt.exit_status}" if attempt.exit_status else ""
    stderr = one_line(attempt.stderr_tail, SHOWN_CHARS)
    parts = (f"{how}, {outcome}", exit_status, stderr and f"stderr: {stderr}")
    return f"attempt {attempt.number}", " · ".join(part for part in parts if part)


def _words(name: str) -> str:
    return name.replace("_", " ")
