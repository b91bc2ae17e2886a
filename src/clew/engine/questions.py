"""Who answers an agent's questions: the thread's permissions, the person at hand, or anybody through the store."""

from __future__ import annotations

import asyncio

from clew.core.ids import RunId
from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import Answer, answer_by_policy, declined_message, refusal_without_person
from clew.engine.request import TurnRequest
from clew.engine.storage.store_retry import RetryingStore


class AgentQuestions:
    """The questions of one run, over all its attempts."""

    def __init__(self, request: TurnRequest, run_id: RunId, store: RetryingStore, poll_s: float) -> None:
        self._request = request
        self._run_id = run_id
        self._store = store
        self._poll_s = poll_s

    def settled(self, question: QuestionAsked) -> Answer | None:
        """The answer that needs nobody: the permissions give it, or there is nobody to ask. None: somebody is asked."""
        answer = answer_by_policy(self._request.thread.permissions, question, self._request.allowed_tools)
        if answer is None and self._request.options.person is None and not self._request.options.lasting:
            return refusal_without_person(question)
        return answer

    def why_declined(self, question: QuestionAsked) -> str:
        """For the user, about a refusal that nobody was asked about."""
        return declined_message(question, self._request.thread.permissions, self._request.allowed_by)

    async def answer(self, question: QuestionAsked) -> Answer:
        """The first that comes, from the person at hand or through the store. May wait for ever."""
        asked = [asyncio.ensure_future(self._stored_answer(question))]
        if self._request.options.person is not None:
            asked.append(asyncio.ensure_future(self._request.options.person(question)))
        try:
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    async def _stored_answer(self, question: QuestionAsked) -> Answer:
        """While the store is away the question stays open."""
        while True:  # another process may store it, and does not tell us
            answer = await self._store.glance(
                lambda store: store.questions.require(self._run_id, question.question_id).reply, else_=None
            )
            if answer is not None:
                return answer
            await asyncio.sleep(self._poll_s)
