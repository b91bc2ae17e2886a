"""The table of agents' questions. Events of the run open and close them; any process can answer them."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.runs.events import Event, QuestionAnswered, QuestionAsked, QuestionWithdrawn, RunEnded
from clew.core.runs.permissions import Answer
from clew.core.runs.question import Question, QuestionState
from clew.core.runs.run import RunStatus
from clew.errors import Conflict, NotFound
from clew.store.records import dumps, each, first, question_from
from clew.store.tables.table import Table


class QuestionTable(Table):
    def require(self, run_id: str, question_id: str) -> Question:
        found = first(question_from, self._database.one("question", run_id=run_id, id=question_id))
        if found is None:
            raise NotFound("The run has not asked that.", hint="`clew runs show` lists what is open.")
        return found

    def of_run(self, run_id: str) -> list[Question]:
        """The questions of the run, in the order in which they were asked."""
        return each(question_from, self._database.all("questions_of_run", run_id=run_id))

    def open(self, thread_id: str | None = None) -> list[Question]:
        """The questions that wait for an answer, or whose answer has not reached the agent."""
        if thread_id is None:
            return each(question_from, self._database.all("open_questions"))
        return each(question_from, self._database.all("open_questions_of_thread", thread_id=thread_id))

    def reply(self, run_id: str, question_id: str, answer: Answer, at: float) -> Question:
        """Stores an answer for the process that has the run. Raises Conflict if the question is not open."""
        with self._database.transaction():
            asked = self.require(run_id, question_id)
            if not asked.is_open:
                state = QuestionState.ANSWERED if asked.reply is not None else asked.state
                raise Conflict(f"The question is {state} already.", hint="`clew runs show` lists what is open.")
            self._database.do("reply_to_question", run_id=run_id, id=question_id, reply=dumps(answer.as_dict()), at=at)
            self._versions.changed(asked.thread_id)
            return self.require(run_id, question_id)

    def close(self, question: Question, state: QuestionState, at: float, allowed: bool | None = None) -> None:
        """Closes a question of a run that is over, which writes no more events."""
        with self._database.transaction():
            self._close(question.run_id, question.id, state, at, allowed)
            self._versions.changed(question.thread_id)

    def reopen(self, run_id: str, question_id: str) -> None:
        """Opens an answered question again, so that its stored answer is delivered again.

        Without a stored answer (it was given in the run's own process), the question stays closed.
        """
        self._database.do("reopen_question", run_id=run_id, id=question_id)

    def withdraw_earlier(self, thread_id: str, except_run_id: str, at: float) -> None:
        """Withdraws the open questions of the thread's other runs."""
        self._database.do("withdraw_of_thread", thread_id=thread_id, except_run_id=except_run_id, at=at)

    def follow(self, run_id: str, events: Sequence[tuple[int, float, Event]]) -> bool:
        """Opens and closes questions as the events say, in the same transaction. True: something changed."""
        changed = False
        for _, at, event in events:
            if isinstance(event, QuestionAsked):
                self._database.do(
                    "open_question",
                    run_id=run_id,
                    id=event.question_id,
                    tool=event.tool,
                    input=dumps(dict(event.input)),
                    is_form=int(event.is_form),
                    tool_rule=None if event.rule is None else dumps(event.rule.as_dict()),
                    at=at,
                )
            elif isinstance(event, QuestionAnswered):
                self._close(run_id, event.question_id, QuestionState.ANSWERED, at, event.allowed)
            elif isinstance(event, QuestionWithdrawn):
                self._close(run_id, event.question_id, QuestionState.WITHDRAWN, at)
            elif isinstance(event, RunEnded) and event.status != RunStatus.INTERRUPTED:
                self._database.do("withdraw_of_run", run_id=run_id, at=at)
            else:
                continue
            changed = True
        return changed

    def _close(
        self, run_id: str, question_id: str, state: QuestionState, at: float, allowed: bool | None = None
    ) -> None:
        flag = None if allowed is None else int(allowed)
        self._database.do("close_question", run_id=run_id, id=question_id, state=state.value, allowed=flag, at=at)
