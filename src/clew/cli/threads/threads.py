"""The command `clew threads`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew.api.wire.shape import stamp
from clew.cli.client_runner import client_command, with_client
from clew.cli.command_groups import SuggestingGroup
from clew.cli.options import AS_JSON, NO_WAIT, PLAIN, REPLY_AS_JSON, TIMEOUT, complete_thread
from clew.cli.threads.archive import archive, archives, clean, restore
from clew.cli.threads.branching.diff import diff
from clew.cli.threads.branching.fork import fork
from clew.cli.threads.branching.merge import merge
from clew.cli.threads.branching.replay import replay
from clew.cli.threads.delete import delete
from clew.cli.threads.export import export
from clew.cli.threads.imports import import_
from clew.cli.threads.listing import list_, origin_words, thread_object
from clew.cli.threads.push import pull, push
from clew.cli.threads.search import search
from clew.cli.threads.settings import rename, set_
from clew.cli.threads.sync import sync
from clew.cli.threads.work import call_lines, file_lines, session_lines, session_objects, work_object
from clew.cli.ui.formatting import agent_words, ago, harmless, one_line, plural, short_ids, speaker
from clew.cli.ui.printing import for_terminal, note, print_json, say, shown_markdown
from clew.cli.ui.upcoming import upcoming_of
from clew.core.images import words
from clew.core.lookup import ALL_ROWS
from clew.core.runs.run import LIVE, RunStatus
from clew.core.runs.run import Run as RunRecord
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client, Run
    from clew.api.thread import Thread
    from clew.core.history import Turn
    from clew.core.runs.options import Person

SHOWN_CHARS = 200  # of the instructions
RULE_CHARS = 300  # of what is always allowed


@click.group(cls=SuggestingGroup)
def threads() -> None:
    """List, search, change, sync, archive, export, import and compare threads.

    TURN is the number of a turn as `threads show` prints it, its id, or an unambiguous beginning of its id, of 4
    characters or more.
    """


for command in (
    list_,
    search,
    fork,
    delete,
    export,
    import_,
    push,
    pull,
    rename,
    set_,
    sync,
    archive,
    restore,
    archives,
    clean,
    replay,
    diff,
    merge,
):
    threads.add_command(command)


@threads.command()
@click.argument("name", shell_complete=complete_thread)
@PLAIN
@AS_JSON
@client_command(reads=True)
async def show(client: Client, name: str, as_json: bool) -> None:
    """Show a thread: its numbered turns with tool calls and changed files, its sessions, what is queued or asked, and
    whether the next turn would resume.

    Each session has the command that opens it in the agent's own CLI; `clew open` opens the one that a turn would use.
    Turns that were made outside Clew are only counted: `threads sync`, or the next `clew ask`, brings them in.
    """
    thread = await client.find(name)
    turns = await thread.turns()
    work = await thread.work()
    of_turn = {each.turn_id: each for each in work.turns}
    upcoming = await upcoming_of(client, thread)
    record = thread.record
    if as_json:
        shown = {
            "turns": [
                _turn_object(number, turn) | work_object(of_turn.get(turn.id)) for number, turn in enumerate(turns, 1)
            ],
            "sessions": session_objects(work.sessions),
        }
        print_json(thread_object(record) | shown | upcoming.as_object())
        return
    say(f"{record.name}  {agent_words(record.agent, record.model)}  {harmless(record.cwd)}")
    say(f"permissions {record.permissions}, trust {record.trust}, visibility {record.visibility}")
    for rule in record.tool_rules:
        elsewhere = "" if rule.cwd == record.cwd else f" (only in {rule.cwd})"
        say(f"always allowed: {one_line(rule.words + elsewhere, RULE_CHARS)}")
    if record.origin is not None:
        say(origin_words(record.origin))
    if record.standing:
        say(f"instructions: {one_line(record.standing, SHOWN_CHARS)}")
    short = short_ids(turn.id for turn in turns)
    unanswered = _unanswered(turns, await client.runs(thread=thread, limit=ALL_ROWS))
    for number, turn in enumerate(turns, start=1):
        work_of_turn = of_turn.get(turn.id)
        calls, files = call_lines(work_of_turn), file_lines(work_of_turn)
        images = [f"[image: {harmless(words(image))}]" for image in turn.images]
        say(f"\n{_turn_heading(number, turn, short[turn.id])}")
        if turn.role == "assistant":
            say("\n".join([*calls, shown_markdown(turn.shown), *images, *files]))
        else:  # a prompt without an answer may have calls
            say("\n".join([for_terminal(turn.shown), *images, *calls, *files]))
        if turn.id in unanswered:
            say(f"(no answer{unanswered[turn.id]})")
    say()
    for line in session_lines(work.sessions):
        say(line)
    for line in upcoming.lines():
        say(line)


DRY_RUN = click.option("--dry-run", is_flag=True, help="Only say what it would do to the thread and its session.")


@threads.command()
@click.argument("name", shell_complete=complete_thread)
@click.argument("turn_id", metavar="TURN")
@click.argument("text")
@DRY_RUN
def edit(name: str, turn_id: str, text: str, dry_run: bool) -> None:
    """Change the text of a turn (- = stdin). The old text is kept, and so are the later turns.

    TURN is the turn's number as `threads show` prints it, or its id.

    If the session holds the turn, it is rewound: a copy of it continues from before the turn, and is sent the turns
    after that; if nothing before the turn is left, the next turn starts a fresh session. Files stay as they are.
    """
    if text == "-":
        from clew.cli.stdin import read_stdin

        text = read_stdin("text", f"clew threads edit {name} {turn_id}")
    if not text.strip():
        raise UsageError("The new text is empty.", hint="clew threads truncate removes a turn.")

    async def work(client: Client) -> None:
        thread = await client.find(name)
        if dry_run:
            await _say_before(thread, turn_id, "edit")
            return
        turn = await thread.edit(turn_id, text, expand=True)
        turns = await thread.turns()
        note(f"edited {_turn_words(turns, turn.id)} of {thread.name}; the old text is kept")
        note(await thread.session_words(before=_place(turns, turn.id)))

    with_client(work)


@threads.command()
@click.argument("name", shell_complete=complete_thread)
@click.argument("turn_id", metavar="TURN")
@DRY_RUN
@client_command()
async def truncate(client: Client, name: str, turn_id: str, dry_run: bool) -> None:
    """Archive a turn and all turns after it.

    TURN is the turn's number as `threads show` prints it, or its id.

    If the session holds them, it is rewound: a copy of it continues from before the turn. Files that these turns
    changed stay as they are.
    """
    thread = await client.find(name)
    if dry_run:
        await _say_before(thread, turn_id, "truncate")
        return
    turns = await thread.turns()
    count = await thread.truncate(turn_id)
    kept = len(await thread.turns())
    from_turn = f", from {_turn_words(turns, turns[kept].id)} on" if kept < len(turns) else ""
    note(f"archived {plural(count, 'turn')} of {thread.name}{from_turn}")
    note(await thread.session_words(before=kept, archived=count))


@threads.command()
@click.argument("name", shell_complete=complete_thread)
@click.argument("turn_id", metavar="TURN")
@click.option(
    "--agent", metavar="AGENT", help="The agent that answers this time.  [default: the one that was asked before]"
)
@click.option("--model", metavar="MODEL", help="The model that answers this time.")
@click.option("--fresh-session", is_flag=True, help="Ask in a fresh session with the transcript up to this prompt.")
@TIMEOUT
@NO_WAIT
@PLAIN
@REPLY_AS_JSON
def retry(
    name: str,
    turn_id: str,
    agent: str | None,
    model: str | None,
    fresh_session: bool,
    timeout: str | None,
    no_wait: bool,
    as_json: bool,
) -> int:
    """Ask a prompt of the thread again. The turns after it are archived.

    TURN is the prompt's number as `threads show` prints it, or its id.

    The session is rewound to before the prompt: a copy of it continues from there. After a failed run, or if it cannot
    be rewound, the prompt is asked in a fresh session with the transcript. Files that the archived turns changed stay
    as they are.
    """

    async def work(client: Client) -> int:
        from clew.cli.foreground_run import report_reply, show_run

        thread = await client.find(name)
        turns = await thread.turns()

        async def start(person: Person | None) -> Run:
            run = await thread.retry(
                turn_id, agent=agent, model=model, fresh_session=fresh_session, wait=not no_wait, person=person
            )
            note(_retry_words(turns, (await client.run(run.id)).prompt_turn_id))
            return run

        return report_reply(await show_run(thread, start, as_json=as_json, agent=agent), as_json=as_json)

    return with_client(work, timeout=timeout)


async def _say_before(thread: Thread, turn_id: str, change: str) -> None:
    """What the change would do to the thread and its session."""
    preview = await thread.preview(turn_id)
    assert preview.after_change is not None  # it is given for a turn
    note(preview.after_change[change])


def _unanswered(turns: tuple[Turn, ...], runs: list[RunRecord]) -> dict[str, str]:
    """The prompts without an answer, each with the reason. If there were several runs, the newest counts."""
    newest = {run.prompt_turn_id: run for run in reversed(runs)}
    answered = {turn.run_id for turn in turns if turn.role == "assistant"}
    words = {}
    for turn in turns:
        run = newest.get(turn.id)
        if turn.role != "user" or run is None or run.id in answered or run.status is RunStatus.ANSWERED:
            continue
        why = run.outcome if run.status is RunStatus.FAILED and run.outcome else run.status
        words[str(turn.id)] = f" yet: {run.status}" if run.status in LIVE else f": {why.replace('_', ' ')}"
    return words


def _retry_words(turns: tuple[Turn, ...], prompt: str) -> str:
    """`asking turn 3 (0a1b2c3d) again; the 2 turns after it are archived. Files …`"""
    asked = f"asking {_turn_words(turns, prompt)} again"
    later = len(turns) - _place(turns, prompt) - 1
    if later <= 0:
        return asked
    from clew.core.explanation import FILES_STAY

    return f"{asked}; the {plural(later, 'turn')} after it {'is' if later == 1 else 'are'} archived. {FILES_STAY}"


def _turn_heading(number: int, turn: Turn, short: str) -> str:
    """`4  0a1b2c3d  claude claude-sonnet-4-5  3m ago  (outside)`: the number is the one that a rewind names."""
    known = (("outside", turn.outside), ("cut off", turn.partial), ("edited", turn.revision > 0))
    marks = [f"({mark})" for mark, given in known if given]
    return "  ".join([str(number), short, speaker(turn), ago(turn.created_at), *marks])


def _turn_words(turns: tuple[Turn, ...], turn_id: str) -> str:
    """`turn 12 (0a1b2c3d)`"""
    short = one_line(short_ids(turn.id for turn in turns).get(turn_id, turn_id), 60)
    place = _place(turns, turn_id)
    return f"turn {place + 1} ({short})" if place < len(turns) else f"turn {short}"


def _place(turns: tuple[Turn, ...], turn_id: str) -> int:
    """How many turns are before that one: all, if it has just been archived."""
    return next((place for place, turn in enumerate(turns) if turn.id == turn_id), len(turns))


def _turn_object(number: int, turn: Turn) -> dict[str, Any]:
    return {
        "id": turn.id,
        "number": number,
        "role": turn.role,
        "agent": turn.agent,
        "model": turn.model,
        "text": turn.text,
        "typed": turn.typed,
        "partial": turn.partial,
        "outside": turn.outside,
        "revision": turn.revision,
        "images": [image.as_dict() for image in turn.images],
        "run": turn.run_id,
        "created_at": stamp(turn.created_at),
    }
