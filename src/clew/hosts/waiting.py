"""What waits in a thread: the agent's questions for an answer, prompts for their turn; of a run of any process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from clew.core.ids import RunId
from clew.core.permissions import Answer
from clew.core.question import Question, as_message
from clew.core.run import LIVE, Run, RunStatus
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.engine.settings import Ask, Person
from clew.engine.turn import LiveTurn
from clew.errors import ClewError, Conflict
from clew.hosts.checks import check_dir, check_prompt
from clew.store.store import Store

log = logging.getLogger("clew.hosts.chat")

T = TypeVar("T")

LOOK_S = 0.03
REMOVED_S = 10.0


class Waiting:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def require(self, name: str) -> Thread:
        return await self._call(lambda store: store.require_thread(name))

    async def answer(
        self, run_id: str, question_id: str, answer: Answer, *, lasting: bool = False, person: Person | None = None
    ) -> tuple[Question, LiveTurn | None]:
        """Answers a question of any process's run.

        A run that is going on hears of it. One that died with Clew cannot: the answer goes to its session as a message,
        by a run that is returned.
        """
        now = self._engine.around.clock()
        run = await self._call(lambda store: store.require_run(run_id))
        if run.status not in LIVE:
            self._engine.find(run.agent)  # before the answer is taken: it could not be passed on
            check_dir(await self.require(run.thread_id))
        question, live = await self._engine.database.atomically(
            lambda store: (store.reply(run_id, question_id, answer, now), store.require_run(run_id).status in LIVE)
        )
        turn = None if live else await self._pass_on(question, lasting=lasting, person=person)
        return await self._call(lambda store: store.question(run_id, question_id)), turn

    async def pass_on_all(self, may_run: Callable[[Thread], bool] | None = None) -> Sequence[LiveTurn]:
        """Answers that were given, and whose runs died before they heard them."""

        def unheard(store: Store) -> Sequence[Question]:
            given = [question for question in store.open_questions() if question.reply is not None]
            return [question for question in given if store.require_run(question.run_id).status not in LIVE]

        passed = []
        for question in await self._call(unheard):
            if may_run is None or may_run(await self.require(question.thread_id)):
                try:
                    passed.append(await self._pass_on(question, lasting=True))
                except ClewError as error:  # it is tried again; one that cannot go on must not hold up the others
                    log.warning("an answer waits: %s", error.message)
        return passed

    async def _pass_on(self, question: Question, *, lasting: bool, person: Person | None = None) -> LiveTurn:
        """An answer that its run did not live to hear, as a prompt. The question is closed with the run's first row."""
        assert question.reply is not None
        thread = await self.require(question.thread_id)
        run = await self._call(lambda store: store.require_run(question.run_id))
        return await self._engine.start(
            Ask(
                thread=thread,
                text=as_message(question, question.reply),
                agent=run.agent,
                model=run.model,
                standing=thread.standing,
                person=person,
                lasting=lasting,
                answers=question,
            )
        )

    async def edit_queued(self, run_id: str, prompt: str) -> Run:
        """Another prompt for a run that has not started."""
        check_prompt(prompt)

        def edit(store: Store) -> Run:
            if store.require_run(run_id).asked.retry_of is not None:
                raise Conflict("The run asks an earlier turn again.", hint="Edit that turn instead.")
            return store.edit_prompt(run_id, prompt)

        return await self._engine.database.atomically(edit)

    async def send_queued(self, run_id: str) -> Run:
        """Starts a run that waits, held or not, and stops the one that is going on. Raises Conflict once it started."""
        return await self._engine.send(RunId(run_id))

    async def remove_queued(self, run_id: str) -> None:
        """Takes back a run that has not started. It is over when this returns, or its process hangs."""

        def status(store: Store) -> RunStatus:
            return store.require_run(run_id).status

        found = await self._call(status)
        if found is not RunStatus.QUEUED:
            raise Conflict(f"The run has started: it is {found}.", hint="Cancel it instead.")
        await self._engine.cancel(RunId(run_id), hold=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REMOVED_S):  # whoever carries it out looks now and then
                while True:
                    if await self._call(status) is not RunStatus.QUEUED:
                        return
                    await asyncio.sleep(LOOK_S)

    async def _call(self, work: Callable[[Store], T]) -> T:
        return await self._engine.database.call(work)
