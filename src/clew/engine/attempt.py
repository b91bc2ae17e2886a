"""One spawned process, from its first line to the end of everything it started.

Two tasks run side by side: reading, which turns lines into events, and watching, which looks at the clocks and for a
cancel. The first to finish decides. An agent that must stop is first asked to interrupt itself, which keeps what it
said; then its process and all that it started are ended. While a person is asked, both clocks stand still.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Protocol

from clew.agents.adapter import Adapter, LaunchProfile, StreamResult
from clew.core.decision import Abilities
from clew.core.outcome import Outcome, StopReason, classify
from clew.core.record import Record, replace
from clew.core.runs.events import (
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
from clew.core.runs.permissions import Answer, refusal_without_person
from clew.engine.faults import passed
from clew.engine.process.agent import AgentProcess
from clew.engine.process.framing import MOST_LINE_BYTES, SkippedLine
from clew.engine.questions import AgentQuestions
from clew.engine.settings import EngineSettings
from clew.engine.stopping import StopConditions
from clew.errors import StoreError

_POINT_OF: dict[type[Event], str] = {
    SessionStarted: "session_started",
    TextStreamed: "text_streamed",
    ToolStarted: "tool_started",
    QuestionAsked: "question_asked",
}


class AttemptEnd(Record):
    outcome: Outcome
    ending: StreamResult
    stopped: StopReason | None
    exit_status: int | None
    stderr_tail: str
    tool_ran: bool
    trouble: str | None = None  # the error that the agent last retried, if nothing has come since
    skipped: str | None = None  # the part of its output that was too long to read


class AttemptObserver(Protocol):
    """The run that an attempt belongs to: it stores what happens."""

    async def event_occurred(self, event: Event, *, waits_for_person: bool = False) -> None:
        """`waits_for_person`: from this event on the run waits. Nobody sees the one without the other."""

    async def questions_settled(self) -> None:
        """No question is open any more, so the run no longer waits for a person."""


def too_long(line: SkippedLine) -> str:
    return f"a line of {line.size_bytes / 1e6:,.0f} MB, and the most that is read is {MOST_LINE_BYTES / 1e6:,.0f} MB"


class LiveAttempt:
    """Carries one attempt out."""

    def __init__(
        self,
        adapter: Adapter,
        abilities: Abilities,
        launch: LaunchProfile,
        settings: EngineSettings,
        process: AgentProcess,
        observer: AttemptObserver,
        questions: AgentQuestions,
        stop: StopConditions,
    ) -> None:
        self.adapter = adapter
        self.abilities = abilities
        self.settings = settings
        self.process = process
        self.observer = observer
        self.questions = questions
        self.stop = stop
        self.reader = adapter.reader(launch)
        self.stopped: StopReason | None = None
        self._waiting = 0  # for so many answers of a person
        self._asking: dict[str, asyncio.Task[None]] = {}  # by question
        self._heard_at = 0.0
        self._trouble: str | None = None
        self._skipped: str | None = None
        self._finished = False  # the result is read and stdin closed; the agent may still write, or hang

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
                await self._cancel_all(sending, reading, watching, *self._asking.values())
            finally:
                await self.process.end(grace_s=self.settings.grace_s)
        passed("process_ended")
        stderr = self.process.stderr_tail
        ending = self.reader.result(resumed=resumed, exit_status=exit_status, stderr=stderr)
        if not ending.diagnosis.answered:  # its message becomes the run's error
            diagnosis = replace(ending.diagnosis, message=self.process.without_secrets(ending.diagnosis.message))
            ending = replace(ending, diagnosis=diagnosis)
        return AttemptEnd(
            outcome=classify(ending.diagnosis, stopped=self.stopped, exit_status=exit_status),
            ending=ending,
            stopped=self.stopped,
            exit_status=exit_status,
            stderr_tail=stderr,
            tool_ran=self.reader.tool_ran,
            trouble=self._trouble and self.process.without_secrets(self._trouble),
            skipped=self._skipped,
        )

    async def _send_prompt(self, line: bytes) -> None:
        await self.process.send(line)
        if not self.abilities.asks:
            self.process.close_stdin()  # such an agent reads its prompt to the end of its input
        passed("prompt_sent")

    async def _read(self) -> None:
        async for line in self.process.lines():
            self._heard_at = self._now()
            for event in self._events(line):
                answer = self._settled(event)
                asks_person = isinstance(event, QuestionAsked) and answer is None
                await self.observer.event_occurred(event, waits_for_person=asks_person)
                passed(_POINT_OF.get(type(event), ""))
                await self._react(event, answer)
            if self.reader.finished and not self._finished:
                self._finished = True
                passed("result_read")
                self.process.close_stdin()

    def _events(self, line: bytes | SkippedLine) -> list[Event]:
        if not isinstance(line, SkippedLine):
            return self.reader.feed(line)
        self.reader.skip(line.head)
        self._skipped = too_long(line)
        return [Warned("line_skipped", f"{self.adapter.name} sent {self._skipped}: it was skipped.")]

    def _settled(self, event: Event) -> Answer | None:
        return self.questions.settled(event) if isinstance(event, QuestionAsked) else None

    async def _react(self, event: Event, answer: Answer | None) -> None:
        if isinstance(event, AgentRetried):
            self._trouble = event.error
        elif isinstance(event, TextStreamed | ToolStarted):
            self._trouble = None
        if isinstance(event, QuestionAsked):
            if answer is not None:
                await self._answer(event, answer, by="policy")
                if not answer.allow:
                    await self.observer.event_occurred(Warned("declined", self.questions.why_declined(event)))
            else:
                self._asking[event.question_id] = asyncio.create_task(self._ask_person(event))
        elif isinstance(event, QuestionWithdrawn) and event.question_id in self._asking:
            self._asking.pop(event.question_id).cancel()

    async def _ask_person(self, question: QuestionAsked) -> None:
        self._waiting += 1
        try:
            answer = await self.questions.answer(question)
        except StoreError:
            raise  # the question stays open; the run meets the same error, and ends
        except Exception as error:  # noqa: BLE001 - a fault on the person's side must not leave the agent waiting
            answer = refusal_without_person(question)
            message = f"{question.tool} was declined: asking failed with {error!r}."
            await self.observer.event_occurred(Warned("declined", message))
        finally:
            self._waiting -= 1
            self._heard_at = self._now()
            if not self._waiting:
                await self.observer.questions_settled()
        await self._answer(question, answer, by="user")

    async def _answer(self, question: QuestionAsked, answer: Answer, *, by: str) -> None:
        answered = QuestionAnswered(question.question_id, answer.allow, answer.message, by)
        await self.observer.event_occurred(answered)
        await self.process.send(self.adapter.answer_line(question, answer))

    async def _watch(self) -> StopReason | None:
        """Why the attempt must be stopped. None: it has answered and does not exit, or its thread was taken over."""
        before = self._now()
        while True:
            await asyncio.sleep(self.settings.poll_s)
            now = self._now()
            if not self._waiting:
                self.stop.budget.spent_s += now - before
            before = now
            if self.stop.is_lost:
                return None
            if self._finished or self.process.exit_status is not None:
                if now - self._heard_at > self.settings.exit_s:
                    return None  # it hangs; or it has exited, and something it started holds its output open
                continue
            if await self.stop.is_cancelled_so_far():
                return StopReason.CANCELLED
            if self.stop.budget.is_spent:
                return StopReason.TIMED_OUT
            if self._is_idle(now):
                return StopReason.IDLE

    def _is_idle(self, now: float) -> bool:
        return self.settings.idle_s is not None and not self._waiting and now - self._heard_at > self.settings.idle_s

    async def _stop(self, cause: StopReason | None, reading: asyncio.Task[None]) -> None:
        if cause is not None and not self.reader.finished:
            self.stopped = cause
            interrupt = self.adapter.interrupt_line()
            if interrupt is not None:
                await self._quietly(self.process.send(interrupt), self.settings.interrupt_s)
                killed = asyncio.create_task(self.stop.at_once.wait())
                await asyncio.wait(
                    {reading, killed}, timeout=self.settings.interrupt_s, return_when=asyncio.FIRST_COMPLETED
                )
                killed.cancel()
        if not reading.done():
            await self.process.end(grace_s=0 if self.stop.at_once.is_set() else self.settings.grace_s)
            await asyncio.wait({reading}, timeout=self.settings.grace_s)

    async def _exit(self) -> int | None:
        """The agent's own exit status; None: it did not exit after its output was read."""
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
    async def _cancel_all(*tasks: asyncio.Task[Any]) -> None:
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception) and not isinstance(outcome, OSError | TimeoutError):
                raise outcome

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
