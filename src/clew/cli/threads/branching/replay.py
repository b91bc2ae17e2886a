"""The command `clew threads replay`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.options import TIMEOUT, complete_thread
from clew.cli.ui.formatting import harmless, plural
from clew.cli.ui.printing import note, print_json
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.branching import LiveReplay
    from clew.api.client import Client

PART_MODELS = ("instructor_model", "worker_model")


@click.command()
@click.argument("name", shell_complete=complete_thread)
@click.option("--with-model", "model", metavar="MODEL", help="The model that answers.  [default: the agent's own]")
@click.option("--with-instructor-model", "instructor_model", metavar="MODEL", help="Of a pair: the model that plans.")
@click.option("--with-worker-model", "worker_model", metavar="MODEL", help="Of a pair: the model that does the work.")
@click.option("--with-agent", "agent", metavar="AGENT", help="The agent that answers.  [default: the thread's]")
@click.option(
    "--rounds", type=click.IntRange(1), metavar="N", help="Only the first N prompts; of a pair, at most N rounds."
)
@click.option("--cwd", metavar="DIR", help="The work directory.  [default: the thread's]")
@click.option(
    "--permissions",
    type=click.Choice(["read-only", "ask", "edits", "all"]),
    help="What the agent may do there without asking.  [default: read-only]",
)
@click.option(
    "--name", "new_name", metavar="NEW", help="The name of the new thread; if it exists, the replay continues in it."
)
@TIMEOUT
@click.option("--json", "as_json", is_flag=True, help="Print one object instead of the answers.")
def replay(name: str, new_name: str | None, timeout: str | None, as_json: bool, **options: Any) -> int:
    """Ask another model the prompts of a thread, and show both answers.

    The thread's current prompts are asked one after the other in a new thread. The old thread stays as it is. Unless
    --permissions allows more, the agent may only read, so it does not do what it says it would do. On a terminal of 110
    columns or more the answers are shown side by side. Ctrl-C keeps what was answered; the same command with --name
    continues with the first prompt that has no complete answer. Prompts with which Clew itself continued an interrupted
    run are not asked again.

    If NAME is a pair's, a new pair gets its task, and the messages that you sent to it in their rounds. --with-model is
    for both parts; a part that no option names keeps its model.

    \b
      clew threads replay fix-login --with-model opus
      clew threads replay fix-login --with-agent codex --with-model gpt-5.5-codex --rounds 2
      clew threads replay fix-login --with-model opus --name fix-login-opus        continue after Ctrl-C
      clew threads replay maze --with-worker-model haiku                           a pair, with another worker
    """
    if all(options[key] is None for key in ("model", "agent", *PART_MODELS)):
        raise UsageError("No model and no agent was given.", hint="Give --with-model, --with-agent, or both.")

    limits = [f"--rounds {options['rounds']}"] if options["rounds"] is not None else []
    limits += [f"--timeout {timeout}"] if timeout is not None else []

    async def work(client: Client) -> int:
        from clew.api import pairs

        if await pairs.is_pair(client, name):
            from clew.cli.threads.branching.pair_replay import replay_pair

            return await replay_pair(client, name, options | {"name": new_name}, limits, as_json=as_json)
        part_models = [options.pop(key) for key in PART_MODELS]
        if any(part_models):
            await client.find(name)  # raises NotFound
            raise UsageError(
                f"{name} is a thread, not a pair: its agent has one model.",
                hint="Give --with-model, or name the pair.",
            )
        from clew.api.branching import ReplayOptions, prepare_replay
        from clew.core.thread import Permissions

        allowed = options.pop("permissions")
        asked = ReplayOptions(name=new_name, permissions=Permissions(allowed) if allowed else None, **options)
        return await _run(await prepare_replay(client, name, asked), limits, as_json=as_json)

    return with_client(work, work_dir=options["cwd"], timeout=timeout, keep_agents=True)


async def _run(live: LiveReplay, limits: Sequence[str], *, as_json: bool) -> int:
    """Shows the replay until it ends, and returns the exit code."""
    from clew.cli.foreground_run import attended
    from clew.cli.threads.branching.replay_display import ReplayDisplay

    _note_start(live)
    display = ReplayDisplay(live, as_json=as_json)
    with attended(display) as (stop, person):
        stop.run = live
        async with display:
            async for event in live.events(person):
                display.show_replay_event(event)
    return await _conclude(live, limits, as_json=as_json)


def _note_start(live: LiveReplay) -> None:
    thread = live.thread
    if live.is_continued:
        note(f"continuing {thread.name}: {plural(live.asked_before, 'prompt')} of {live.count:,} answered before")
    else:
        note(f"new thread: {thread.name}, {plural(live.count, 'prompt')} of {live.old.name}")
    may = {"read-only": "read-only: nothing is changed", "all": "all: the agent may do anything without asking"}
    note(f"permissions {may.get(thread.permissions, thread.permissions)}, in {harmless(thread.cwd)}")


async def _conclude(live: LiveReplay, limits: Sequence[str], *, as_json: bool) -> int:
    """Prints how the replay ended, and returns the exit code.

    `limits`: the options that are not stored with the thread; the command that continues the replay needs them."""
    from clew.api.branching import replayed
    from clew.cli.foreground_run import report_error
    from clew.cli.threads.branching.replay_display import sums

    done = await replayed(live)
    if as_json:
        print_json(done.to_shape().to_json())
    for line in sums(done):
        note(line)
    if live.error is None:
        note(f"{live.old.name} is unchanged; clew threads diff {live.old.name} {live.thread.name} compares them")
        return 0
    report_error(live.error)
    thread = live.thread
    who = f"--with-agent {thread.agent}" + (f" --with-model {shlex.quote(thread.model)}" if thread.model else "")
    command = " ".join(["clew threads replay", live.old.name, who, *limits, "--name", thread.name])
    note(harmless(f"  to continue: {command}"))
    return live.error.exit_code
