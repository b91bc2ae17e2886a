"""What is still to come in a thread: prompts that wait, questions that are open, and how its next turn will begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.cli import questions
from clew.cli.output import SHORT_ID, harmless, one_line
from clew.core.record import Record
from clew.errors import ClewError

if TYPE_CHECKING:
    from clew.client import Client, Thread
    from clew.core.question import Question
    from clew.core.run import Run
    from clew.hosts.outlook import Outlook

PROMPT_CHARS = 200
MOST_RUNS = 1000


class Ahead(Record):
    queued: tuple[Run, ...]  # in their order
    questions: tuple[Question, ...]
    live: frozenset[str]  # runs that are going on
    outlook: Outlook | None
    words: str  # of the outlook, or why there is none

    def lines(self) -> list[str]:
        said = [f"queued: {run.id[:SHORT_ID]}  {one_line(run.prompt, PROMPT_CHARS)}" for run in self.queued]
        for question in self.questions:
            how = questions.how_to_answer(question, several=len(self.questions) > 1)
            said += ["asked:", *(f"  {line}" for line in questions.lines(question)), f"  ({how})"]
        return [*said, f"next turn: {self.words}"]

    def as_object(self) -> dict[str, Any]:
        found = self.outlook
        told = {"resumes": found.resumes, "reason": found.reason, "words": found.words} if found is not None else None
        return {
            "queued": [{"run": run.id, "prompt": run.prompt} for run in self.queued],
            "questions": [questions.as_object(each, live=each.run_id in self.live) for each in self.questions],
            "next_turn": told,
        }


async def ahead_of(client: Client, thread: Thread) -> Ahead:
    from clew.core.run import LIVE, RunStatus

    runs = await client.runs(thread=thread, statuses=LIVE, limit=MOST_RUNS)
    queued = tuple(run for run in reversed(runs) if run.status is RunStatus.QUEUED)
    asked = tuple(await client.questions(thread=thread))
    outlook, words = await next_turn(thread)
    return Ahead(queued, asked, frozenset(run.id for run in runs), outlook, words)


async def next_turn(thread: Thread) -> tuple[Outlook | None, str]:
    """The outlook and its words. None: its agent is not there, for one; the thread can be read all the same."""
    try:
        outlook = await thread.outlook()
    except ClewError as error:
        return None, harmless(error.message)
    return outlook, outlook.words
