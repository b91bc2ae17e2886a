"""Answers to an agent's questions: by the thread's permissions and rules, the caller's person, or anyone through the
store.

A person may allow more than the one request (`core/runs/choices.py`). "All of this run" is kept here, in the process
that carries out the run, and ends with the run. "Always in this thread" is a rule of the thread: the store has it, and
it is read anew for each question, so what is taken back is asked again at once.
"""

from __future__ import annotations

import asyncio
import os

from clew.agents.adapter import Adapter
from clew.core.ids import RunId
from clew.core.record import Record, replace
from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import (
    Answer,
    Scope,
    answer_by_policy,
    answer_by_rules,
    declined_message,
    refusal_without_person,
)
from clew.core.runs.tool_rules import ToolRule, rule_for
from clew.engine.request import TurnRequest
from clew.engine.storage.store_retry import RetryingStore

ALLOWED = Answer(allow=True)


class Settled(Record):
    """An answer, and who gave it."""

    answer: Answer
    by: str  # see `QuestionAnswered`
    rule: ToolRule | None = None  # what the thread allows from now on; it is stored with the answer


class AgentQuestions:
    """The questions of one run, over all its attempts."""

    def __init__(
        self, request: TurnRequest, run_id: RunId, adapter: Adapter, store: RetryingStore, poll_s: float
    ) -> None:
        self._request = request
        self._run_id = run_id
        self._adapter = adapter
        self._store = store
        self._poll_s = poll_s
        self._allows_all = request.allows_all
        self._rules_given: list[ToolRule] = []  # during this run
        self._news = asyncio.Condition()  # something was allowed that may answer other open questions

    def with_rule(self, question: QuestionAsked) -> QuestionAsked:
        """The question with what "always in this thread" would allow."""
        cwd = self._request.thread.cwd
        if question.is_form:
            return question
        rule = rule_for(question.tool, question.input, cwd, lambda path: os.path.realpath(os.path.join(cwd, path)))  # noqa: PTH118
        return replace(question, rule=rule)

    async def settled(self, question: QuestionAsked) -> Settled | None:
        """The answer that needs no person, because it is known or no person can be asked. Else None."""
        thread, options = self._request.thread, self._request.options
        answer = answer_by_policy(thread.permissions, question, self._request.allowed_tools)
        if answer is not None:
            return Settled(answer, "policy")
        found = self._by_run(question)
        if found is None and question.rule is not None:
            stored = await self._store.call_once(lambda store: store.threads.by_id(thread.id), default=None)
            if stored is not None and answer_by_rules(question, stored.tool_rules) is not None:
                found = Settled(ALLOWED, "thread rule")
        if found is None and options.person is None and not options.lasting:
            return Settled(refusal_without_person(question), "policy")
        return found

    def _by_run(self, question: QuestionAsked) -> Settled | None:
        return Settled(ALLOWED, "run rule") if self._allows_all and not question.is_form else None

    def why_declined(self, question: QuestionAsked) -> str:
        """The message to the user about a question that was declined without asking a person."""
        return declined_message(question, self._request.thread.permissions, self._request.allowed_by)

    async def answer(self, question: QuestionAsked) -> Settled:
        """The first answer: from the caller's person, through the store, or by what was allowed for another question
        meanwhile. It may never come."""
        asked = [asyncio.ensure_future(self._stored_answer(question)), asyncio.ensure_future(self._meanwhile(question))]
        if self._request.options.person is not None:
            asked.append(asyncio.ensure_future(self._persons_answer(question)))
        try:
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            settled = done.pop().result()
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        await self._take_note(question, settled.answer)
        return settled

    async def _persons_answer(self, question: QuestionAsked) -> Settled:
        person = self._request.options.person
        assert person is not None
        edits = self._adapter.edits(question.tool, question.input)
        if edits:
            from clew.engine.proposed_edits import proposed_edits

            shown = await asyncio.to_thread(proposed_edits, edits, self._request.thread.cwd)
            question = replace(question, edits=shown)
        answer = _fitting(question, await person(question))
        return Settled(answer, "user", question.rule if answer.scope is Scope.THREAD else None)

    async def _stored_answer(self, question: QuestionAsked) -> Settled:
        """Polls: another process may store the answer, with the rule that it gives the thread. While the store is
        unavailable, the question stays open."""
        while True:
            answer = await self._store.call_once(
                lambda store: store.questions.require(self._run_id, question.question_id).reply, default=None
            )
            if answer is not None:
                return Settled(_fitting(question, answer), "user")
            await asyncio.sleep(self._poll_s)

    async def _meanwhile(self, question: QuestionAsked) -> Settled:
        """By what is allowed from now on, for another question of the run."""
        known = len(self._rules_given)
        async with self._news:
            while True:
                if (by_run := self._by_run(question)) is not None:
                    return by_run
                if answer_by_rules(question, self._rules_given[known:]) is not None:
                    return Settled(ALLOWED, "thread rule")
                await self._news.wait()

    async def _take_note(self, question: QuestionAsked, answer: Answer) -> None:
        if answer.scope is Scope.RUN:
            self._allows_all = True
        elif answer.scope is Scope.THREAD and question.rule is not None:
            self._rules_given.append(question.rule)
        async with self._news:
            self._news.notify_all()


def _fitting(question: QuestionAsked, answer: Answer) -> Answer:
    """The answer with a scope that the question has: a form and a refusal have none."""
    scope = Scope(answer.scope)
    if not answer.allow or question.is_form or (scope is Scope.THREAD and question.rule is None):
        scope = Scope.ONCE
    return replace(answer, scope=scope)
