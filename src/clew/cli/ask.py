"""The command `clew ask`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.options import (
    CONTINUE,
    CWD,
    INSTRUCTIONS,
    NO_WAIT,
    PERMISSIONS,
    PLAIN,
    REPLY_AS_JSON,
    TIMEOUT,
    TRUST,
    VISIBILITY,
    complete_thread,
)
from clew.cli.stdin import is_open_pipe, parts_of_open_pipe, read_instructions, read_parts
from clew.cli.ui.formatting import harmless
from clew.cli.ui.printing import note, print_json
from clew.core.expansion.expanded import may_stand_for_files
from clew.core.record import Record
from clew.errors import ClewError, NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from clew.api.client import Client, Run, Thread
    from clew.core.explanation import Explanation
    from clew.core.images import ImageContent
    from clew.core.runs.options import Person

ALONE = "Send it alone; < /dev/null leaves out what is on stdin."


class AskOptions(Record):
    """The options as they were given on the command line."""

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
    images: tuple[str, ...]


@click.command()
@click.argument("prompt", required=False)
@click.option(
    "-t", "--thread", metavar="NAME", shell_complete=complete_thread, help="Continue this thread, or create it."
)
@CONTINUE
@click.option("--agent", metavar="AGENT", help="The agent that answers; in an existing thread, for this turn only.")
@click.option("--model", metavar="MODEL", help="The model; in an existing thread, for this turn only.")
@CWD
@click.option(
    "--fresh-session", is_flag=True, help="Start a fresh session with the whole transcript, for this turn only."
)
@click.option("--no-resume", is_flag=True, help="Like enable_resume = false, for this turn only.")
@INSTRUCTIONS
@PERMISSIONS
@TRUST
@VISIBILITY
@TIMEOUT
@NO_WAIT
@click.option(
    "--wait-for-limit",
    is_flag=True,
    help="When the account's usage limit is reached, wait until it resets and continue in the same session.",
)
@click.option(
    "--image",
    "images",
    metavar="FILE",
    multiple=True,
    type=click.Path(),
    help="Show this image to the agent with the prompt: PNG, JPEG, GIF or WebP. May be repeated.",
)
@click.option(
    "--explain",
    is_flag=True,
    help="Run nothing: print the exact prompt to stdout, and the decision, its reason and the price to stderr.",
)
@PLAIN
@REPLY_AS_JSON
def ask(prompt: str | None, instructions: str | None, timeout: str | None, explain: bool, **given: Any) -> int:
    """Ask an agent and stream its answer to stdout; everything else goes to stderr.

    @path and /command in PROMPT stand for files, as in the plain CLI. /clear archives the thread's turns, /compact lets
    the agent summarise its session.

    Without PROMPT, or if it is -, the prompt is read from stdin. What is piped in beside a PROMPT is sent after it: git
    diff | clew ask "Review this." Without -t or -c, a new thread is started and its name is printed. Ctrl-C stops the
    agent and keeps what it has answered so far. --explain takes the same options.
    """
    options = AskOptions(**given)
    if options.thread is not None and options.continue_:
        raise UsageError("-t and -c cannot be given together.", hint="Give one of them.")
    from_stdin = prompt is None or prompt == "-"
    if instructions == "-" and from_stdin:
        raise UsageError(
            "The prompt and the instructions cannot both come from stdin.", hint="Give one as an argument."
        )
    reads_meanwhile = instructions != "-" and not explain and _may_start_ahead(options) and is_open_pipe(prompt)
    text, attached = prompt, ""
    if instructions != "-" and not reads_meanwhile:
        text, attached = read_parts(prompt, "prompt", "clew ask")
    standing = read_instructions(instructions) if instructions is not None else None

    if explain:
        assert text is not None
        return _explain(options, text, attached, standing, timeout)

    async def work(client: Client) -> int:
        from clew.cli.foreground_run import report_reply, show_run, wait_for_limit

        nonlocal text, attached
        if reads_meanwhile:
            async with start_ahead(_find_to_start(client, options)):
                text, attached = await parts_of_open_pipe(prompt)
        assert text is not None
        if (
            may_stand_for_files(text)
            and (ended := await _acted_on_session(client, options, text, attached)) is not None
        ):
            return ended
        thread, images = await _thread(client, options, text, attached)
        await note_unclaimed(client, thread)

        async def start(person: Person | None) -> Run:
            return await thread.ask(
                text,
                agent=options.agent,
                model=options.model,
                instructions=standing,
                fresh_session=options.fresh_session,
                resume=False if options.no_resume else None,
                wait=not options.no_wait,
                person=person,
                images=images,
                expand=True,
                attached=attached,
            )

        reply = await show_run(thread, start, as_json=options.as_json, agent=options.agent)
        if options.wait_for_limit:
            reply = await wait_for_limit(thread, reply, as_json=options.as_json)
        status = report_reply(reply, as_json=options.as_json)
        if client.settings.of("resident") == "auto":
            _start_resident()
        return status

    return with_client(work, work_dir=options.cwd, timeout=timeout, keep_agents=reads_meanwhile)


def _may_start_ahead(options: AskOptions) -> bool:
    """Whether the options name a thread whose next turn may resume a session, with the agent as the thread has it."""
    changed = (
        options.agent,
        options.model,
        options.permissions,
        options.trust,
        None if options.continue_ else options.cwd,
    )
    is_named = options.continue_ or options.thread is not None
    return is_named and not (options.fresh_session or options.no_resume or any(each is not None for each in changed))


async def _find_to_start(client: Client, options: AskOptions) -> Thread | None:
    return await _existing(client, options, reads=True)


@contextlib.asynccontextmanager
async def start_ahead(finding: Coroutine[Any, Any, Thread | None]) -> AsyncIterator[None]:
    """Meanwhile the agent of the thread is started, if there is one. If that fails, the turn will say why."""
    import asyncio

    async def start() -> None:
        with contextlib.suppress(ClewError):
            thread = await finding
            if thread is not None:
                await thread.start_ahead()

    starting = asyncio.create_task(start())
    try:
        yield
    except BaseException:
        starting.cancel()
        await asyncio.wait({starting})
        raise
    await starting


def _start_resident() -> None:
    """So that the next command can be handed over. Nothing waits for it."""
    import os

    from clew.api.daemons import start_detached

    start_detached(os.environ)


async def _acted_on_session(client: Client, options: AskOptions, text: str, attached: str) -> int | None:
    """Carries out `/clear` or `/compact`, and returns the exit code. None: the text is neither."""
    from clew.core.expansion.invocation import session_command

    if (command := session_command(text)) is None:
        return None
    if attached or options.images:
        raise UsageError(f"/{command.name} asks the agent nothing, so nothing can be sent with it.", hint=ALONE)
    from clew.cli.threads.session import act_on_session

    return await act_on_session(await _existing(client, options), text, as_json=options.as_json)


async def _thread(
    client: Client, options: AskOptions, text: str, attached: str
) -> tuple[Thread, tuple[ImageContent, ...]]:
    """The thread to ask in, with its settings changed as asked, and the images that were read. A new thread is created
    only after all checks."""
    from clew.api.thread import check_prompt

    check_prompt(text)
    found = await _existing(client, options)
    agent = options.agent or (found.record.agent if found is not None else None)
    client.check_agent(agent)
    images = await client.read_images(options.images, agent) if options.images else ()
    if found is None:
        return await new_thread(client, options, text, attached), images
    return await _changed(found, options), images


async def continued_thread(client: Client, options: AskOptions) -> Thread | None:
    """The thread that the options name, with its settings changed as asked. None: it does not exist yet."""
    found = await _existing(client, options)
    if found is None:
        return None
    client.check_agent(options.agent or found.record.agent)
    return await _changed(found, options)


async def _changed(found: Thread, options: AskOptions) -> Thread:
    if options.continue_:
        note(f"continuing {harmless(found.name)}")  # `show_run` says in which directory, if that is another one
    cwd = None if options.continue_ else options.cwd  # with -c it says where to look, and moves nothing
    await found.change(cwd=cwd, permissions=options.permissions, trust=options.trust)
    return found


async def _existing(client: Client, options: AskOptions, *, reads: bool = False) -> Thread | None:
    """The thread that the options name. None: it does not exist yet. `reads`: nothing may be changed."""
    found: Thread | None = None
    if options.continue_:
        from clew.cli.continuing import latest_thread

        found = await latest_thread(client, options.cwd or ".", reads=reads)
    elif options.thread is not None:
        with contextlib.suppress(NotFound):
            found = await client.find(options.thread)
    if found is None:
        return None
    if options.visibility is not None and options.visibility != found.record.visibility:
        raise UsageError(
            f"The visibility of {found.name} is {found.record.visibility}; it cannot be changed for one turn.",
            hint=f"Change it with clew threads set {found.name} --visibility {options.visibility}.",
        )
    return found


def _explain(options: AskOptions, text: str, attached: str, standing: str | None, timeout: str | None) -> int:
    """Shows what `ask` would do with the same options. Changes nothing."""

    async def work(client: Client) -> int:
        told = await _explanation(client, options, text, attached, standing)
        if options.as_json:
            from clew.api.wire.explanations import explanation

            print_json(explanation(told).to_json())
        else:
            from clew.cli.ui.explanation import print_explanation

            print_explanation(told)
        return 0

    return with_client(work, work_dir=options.cwd, timeout=timeout, reads=True)


async def _explanation(
    client: Client, options: AskOptions, text: str, attached: str, standing: str | None
) -> Explanation:
    thread = await _existing(client, options, reads=True)
    resume = False if options.no_resume else None
    if thread is None:
        return await client.explain(
            text,
            options.thread,
            cwd=options.cwd or ".",
            agent=options.agent,
            model=options.model,
            permissions=options.permissions,
            trust=options.trust,
            visibility=options.visibility,
            instructions=standing,
            fresh_session=options.fresh_session,
            resume=resume,
            images=options.images,
            expand=True,
            attached=attached,
        )
    return await thread.explain(
        text,
        cwd=None if options.continue_ else options.cwd,
        permissions=options.permissions,
        trust=options.trust,
        agent=options.agent,
        model=options.model,
        instructions=standing,
        fresh_session=options.fresh_session,
        resume=resume,
        wait=not options.no_wait,
        images=options.images,
        expand=True,
        attached=attached,
    )


async def note_unclaimed(client: Client, thread: Thread) -> None:
    """Notes how many prompts a daemon left queued when it ended, if no other daemon runs them."""
    from clew.core.runs.run import RunStatus

    queued = await client.runs(thread=thread, statuses=[RunStatus.QUEUED], limit=1000)
    left = sum(run.owner is None for run in queued)
    if not left:
        return
    from clew.api.daemons import running_daemons

    if not running_daemons(client.home):
        were = "prompt was" if left == 1 else "prompts were"
        note(f"{left} {were} queued before this one; queued prompts run with the next clew serve")


async def new_thread(client: Client, options: AskOptions, text: str, attached: str = "") -> Thread:
    """The thread that is created for the prompt. Its name is printed."""
    from clew.cli.ui.terminal_input import TerminalInput

    client.check_agent(options.agent)
    await client.check_prompt(
        text,
        options.thread,
        attached=attached,
        asks=TerminalInput.is_there(),
        cwd=options.cwd or ".",
        agent=options.agent,
        model=options.model,
        permissions=options.permissions,
        trust=options.trust,
        visibility=options.visibility,
    )
    thread = await client.thread(
        options.thread,
        cwd=options.cwd or ".",
        agent=options.agent,
        model=options.model,
        permissions=options.permissions,
        trust=options.trust,
        visibility=options.visibility,
        prompt=text,
    )
    note(f"new thread: {thread.name}")
    return thread


async def typed_text(client: Client, typed: str, piped: str, **settings: Any) -> str:
    """What the user typed, expanded, with what is piped in after it as it is. `settings` are those of a new thread."""
    text = await client.expand(typed, **settings) if typed.strip() else typed
    return f"{text}\n{piped}" if piped else text
