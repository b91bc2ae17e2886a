"""One spawned process, from its first line of output to the end of everything that it started.

Two tasks run side by side. One reads lines and turns them into events. The other watches for a cancel, for the run's
time limit and for an agent that has written nothing for too long. The attempt ends when either task does. An agent that
must stop is first asked to interrupt itself, which keeps what it said; then its process and everything that it started
are ended. Both time limits pause while a person is asked.

A process that can answer another prompt may stay (`engine/warm`): then the attempt ends with the turn's last line. A
process that ran before must take the prompt up within seconds. If it does not, it is lost: another one is started.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Protocol

from clew.agents.adapter import Adapter, LaunchProfile, StreamResult
from clew.core.costs.usage import NO_USAGE
from clew.core.decision import Abilities
from clew.core.outcome import Diagnosis, Outcome, StopReason, classify
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
from clew.core.runs.permissions import refusal_without_person
from clew.core.runs.tool_rules import ToolRule
from clew.engine.faults import passed
from clew.engine.process.agent import AgentProcess
from clew.engine.process.framing import MAX_LINE_BYTES, SkippedLine
from clew.engine.questions import AgentQuestions, Settled
from clew.engine.settings import EngineSettings
from clew.engine.stopping import StopConditions
from clew.errors import AgentFailed, StoreError

_POINT_OF: dict[type[Event], str] = {
    SessionStarted: "session_started",
    TextStreamed: "text_streamed",
    ToolStarted: "tool_started",
    QuestionAsked: "question_asked",
}


class AttemptEnd(Record):
    outcome: Outcome
    result: StreamResult
    stopped: StopReason | None
    exit_status: int | None
    stderr_tail: str
    tool_ran: bool
    retried_error: str | None = None  # the error that the agent last retried, if it has sent nothing since
    skipped: str | None = None  # describes an output line that was too long to read
    warm: bool = False  # the process ran before, so it did not read the session's file
    stays: bool = False  # the process still runs, and waits for another prompt
    lost: str | None = None  # why a process that ran before gave no answer; the turn can be asked again


def not_resumed(error: AgentFailed) -> AttemptEnd:
    """The end of an attempt that never began, because its session could not be prepared. Nothing was asked."""
    diagnosis = Diagnosis(answered=False, outcome=Outcome.REJECTED, message=error.message)
    return AttemptEnd(
        outcome=Outcome.REJECTED,
        result=StreamResult(diagnosis, NO_USAGE),
        stopped=None,
        exit_status=error.exit_status,
        stderr_tail=error.stderr_tail or error.message,
        tool_ran=False,
    )


def stopped_before_prompt() -> AttemptEnd:
    """The end of an attempt that was cancelled while its session was prepared. Nothing was asked."""
    return AttemptEnd(
        outcome=Outcome.CANCELLED,
        result=StreamResult(Diagnosis(answered=False), NO_USAGE),
        stopped=StopReason.CANCELLED,
        exit_status=None,
        stderr_tail="",
        tool_ran=False,
    )


class AttemptObserver(Protocol):
    """The run that an attempt belongs to. It stores what happens during the attempt."""

    async def event_occurred(
        self, event: Event, *, waits_for_person: bool = False, rule: ToolRule | None = None
    ) -> None:
        """Stores the event. In the same transaction, `waits_for_person` stores that the run now waits for a person,
        and `rule` that the thread allows this from now on."""

    async def questions_settled(self) -> None:
        """The run's last open question was answered, so the run no longer waits for a person."""


def too_long(line: SkippedLine) -> str:
    return f"a line of {line.size_bytes / 1e6:,.0f} MB, and the limit is {MAX_LINE_BYTES / 1e6:,.0f} MB"


class LiveAttempt:
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
        prompt_id: str = "",
        *,
        warm: bool = False,
        may_stay: bool = False,
    ) -> None:
        """`warm`: the process ran before. `may_stay`: it need not end with the turn."""
        self.adapter = adapter
        self.abilities = abilities
        self.settings = settings
        self.process = process
        self.observer = observer
        self.questions = questions
        self.stop = stop
        self.warm = warm
        self.may_stay = may_stay
        self.reader = adapter.reader(launch, prompt_id, warm=warm) if warm or may_stay else adapter.reader(launch)
        self.stopped: StopReason | None = None
        self._open_questions = 0  # questions that a person has not answered yet
        self._asking: dict[str, asyncio.Task[None]] = {}  # by question id
        self._began_at = self._last_output_at = 0.0
        self._retried_error: str | None = None
        self._skipped: str | None = None
        self._finished = False  # the result was read; the agent may still write, or hang
        self._is_unresponsive = False  # a process that ran before has not taken the prompt up

    async def carry_out(self, prompt_line: bytes, *, resumed: bool) -> AttemptEnd:
        self._began_at = self._last_output_at = self._now()
        stays = False
        sending = asyncio.create_task(self._send_prompt(prompt_line))
        reading = asyncio.create_task(self._read())
        watching = asyncio.create_task(self._watch())
        try:
            await asyncio.wait({reading, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await self._stop(watching.result(), reading)
            if reading.done():
                await reading
            stays = self._stays()
            if not stays:
                self.process.close_stdin()  # an agent that could have stayed still waits
            exit_status = None if stays else await self._exit()
        finally:
            try:
                await self._cancel_all(sending, reading, watching, *self._asking.values())
            except BaseException:
                stays = False
                raise
            finally:
                if not stays:
                    at_once = self._is_unresponsive
                    await self.process.end(grace_s=0 if at_once else self.settings.grace_s, at_once=at_once)
        if not stays:
            passed("process_ended")
        stderr = self.process.stderr_tail
        result = self.reader.result(resumed=resumed, exit_status=exit_status, stderr=stderr)
        if not result.diagnosis.answered:  # the message becomes the run's error, which is stored and shown
            diagnosis = replace(result.diagnosis, message=self.process.without_secrets(result.diagnosis.message))
            result = replace(result, diagnosis=diagnosis)
        lost = self._why_lost(exit_status)
        outcome = classify(result.diagnosis, stopped=self.stopped, exit_status=exit_status)
        return AttemptEnd(
            outcome=outcome if lost is None else Outcome.KILLED,
            result=result,
            stopped=self.stopped,
            exit_status=exit_status,
            stderr_tail=stderr,
            tool_ran=self.reader.tool_ran,
            retried_error=self._retried_error and self.process.without_secrets(self._retried_error),
            skipped=self._skipped,
            warm=self.warm,
            stays=stays,
            lost=lost,
        )

    def _stays(self) -> bool:
        """Whether the process waits for another prompt. One with a tool's process left is ended, as after any turn."""
        return self.may_stay and self.reader.is_idle and self.process.is_quiet and not self.process.has_tools_left

    def _why_lost(self, exit_status: int | None) -> str | None:
        """Why a process that ran before gave no answer, if the turn can be asked again: no tool has run, and nobody
        stopped it."""
        if not self.warm or self.reader.finished or self.reader.tool_ran or self.stopped or self.stop.is_lost:
            return None
        if self._is_unresponsive:
            return "it did not take the prompt up"
        return "it ended without an answer" + (f" (exit status {exit_status})" if exit_status else "")

    async def _send_prompt(self, line: bytes) -> None:
        await self.process.send(line)
        if not self.abilities.asks:
            self.process.close_stdin()  # an agent that asks no questions reads its prompt up to the end of its input
        passed("prompt_sent")

    async def _read(self) -> None:
        async for line in self.process.lines():
            self._last_output_at = self._now()
            for event in self._events(line):
                settled = None
                if isinstance(event, QuestionAsked):
                    event = self.questions.with_rule(event)
                    settled = await self.questions.settled(event)
                asks_person = isinstance(event, QuestionAsked) and settled is None
                await self.observer.event_occurred(event, waits_for_person=asks_person)
                passed(_POINT_OF.get(type(event), ""))
                await self._react(event, settled)
            if self.reader.finished and not self._finished:
                self._finished = True
                passed("result_read")
                if not (self.may_stay and self.reader.can_stay):
                    self.process.close_stdin()
            if self._finished and self.may_stay and self.reader.is_idle:
                return

    def _events(self, line: bytes | SkippedLine) -> list[Event]:
        if not isinstance(line, SkippedLine):
            return self.reader.feed(line)
        self.reader.skip(line.head)
        self._skipped = too_long(line)
        return [Warned("line_skipped", f"{self.adapter.name} sent {self._skipped}: it was skipped.")]

    async def _react(self, event: Event, settled: Settled | None) -> None:
        if isinstance(event, AgentRetried):
            self._retried_error = event.error
        elif isinstance(event, TextStreamed | ToolStarted):
            self._retried_error = None
        if isinstance(event, QuestionAsked):
            if settled is not None:
                await self._answer(event, settled)
                if not settled.answer.allow:
                    await self.observer.event_occurred(Warned("declined", self.questions.why_declined(event)))
            else:
                self._asking[event.question_id] = asyncio.create_task(self._ask_person(event))
        elif isinstance(event, QuestionWithdrawn) and event.question_id in self._asking:
            self._asking.pop(event.question_id).cancel()

    async def _ask_person(self, question: QuestionAsked) -> None:
        self._open_questions += 1
        try:
            settled = await self.questions.answer(question)
        except StoreError:
            raise  # the question stays open; the run's own store calls fail too, which ends the run
        except Exception as error:  # noqa: BLE001 - a fault on the person's side must not leave the agent waiting
            settled = Settled(refusal_without_person(question), "user")
            message = f"{question.tool} was declined: asking failed with {error!r}."
            await self.observer.event_occurred(Warned("declined", message))
        finally:
            self._open_questions -= 1
            self._last_output_at = self._now()
            if not self._open_questions:
                await self.observer.questions_settled()
        await self._answer(question, settled)

    async def _answer(self, question: QuestionAsked, settled: Settled) -> None:
        answer = settled.answer
        answered = QuestionAnswered(question.question_id, answer.allow, answer.message, settled.by, answer.scope)
        await self.observer.event_occurred(answered, rule=settled.rule)
        await self.process.send(self.adapter.answer_line(question, answer))

    async def _watch(self) -> StopReason | None:
        """Waits until the attempt must be stopped, and returns why.

        None: the output did not end after the result or the exit, or another process took the thread over.
        """
        before = self._now()
        while True:
            await asyncio.sleep(self.settings.poll_s)
            now = self._now()
            if not self._open_questions:
                self.stop.spent_s += now - before
            before = now
            if self.stop.is_lost:
                return None
            if self._finished or self.process.exit_status is not None:
                if now - self._last_output_at > self.settings.exit_s:
                    return None  # the agent hangs; or it has exited, and a child of it holds its output open
                if now - self._last_output_at > self.settings.poll_s:
                    self._let_go()
                continue
            if self._is_silent(now):
                self._is_unresponsive = True
                return None
            if await self.stop.is_cancelled_so_far():
                return StopReason.CANCELLED
            if self.stop.is_timed_out:
                return StopReason.TIMED_OUT
            if self._is_idle(now):
                return StopReason.IDLE

    def _is_silent(self, now: float) -> bool:
        """Whether a process that has answered before does not take the prompt up. One that is starting needs longer."""
        is_due = self.warm and self.process.has_answered and not self.reader.heard
        return is_due and now - self._began_at > self.settings.warm_answer_s

    def _is_idle(self, now: float) -> bool:
        return (
            self.settings.idle_s is not None
            and not self._open_questions
            and now - self._last_output_at > self.settings.idle_s
        )

    async def _stop(self, cause: StopReason | None, reading: asyncio.Task[None]) -> None:
        self._let_go()
        if cause is not None and not self.reader.finished:
            self.stopped = cause
            interrupt = self.adapter.interrupt_line()
            if interrupt is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.settings.interrupt_s):
                        await self.process.send(interrupt)
                killed = asyncio.create_task(self.stop.at_once.wait())
                await asyncio.wait(
                    {reading, killed}, timeout=self.settings.interrupt_s, return_when=asyncio.FIRST_COMPLETED
                )
                killed.cancel()
        if not reading.done():
            at_once = self.stop.at_once.is_set() or self._is_unresponsive
            await self.process.end(grace_s=0 if at_once else self.settings.grace_s, at_once=self._is_unresponsive)
            await asyncio.wait({reading}, timeout=self.settings.grace_s)

    def _let_go(self) -> None:
        """The process does not stay. After its result, the end of its input lets it exit."""
        self.may_stay = False
        if self._finished:
            self.process.close_stdin()

    async def _exit(self) -> int | None:
        """The agent's own exit status; None: it did not exit after its output was read."""
        try:
            async with asyncio.timeout(self.settings.exit_s):
                return await self.process.wait()
        except TimeoutError:
            return None

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
