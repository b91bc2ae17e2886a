"""`clew runs answer`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli import questions
from clew.cli.options import AS_JSON
from clew.cli.output import SHORT_ID, columns, note, one_line, print_json, short_ids
from clew.cli.session import with_client
from clew.errors import Cancelled, Conflict, NotFound, UsageError

if TYPE_CHECKING:
    from clew.client import Client, Run
    from clew.core.permissions import Answer
    from clew.core.question import Question
    from clew.core.run import Run as RunRecord
    from clew.engine.settings import Person

ASKED_CHARS = 60


@click.command()
@click.argument("run_id", metavar="[ID]", required=False)
@click.option("--question", "question_id", metavar="QID", help="Which one, when the run asks several at once.")
@click.option(
    "--allow/--deny", "allow", default=None, help="Give the permission or decline; --deny leaves a form unanswered."
)
@click.option("--message", metavar="TEXT", help="With --deny: what the agent is told.")
@click.option(
    "--answer",
    "answers",
    metavar="QUESTION=ANSWER",
    multiple=True,
    help="Answer a form's question, named by its text or number; ANSWER is an option's label or number, or your words. "
    "When only one is asked, its name and the = may be left out.",
)
@AS_JSON
def answer(
    run_id: str | None,
    question_id: str | None,
    allow: bool | None,
    message: str | None,
    answers: tuple[str, ...],
    as_json: bool,
) -> int:
    """Answer what a run of any process asks: a permission, or a form.

    Without an ID it is the only question there is. Without options it asks you, on a terminal. When the run died with
    its question open, the answer goes to its session as a message, by a run that is shown as `clew ask` shows one.
    """

    async def work(client: Client) -> int:
        meant = await _meant(client, run_id, question_id)
        if allow is None and not answers and message is None:
            given = await _asked_here(meant)
        else:
            given = questions.answer_from(meant, allow=allow, message=message, answers=answers)
        return await _give(client, meant, given, as_json=as_json)

    return with_client(work)


async def _meant(client: Client, run_id: str | None, question_id: str | None) -> Question:
    """The one question that the arguments name. Else: all that are open are listed."""
    run = await client.run(run_id) if run_id is not None else None
    found = [
        question
        for question in await client.questions()
        if (run is None or question.run_id == run.id) and question.id.startswith(question_id or "")
    ]
    if not found:
        raise await _nothing_open(client, run, question_id)
    if len(found) > 1:
        await _list(client, found)
        more = "--question QID" if run_id is not None else "its run: clew runs answer RUN"
        raise UsageError(f"{len(found)} questions are open.", hint=f"Name one by {more}.")
    return found[0]


async def _nothing_open(client: Client, run: RunRecord | None, question_id: str | None) -> UsageError:
    hint = "clew runs list shows which runs wait."
    if run is None:
        return NotFound("No such question is open." if question_id else "No question is open.", hint=hint)
    asked = await client.engine.database.call(lambda store: store.questions_of_run(run.id))
    asked = [question for question in asked if question.id.startswith(question_id or "")]
    if not asked:
        return NotFound(f"Run {run.id[:SHORT_ID]} has not asked {'that' if question_id else 'anything'}.", hint=hint)
    state = "answered" if asked[-1].reply is not None else asked[-1].state
    return Conflict(f"The question of run {run.id[:SHORT_ID]} is {state} already.", hint=hint)


async def _list(client: Client, found: list[Question]) -> None:
    rows, short = [], short_ids(question.id for question in found)
    for question in found:
        name = (await client.find(question.thread_id)).name
        about = one_line(" / ".join(questions.lines(question)), ASKED_CHARS)
        rows.append([question.run_id[:SHORT_ID], name, short[question.id], about])
    note(columns(["RUN", "THREAD", "QID", "ASKED"], rows))


async def _asked_here(question: Question) -> Answer:
    """By the person at the terminal."""
    import contextlib

    from clew.cli.display import Display
    from clew.cli.keyboard import Keyboard
    from clew.cli.person import TerminalPerson
    from clew.core.events import QuestionAsked

    keyboard = Keyboard.find()
    if keyboard is None:
        about = " ".join(questions.lines(question))
        raise UsageError(
            f"Run {question.run_id[:SHORT_ID]} asks, and nobody is here to answer: {about}",
            hint=f"Say the answer: {questions.how_to_answer(question)}.",
        )
    with contextlib.closing(keyboard):
        person = TerminalPerson(Display(question.tool, as_json=True), keyboard, of_own_run=False)
        try:
            return await person(QuestionAsked(question.id, question.tool, question.input, question.is_form))
        except EOFError:
            raise Cancelled("The question is left open.", hint="Answer it when you like.") from None


async def _give(client: Client, question: Question, given: Answer, *, as_json: bool) -> int:
    from clew.cli.conversation import carry_out, conclude
    from clew.core.run import LIVE

    short = question.run_id[:SHORT_ID]
    carries_on: Run | None = None
    answered = question
    if (await client.run(question.run_id)).status in LIVE:
        done = await client.answer(question.run_id, question.id, given)
        answered, carries_on = done.question, done.follow_up
        if carries_on is None:
            _tell_sent(question, given)
            note(f"answered; run {short} goes on (clew runs watch {short})")
            if as_json:
                print_json({"question": questions.as_object(answered, live=True), "follow_up": None})
            return 0
    _tell_sent(question, given)
    note(f"run {short} is over: the answer goes to its session as a message")

    async def start(person: Person | None) -> Run:
        nonlocal answered
        if carries_on is not None:  # it died between our look and our answer
            return carries_on
        done = await client.answer(question.run_id, question.id, given, person=person)
        answered = done.question
        assert done.follow_up is not None
        return done.follow_up

    reply = await carry_out(await client.find(question.thread_id), start, as_json=as_json)
    if as_json:
        print_json({"question": questions.as_object(answered, live=False), "follow_up": reply.to_json()})
    return conclude(reply, as_json=False)


def _tell_sent(question: Question, given: Answer) -> None:
    for line in questions.sent(question, given):
        note(line)
