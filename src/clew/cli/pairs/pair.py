"""The command `clew pair`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.options import PLAIN, complete_pair
from clew.cli.ui.formatting import harmless, plural
from clew.cli.ui.printing import note, print_json
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.pairs import LivePair, PairOptions, PairSelection
    from clew.cli.pairs.pair_display import PairDisplay

MAX_ROUNDS = 10_000


class _Rounds(click.IntRange):
    name = "whole number"  # for the error message


@click.command()
@click.argument("text", metavar="[TASK | MESSAGE]", required=False)
@click.option(
    "-r",
    "--max-rounds",
    "rounds",
    type=_Rounds(1, MAX_ROUNDS),
    metavar="N",
    help="At most this many rounds; when continuing, this many more.  [default: the setting pair.rounds, or as saved]",
)
@click.option(
    "--instructor-model", metavar="MODEL", help="The model that plans.  [default: the setting pair.instructor_model]"
)
@click.option(
    "--worker-model", metavar="MODEL", help="The model that does the work.  [default: the setting pair.worker_model]"
)
@click.option("--agent", metavar="AGENT", help="The agent of both.  [default: the setting agent]")
@click.option(
    "--thinking/--no-thinking",
    default=None,
    help="Have the instructor reason at length before it answers, or not.  [default: the setting pair.thinking, or as "
    "saved]",
)
@click.option(
    "--permissions",
    type=click.Choice(["edits", "all", "read-only"]),
    help="What the worker may do without asking.  [default: edits, or as saved]",
)
@click.option(
    "--cwd",
    metavar="DIR",
    help="Where they work. With --resume, the latest pair of that directory continues; with --session, the pair moves "
    "there.  [default: this directory, or the pair's own]",
)
@click.option("--name", metavar="NAME", help="A name for the pair.  [default: from the words of TASK]")
@click.option("--resume", "--continue", "resume", is_flag=True, help="Continue the latest pair of this directory.")
@click.option("--session", metavar="ID|NAME", help="Continue this pair.", shell_complete=complete_pair)
@click.option("--session-file", metavar="PATH", help="Continue from a state file, which may come from another machine.")
@click.option(
    "--fork-at-round",
    "fork_at",
    type=_Rounds(1, MAX_ROUNDS),
    metavar="N",
    help="Continue a copy of the pair as it was after round N, not the pair itself.",
)
@click.option(
    "--fresh-session",
    is_flag=True,
    help="When continuing: the next run of each part starts a fresh session with the whole transcript.",
)
@click.option(
    "--auto-save/--no-auto-save",
    default=None,
    help="Write a state file, or none; the store keeps everything.  [default: the setting pair.auto_save]",
)
@click.option(
    "--wait-for-limit/--no-wait-for-limit",
    default=True,
    help="When the account's usage limit is reached, wait until it resets and continue, or stop.  [default: wait]",
)
@click.option(
    "--stop",
    is_flag=True,
    help="Stop the latest pair of this directory, or that of --session, in whichever process it runs.",
)
@click.option("--list-sessions", is_flag=True, help="List the pairs of this directory instead.")
@click.option(
    "--clean-sessions", is_flag=True, help="Remove old pairs of this directory instead. They are archived first."
)
@click.option(
    "--older-than",
    metavar="DURATION",
    help="With --clean-sessions: the age from which a pair is removed: 7d, 12h.  [default: 30d]",
)
@click.option("--dry-run", is_flag=True, help="With --clean-sessions: only print what would be removed.")
@click.option(
    "--timeout",
    metavar="DURATION",
    help="Stop a run of either part after this time: 90s, 30m, 2h, none.  [default: the setting timeout]",
)
@PLAIN
@click.option("--json", "as_json", is_flag=True, help="Print one event per line, and the pair's object last.")
def pair(
    text: str | None,
    cwd: str | None,
    resume: bool,
    session: str | None,
    session_file: str | None,
    fork_at: int | None,
    stop: bool,
    list_sessions: bool,
    clean_sessions: bool,
    older_than: str | None,
    dry_run: bool,
    timeout: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Have an instructor plan TASK and a worker do it, round by round, until the instructor says that it is done.

    The instructor reads files and changes none; the worker carries out one instruction per round. Each has its own
    thread. Everything is stored as it happens: after Ctrl-C, a crash or the last round, --resume continues from there.
    Without TASK, or if it is -, the task is read from stdin; MESSAGE is read from stdin if it is -. What is piped in
    beside either comes after it. Orders and reports go to stdout, everything else to stderr. Ctrl-C stops gracefully, a
    second one at once. The exit code is 0 when the task is done, 1 when the rounds are used up, else that of the error
    (7: Ctrl-C).

    \b
      clew pair "Port the parser to the new API, with tests"
      clew pair -r 20 --instructor-model opus --worker-model sonnet --permissions all "Fix the flaky tests"
      clew pair --resume                            continue the latest pair of this directory
      clew pair --resume "Leave the old API in."    the same, with a message to the instructor
      clew pair --resume --fork-at-round 15         continue a copy from round 15
      clew pair --session fix-login --cwd ~/shop    continue in another directory
      clew pair --stop --session fix-login          stop it, from another terminal
      clew pair --session-file /shared/session-2026-11-15-10-00-00-1a2b.json
      clew pair --list-sessions
      clew pair --clean-sessions --older-than 7d --dry-run
    """
    if list_sessions or clean_sessions or stop:
        from clew.cli.pairs import sessions as pair_sessions

        others = [text, resume, session_file, session and not stop]
        if any(others) or list_sessions + clean_sessions + stop > 1:
            words = "--list-sessions, --clean-sessions and --stop cannot be combined with a task, a pair or each other."
            raise UsageError(words, hint="Try clew pair --help.")
        if stop:
            return pair_sessions.stop(cwd, session, as_json=as_json)
        if list_sessions:
            return pair_sessions.show(cwd, as_json=as_json)
        return pair_sessions.clean(cwd, older_than, dry_run=dry_run, as_json=as_json)
    if older_than or dry_run:
        raise UsageError("--older-than and --dry-run need --clean-sessions.", hint="Try clew pair --help.")
    if session is not None and session_file is not None:
        raise UsageError("--session and --session-file cannot be given together.", hint="Give one of them.")
    continues = resume or session is not None or session_file is not None
    typed, piped = "", ""
    if text is not None or not continues:
        from clew.cli.stdin import read_parts

        what, command = ("message", "clew pair --resume") if continues else ("task", "clew pair")
        typed, piped = read_parts(text, what, command)
    if fork_at is not None and (session_file is not None or not continues):
        raise UsageError("--fork-at-round needs --resume or --session.", hint="Try clew pair --help.")
    if continues and fork_at is None and options["name"] is not None:
        raise UsageError("--name is for a new pair.", hint="clew pair TASK --name NAME starts one.")
    if options["fresh_session"] and not continues:
        raise UsageError("--fresh-session is for a pair that continues.", hint="The sessions of a new pair are fresh.")
    if not continues and not typed.strip():
        raise UsageError("There is no task.", hint="Give it as an argument, or continue a pair with --resume.")

    async def work(client: Client) -> int:
        from clew.api import pairs as surface
        from clew.cli.ask import typed_text

        at, permissions = cwd, "edits"
        if continues and session_file is None:
            at, permissions = await surface.settings_of(client, cwd, session)
        place = {"agent": options["agent"], "permissions": options["permissions"] or permissions, "trust": "user"}
        words = await typed_text(client, typed, piped, cwd=cwd or at, **place)
        asked = surface.PairOptions(text=words, cwd=cwd, **options)
        selection = surface.PairSelection(session, session_file, fork_at) if continues else None
        return await _run(client, selection, asked, as_json=as_json)

    return with_client(work, work_dir=cwd, timeout=timeout, keep_agents=True)


async def _run(client: Client, selection: PairSelection | None, options: PairOptions, *, as_json: bool) -> int:
    """Starts or continues the pair, shows it until it ends, and returns the exit code."""
    from clew.cli.foreground_run import attended
    from clew.cli.pairs.pair_display import PairDisplay

    display = PairDisplay(as_json=as_json)
    with attended(display) as (stop, person):
        live, warnings = await _started(client, selection, options.replace(person=person))
        stop.run = live
        for warning in warnings:
            note(f"warning: {harmless(warning)}")
        await _note_start(client, live, display, selection)
        async with display:
            async for event in live.events():
                display.show_pair_event(event)
            await live.finish()
    return await _conclude(client, live, as_json=as_json)


async def _started(
    client: Client, selection: PairSelection | None, options: PairOptions
) -> tuple[LivePair, tuple[str, ...]]:
    """The running pair. If Ctrl-C arrives while it starts, it is stopped; its name is printed, since it is stored."""
    import asyncio

    from clew.api import pairs as surface

    async def begin() -> tuple[LivePair, tuple[str, ...]]:
        if selection is None:
            return await surface.start(client, options), ()
        return await surface.resume(client, selection, options)

    beginning = asyncio.create_task(begin())
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        live, warnings = await beginning
        live.cancel()
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        return live, warnings


async def _note_start(client: Client, live: LivePair, display: PairDisplay, selection: PairSelection | None) -> None:
    from clew.api import pairs as surface
    from clew.cli.foreground_run import note_context

    pair, state = live.pair, await surface.show(client, live.pair.id)
    note_context(pair.cwd, state.permissions)
    how = f"up to {plural(pair.last_round, 'round')}"
    if selection is not None:
        how = f"continues in round {pair.number} of {pair.last_round}"
        if selection.file is not None and pair.imported_round is not None:
            how = f"imported in round {pair.imported_round}, {how}"
    note(harmless(f"pair {pair.name} ({pair.id}), {how}"))
    display.count_from(state)


async def _conclude(client: Client, live: LivePair, *, as_json: bool) -> int:
    from clew.api import pairs as surface
    from clew.cli.foreground_run import report_error
    from clew.cli.pairs.pair_display import closing_line

    state = await surface.show(client, live.pair.id)
    error = surface.error_of(live, state)
    if as_json:
        print_json(surface.pair_shape(state, error).to_json(), in_line=True)
    note(closing_line(state))
    if live.saved is not None:
        note(harmless(f"saved in {live.saved}"))
    if error is None:
        note(f'to give it more to do: clew pair --session {state.pair.name} "…"')
    return report_error(error)
