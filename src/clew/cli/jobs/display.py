"""Shows a running job to the user: lines that stay, and a status line with the progress."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from clew.cli.jobs.jobs import state
from clew.cli.ui.formatting import joined, one_line, plural, price
from clew.cli.ui.printing import dim, note
from clew.cli.ui.run_display import RunDisplay, meaning, resumed_words
from clew.cli.ui.status_line import clock
from clew.core.ids import SHORT_ID
from clew.core.jobs.job import STOPPED, Job, JobStatus
from clew.core.runs import events

if TYPE_CHECKING:
    from clew.api.jobs import JobEvent, JobView

WORDS_CHARS = 48  # how much of the agent's last words is shown
KEPT_CHARS = 400  # how much is kept of the message that is being streamed
WHY_CHARS = 120
PROGRESS_S = 10.0  # how often the line is printed if stderr is not a terminal


class JobDisplay(RunDisplay):
    """Prints nothing on stdout. On a terminal the status line is redrawn; elsewhere it is printed now and then."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.agent, as_json=True)
        self._began = time.monotonic()
        self._set_clock(job)
        self._phase = "queued"
        self._number = 0
        self._attempted_at = 0.0
        self._tools_run = 0
        self._tokens = 0  # of the runs that have ended
        self._tokens_of_attempts = 0  # of the attempts of this run that have ended
        self._tokens_of_attempt = 0  # of the current attempt
        self._words = ""  # the agent's last words, on one line
        self._streamed = ""  # the end of the message that is being streamed
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
        tokens = self._tokens + self._tokens_of_attempts + self._tokens_of_attempt
        return joined(
            f"run {self._number}" if self._number else "",
            self._phase,
            plural(self._tools_run, "tool") if self._tools_run else "",
            f"{tokens:,} tokens" if tokens else "",
            f"“{self._words}”" if self._words else "",
        )

    def _set_clock(self, job: Job) -> None:
        """The clock counts from the start of the job, which may be before this command."""
        if job.started_at is not None:
            self._began = time.monotonic() - max(0.0, time.time() - job.started_at)
        if self._status is not None:
            self._status.count_from(self._began)

    def job_changed(self, job: Job) -> None:
        self._set_clock(job)
        words = _phase(job)
        if job.status not in STOPPED and (words != self._phase or self._number == 0) and words != "starting":
            self.note(f"job {job.id[:SHORT_ID]}: {words}")
        self._doing(words)

    def show_job_event(self, job_event: JobEvent) -> None:
        self._number = job_event.number
        event = job_event.stored.event
        match event:
            case None:
                return
            case events.AttemptStarted():
                self._attempted_at = job_event.stored.at
                self._tokens_of_attempts += self._tokens_of_attempt
                self._tokens_of_attempt = 0
                self._streamed = ""
                fresh = f"fresh: {meaning(event.reason)}"
                how = resumed_words(event.reason, event.rewound_to) if event.resumed else fresh
                self.note(f"run {job_event.number}: {how}")
            case events.TextStreamed():
                self._set_words(self._streamed + event.text)
            case events.MessageSaid():
                self._set_words(event.text)
                self._streamed = ""
            case events.TextWithdrawn():
                self._words = self._streamed = ""
            case events.ToolStarted():
                self._tools_run += 1
            case events.TokensCounted():
                self._tokens_of_attempt = event.usage.shown_tokens + event.usage.output_tokens
                self._draw()
            case events.RunEnded():
                self._ended(event, job_event.stored.at)
        self.show(event)

    def _set_words(self, text: str) -> None:
        self._streamed = text[-KEPT_CHARS:]
        flat = " ".join(self._streamed.split())
        cut = flat if len(flat) <= WORDS_CHARS else f"…{flat[1 - WORDS_CHARS :]}"
        self._words = one_line(cut, WORDS_CHARS)
        self._draw()

    def _ended(self, event: events.RunEnded, at: float) -> None:
        tokens = event.usage.shown_tokens + event.usage.output_tokens
        self._tokens += tokens
        self._tokens_of_attempts = self._tokens_of_attempt = 0
        took = f" after {clock(max(0.0, at - self._attempted_at))}" if self._attempted_at else ""
        status = f"{event.status.replace('_', ' ')}{took}"
        used = f"{tokens:,} tokens · {price(event.cost_usd, used=True)}" if tokens else ""
        self.note(dim(f"run {self._number}: {joined(status, used)}"))

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


def _phase(job: Job) -> str:
    if job.cancel_requested and job.status not in STOPPED:
        return "stopping"
    if job.status is JobStatus.WAITING:
        return state(job) + (f": {one_line(job.error, WHY_CHARS)}" if job.error else "")
    return "starting" if job.status is JobStatus.RUNNING else state(job)


def closing_line(view: JobView) -> str:
    """`job 1f3a9c02: succeeded after 12s · 2 runs, 1 resumed · 44,270 tokens · $0.0131`"""
    job = view.job
    began, ended = job.started_at, job.ended_at
    took = f" after {clock(max(0.0, ended - began))}" if began is not None and ended is not None else ""
    resumed = sum(run.session_resumed for run in view.runs)
    runs = plural(len(view.runs), "run") + (f", {resumed} resumed" if resumed else "")
    tokens = view.usage.shown_tokens + view.usage.output_tokens
    used = f"{tokens:,} tokens · {price(view.cost_usd, used=True)}" if tokens or view.cost_usd else ""
    return joined(f"job {job.id[:SHORT_ID]}: {job.status}{took}", runs, used)
