"""`clew pair --list-sessions` and `--clean-sessions`"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from clew.cli.output import ago, columns, dollars, harmless, note, one_line, plural, print_json, say, stamp
from clew.cli.session import with_client
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.client import Client
    from clew.hosts.pair import PairState

HEADINGS = ["PAIR", "STATUS", "ROUND", "LEFT", "USED", "COST", "ID", "TASK"]
TASK_CHARS = 60
SHOWN = 10_000


def show(cwd: str | None, *, as_json: bool) -> int:
    async def work(client: Client) -> None:
        from clew.pair import files_of_elsewhere, pair_json

        here = os.path.realpath(cwd or ".")
        found = await client.pairs.list(cwd=here, limit=SHOWN)
        if as_json:
            print_json([pair_json(state, stamp, rounds=False) for state in found])
        elif not found:
            note("No pairs of this directory yet.")
        else:
            say(columns(HEADINGS, [_row(state) for state in found]))
        for path in files_of_elsewhere(here, found):
            note(f"of another store: {harmless(str(path))} (clew pair --session-file goes on with it)")

    with_client(work, work_dir=cwd)
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
    seconds = _seconds(older_than)

    async def work(client: Client) -> None:
        from clew import pair as surface

        cleaned = await surface.clean(client, cwd or ".", seconds, dry_run=dry_run)
        if as_json:
            print_json(
                [
                    {
                        **surface.pair_json(each.state, stamp, rounds=False),
                        "archive": str(each.archive) if each.archive is not None else None,
                    }
                    for each in cleaned
                ]
            )
        for each in cleaned:
            if each.kept_because is not None:
                note(f"kept {each.state.pair.name}: {harmless(each.kept_because)}")
                continue
            archived = f"; its archive is {each.archive}" if each.archive is not None else ""
            verb = "would remove" if dry_run else "removed"
            pair = each.state.pair
            note(harmless(f"{verb} {pair.name} ({pair.id}, {plural(len(each.state.rounds), 'round')}){archived}"))
        if not cleaned:
            note("No pair of this directory is that old.")

    with_client(work, work_dir=cwd)
    return 0


def _seconds(older_than: str | None) -> float:
    from clew import config

    if older_than is None:
        raise UsageError("--clean-sessions needs --older-than.", hint="Such as --older-than 7d.")
    try:
        seconds = config.duration(older_than)
    except ValueError as error:
        raise UsageError(f"--older-than {older_than} {error}.") from error
    if seconds is None:
        raise UsageError("--older-than needs a duration.", hint="Such as 7d.")
    return seconds
