"""The command `clew runs answer`."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON, PLAIN
from clew.cli.ui import agent_questions
from clew.cli.ui.formatting import one_line, short_ids
from clew.cli.ui.printing import note, print_json
from clew.cli.ui.tables import columns
from clew.core.ids import SHORT_ID
from clew.core.runs.run import LIVE
from clew.core.runs.run import Run as RunRecord
from clew.errors import Cancelled, Conflict, NotFound, UsageError

if TYPE_CHECKING:
    from clew.api.client import Client, Run
    from clew.core.runs.options import Person
    from clew.core.runs.permissions import Answer
    from clew.core.runs.question import Question

ASKED_CHARS = 60


@click.command()
@click.argument("run_id", metavar="[ID]", required=False)
@click.option("--question", "question_id", metavar="QID", help="Which question, if the run has asked several.")
@click.option(
    "--allow/--deny", "allow", default=None, help="Give or decline the permission; --deny leaves a form unanswered."
)
@click.option("--message", metavar="TEXT", help="With --deny: the message that the agent gets.")
@click.option(
    "--answer",
    "answers",
    metavar="QUESTION=ANSWER",
    multiple=True,
    help="Answer a question of a form, named by its text or number; ANSWER is the label or number of an option, or "
    "your own words. If the form has only one question, its name and the = may be left out.",
)
@PLAIN
@AS_JSON
def answer(
    run_id: str | None,
    question_id: str | None,
    allow: bool | None,
    message: str | None,
    answers: tuple[str, ...],
    as_json: bool,
) -> int:
    """Answer a question of a run, in any process: a permission, or a form.

    Without an ID, the only open question is answered. Without options, the terminal asks you for the answer. If the run
    ended with its question open, a new run sends the answer to its session as a message, and is shown as `clew ask`
    shows one.
    """

    async def work(client: Client) -> int:
        question = await _named_question(client, run_id, question_id)
        if allow is None and not answers and message is None:
            given = await _ask_user(question)
        else:
            given = agent_questions.answer_from(question, allow=allow, message=message, answers=answers)
        return await _give(client, question, given, as_json=as_json)

    return with_client(work)


async def _named_question(client: Client, run_id: str | None, question_id: str | None) -> Question:
    """The question that the arguments name. If they fit several, these are listed and UsageError is raised."""
    run = await client.run(run_id) if run_id is not None else None
    found = [
        question
        for question in await client.views.questions()
        if (run is None or question.run_id == run.id) and question.id.startswith(question_id or "")
    ]
    if not found:
        raise await _nothing_open(client, run, question_id)
    if len(found) > 1:
        await _list(client, found)
        more = "--question QID" if run_id is not None else "its run: clew runs answer RUN"
        raise UsageError(f"{len(found)} questions are open.", hint=f"Name one of them with {more}.")
    return found[0]


async def _nothing_open(client: Client, run: RunRecord | None, question_id: str | None) -> UsageError:
    hint = "clew runs list shows which runs are waiting for an answer."
    if run is None:
        return NotFound("No such question is open." if question_id else "No question is open.", hint=hint)
    asked = await client.views.questions_of(run.id)
    asked = [question for question in asked if question.id.startswith(question_id or "")]
    if not asked:
        return NotFound(f"Run {run.id[:SHORT_ID]} has not asked {'that' if question_id else 'anything'}.", hint=hint)
    state = "answered" if asked[-1].reply is not None else asked[-1].state
    return Conflict(f"The question of run {run.id[:SHORT_ID]} is already {state}.", hint=hint)


async def _list(client: Client, found: list[Question]) -> None:
    rows, short = [], short_ids(question.id for question in found)
    for question in found:
        name = (await client.find(question.thread_id)).name
        about = one_line(" / ".join(agent_questions.question_lines(question)), ASKED_CHARS)
        rows.append([question.run_id[:SHORT_ID], name, short[question.id], about])
    note(columns(["RUN", "THREAD", "QID", "ASKED"], rows))


async def _ask_user(question: Question) -> Answer:
    from clew.cli.ui.permission_prompts import PermissionPrompts
    from clew.cli.ui.run_display import RunDisplay
    from clew.cli.ui.terminal_input import TerminalInput
    from clew.core.runs.events import QuestionAsked

    terminal = TerminalInput.find()
    if terminal is None:
        about = " ".join(agent_questions.question_lines(question))
        raise UsageError(
            f"Run {question.run_id[:SHORT_ID]} asks a question, and there is no terminal to answer it: {about}",
            hint=f"Give the answer as options: {agent_questions.how_to_answer(question)}.",
        )
    with contextlib.closing(terminal):
        person = PermissionPrompts(RunDisplay(question.tool, as_json=True), terminal, of_own_run=False)
        try:
            return await person(QuestionAsked(question.id, question.tool, question.input, question.is_form))
        except EOFError:
            raise Cancelled("The question is still open.", hint="You can answer it later.") from None


async def _give(client: Client, question: Question, given: Answer, *, as_json: bool) -> int:
    from clew.cli.foreground_run import report_reply, show_run

    short = question.run_id[:SHORT_ID]
    sent = "\n".join(agent_questions.answer_lines(question, given))
    follow_up: Run | None = None
    answered = question
    if (await client.run(question.run_id)).status in LIVE:
        done = await client.answer(question.run_id, question.id, given)
        answered, follow_up = done.question, done.follow_up
        if follow_up is None:
            note(sent)
            note(f"answered; run {short} continues (clew runs watch {short})")
            if as_json:
                print_json({"question": agent_questions.as_object(answered, live=True), "follow_up": None})
            return 0
    note(sent)
    note(f"run {short} has ended: the answer goes to its session as a message")

    async def start(person: Person | None) -> Run:
        nonlocal answered
        if follow_up is not None:  # the run ended after its status was read
            return follow_up
        done = await client.answer(question.run_id, question.id, given, person=person)
        answered = done.question
        assert done.follow_up is not None
        return done.follow_up

    reply = await show_run(await client.find(question.thread_id), start, as_json=as_json)
    if as_json:
        print_json({"question": agent_questions.as_object(answered, live=False), "follow_up": reply.to_json()})
    return report_reply(reply, as_json=False)
