"""`clew threads replay`"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from clew.cli.options import TIMEOUT
from clew.cli.output import harmless, note, plural, print_json
from clew.cli.session import complete_thread, with_client
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.client import Client
    from clew.hosts.replaying import LiveReplay


@click.command()
@click.argument("name", shell_complete=complete_thread)
@click.option("--with-model", "model", metavar="MODEL", help="Who is asked.  [default: the agent's own]")
@click.option("--with-agent", "agent", metavar="AGENT", help="By which agent.  [default: the thread's]")
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Only the first N prompts.  [default: all]")
@click.option("--cwd", metavar="DIR", help="Where it works.  [default: the thread's directory]")
@click.option(
    "--permissions",
    type=click.Choice(["read-only", "ask", "edits", "all"]),
    help="What the agent may do there without asking.  [default: read-only]",
)
@click.option("--name", "new_name", metavar="NEW", help="Call the new thread so; go on with it if it is there.")
@TIMEOUT
@click.option("--json", "as_json", is_flag=True, help="Print one object instead of the answers.")
def replay(name: str, new_name: str | None, timeout: str | None, as_json: bool, **options: Any) -> int:
    """Ask another model the prompts of a thread, and show both answers.

    The prompts are those that stand, asked one after the other in a new thread. The old one stays as it is. Unless
    --permissions says more, the agent may only read, so what it says it would do is not done. Answers stand side by
    side on a terminal of 110 columns or more. Ctrl-C keeps what was answered; the same command with --name goes on
    with the first prompt that has no whole answer. Of a pair, name the thread that is meant: pair-NAME-instructor or
    pair-NAME-worker.

    \b
      clew threads replay fix-login --with-model opus
      clew threads replay fix-login --with-agent codex --with-model gpt-5.5-codex --rounds 2
      clew threads replay fix-login --with-model opus --name fix-login-opus        goes on after Ctrl-C
    """
    if options["model"] is None and options["agent"] is None:
        raise UsageError("Who is to be asked?", hint="Give --with-model, --with-agent, or both.")

    async def work(client: Client) -> int:
        from clew.core.thread import Permissions
        from clew.hosts.replaying import Wanted
        from clew.hosts.replaying import replay as replayed

        allowed = options.pop("permissions")
        wanted = Wanted(name=new_name, permissions=Permissions(allowed) if allowed else None, **options)
        limits = [f"--rounds {wanted.rounds}"] if wanted.rounds is not None else []
        limits += [f"--timeout {timeout}"] if timeout is not None else []
        return await _carry_out(await replayed(client.engine, name, wanted), limits, as_json=as_json)

    return with_client(work, work_dir=options["cwd"], timeout=timeout)


async def _carry_out(live: LiveReplay, limits: Sequence[str], *, as_json: bool) -> int:
    """Shows the replay to its end, and returns the exit code."""
    from clew.cli.conversation import Stop
    from clew.cli.keyboard import Keyboard
    from clew.cli.person import TerminalPerson
    from clew.cli.replay_display import ReplayDisplay

    _tell_begun(live)
    display = ReplayDisplay(live, as_json=as_json)
    stop = Stop(display)
    stop.run = live
    keyboard = Keyboard.find()
    with stop.listening(), contextlib.closing(keyboard) if keyboard else contextlib.nullcontext():
        display.start()
        try:
            async for event in live.events(TerminalPerson(display, keyboard) if keyboard else None):
                display.tell(event)
        finally:
            await display.close()
    return await _conclude(live, limits, as_json=as_json)


def _tell_begun(live: LiveReplay) -> None:
    thread = live.thread
    if live.goes_on:
        note(f"going on in {thread.name}: {plural(live.asked_before, 'prompt')} of {live.count:,} answered before")
    else:
        note(f"new thread: {thread.name}, {plural(live.count, 'prompt')} of {live.old.name}")
    may = {"read-only": "read-only: nothing is changed", "all": "all: it may do anything there without asking"}
    note(f"permissions {may.get(thread.permissions, thread.permissions)}, in {harmless(thread.cwd)}")


async def _conclude(live: LiveReplay, limits: Sequence[str], *, as_json: bool) -> int:
    """`limits`: what holds for a replay that goes on too, and is not kept with its thread."""
    from clew.cli import failure
    from clew.cli.replay_display import as_object, sums

    answers = (await live.answers())[: live.count]
    if as_json:
        print_json(as_object(live, answers))
    for line in sums(live, answers):
        note(line)
    if live.error is None:
        note(f"{live.old.name} is as it was; clew threads diff {live.old.name} {live.thread.name} compares them")
        return 0
    failure.say(live.error)
    thread = live.thread
    who = f"--with-agent {thread.agent}" + (f" --with-model {shlex.quote(thread.model)}" if thread.model else "")
    command = " ".join(["clew threads replay", live.old.name, who, *limits, "--name", thread.name])
    note(harmless(f"  to go on: {command}"))
    return live.error.exit_code
