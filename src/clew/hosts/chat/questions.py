"""Open questions of agents. Any process can answer them, also when the run that asked has died."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from clew.core.ids import ThreadId
from clew.core.record import replace
from clew.core.runs.options import NO_OPTIONS, TurnOptions
from clew.core.runs.permissions import Answer, Scope
from clew.core.runs.question import Question, as_message
from clew.core.runs.run import LIVE
from clew.core.thread import Permissions, Thread
from clew.engine.engine import Engine
from clew.engine.request import TurnRequest
from clew.engine.turn import LiveTurn
from clew.errors import ClewError, UsageError
from clew.hosts.validation import check_dir
from clew.store.store import Store

log = logging.getLogger("clew.hosts.chat.questions")


class OpenQuestions:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def answer(
        self, run_id: str, question_id: str, answer: Answer, options: TurnOptions = NO_OPTIONS
    ) -> tuple[Question, LiveTurn | None]:
        """Answers a question that a run asked, in this or another process.

        A run in progress passes the answer to its agent. When the run died with Clew, the answer goes to its session
        as a message, by a new run with these `options`, which is returned. Raises UsageError for a scope that the
        question does not have.
        """
        now = self._engine.context.clock()
        run = await self._engine.store.call(lambda store: store.runs.require(run_id))
        if run.status not in LIVE:
            self._engine.find(run.agent)  # raises before an answer is stored that could not be passed on
            check_dir(await self._thread(run.thread_id))
        question, live = await self._engine.store.atomically(
            lambda store: (
                _stored(store, run_id, question_id, answer, now),
                store.runs.require(run_id).status in LIVE,
            )
        )
        # The run is over: the one that carries the answer continues its work, so "all of this run" holds there.
        allows_all = answer.scope == Scope.RUN
        turn = None if live else await self._pass_on(question, options, allows_all=allows_all)
        return await self._engine.store.call(lambda store: store.questions.require(run_id, question_id)), turn

    async def pass_on_all(self, may_run: Callable[[Thread], bool] | None = None) -> Sequence[LiveTurn]:
        """Passes on every stored answer whose run died before it read the answer."""

        def undelivered(store: Store) -> Sequence[Question]:
            given = [question for question in store.questions.open() if question.reply is not None]
            return [question for question in given if store.runs.require(question.run_id).status not in LIVE]

        passed = []
        for question in await self._engine.store.call(undelivered):
            if may_run is None or may_run(await self._thread(question.thread_id)):
                try:
                    passed.append(await self._pass_on(question, TurnOptions(lasting=True)))
                except ClewError as error:  # this answer is retried later, and the others must not wait for it
                    log.warning("an answer waits: %s", error.message)
        return passed

    async def _pass_on(self, question: Question, options: TurnOptions, *, allows_all: bool = False) -> LiveTurn:
        """Sends the answer as the prompt of a new run. The transaction that stores the run closes the question."""
        assert question.reply is not None
        thread = await self._thread(question.thread_id)
        run = await self._engine.store.call(lambda store: store.runs.require(question.run_id))
        text = as_message(question, question.reply)
        options = replace(options, agent=run.agent, model=run.model)
        return await self._engine.start(
            TurnRequest(thread, text, options, standing=thread.standing, answers=question, allows_all=allows_all)
        )

    async def _thread(self, thread_id: ThreadId) -> Thread:
        return await self._engine.store.call(lambda store: store.threads.require_by_id(thread_id))


def _stored(store: Store, run_id: str, question_id: str, answer: Answer, now: float) -> Question:
    """Stores the answer, and in the same transaction the rule that it gives the thread."""
    question = store.questions.require(run_id, question_id)
    if answer.scope == Scope.ONCE:
        return store.questions.reply(run_id, question_id, answer, now)
    if question.is_form or not answer.allow:
        what = "A form" if question.is_form else "A refusal"
        raise UsageError(f"{what} has no scope.", hint="Only a permission can be given for more than once.")
    if answer.scope == Scope.RUN:
        return store.questions.reply(run_id, question_id, answer, now)
    thread = store.threads.require_by_id(question.thread_id)
    if thread.permissions is Permissions.READ_ONLY:
        raise UsageError(f"{thread.name} is read-only: nothing more is allowed in it.", hint="Decline the request.")
    if question.tool_rule is None:
        raise UsageError(
            f"This use of {question.tool} cannot be allowed for the whole thread.",
            hint="It can be allowed once, or for all of this run.",
        )
    answered = store.questions.reply(run_id, question_id, answer, now)
    store.threads.allow(thread.id, question.tool_rule)
    return answered
