"""`clew pair`"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from clew.cli.output import harmless, note, plural, print_json, stamp
from clew.cli.session import with_client
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.cli.pair_display import PairDisplay
    from clew.client import Client
    from clew.hosts.pair_live import LivePair
    from clew.pair import Wanted, Which

MOST_ROUNDS = 10_000


class _Rounds(click.IntRange):
    name = "whole number"  # as it is called where something else is given


def _complete_pair(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """Names of pairs for the shell. Never makes a store, never complains."""
    from clew import config
    from clew.errors import ClewError

    async def names(client: Client) -> list[str]:
        return await client.engine.database.call(lambda store: [pair.name for pair in store.pairs(limit=1000)])

    try:
        if not (config.home(os.environ) / "clew.db").exists():
            return []
        return [name for name in with_client(names, quiet=True, reads=True) if name.startswith(incomplete)]
    except (ClewError, OSError):
        return []


@click.command()
@click.argument("text", metavar="[TASK | MESSAGE]", required=False)
@click.option(
    "-r",
    "--max-rounds",
    "rounds",
    type=_Rounds(1, MOST_ROUNDS),
    metavar="N",
    help="At most so many rounds; on going on, so many more.  [default: 10; what was saved]",
)
@click.option("--instructor-model", metavar="MODEL", help="Who plans.  [default: the setting model]")
@click.option("--worker-model", metavar="MODEL", help="Who does the work.  [default: the setting model]")
@click.option("--agent", metavar="AGENT", help="By which agent.  [default: the setting agent]")
@click.option(
    "--thinking/--no-thinking",
    default=None,
    help="The instructor is told to reason at length before it answers, or not to.  [default: not; what was saved]",
)
@click.option(
    "--permissions",
    type=click.Choice(["edits", "all", "read-only"]),
    help="What the worker may do without asking.  [default: edits; what was saved]",
)
@click.option(
    "--cwd",
    metavar="DIR",
    help="Where they work. With --resume the latest pair of that directory goes on; with --session the pair moves "
    "there.  [default: this directory; the pair's own]",
)
@click.option("--name", metavar="NAME", help="A name for the pair.  [default: made from TASK]")
@click.option("--resume", "--continue", "resume", is_flag=True, help="Go on with the latest pair of this directory.")
@click.option("--session", metavar="ID|NAME", help="Go on with that one.", shell_complete=_complete_pair)
@click.option("--session-file", metavar="PATH", help="Go on from a state file, also of another machine.")
@click.option(
    "--fork-at-round",
    "fork_at",
    type=_Rounds(1, MOST_ROUNDS),
    metavar="N",
    help="Not with the pair itself, but with a copy of it as it was after round N.",
)
@click.option("--no-auto-save", is_flag=True, help="Write no state file; the store keeps everything all the same.")
@click.option(
    "--wait-for-limit/--no-wait-for-limit",
    default=True,
    help="At the account's usage limit, wait until it resets and continue, or stop.  [default: wait]",
)
@click.option("--list-sessions", is_flag=True, help="List the pairs of this directory instead.")
@click.option("--clean-sessions", is_flag=True, help="Remove old pairs of this directory instead; archived first.")
@click.option("--older-than", metavar="DURATION", help="What is old for --clean-sessions: 7d, 12h.  [default: 30d]")
@click.option("--dry-run", is_flag=True, help="With --clean-sessions: only say what would go.")
@click.option(
    "--timeout",
    metavar="DURATION",
    help="End a run of either of the two after so long: 90s, 30m, 2h, none.  [default: the setting timeout]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one event a line, and the pair's object last.")
def pair(
    text: str | None,
    cwd: str | None,
    resume: bool,
    session: str | None,
    session_file: str | None,
    fork_at: int | None,
    no_auto_save: bool,
    list_sessions: bool,
    clean_sessions: bool,
    older_than: str | None,
    dry_run: bool,
    timeout: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Have an instructor plan TASK and a worker do it, round by round, until the instructor says that it is done.

    The instructor reads files and changes none; the worker carries out one instruction a round. Each has a thread of
    its own. Everything is stored as it happens: after Ctrl-C, a crash or the last round --resume goes on just there.
    TASK is the argument, or stdin when it is - or left out; so is MESSAGE, but only when it is -. Orders and reports go
    to stdout, everything else to stderr. Ctrl-C stops gently, a second one at once. The exit code is 0 when the task is
    done, 1 when the rounds are used up, else that of what stopped it (7: Ctrl-C).

    \b
      clew pair "Port the parser to the new API, with tests"
      clew pair -r 20 --instructor-model opus --worker-model sonnet --permissions all "Fix the flaky tests"
      clew pair --resume                            the latest of this directory goes on
      clew pair --resume "Leave the old API in."    … and the instructor is told so
      clew pair --resume --fork-at-round 15         another way from round 15 on
      clew pair --session fix-login --cwd ~/shop    another directory from here on
      clew pair --session-file /shared/session-2026-11-15-10-00-00-1a2b.json
      clew pair --list-sessions
      clew pair --clean-sessions --older-than 7d --dry-run
    """
    if list_sessions or clean_sessions:
        from clew.cli import pair_sessions

        if text or resume or session or session_file or (list_sessions and clean_sessions):
            raise UsageError("--list-sessions and --clean-sessions stand alone.", hint="Try clew pair --help.")
        if list_sessions:
            return pair_sessions.show(cwd, as_json=as_json)
        return pair_sessions.clean(cwd, older_than, dry_run=dry_run, as_json=as_json)
    if older_than or dry_run:
        raise UsageError("--older-than and --dry-run belong to --clean-sessions.", hint="Try clew pair --help.")
    if session is not None and session_file is not None:
        raise UsageError("--session and --session-file say two things.", hint="Give one of them.")
    goes_on = resume or session is not None or session_file is not None
    said = text or ""
    if text == "-" or (text is None and not goes_on):
        from clew.cli.ask import read_stdin

        said = read_stdin("message", "clew pair --resume -") if goes_on else read_stdin("task", "clew pair")
    if fork_at is not None and (session_file is not None or not goes_on):
        raise UsageError("--fork-at-round goes with --resume or --session.", hint="Try clew pair --help.")
    if goes_on and fork_at is None and options["name"] is not None:
        raise UsageError("--name is for a new pair.", hint="clew pair TASK --name NAME starts one.")
    if not goes_on and not said.strip():
        raise UsageError("There is no task.", hint="Give it as an argument, or go on with --resume.")

    async def work(client: Client) -> int:
        from clew import pair as surface

        wanted = surface.Wanted(text=said, cwd=cwd, auto_save=not no_auto_save, **options)
        which = surface.Which(session, session_file, fork_at) if goes_on else None
        return await _carry_out(client, which, wanted, as_json=as_json)

    return with_client(work, work_dir=cwd, timeout=timeout)


async def _carry_out(client: Client, which: Which | None, wanted: Wanted, *, as_json: bool) -> int:
    """Begins, or goes on, shows it to its end, and returns the exit code."""
    import contextlib

    from clew.cli.conversation import Stop
    from clew.cli.keyboard import Keyboard
    from clew.cli.pair_display import PairDisplay
    from clew.cli.person import TerminalPerson

    display = PairDisplay(as_json=as_json)
    stop = Stop(display)
    keyboard = Keyboard.find()
    with stop.listening(), contextlib.closing(keyboard) if keyboard else contextlib.nullcontext():
        wanted = wanted.replace(person=TerminalPerson(display, keyboard) if keyboard else None)
        live, warnings = await _begun(client, which, wanted)
        stop.run = live
        for words in warnings:
            note(f"warning: {harmless(words)}")
        await _tell_begun(client, live, display, goes_on=which is not None)
        display.start()
        try:
            async for event in live.events():
                display.tell(event)
            await live.finish()
        finally:
            await display.close()
    return await _conclude(client, live, as_json=as_json)


async def _begun(client: Client, which: Which | None, wanted: Wanted) -> tuple[LivePair, tuple[str, ...]]:
    """Under way. Whoever stops it meanwhile is told its name all the same: it may be in the store already."""
    import asyncio

    from clew import pair as surface

    async def begin() -> tuple[LivePair, tuple[str, ...]]:
        if which is None:
            return await surface.start(client, wanted), ()
        return await surface.resume(client, which, wanted)

    beginning = asyncio.create_task(begin())
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        live, warnings = await beginning
        live.cancel()
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        return live, warnings


async def _tell_begun(client: Client, live: LivePair, display: PairDisplay, *, goes_on: bool) -> None:
    from clew.core.thread import Permissions

    pair = live.pair
    if pair.cwd != os.path.realpath("."):
        note(f"in {harmless(pair.cwd)}")
    how = (
        f"goes on in round {pair.number} of {pair.last_round}"
        if goes_on
        else f"up to {plural(pair.last_round, 'round')}"
    )
    note(harmless(f"pair {pair.name} ({pair.id}), {how}"))
    state = await client.pairs.find(pair.id)
    display.count_from(state)
    if state.permissions is Permissions.ALL:
        note("warning: --permissions all: the worker may do anything here without asking")


async def _conclude(client: Client, live: LivePair, *, as_json: bool) -> int:
    from clew import pair as surface
    from clew.cli import failure
    from clew.cli.pair_display import closing_line

    state = await client.pairs.find(live.pair.id)
    error = surface.error_of(live, state)
    if as_json:
        print_json(surface.pair_json(state, stamp, error), in_line=True)
    note(closing_line(state))
    if live.saved is not None:
        note(harmless(f"saved in {live.saved}"))
    if error is None:
        note(f'more to do: clew pair --session {state.pair.name} "what"')
        return 0
    failure.say(error)
    return error.exit_code
