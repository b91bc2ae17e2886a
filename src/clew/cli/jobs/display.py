"""A job as a person sees it while it goes on: a line for what stays, and one that says how far it has come."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from clew.cli.ui.printing import SHORT_ID, at_clock, dim, note, one_line, plural, price
from clew.cli.ui.run_display import RunDisplay, meaning
from clew.cli.ui.status_line import StatusLine, clock
from clew.core.jobs.job import STOPPED, Job, JobStatus
from clew.core.runs import events

if TYPE_CHECKING:
    from clew.api.jobs import JobEvent, JobView

WORDS_CHARS = 48  # of the agent's last words
WORDS_KEPT = 400
WHY_CHARS = 120
PROGRESS_S = 10.0  # where no line can be drawn: how often one is printed


class JobDisplay(RunDisplay):
    """Nothing on stdout. On a terminal the last line is drawn anew; elsewhere it is printed now and then."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.agent, as_json=True)
        self._began = time.monotonic()
        self._line = _JobStatusLine() if self._status is not None else None
        self._status = self._line
        self._set_clock(job)
        self._phase = "queued"
        self._number = 0
        self._attempted_at = 0.0
        self._tools_run = 0
        self._tokens = 0  # of the runs that are over
        self._left = 0  # of this run's attempts that are over
        self._counted = 0  # of the attempt that goes on
        self._words = ""  # the last ones, on one line
        self._words_so_far = ""  # of the message that is being said
        self._printed = ""
        self._ticking: asyncio.Task[None] | None = None

    def start(self) -> None:
        super().start()
        if self._status is None:
            self._ticking = asyncio.create_task(self._tick())

    async def close(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)
        await super().close()

    def line(self) -> str:
        """`run 2 · running Bash: make test · 5 tools · 22,135 tokens · “… and the tests pass”`"""
        parts = [f"run {self._number}" if self._number else "", self._phase]
        parts += [plural(self._tools_run, "tool")] if self._tools_run else []
        tokens = self._tokens + self._left + self._counted
        parts += [f"{tokens:,} tokens"] if tokens else []
        parts += [f"“{self._words}”"] if self._words else []
        return " · ".join(part for part in parts if part)

    def _set_clock(self, job: Job) -> None:
        """It counts from the job's own beginning."""
        if job.started_at is not None:
            self._began = time.monotonic() - max(0.0, time.time() - job.started_at)
        if self._line is not None:
            self._line.count_from(self._began)

    def job_changed(self, job: Job) -> None:
        self._set_clock(job)
        words = _phase(job)
        if job.status not in STOPPED and (words != self._phase or self._number == 0) and words != "starting":
            self.note(f"job {job.id[:SHORT_ID]}: {words}")
        self._doing(words)

    def hear(self, told: JobEvent) -> None:
        self._number = told.number
        event = told.stored.event
        match event:
            case None:
                return
            case events.AttemptStarted():
                self._attempted_at = told.stored.at
                self._left, self._counted = self._left + self._counted, 0
                self._words_so_far = ""
                how = "resumed" if event.resumed else f"fresh: {meaning(event.reason)}"
                self.note(f"run {told.number}: {how}")
            case events.TextStreamed():
                self._say(self._words_so_far + event.text)
            case events.MessageSaid():
                self._say(event.text)
                self._words_so_far = ""
            case events.TextWithdrawn():
                self._words = self._words_so_far = ""
            case events.ToolStarted():
                self._tools_run += 1
            case events.TokensCounted():
                self._counted = event.usage.shown_tokens + event.usage.output_tokens
                self._draw()
            case events.RunEnded():
                self._ended(event, told.stored.at)
        self.show(event)

    def _say(self, text: str) -> None:
        self._words_so_far = text[-WORDS_KEPT:]
        flat = " ".join(self._words_so_far.split())
        cut = flat if len(flat) <= WORDS_CHARS else f"…{flat[1 - WORDS_CHARS :]}"
        self._words = one_line(cut, WORDS_CHARS)
        self._draw()

    def _ended(self, event: events.RunEnded, at: float) -> None:
        tokens = event.usage.shown_tokens + event.usage.output_tokens
        self._tokens, self._left, self._counted = self._tokens + tokens, 0, 0
        took = f" after {clock(max(0.0, at - self._attempted_at))}" if self._attempted_at else ""
        parts = [f"{event.status.replace('_', ' ')}{took}"]
        parts += [f"{tokens:,} tokens", price(event.cost_usd, used=True)] if tokens else []
        self.note(dim(f"run {self._number}: {' · '.join(parts)}"))

    def _doing(self, what: str) -> None:
        self._phase = what
        self._draw()

    def _draw(self) -> None:
        if self._status is not None:
            self._status.show(self.line())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            line = self.line()
            if line != self._printed:
                self._printed = line
                note(f"{clock(time.monotonic() - self._began)} {line}")


class _JobStatusLine(StatusLine):
    """Its clock is the job's."""

    def count_from(self, began: float) -> None:
        self._began = began


def _phase(job: Job) -> str:
    if job.cancel_requested and job.status not in STOPPED:
        return "stopping"
    if job.status is JobStatus.WAITING:
        why = f": {one_line(job.error, WHY_CHARS)}" if job.error else ""
        return f"waiting until {at_clock(job.wake_at)}{why}" if job.wake_at else f"waiting{why}"
    if job.status is JobStatus.QUEUED:
        late = job.not_before is not None and job.not_before > time.time()
        return f"queued until {at_clock(job.not_before)}" if late else "queued"
    return "starting" if job.status is JobStatus.RUNNING else job.status.value


def span(seconds: float) -> str:
    """`90 s`, `30 min`, `2 h`: in the largest unit that it is a whole number of."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:g} s"


def closing_line(view: JobView) -> str:
    """`job 1f3a9c02: succeeded after 12s · 2 runs, 1 resumed · 44,270 tokens · $0.0131`"""
    job = view.job
    began, ended = job.started_at, job.ended_at
    took = f" after {clock(max(0.0, ended - began))}" if began is not None and ended is not None else ""
    resumed = sum(run.session_resumed for run in view.runs)
    parts = [f"job {job.id[:SHORT_ID]}: {job.status}{took}"]
    parts.append(plural(len(view.runs), "run") + (f", {resumed} resumed" if resumed else ""))
    tokens = view.usage.shown_tokens + view.usage.output_tokens
    parts += [f"{tokens:,} tokens", price(view.cost_usd, used=True)] if tokens or view.cost_usd else []
    return " · ".join(parts)
