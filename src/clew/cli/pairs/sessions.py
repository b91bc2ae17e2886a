"""The commands `clew pair --list-sessions`, `--clean-sessions` and `--stop`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from clew.cli.client_runner import with_client
from clew.cli.options import seconds
from clew.cli.ui.formatting import ago, dollars, harmless, one_line, plural
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.tables import columns

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.pairs import PairState

HEADINGS = ["PAIR", "STATUS", "ROUND", "LEFT", "USED", "COST", "ID", "TASK"]
TASK_CHARS = 200
SHOWN = 10_000
OLD = "30d"


def show(cwd: str | None, *, as_json: bool) -> int:
    async def work(client: Client) -> None:
        from clew.api.pairs import files_left, list_pairs, pair_note

        here = os.path.realpath(cwd or ".")
        found = await list_pairs(client, cwd=here, limit=SHOWN)
        if as_json:
            print_json([pair_note(state).to_json() for state in found])
        elif not found:
            note("This directory has no pairs yet.")
        else:
            say(columns(HEADINGS, [_row(state) for state in found], optional=["LEFT", "COST", "ROUND", "ID"]))
        for path, moved in await files_left(client, here):
            if moved is None:
                note(harmless(f"from another store: {path} (clew pair --session-file continues it)"))
            else:
                note(harmless(f"of {moved.name}, which has moved to {moved.cwd}: {path}"))

    with_client(work, work_dir=cwd, reads=True)
    return 0


def _row(state: PairState) -> list[str]:
    pair = state.pair
    return [
        pair.name,
        state.status.value.replace("_", " "),
        str(pair.number),
        str(pair.rounds_left),
        ago(pair.updated_at),
        dollars(state.cost_usd) if state.cost_usd else "-",
        pair.id,
        one_line(pair.task, TASK_CHARS),
    ]


def clean(cwd: str | None, older_than: str | None, *, dry_run: bool, as_json: bool) -> int:
    age_s = seconds("--older-than", older_than or OLD)

    async def work(client: Client) -> None:
        from clew.api import pairs as surface

        cleaned = await surface.clean(client, cwd or ".", age_s, dry_run=dry_run)
        if as_json:
            print_json([surface.cleaned_shape(each).to_json() for each in cleaned])
        for each in cleaned:
            if each.kept_because is not None:
                note(f"kept {each.state.pair.name}: {harmless(each.kept_because)}")
                continue
            pair = each.state.pair
            archived = f"; clew threads restore {pair.name} restores it" if each.archive is not None else ""
            verb = "would remove" if dry_run else "removed"
            note(harmless(f"{verb} {pair.name} ({pair.id}, {plural(pair.number, 'round')}){archived}"))
        if not cleaned:
            note(f"No pair of this directory is older than {older_than or OLD}.")

    with_client(work, work_dir=cwd)
    return 0


def stop(cwd: str | None, session: str | None, *, as_json: bool) -> int:
    """Stops a pair that any process runs, and waits until it has stopped."""

    async def work(client: Client) -> None:
        from clew.api import pairs as surface

        found = await (surface.show(client, session) if session else surface.latest(client, cwd or "."))
        pair = found.pair
        is_asked = await surface.stop(client, pair.id)
        if is_asked:
            async for _ in surface.follow(client, pair.id, surface.AT_END):
                pass
        state = await surface.show(client, pair.id)
        if as_json:
            print_json(surface.pair_note(state).to_json())
        status = state.status.value.replace("_", " ")
        note(harmless(f"pair {pair.name} is {status}" if is_asked else f"pair {pair.name} is not running: {status}"))

    with_client(work, work_dir=cwd)
    return 0
