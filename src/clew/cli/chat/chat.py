"""The command `clew chat`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.options import (
    CONTINUE,
    CWD,
    INSTRUCTIONS,
    PERMISSIONS,
    PLAIN,
    TIMEOUT,
    TRUST,
    VISIBILITY,
    complete_thread,
)
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client


@click.command()
@click.argument("thread", required=False, shell_complete=complete_thread)
@CONTINUE
@click.option("--agent", metavar="AGENT", help="The agent that answers; in an existing thread, in this chat only.")
@click.option("--model", metavar="MODEL", help="The model; in an existing thread, in this chat only.")
@CWD
@INSTRUCTIONS
@PERMISSIONS
@TRUST
@VISIBILITY
@TIMEOUT
@PLAIN
def chat(instructions: str | None, timeout: str | None, **given: Any) -> int:
    """Ask an agent in a loop: a prompt, its answer as `clew ask` shows it, and the next prompt.

    THREAD is continued, or created with the first prompt. Without THREAD or -c, the first prompt begins a new thread,
    and its name is printed. Alt-Enter begins a new line, @ completes a file, / a command, and arrow up brings back what
    was typed before. Ctrl-C stops a run and not the chat; Ctrl-D leaves.
    """
    if given["thread"] is not None and given["continue_"]:
        raise UsageError("THREAD and -c cannot be given together.", hint="Give one of them.")
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "clew chat needs a terminal: stdin or stdout is none.",
            hint="clew ask takes a prompt as an argument or on stdin.",
        )
    if instructions == "-":
        raise UsageError("The instructions cannot come from stdin, which is the terminal.", hint="Name a file.")

    from clew.cli.ask import AskOptions, continued_thread
    from clew.cli.stdin import read_instructions

    standing = read_instructions(instructions) if instructions is not None else None
    options = AskOptions(
        fresh_session=False, no_resume=False, no_wait=False, wait_for_limit=False, as_json=False, images=(), **given
    )

    async def work(client: Client) -> int:
        from clew.api.files import existing_dir
        from clew.api.thread import check_name
        from clew.cli.chat.loop import ChatLoop

        thread = await continued_thread(client, options)
        if thread is None:  # the first prompt creates it, and should find nothing wrong then
            client.check_agent(options.agent)
            existing_dir(options.cwd or ".")
            if options.thread is not None:
                check_name(options.thread)
        await ChatLoop(client, options, thread, standing).run()
        return 0

    return with_client(work, work_dir=options.cwd, timeout=timeout, keep_agents=True)
