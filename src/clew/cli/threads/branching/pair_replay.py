"""`clew threads replay` of a pair: shows the new pair as `clew pair` does, and both at the end."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from clew.cli.pairs.pair_display import PairDisplay, closing_line
from clew.cli.ui.formatting import harmless, plural
from clew.cli.ui.printing import note, print_json
from clew.core.pairs.pair import PairEvent

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.pairs import PairReplay, PairState
    from clew.errors import ClewError


class _Quiet(PairDisplay):
    """Shows the progress, and leaves stdout to the object at the end."""

    def _print(self, event: PairEvent) -> None:
        pass


async def replay_pair(client: Client, name: str, options: dict[str, Any], limits: list[str], *, as_json: bool) -> int:
    from clew.api import pairs
    from clew.cli.foreground_run import attended
    from clew.core.thread import Permissions

    allowed = options.pop("permissions")
    asked = pairs.PairReplayOptions(permissions=Permissions(allowed) if allowed else None, **options)
    display = _Quiet(as_json=True) if as_json else PairDisplay(as_json=False)
    with attended(display) as (stop, person):
        made = await pairs.replay(client, name, asked, person=person)
        live = made.live
        _note_start(made, await pairs.show(client, made.pair.id))
        if live is not None:
            stop.run = live
            async with display:
                async for event in live.events():
                    display.show_pair_event(event)
                await live.finish()
    new = await pairs.show(client, made.pair.id)
    return _conclude(made, new, live.error if live is not None else None, limits, as_json=as_json)


def _note_start(made: PairReplay, new: PairState) -> None:
    pair, old = made.pair, made.old.pair
    if made.is_continued and made.live is None:
        note(f"{pair.name} is over already: {plural(pair.number, 'round')}")
    elif made.is_continued:
        note(f"continuing {pair.name} in round {pair.number} of {pair.last_round}")
    else:
        said = len(pair.planned_messages) + sum(bool(each.message) for each in new.rounds if each.number == 1)
        messages = f" and {plural(said, 'message')}" if said else ""
        note(f"new pair: {pair.name}, with the task{messages} of {old.name}, up to {plural(pair.last_round, 'round')}")
    may = {"read-only": "read-only: nothing is changed", "all": "all: the worker may do anything without asking"}
    note(f"permissions {may.get(new.permissions, new.permissions)}, in {harmless(pair.cwd)}")


def _conclude(made: PairReplay, new: PairState, error: ClewError | None, limits: list[str], *, as_json: bool) -> int:
    """Prints how the replay ended, and returns the exit code. A replay may use up its rounds, as the old pair did.

    `limits`: the options that are not stored with the pair; the command that continues the replay needs them.
    """
    from clew.api.pairs import PairReplayed
    from clew.cli.foreground_run import report_error

    old, pair = made.old.pair, new.pair
    if as_json:
        print_json(PairReplayed(made.old, new, error).to_shape().to_json())
    for state in (made.old, new):
        note(closing_line(state))
    if error is None:
        note(f"{old.name} is unchanged; clew threads diff {old.name} {pair.name} compares them")
        return 0
    report_error(error)
    models = [
        f"--with-{part}-model {shlex.quote(model)}"
        for part, model in (("instructor", pair.instructor_model), ("worker", pair.worker_model))
        if model
    ]
    words = ["clew threads replay", old.name, f"--with-agent {pair.agent}", *models, *limits, "--name", pair.name]
    note(harmless(f"  to continue: {' '.join(words)}"))
    return error.exit_code
