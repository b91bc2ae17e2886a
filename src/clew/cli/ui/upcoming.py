"""What comes next in a thread: queued prompts, open questions, and a preview of its next turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.api.wire.shape import stamp
from clew.cli.ui import agent_questions
from clew.cli.ui.formatting import ago, harmless, one_line
from clew.core.ids import SHORT_ID
from clew.core.record import Record
from clew.core.runs.run import LIVE, Run, RunStatus
from clew.errors import ClewError

if TYPE_CHECKING:
    from clew.api.client import Client, Thread
    from clew.api.thread import Preview, Synced
    from clew.core.runs.question import Question

PROMPT_CHARS = 200
MAX_RUNS = 1000


class Upcoming(Record):
    queued: tuple[Run, ...]  # in the order in which they will run
    questions: tuple[Question, ...]
    live: frozenset[str]  # ids of the runs that have not ended
    preview: Preview | None
    words: str  # the preview as text, or why there is none
    outside: Synced  # what `threads sync` would bring in
    opened_at: float | None  # since when it is open in a terminal

    def lines(self) -> list[str]:
        lines = [f"queued: {run.id[:SHORT_ID]}  {one_line(run.shown, PROMPT_CHARS)}" for run in self.queued]
        for question in self.questions:
            how = agent_questions.how_to_answer(question, several=len(self.questions) > 1)
            lines += ["asked:", *(f"  {line}" for line in agent_questions.question_lines(question)), f"  ({how})"]
        if self.outside.turns:
            count = len(self.outside.turns)
            made, them = ("turn was made", "it") if count == 1 else ("turns were made", "them")
            command = f"clew threads sync {self.outside.name}"
            lines.append(f"outside: {count:,} {made} outside Clew; the next turn, or {command}, brings {them} in")
        if self.opened_at is not None:
            lines.append(f"open in a terminal, {ago(self.opened_at)}: other prompts wait until it is left")
        return [*lines, f"next turn: {self.words}"]

    def as_object(self) -> dict[str, Any]:
        preview = self.preview
        next_turn = (
            {
                "resumes": preview.resumes,
                "reason": preview.reason,
                "rewound_to": preview.rewound_to,
                "words": preview.words,
            }
            if preview is not None
            else None
        )
        return {
            "queued": [{"run": run.id, "prompt": run.prompt} for run in self.queued],
            "questions": [agent_questions.as_object(each, live=each.run_id in self.live) for each in self.questions],
            "next_turn": next_turn,
            "outside_turns": len(self.outside.turns),
            "opened_at": stamp(self.opened_at),
        }


async def upcoming_of(client: Client, thread: Thread) -> Upcoming:
    runs = await client.runs(thread=thread, statuses=LIVE, limit=MAX_RUNS)
    queued = tuple(run for run in reversed(runs) if run.status is RunStatus.QUEUED)
    questions = tuple(await client.views.questions(thread=thread))
    preview, words = await next_turn(thread)
    outside = await thread.sync(dry_run=True)
    opened_at = (await client.views.summary(thread.name)).opened_at
    return Upcoming(queued, questions, frozenset(run.id for run in runs), preview, words, outside, opened_at)


async def next_turn(thread: Thread) -> tuple[Preview | None, str]:
    """The preview and its text. If there is no preview, for example because the agent is missing, the text says why."""
    try:
        preview = await thread.preview()
    except ClewError as error:
        return None, harmless(error.message)
    return preview, preview.words
