"""One spawned process, from its first line to the end of everything it started.

Two things run side by side: the reading, which turns lines into events, and the watch, which looks at the clocks and
for a cancel. The first to finish decides. Stopping is gentle first: the agent is asked to interrupt itself, which keeps
what it said; then its family is ended. Waiting for a person stops both clocks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from clew.agents.adapter import Adapter, Ending, Launch
from clew.core.decision import Abilities
from clew.core.events import (
    AgentRetried,
    Event,
    QuestionAnswered,
    QuestionAsked,
    QuestionWithdrawn,
    SessionStarted,
    TextStreamed,
    ToolStarted,
    Warned,
)
from clew.core.outcome import Outcome, Stop, classify
from clew.core.permissions import Answer, declined, nobody, settled
from clew.core.record import Record, replace
from clew.core.thread import Permissions
from clew.engine.agent_process import AgentProcess
from clew.engine.faults import passed
from clew.engine.framing import MOST_LINE_BYTES, Skipped
from clew.engine.settings import EngineSettings, Person
from clew.errors import StoreError

_POINT_OF: dict[type[Event], str] = {
    SessionStarted: "session_started",
    TextStreamed: "text_streamed",
    ToolStarted: "tool_started",
    QuestionAsked: "question_asked",
}


class Budget:
    """A run's wall clock, over all its attempts."""

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = limit_s
        self.spent_s = 0.0

    @property
    def is_spent(self) -> bool:
        return self.limit_s is not None and self.spent_s >= self.limit_s


class AttemptEnd(Record):
    outcome: Outcome
    ending: Ending
    stopped: Stop | None
    exit_status: int | None
    stderr_tail: str
    tool_ran: bool
    trouble: str | None = None  # what the agent was last seen to retry, if nothing has come since
    skipped: str | None = None  # what of its output was too long to be read


class Note(Protocol):
    def __call__(self, event: Event, *, waiting: bool = False) -> Awaitable[None]:
        """`waiting`: the run waits for a person from this event on, and both are seen at once."""


class Watched(Record):
    """What the attempt asks of the run it belongs to."""

    note: Note
    is_cancelled: Callable[[], Awaitable[bool]]
    go_on: Callable[[], Awaitable[None]]  # nobody has to answer any more
    hurry: asyncio.Event  # no more time to stop gently
    lost: asyncio.Event  # the lease is gone: stop at once and touch nothing
    budget: Budget
    permissions: Permissions
    allowed_tools: tuple[str, ...]
    allowed_by: str
    person: Person | None
    waits: bool  # for an answer through the store, when there is no person
    reply: Callable[[QuestionAsked], Awaitable[Answer | None]]  # the answer that somebody left in the store


def too_long(line: Skipped) -> str:
    return f"a line of {line.size_bytes / 1e6:,.0f} MB, and the most that is read is {MOST_LINE_BYTES / 1e6:,.0f} MB"


class LiveAttempt:
    """Carries one attempt out."""

    def __init__(
        self,
        adapter: Adapter,
        abilities: Abilities,
        launch: Launch,
        settings: EngineSettings,
        run: Watched,
        process: AgentProcess,
    ) -> None:
        self.adapter = adapter
        self.abilities = abilities
        self.settings = settings
        self.run = run
        self.process = process
        self.reader = adapter.reader(launch)
        self.stopped: Stop | None = None
        self._waiting = 0  # for how many answers of a person
        self._questions: dict[str, asyncio.Task[None]] = {}
        self._heard_at = 0.0
        self._trouble: str | None = None
        self._skipped: str | None = None
        self._finished = False  # stdin is closed; the agent may still talk (a background task ends), or hang

    async def carry_out(self, prompt_line: bytes, *, resumed: bool) -> AttemptEnd:
        self._heard_at = self._now()
        sending = asyncio.create_task(self._send_prompt(prompt_line))
        reading = asyncio.create_task(self._read())
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait({reading, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await self._stop(watching.result(), reading)
            if reading.done():
                await reading
            exit_status = await self._exit()
        finally:
            try:
                await self._give_up(sending, reading, watching, *self._questions.values())
            finally:
                await self.process.end(grace_s=self.settings.grace_s)
        passed("process_ended")
        said = self.process.stderr_tail
        ending = self.reader.ending(resumed=resumed, exit_status=exit_status, stderr=said)
        if not ending.diagnosis.answered:  # its message becomes the run's error
            diagnosis = replace(ending.diagnosis, message=self.process.without_secrets(ending.diagnosis.message))
            ending = replace(ending, diagnosis=diagnosis)
        return AttemptEnd(
            outcome=classify(ending.diagnosis, stopped=self.stopped, exit_status=exit_status),
            ending=ending,
            stopped=self.stopped,
            exit_status=exit_status,
            stderr_tail=said,
            tool_ran=self.reader.tool_ran,
            trouble=self._trouble and self.process.without_secrets(self._trouble),
            skipped=self._skipped,
        )

    async def _send_prompt(self, line: bytes) -> None:
        await self.process.send(line)
        if not self.abilities.asks:
            self.process.close_stdin()  # the end of its input is the end of the prompt
        passed("prompt_sent")

    async def _read(self) -> None:
        async for line in self.process.lines():
            self._heard_at = self._now()
            for event in self._events(line):
                answer = self._settled(event)
                await self.run.note(event, waiting=isinstance(event, QuestionAsked) and answer is None)
                passed(_POINT_OF.get(type(event), ""))
                await self._react(event, answer)
            if self.reader.finished and not self._finished:
                self._finished = True
                passed("result_read")
                self.process.close_stdin()

    def _events(self, line: bytes | Skipped) -> list[Event]:
        if not isinstance(line, Skipped):
            return self.reader.feed(line)
        self.reader.skip(line.head)
        self._skipped = too_long(line)
        return [Warned("line_skipped", f"{self.adapter.name} sent {self._skipped}: it was skipped.")]

    def _settled(self, event: Event) -> Answer | None:
        """What is answered to a question without asking anybody."""
        if not isinstance(event, QuestionAsked):
            return None
        answer = settled(self.run.permissions, event, self.run.allowed_tools)
        if answer is None and self.run.person is None and not self.run.waits:
            answer = nobody(event)
        return answer

    async def _react(self, event: Event, answer: Answer | None) -> None:
        if isinstance(event, AgentRetried):
            self._trouble = event.error
        elif isinstance(event, TextStreamed | ToolStarted):
            self._trouble = None
        if isinstance(event, QuestionAsked):
            if answer is not None:
                await self._answer(event, answer, by="policy")
                if not answer.allow:
                    await self.run.note(Warned("declined", declined(event, self.run.permissions, self.run.allowed_by)))
            else:
                self._questions[event.question_id] = asyncio.create_task(self._ask_person(event))
        elif isinstance(event, QuestionWithdrawn) and event.question_id in self._questions:
            self._questions.pop(event.question_id).cancel()

    async def _ask_person(self, question: QuestionAsked) -> None:
        self._waiting += 1
        try:
            answer = await self._first_answer(question)
        except StoreError:
            raise  # the question stays open; whoever watches the run finds the same, and ends it
        except Exception as error:  # noqa: BLE001 - whatever broke on the person's side must not hang the agent
            answer = nobody(question)
            await self.run.note(Warned("declined", f"{question.tool} was declined: asking failed with {error!r}."))
        finally:
            self._waiting -= 1
            self._heard_at = self._now()
            if not self._waiting:
                await self.run.go_on()
        await self._answer(question, answer, by="user")

    async def _first_answer(self, question: QuestionAsked) -> Answer:
        """From the person at hand or through the store: whichever comes first."""
        asked = [asyncio.ensure_future(self._stored_answer(question))]
        if self.run.person is not None:
            asked.append(asyncio.ensure_future(self.run.person(question)))
        try:
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for each in asked:
                each.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    async def _stored_answer(self, question: QuestionAsked) -> Answer:
        while True:  # another process may leave it there: only looking tells
            answer = await self.run.reply(question)
            if answer is not None:
                return answer
            await asyncio.sleep(self.settings.poll_s)

    async def _answer(self, question: QuestionAsked, answer: Answer, *, by: str) -> None:
        await self.run.note(QuestionAnswered(question.question_id, answer.allow, answer.message, by))
        await self.process.send(self.adapter.answer_line(question, answer))

    async def _watch(self) -> Stop | None:
        """Why the attempt must be stopped; None: it has answered but will not exit, or it is not ours any more."""
        before = self._now()
        while True:
            await asyncio.sleep(self.settings.poll_s)
            now = self._now()
            if not self._waiting:
                self.run.budget.spent_s += now - before
            before = now
            if self.run.lost.is_set():
                return None
            if self._finished or self.process.exit_status is not None:
                if now - self._heard_at > self.settings.exit_s:
                    return None  # or it is gone, and something it started holds its output open
                continue
            if await self.run.is_cancelled():
                return Stop.CANCELLED
            if self.run.budget.is_spent:
                return Stop.TIMED_OUT
            if self._is_idle(now):
                return Stop.IDLE

    def _is_idle(self, now: float) -> bool:
        return self.settings.idle_s is not None and not self._waiting and now - self._heard_at > self.settings.idle_s

    async def _stop(self, cause: Stop | None, reading: asyncio.Task[None]) -> None:
        if cause is not None and not self.reader.finished:
            self.stopped = cause
            interrupt = self.adapter.interrupt_line()
            if interrupt is not None:
                await self._quietly(self.process.send(interrupt), self.settings.interrupt_s)
                hurried = asyncio.create_task(self.run.hurry.wait())
                await asyncio.wait(
                    {reading, hurried}, timeout=self.settings.interrupt_s, return_when=asyncio.FIRST_COMPLETED
                )
                hurried.cancel()
        if not reading.done():
            await self.process.end(grace_s=0 if self.run.hurry.is_set() else self.settings.grace_s)
            await asyncio.wait({reading}, timeout=self.settings.grace_s)

    async def _exit(self) -> int | None:
        """The agent's own exit status, or None when it had to be ended after all was read."""
        try:
            async with asyncio.timeout(self.settings.exit_s):
                return await self.process.wait()
        except TimeoutError:
            return None

    @staticmethod
    async def _quietly(work: Coroutine[Any, Any, None], limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await work

    @staticmethod
    async def _give_up(*tasks: asyncio.Task[Any]) -> None:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception) and not isinstance(outcome, OSError | TimeoutError):
                raise outcome

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
