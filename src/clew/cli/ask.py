"""`clew ask`"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.options import NO_WAIT, REPLY_AS_JSON, TIMEOUT
from clew.cli.output import note
from clew.cli.session import complete_thread, with_client
from clew.core.record import Record
from clew.errors import NotFound, UsageError

if TYPE_CHECKING:
    from clew.client import Client, Run, Thread
    from clew.engine.settings import Person

MAX_INPUT_BYTES = 50_000_000  # read no more of stdin than could ever be a prompt


class Wish(Record):
    """The options, as given."""

    thread: str | None
    continue_: bool
    agent: str | None
    model: str | None
    cwd: str | None
    fresh_session: bool
    no_resume: bool
    permissions: str | None
    trust: str | None
    visibility: str | None
    no_wait: bool
    wait_for_limit: bool
    as_json: bool


@click.command()
@click.argument("prompt", required=False)
@click.option(
    "-t", "--thread", metavar="NAME", shell_complete=complete_thread, help="Go on in this thread, or make it."
)
@click.option("-c", "--continue", "continue_", is_flag=True, help="Go on in this directory's latest thread.")
@click.option("--agent", metavar="AGENT", help="Who answers; for an existing thread: this turn only.")
@click.option("--model", metavar="MODEL", help="The model; for an existing thread: this turn only.")
@click.option(
    "--cwd",
    metavar="DIR",
    help="The work directory; an existing thread moves there.  [default: the thread's; this one for a new one]",
)
@click.option("--fresh-session", is_flag=True, help="Start a fresh session with the whole transcript, this once.")
@click.option("--no-resume", is_flag=True, help="As enable_resume = false, this once.")
@click.option(
    "--instructions", metavar="FILE", help="Text that holds for the thread from now on (- = stdin; empty: none)."
)
@click.option(
    "--permissions",
    type=click.Choice(["ask", "edits", "read-only", "all"]),
    help="What the agent may do without asking. `all` is everything.  [default: the thread's; ask for a new one]",
)
@click.option(
    "--trust",
    type=click.Choice(["user", "project"]),
    help="Whose rules, agent settings, hooks and MCP servers load. A project's run code.  "
    "[default: the thread's; user for a new one]",
)
@click.option(
    "--visibility",
    type=click.Choice(["shared", "own"]),
    help="What agents see of each other in a new thread; `clew threads set` changes it.  [default: shared]",
)
@TIMEOUT
@NO_WAIT
@click.option(
    "--wait-for-limit",
    is_flag=True,
    help="When the account's usage limit is reached, wait until it resets and continue in the same session.",
)
@REPLY_AS_JSON
def ask(prompt: str | None, instructions: str | None, timeout: str | None, **options: Any) -> int:
    """Ask an agent and stream its answer to stdout; everything else goes to stderr.

    PROMPT is the argument, or stdin when it is - or left out. Without -t or -c it starts a new thread and says its
    name. Ctrl-C stops the agent and keeps what it said so far.
    """
    wish = Wish(**options)
    if wish.thread is not None and wish.continue_:
        raise UsageError("-t and -c name two threads.", hint="Give one of them.")
    from_stdin = prompt is None or prompt == "-"
    if instructions == "-" and from_stdin:
        raise UsageError("Prompt and instructions cannot both come from stdin.", hint="Give one as an argument.")
    text = read_stdin("prompt") if from_stdin else prompt
    standing = read_instructions(instructions) if instructions is not None else None

    async def work(client: Client) -> int:
        from clew.cli.conversation import carry_out, conclude, wait_for_limit

        assert text is not None
        thread = await _thread(client, wish, text)
        await _tell_left_behind(client, thread)

        async def start(person: Person | None) -> Run:
            return await thread.ask(
                text,
                agent=wish.agent,
                model=wish.model,
                instructions=standing,
                fresh_session=wish.fresh_session,
                resume=False if wish.no_resume else None,
                wait=not wish.no_wait,
                person=person,
            )

        reply = await carry_out(thread, start, as_json=wish.as_json, agent=wish.agent)
        if wish.wait_for_limit:
            reply = await wait_for_limit(thread, reply, as_json=wish.as_json)
        return conclude(reply, as_json=wish.as_json)

    return with_client(work, work_dir=wish.cwd, timeout=timeout)


async def _thread(client: Client, wish: Wish, text: str) -> Thread:
    """The thread that was meant, changed as was asked; or a new one, once nothing can be wrong any more."""
    from clew.hosts.checks import check_prompt

    check_prompt(text)
    found: Thread | None = None
    if wish.continue_:
        found = await client.latest(wish.cwd or ".")
    elif wish.thread is not None:
        found = await _found(client, wish.thread)
    if found is None:
        return await _new(client, wish, text)
    if wish.continue_:
        note(f"going on in {found.name}")
    client.engine.find(wish.agent or found.record.agent)
    if wish.visibility is not None and wish.visibility != found.record.visibility:
        raise UsageError(
            f"{found.name} is {found.record.visibility}, and not for one turn only.",
            hint=f"Change it with clew threads set {found.name} --visibility {wish.visibility}.",
        )
    await found.change(
        cwd=wish.cwd,
        permissions=wish.permissions,
        trust=wish.trust,
    )
    return found


async def _tell_left_behind(client: Client, thread: Thread) -> None:
    """Prompts that a daemon left queued when it ended, while no other one is there to take them up."""
    from clew.core.run import RunStatus

    queued = await client.runs(thread=thread, statuses=[RunStatus.QUEUED], limit=1000)
    left = sum(run.owner is None for run in queued)
    if not left:
        return
    from clew.server.presence import serving

    if not serving(client.home):
        were = "prompt was" if left == 1 else "prompts were"
        note(f"{left} {were} queued before this one; what is queued goes on with the next clew serve")


async def _found(client: Client, name: str) -> Thread | None:
    try:
        return await client.find(name)
    except NotFound:
        return None


async def _new(client: Client, wish: Wish, text: str) -> Thread:
    client.engine.find(wish.agent or client.settings.of("agent"))
    thread = await client.thread(
        wish.thread,
        cwd=wish.cwd or ".",
        agent=wish.agent,
        model=wish.model,
        permissions=wish.permissions,
        trust=wish.trust,
        visibility=wish.visibility,
        prompt=text,
    )
    note(f"new thread: {thread.name}")
    return thread


def read_stdin(what: str, command: str = "clew ask") -> str:
    stdin = sys.stdin
    if stdin is None or stdin.isatty():
        raise UsageError(
            f"There is no {what}.", hint=f'Give it as an argument, {command} "…", or on stdin, {command} < file.'
        )
    return as_text(stdin.buffer.read(MAX_INPUT_BYTES), "stdin")


def read_instructions(path: str) -> str:
    if path == "-":
        return read_stdin("text of instructions")
    from clew.hosts.checks import named_path

    try:
        return as_text(named_path(path).read_bytes(), path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.", hint="--instructions wants a text file."
        ) from error


def as_text(content: bytes, source: str) -> str:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{source} is not UTF-8 text (byte {error.start}).", hint="Only text can be asked.") from error
    if "\0" in text:
        raise UsageError(f"{source} is not text: it holds NUL bytes.", hint="Only text can be asked.")
    return text
