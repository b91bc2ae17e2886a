"""The command `clew threads list`."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew.api.wire.questions import tool_rule
from clew.api.wire.shape import stamp
from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON, LIMIT, OF_AGENT, OF_PROJECT, age
from clew.cli.ui import state_labels
from clew.cli.ui.formatting import agent_words, ago, one_line, price
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.tables import columns
from clew.core.lookup import ALL_ROWS
from clew.core.runs.run import RunStatus
from clew.core.thread import KINDS, Origin
from clew.core.thread import Thread as ThreadRecord
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.views import ListedThread
    from clew.core.runs.run import Run as RunRecord

OFFSET = click.option("--offset", type=click.IntRange(0, 1_000_000_000), default=0, help="Skip this many first.")
HEADINGS = ["NAME", "KIND", "LAST USED", "STATE", "TURNS", "CHARS", "COST", "AGENT", "DIRECTORY"]
OPTIONAL_COLUMNS = ["CHARS", "AGENT", "KIND", "COST", "TURNS", "DIRECTORY"]


def in_project(folder: str | None) -> str | None:
    return os.path.realpath(folder) if folder is not None else None


def check_restrictions(client: Client, agent: str | None, *folders: str | None) -> None:
    """Nothing was found: raises UsageError if the agent or a directory does not exist.

    Not checked before the search: a thread may outlive both."""
    if agent is not None:
        client.check_agent(agent, installed=False)
    for folder in folders:
        if folder is not None and not Path(folder).is_dir():
            raise UsageError(f"{folder} is not a directory.", hint="No thread was ever started there.")


@click.command("list")
@click.option("--cwd", metavar="DIR", help="Only those of this work directory.")
@click.option("--here", is_flag=True, help="Only those of the directory you are in.")
@OF_PROJECT
@OF_AGENT
@click.option("--search", metavar="TEXT", help="Only those with this text in their name, directory or turns.")
@click.option(
    "--kind",
    type=click.Choice([*KINDS, "all"]),
    default="chat",
    show_default=True,
    help="Only threads of this kind.",
)
@click.option("--older-than", metavar="AGE", callback=age, help="Only those not used for this long: 7d, 12h.")
@click.option("--newer-than", metavar="AGE", callback=age, help="Only those used within this time: 7d, 12h.")
@click.option(
    "--sort",
    type=click.Choice(["updated", "size", "cost"]),
    default="updated",
    show_default=True,
    help="What comes first: the last used, the largest or the most expensive.",
)
@LIMIT
@OFFSET
@AS_JSON
def list_(
    cwd: str | None,
    here: bool,
    project: str | None,
    agent: str | None,
    search: str | None,
    kind: str,
    older_than: float | None,
    newer_than: float | None,
    sort: str,
    limit: int,
    offset: int,
    as_json: bool,
) -> None:
    """List threads, the last used first, with their state, size and cost."""
    if cwd is not None and here:
        raise UsageError("--cwd and --here cannot be given together.", hint="Give one of them.")

    async def work(client: Client) -> None:
        folder, now = "." if here else cwd, time.time()
        found = await client.views.threads(
            q=search,
            cwd=in_project(folder),
            project=in_project(project),
            kind=None if kind == "all" else kind,
            agent=agent,
            used_before=None if older_than is None else now - older_than,
            used_after=None if newer_than is None else now - newer_than,
            sort=sort,
            limit=limit + 1,
            offset=offset,
        )
        has_more, found = len(found) > limit, found[:limit]
        if not found:
            check_restrictions(client, agent, folder, project)
        queued = Counter(run.thread_id for run in await client.runs(statuses=[RunStatus.QUEUED], limit=ALL_ROWS))
        if as_json:
            print_json([_object(listed, queued[listed.summary.thread.id]) for listed in found])
        elif found:
            gone = await client.gone([listed.summary.live for listed in found if listed.summary.live is not None])
            rows = [_row(listed, queued[listed.summary.thread.id], gone) for listed in found]
            say(columns(HEADINGS, rows, optional=OPTIONAL_COLUMNS))
        else:
            given = (search, folder, project, agent, older_than, newer_than)
            if offset > 0 or any(each is not None for each in given):
                note("No such threads.")
            elif kind != "all" and await client.views.threads(limit=1):
                note(f"No threads of the kind {kind}. clew threads list --kind all lists the others.")
            else:
                note('No threads yet. Start one with clew ask "…".')
        if has_more and not as_json:
            note(f"the first {limit:,}; --limit and --offset show more" if offset == 0 else "there are more")

    with_client(work, reads=True)


def _row(listed: ListedThread, queued: int, gone: set[str]) -> list[str]:
    summary, record = listed.summary, listed.summary.thread
    return [
        record.name,
        record.kind,
        ago(record.updated_at),
        state_labels.thread_label(summary, queued, gone=summary.live is not None and summary.live.id in gone),
        f"{summary.turns:,}",
        f"{listed.chars:,}",
        price(summary.cost_usd, used=False),
        agent_words(record.agent, record.model),
        record.cwd,
    ]


def _object(listed: ListedThread, queued: int) -> dict[str, Any]:
    summary, live = listed.summary, listed.summary.live
    return thread_object(summary.thread) | {
        "turns": summary.turns,
        "chars": listed.chars,
        "cost_usd": summary.cost_usd,
        "live": None if live is None else {"run": live.id, "status": live.status},
        "queued": queued,
        "questions": summary.questions,
        "opened_at": stamp(summary.opened_at),
        "first_failure": _failure(summary.first_failure),
        "last_text": summary.last_text,
    }


def _failure(run: RunRecord | None) -> dict[str, Any] | None:
    return None if run is None else {"run": run.id, "outcome": run.outcome, "error": run.error}


def thread_object(record: ThreadRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "id": record.id,
        "kind": record.kind,
        "cwd": record.cwd,
        "agent": record.agent,
        "model": record.model,
        "permissions": record.permissions,
        "trust": record.trust,
        "visibility": record.visibility,
        "instructions": record.standing,
        "allowed": [tool_rule(rule).to_json() for rule in record.tool_rules],
        "origin": None if record.origin is None else record.origin.as_dict(),
        "created_at": stamp(record.created_at),
        "updated_at": stamp(record.updated_at),
    }


def origin_words(origin: Origin) -> str:
    """The line of `threads show` about where a thread comes from."""
    verb = {"fork": "forked from", "replay": "replayed from", "merge": "merged from"}[origin.how]
    at = f" at round {origin.round}" if origin.round is not None else ""
    return one_line(f"{verb} {' and '.join(source.name for source in origin.of)}{at}", 200)
