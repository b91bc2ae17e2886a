"""One round of a review: begun, carried out, its answer checked and asked for once more, concluded by whoever lives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from clew.core.decision import candidate
from clew.core.history import Role
from clew.core.record import Record, replace
from clew.core.reviews import prompts as words
from clew.core.reviews.review import (
    FileChange,
    Review,
    ReviewRound,
    RoundStatus,
    findings_of,
)
from clew.core.runs.options import TurnOptions
from clew.core.runs.run import LIVE, Run
from clew.core.thread import Thread
from clew.engine import recovery
from clew.engine.engine import Engine
from clew.engine.finish.results import FinishedRun
from clew.engine.journal import JournalEntry
from clew.engine.leases import is_process_dead, now
from clew.engine.request import TurnRequest
from clew.engine.turn import LiveTurn
from clew.errors import AgentFailed, Busy, ClewError
from clew.git.changes import Diff
from clew.hosts.reviews.answer import check, read_answer
from clew.hosts.structured_output import SchemaMismatch
from clew.store.store import Store

log = logging.getLogger("clew.hosts.reviews.reviews")

SILENCE_S = 60.0  # of a process on another machine, before a round of its counts as cut off


class RoundOptions(Record):
    """What the next round is asked with; None: the review's own, or the setting."""

    message: str = ""
    agent: str | None = None
    model: str | None = None
    resume: bool | None = None
    timeout_s: float | None = None


class Prepared(Record):
    """A round about to begin."""

    number: int
    text: str
    changes: tuple[FileChange, ...]
    changed_since: tuple[str, ...]
    diff: Diff


class LiveRound:
    """A round of this process: its events as they come, and its end."""

    def __init__(self, review: Review, round_: ReviewRound, turn: LiveTurn) -> None:
        self.review = review
        self.round = round_  # as it began
        self.turns = [turn]  # the second asks again for an answer that fits
        self.decided = asyncio.Event()  # whether there is a second one
        self.stopped = False  # somebody said so, maybe between its two runs
        self.task: asyncio.Task[ReviewRound]

    async def events(self) -> AsyncIterator[JournalEntry]:
        """Of its first run, and of the second if there is one."""
        place = 0
        while place < len(self.turns):
            async for noted in self.turns[place].events():
                yield noted
            place += 1
            if place == len(self.turns):
                await self.decided.wait()

    async def finish(self) -> ReviewRound:
        """Waits for the end; a cancelled wait does not cancel the round."""
        return await asyncio.shield(self.task)

    def cancel(self) -> None:
        self.stopped = True
        self.turns[-1].cancel()

    def kill(self) -> None:
        self.turns[-1].kill()


class ReviewRounds:
    """Carries rounds out."""

    def __init__(self, engine: Engine, *, max_age_s: float | None) -> None:
        self._engine = engine
        self._max_age_s = max_age_s

    async def begin(self, review: Review, thread: Thread, prepared: Prepared, options: RoundOptions) -> LiveRound:
        """The round and its run are stored together: there is none that nobody was asked about."""
        context, diff = self._engine.context, prepared.diff
        round_ = ReviewRound(
            review_id=review.id,
            number=prepared.number,
            status=RoundStatus.RUNNING,
            agent=options.agent or thread.agent,
            model=options.model or thread.model,
            owner=context.owner,
            message=options.message,
            base_commit=diff.base_commit,
            head_commit=diff.head_commit,
            changes=prepared.changes,
            changed_since=prepared.changed_since,
            started_at=context.clock(),
        )

        def add(store: Store, run: Run) -> None:
            known = [self.concluded(store, each) for each in store.reviews.rounds(review.id)]
            if len(known) != prepared.number - 1 or any(each.status is RoundStatus.RUNNING for each in known):
                raise busy(known[-1])
            pin = candidate(store.pins.of_thread(thread.id, retired=False), run.agent, run.model or "")
            age = None if pin is None else max(0.0, context.clock() - pin.used_at)
            begun = round_.replace(
                started_at=now(store, context),
                model=run.model,
                run_id=run.id,
                first_run_id=run.id,
                runs=1,
                session_age_s=age,
            )
            store.reviews.add_round(begun, diff=diff.text, files=diff.files)

        try:
            turn = await self._engine.start(self._ask(thread, prepared.text, options, round_.agent), add)
        except Busy as error:
            rounds = await self._engine.store.call(lambda store: store.reviews.rounds(review.id))
            raise busy(rounds[-1]) if rounds and rounds[-1].run_id == error.run_id else error from None
        rounds = await self._engine.store.call(lambda store: store.reviews.rounds(review.id))
        live = LiveRound(review, rounds[prepared.number - 1], turn)
        live.task = self._engine.in_background(self._carry_out(live, thread, options))
        return live

    def _ask(self, thread: Thread, text: str, wanted: RoundOptions, agent: str) -> TurnRequest:
        options = TurnOptions(
            agent=agent, model=wanted.model, resume=wanted.resume, timeout_s=wanted.timeout_s, wait=False
        )
        return TurnRequest(thread, text, options, standing=thread.standing, max_age_s=self._max_age_s)

    async def _carry_out(self, live: LiveRound, thread: Thread, options: RoundOptions) -> ReviewRound:
        round_ = live.round
        try:
            finished = await live.turns[0].finish()
            wrong = _misfit(finished)
            if wrong is not None:
                # In the session, whatever is set: it is the same round.
                again = replace(options, resume=True, model=finished.run.model)
                figures = _figures(round_, finished.run)

                def note(store: Store, run: Run) -> None:
                    store.reviews.update_round(round_.review_id, round_.number, **figures, run_id=run.id, runs=2)

                turn = await self._engine.start(self._ask(thread, words.again(wrong), again, round_.agent), note)
                live.turns.append(turn)
                if live.stopped:
                    turn.cancel()
                live.decided.set()
                finished = await turn.finish()
            return await self._engine.store.atomically(lambda store: self._conclude(store, live.round, finished))
        except ClewError as error:
            log.debug("a round failed: %s", error.message)
            return await self._update(round_, **self._failure(error))
        except Exception as error:
            await self._update(round_, **self._failure(AgentFailed(f"A fault in Clew itself: {error!r}")))
            raise
        finally:
            live.decided.set()

    def _conclude(self, store: Store, round_: ReviewRound, finished: FinishedRun) -> ReviewRound:
        """Figures and end in one transaction: what a run came to counts once."""
        round_ = next(each for each in store.reviews.rounds(round_.review_id) if each.number == round_.number)
        round_ = store.reviews.update_round(round_.review_id, round_.number, **_figures(round_, finished.run))
        if finished.error is not None:
            return store.reviews.update_round(round_.review_id, round_.number, **self._failure(finished.error))
        return self._write_answer(store, round_, finished.text)

    def _write_answer(self, store: Store, round_: ReviewRound, text: str) -> ReviewRound:
        """Findings are numbered here, in the transaction that stores them."""
        already = len(findings_of(store.reviews.rounds(round_.review_id)))
        top = store.reviews.require(round_.review_id).top
        try:
            answer = read_answer(
                text, already=already, round_number=round_.number, is_file=lambda path: _is_file(path, round_, top)
            )
        except SchemaMismatch as error:
            again = ", and neither did the first" if round_.runs > 1 else ""
            failure = AgentFailed(
                f"The answer does not fit{again}: {error}",
                hint=f"clew threads show review-{round_.review_id} has it. Ask again, or with another model.",
            )
            return store.reviews.update_round(round_.review_id, round_.number, **self._failure(failure))
        return store.reviews.update_round(
            round_.review_id,
            round_.number,
            status=RoundStatus.DONE,
            answer=answer,
            ended_at=self._engine.context.clock(),
        )

    def _failure(self, error: BaseException) -> dict[str, object]:
        known = error if isinstance(error, ClewError) else AgentFailed("The round was cut off.")
        return {
            "status": RoundStatus.FAILED,
            "error": known.message,
            "hint": known.hint,
            "error_code": known.code,
            "ended_at": self._engine.context.clock(),
        }

    async def _update(self, round_: ReviewRound, **changes: object) -> ReviewRound:
        return await self._engine.store.call(
            lambda store: store.reviews.update_round(round_.review_id, round_.number, **changes)
        )

    def as_it_is(self, store: Store, round_: ReviewRound) -> ReviewRound:
        """A round that its process did not live to conclude, as it would be concluded. Nothing is written."""
        run, is_left = self._left(store, round_)
        seen = round_
        if is_left:
            with contextlib.suppress(_OnlyLooked), store.savepoint():
                if run is not None and run.status in LIVE:
                    error = AgentFailed("Clew died while the run was going on.", hint="Ask for the next round.")
                    seen = store.reviews.update_round(round_.review_id, round_.number, **self._failure(error))
                else:
                    seen = self.concluded(store, round_)
                raise _OnlyLooked
            seen = seen.replace(ended_at=(run and run.ended_at) or round_.started_at)  # and not now, each time
        return seen

    def _left(self, store: Store, round_: ReviewRound) -> tuple[Run | None, bool]:
        """Its newest run; and whether its process died before it was concluded."""
        if round_.status is not RoundStatus.RUNNING:
            return None, False
        run = store.runs.find(round_.run_id) if round_.run_id is not None else None
        if run is not None and run.status in LIVE:
            return run, recovery.is_run_dead(store, run, self._engine.context)
        heard = (run.ended_at if run is not None else None) or round_.started_at
        return run, is_process_dead(store, round_.owner, heard + SILENCE_S, self._engine.context)

    def concluded(self, store: Store, round_: ReviewRound) -> ReviewRound:
        """Such a round is concluded by whoever begins the next one, once its run has been brought to its end."""
        run, is_left = self._left(store, round_)
        if not is_left or (run is not None and run.status in LIVE):
            return round_
        with store.transaction():
            if run is None:
                error = AgentFailed("The round was cut off before it had begun.")
                return store.reviews.update_round(round_.review_id, round_.number, **self._failure(error))
            turn = store.turns.find(run.answer_turn_id) if run.answer_turn_id is not None else None
            answered = turn is not None and not turn.partial
            error_of = None if answered else AgentFailed(run.error or "The round was cut off.")
            return self._conclude(store, round_, FinishedRun(run, turn.text if turn is not None else "", error_of))


class _OnlyLooked(Exception):
    """Undoes what was written in order to see what it would be."""


def _misfit(finished: FinishedRun) -> str | None:
    """What is wrong with an answer that came, in words for the model."""
    if finished.error is not None:
        return None
    try:
        check(finished.text)
    except SchemaMismatch as error:
        return str(error)
    return None


def _is_file(path: str, round_: ReviewRound, top: str) -> bool:
    """In the diff of that round, or now in the repository."""
    if any(path in (change.path, change.old_path) for change in round_.changes):
        return True
    leads_out = path.startswith("/") or ".." in path.split("/")
    return not leads_out and os.path.lexists(Path(top, path))


def _figures(round_: ReviewRound, run: Run) -> dict[str, object]:
    """What its runs came to, with this one. How the session began is told by the first."""
    figures: dict[str, object] = {
        "usage": round_.usage + run.usage,
        "cost_usd": round_.cost_usd + run.cost_usd,
        "model": run.model or round_.model,
    }
    if round_.runs < 2:
        figures |= {
            "session_resumed": run.session_resumed,
            "reason": run.reason,
            "fallback": run.fallback,
            "prompt_chars": run.prompt_chars,
            "transcript_chars": run.transcript_chars,
        }
    return figures


def last_seen(store: Store, review: Review, rounds: Sequence[ReviewRound]) -> ReviewRound | None:
    """The newest round whose text is part of the thread, as it was worded: what changed is told from there."""
    turns = store.turns.history(review.thread_id)
    standing = {turn.run_id for turn in turns if turn.role is Role.USER and turn.run_id and not turn.revision}
    return next((each for each in reversed(rounds) if each.first_run_id in standing), None)


def busy(last: ReviewRound) -> Busy:
    return Busy(
        f"ReviewRound {last.number} of {last.review_id} is going on.",
        hint="Wait for it, or stop it.",
        run_id=last.run_id,
    )
