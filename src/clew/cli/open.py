"""The command `clew open`."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.continuing import latest_thread, place_words
from clew.cli.options import AS_JSON, complete_thread
from clew.cli.threads.sync import BRANCHED, COMPACTED
from clew.cli.ui.formatting import agent_words, dollars, harmless, plural
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.terminal_input import TerminalInput
from clew.core.decision import ADOPT_HINT
from clew.core.explanation import decision_words
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client, Run, Thread
    from clew.api.thread import Opening, Synced
    from clew.core.runs.options import Person
    from clew.errors import ClewError

HAND_OVER = "This conversation continues in your own terminal interface. Reply with one short sentence."
KILLED = 128  # added to the number of the signal, as shells do


@click.command("open")
@click.argument("thread", required=False, shell_complete=complete_thread)
@click.argument("message", required=False)
@click.option("--agent", metavar="AGENT", help="Another agent continues it; the thread keeps its own.")
@click.option("--model", metavar="MODEL", help="With this model; the thread keeps its own.")
@click.option("--dry-run", "--explain", "dry_run", is_flag=True, help="Only print what would be opened, and how.")
@AS_JSON
def open_(
    thread: str | None, message: str | None, agent: str | None, model: str | None, dry_run: bool, as_json: bool
) -> int:
    """Open a thread in its agent's own CLI, in its directory, on the session that the next turn would use.

    THREAD is what `ask -c` would continue if it is not given. What is said there comes into the thread when the CLI is
    left; until then, other prompts of the thread wait. The CLI uses your own settings: its permission questions, its
    hooks, its trust in the directory.

    If no session holds the whole conversation (another agent or model, edited turns, turns that it lacks), an ordinary
    turn comes first that hands it over. MESSAGE is its prompt; you are asked for one if it is not given. The exit code
    is that of the CLI.

    \b
      clew open
      clew open fix-login --agent codex "Review what was done so far."
    """
    if as_json and not dry_run:
        raise UsageError("--json needs --dry-run.", hint="The agent's own CLI needs the terminal.")
    if not dry_run and not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        raise UsageError(
            "clew open needs a terminal.", hint="clew ask works without one; --dry-run prints the command."
        )

    if not dry_run:
        from clew.cli.foreground_program import check_terminal

        check_terminal()

    async def work(client: Client) -> int:
        found = await (client.find(thread) if thread is not None else latest_thread(client, ".", reads=dry_run))
        client.check_agent(agent or found.record.agent)
        opening = await found.opening(agent=agent, model=model)
        if dry_run:
            _print(opening, message, as_json=as_json)
            return 0
        if opening.busy is not None:
            raise opening.busy  # before the user writes a message that could not be asked
        note(f"opening {found.name}{place_words(found, '.')}")
        if opening.needs_turn or message is not None:
            code = await _hand_over(found, opening, message)
            if code:
                return code
        return await _open(found, agent, model)

    return with_client(work, reads=dry_run)


async def _open(thread: Thread, agent: str | None, model: str | None) -> int:
    from clew.cli.foreground_program import run_in_foreground

    synced: Synced | None = None
    trouble: ClewError | None = None
    async with thread.in_terminal(agent=agent, model=model) as terminal:
        opening = terminal.opening
        status = await run_in_foreground(
            opening.command, cwd=opening.thread.cwd, environ=terminal.environ, began=terminal.began
        )
        try:
            synced = await terminal.ended()
        except UsageError as error:  # follow_moves is false
            trouble = error
    if trouble is not None:
        note(f"{trouble.message} {trouble.hint}")
    elif synced is None:
        note(f"another command uses {thread.name} already; what was said here comes in there")
    else:
        _report(synced)
    return status if status >= 0 else KILLED - status


async def _hand_over(thread: Thread, opening: Opening, message: str | None) -> int:
    """An ordinary turn: afterwards its session holds the whole conversation. Returns its exit code."""
    from clew.cli.foreground_run import report_reply, show_run

    prompt = message if message is not None else await _message(opening)

    async def start(person: Person | None) -> Run:
        return await thread.ask(
            prompt, agent=opening.agent, model=opening.model, wait=False, person=person, expand=True
        )

    return report_reply(await show_run(thread, start, as_json=False, agent=opening.agent), as_json=False)


async def _message(opening: Opening) -> str:
    note(f"{decision_words(opening.decision)} So a turn comes first, which hands the conversation over.")
    terminal = TerminalInput.find()
    if terminal is None:
        return HAND_OVER
    with contextlib.closing(terminal):
        terminal.set_typed_ahead_aside()
        click.echo(f"Your message (Enter: “{HAND_OVER}”): ", err=True, nl=False)
        try:
            return (await terminal.read_line()).strip() or HAND_OVER
        except EOFError:
            note("")
            return HAND_OVER


def _report(synced: Synced) -> None:
    cost = f" · {dollars(synced.cost_usd)}" if synced.cost_usd else ""
    came = "came in" if synced.turns else "nothing was said"
    note(f"{plural(len(synced.turns), 'turn')} {came}{cost}" if synced.turns else came)
    if synced.is_compacted:
        note(COMPACTED)
    for session_id in synced.branched:
        note(f"{BRANCHED.format(session_id=session_id)} {ADOPT_HINT.format(session_id=session_id)}")


def _print(opening: Opening, message: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json(_object(opening))
        return
    say(f"{opening.thread.name}  {agent_words(opening.agent, opening.model)}  {harmless(opening.thread.cwd)}")
    if opening.busy is not None:
        say(f"It cannot be opened now. {harmless(opening.busy.message)}")
    if opening.outside_turns:
        say(f"{plural(opening.outside_turns, 'turn')} made outside Clew would come in first")
    if opening.needs_turn:
        say(f"{decision_words(opening.decision)} A turn would come first, which hands the conversation over.")
    elif message is not None:
        say("The message would be asked first, as clew ask does.")
    if opening.is_new:
        say("A new session would be begun, with an id of its own.")
    elif opening.shell is not None:
        say(harmless(opening.shell))


def _object(opening: Opening) -> dict[str, Any]:
    return {
        "thread": opening.thread.name,
        "cwd": opening.thread.cwd,
        "agent": opening.agent,
        "model": opening.model,
        "session_id": opening.session_id if not opening.is_new else None,  # it gets one when it is opened
        "new_session": opening.is_new,
        "needs_turn": opening.needs_turn,
        "reason": opening.decision.reason,
        "words": decision_words(opening.decision),
        "outside_turns": opening.outside_turns,
        "busy": opening.busy.message if opening.busy is not None else None,
        "command": opening.shell if not opening.is_new else None,
    }


def _is_terminal(stream: object) -> bool:
    return stream is not None and stream.isatty()  # type: ignore[attr-defined]
