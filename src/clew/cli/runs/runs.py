"""The command `clew runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew.api.wire.shape import stamp
from clew.cli.client_runner import client_command
from clew.cli.command_groups import SuggestingGroup
from clew.cli.options import AS_JSON, LIMIT, complete_thread
from clew.cli.runs.answer import answer
from clew.cli.runs.control import cancel, edit, remove, send
from clew.cli.runs.watch import watch
from clew.cli.ui import agent_questions, state_labels, tool_lines
from clew.cli.ui.formatting import agent_words, ago, dollars, joined, lasted, one_line, price, short_ids
from clew.cli.ui.printing import note, print_json, say, say_block, say_fields
from clew.cli.ui.run_display import session_words
from clew.cli.ui.tables import columns
from clew.core.costs.usage import NO_USAGE
from clew.core.runs.run import LIVE, Attempt, Run, RunBelonging
from clew.core.runs.tool_calls import ToolCall, calls

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.core.runs.question import Question

SHOWN_CHARS = 200  # of a prompt, an error or the agent's last words


@click.group(cls=SuggestingGroup)
def runs() -> None:
    """List, show, watch, answer and stop runs, including those of other processes.

    ID is the id of a run as `runs list` shows it, or any unambiguous beginning of it.
    """


for command in (answer, cancel, edit, remove, send, watch):
    runs.add_command(command)


@runs.command("list")
@click.option("--thread", metavar="NAME", shell_complete=complete_thread, help="Only those of this thread.")
@LIMIT
@AS_JSON
@client_command(reads=True)
async def list_(client: Client, thread: str | None, limit: int, as_json: bool) -> None:
    """List runs, the newest first."""
    of_thread = await client.find(thread) if thread is not None else None
    found = await client.runs(thread=of_thread, limit=limit)
    belongings = await client.views.belongings(found)
    found = [run for run in found if run.id in belongings]
    asked, gone = await _questions(client), await client.gone(found)
    if as_json:
        print_json([_run_object(run, belongings[run.id], asked[run.id], run.id in gone) for run in found])
    elif not found:
        note("No runs yet.")
    else:
        short = short_ids(run.id for run in found)
        rows = [
            [short[run.id], belongings[run.id].thread, *_row(run, bool(asked[run.id]), run.id in gone)] for run in found
        ]
        headings = ["RUN", "THREAD", "STATUS", "STARTED", "SESSION", "COST", "PROMPT"]
        say(columns(headings, rows, optional=["COST", "SESSION", "STARTED"]))
        if any(asked[run.id] for run in found):
            note("clew runs show ID shows the question, clew runs answer ID answers it")
        if gone:
            note(f"a run whose process is gone: {state_labels.WHO_RECOVERS}")


@runs.command()
@click.argument("run_id", metavar="ID")
@AS_JSON
@client_command(reads=True)
async def show(client: Client, run_id: str, as_json: bool) -> None:
    """Show a run: its attempts, what the agent did with its tools, and its open questions."""
    view = await client.views.run((await client.run(run_id)).id)
    run, belonging = view.run, view.belonging
    attempts = await client.attempts(run.id)
    used = await _tools(client, run)
    asked, gone = (await _questions(client))[run.id], bool(await client.gone([run]))
    if as_json:
        parts = {
            "attempts": [_attempt_object(attempt) for attempt in attempts],
            "tools": [tool_lines.as_object(call) for call in used],
        }
        print_json(_run_object(run, belonging, asked, gone) | parts)
        return
    say_fields([*_details(run, belonging, bool(asked), gone), *map(_attempt_words, attempts)])
    say_block("tools", map(tool_lines.tool_line, used))
    for question in asked:
        how = agent_questions.how_to_answer(question, several=len(asked) > 1)
        say_block("question", [*agent_questions.question_lines(question), how])


async def _questions(client: Client) -> dict[str, list[Question]]:
    """The open questions, by run."""
    from collections import defaultdict

    asked = defaultdict(list)
    for question in await client.views.questions():
        asked[str(question.run_id)].append(question)
    return asked


def _row(run: Run, asks: bool, gone: bool) -> list[str]:
    session = _session_label(run)
    status = state_labels.run_label(run, asks=asks, gone=gone)
    cost = price(run.cost_usd, used=run.usage != NO_USAGE)
    return [status, _began(run), session, cost, one_line(run.shown, 40)]


def _session_label(run: Run) -> str:
    if run.outside:
        return "outside"
    if run.session_resumed:
        return "resumed" if run.rewound_to is None else f"rewound to turn {run.rewound_to:,}"
    return f"fresh: {run.reason}" if run.reason else "-"


def _began(run: Run) -> str:
    """When the run started; if it has not, when it was queued."""
    return ago(run.started_at) if run.started_at is not None else f"queued {ago(run.created_at)}"


def _run_object(run: Run, belonging: RunBelonging, asked: list[Question], gone: bool) -> dict[str, Any]:
    from clew.api.wire.runs import host_item

    item = host_item(belonging)
    return {
        "id": run.id,
        "thread": belonging.thread,
        "kind": belonging.kind,
        "belongs_to": None if item is None else item.to_json(),
        "status": run.status,
        "gone": gone,
        "agent": run.agent,
        "model": run.model,
        "prompt": run.prompt,
        "typed": run.typed,
        "prompt_turn_id": run.prompt_turn_id,
        "answer_turn_id": run.answer_turn_id,
        "session_id": run.session_id,
        "outside": run.outside,
        "session_resumed": run.session_resumed,
        "reason": run.reason,
        "rewound_to": run.rewound_to,
        "rewound_to_turn_id": run.rewound_to_turn_id,
        "fallback": run.fallback,
        "outcome": run.outcome,
        "error": run.error,
        "usage": run.usage.as_dict(),
        "cost_usd": run.cost_usd,
        "estimate_usd": run.estimate_usd,
        "plain_resume_usd": run.plain_resume_usd,
        "held": run.asked.held,
        "cancel_requested": run.cancel_requested,
        "questions": [agent_questions.as_object(question, live=run.status in LIVE) for question in asked],
        "created_at": stamp(run.created_at),
        "started_at": stamp(run.started_at),
        "ended_at": stamp(run.ended_at),
    }


def _attempt_object(attempt: Attempt) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "session_id": attempt.session_id,
        "resumed": attempt.resumed,
        "pid": attempt.pid,
        "outcome": attempt.outcome,
        "exit_status": attempt.exit_status,
        "stderr_tail": attempt.stderr_tail,
        "started_at": stamp(attempt.started_at),
        "ended_at": stamp(attempt.ended_at),
    }


async def _tools(client: Client, run: Run) -> list[ToolCall]:
    return calls(each.event for each in await client.views.events(run.id))


def _details(run: Run, belonging: RunBelonging, asks: bool, gone: bool) -> list[tuple[str, str]]:
    usage = run.usage
    tokens = (
        f"{usage.shown_tokens:,} read ({usage.cache_read_input_tokens:,} cached), {usage.output_tokens:,} written"
        if usage.shown_tokens or usage.output_tokens
        else ""
    )
    return [
        ("run", run.id),
        ("thread", belonging.thread),
        ("kind", belonging.kind),
        ("belongs to", _item_words(belonging)),
        ("prompt", one_line(run.shown, SHOWN_CHARS)),
        ("agent", agent_words(run.agent, run.model)),
        ("status", f"{state_labels.run_label(run, asks=asks, gone=gone)}{lasted(run.started_at, run.ended_at)}"),
        ("error", one_line(run.error or "", SHOWN_CHARS)),
        ("started" if run.started_at is not None else "queued", ago(run.started_at or run.created_at)),
        ("session", joined("made outside Clew" if run.outside else session_words(run), run.session_id)),
        ("tokens", tokens),
        ("cost", f"{price(run.cost_usd, used=True)}{_compared(run)}" if tokens or run.cost_usd else ""),
    ]


def _item_words(belonging: RunBelonging) -> str:
    item = belonging.item
    return "" if item is None else joined(item.kind, item.name or item.id, by=" ")


def _compared(run: Run) -> str:
    if not run.session_resumed or run.estimate_usd is None or not run.cost_usd:
        return ""
    return f" ({dollars(run.estimate_usd)} with the whole transcript, an estimate)"


def _attempt_words(attempt: Attempt) -> tuple[str, str]:
    how = "resumed" if attempt.resumed else "fresh"
    outcome = (attempt.outcome or "running").replace("_", " ") + lasted(attempt.started_at, attempt.ended_at)
    exit_status = f"exit status {attempt.exit_status}" if attempt.exit_status else ""
    stderr = one_line(attempt.stderr_tail, SHOWN_CHARS)
    return f"attempt {attempt.number}", joined(f"{how}, {outcome}", exit_status, stderr and f"stderr: {stderr}")
