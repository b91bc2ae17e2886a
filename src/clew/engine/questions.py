"""Answers to an agent's questions: by the thread's permissions, the caller's person, or anyone through the store."""

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
        """The answer that needs no person, because the permissions give it or no person can be asked. Else None."""
        answer = answer_by_policy(self._request.thread.permissions, question, self._request.allowed_tools)
        if answer is None and self._request.options.person is None and not self._request.options.lasting:
            return refusal_without_person(question)
        return answer

    def why_declined(self, question: QuestionAsked) -> str:
        """The message to the user about a question that was declined without asking a person."""
        return declined_message(question, self._request.thread.permissions, self._request.allowed_by)

    async def answer(self, question: QuestionAsked) -> Answer:
        """The first answer, from the caller's person or through the store. It may never come."""
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
        """Polls: another process may store the answer. While the store is unavailable, the question stays open."""
        while True:
            answer = await self._store.call_once(
                lambda store: store.questions.require(self._run_id, question.question_id).reply, default=None
            )
            if answer is not None:
                return answer
            await asyncio.sleep(self._poll_s)
