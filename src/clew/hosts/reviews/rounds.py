"""Carries out one round of a review.

An answer that does not have the required form is asked for once more. If the process dies during a round, the process
that begins the next round concludes it.
"""

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
from clew.core.reviews.review import FileChange, Review, ReviewRound, RoundStatus, findings_of
from clew.core.rules.rules import RulesSource
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

SILENCE_S = 60.0  # after this, a process on another machine counts as dead, and its round as cut off


class RoundOptions(Record):
    """The options of one round. None: the review's own option, or the setting."""

    message: str = ""
    agent: str | None = None
    model: str | None = None
    resume: bool | None = None
    timeout_s: float | None = None


class PreparedRound(Record):
    """A round that is ready to begin."""

    number: int
    text: str
    changes: tuple[FileChange, ...]
    changed_since: tuple[str, ...]
    diff: Diff
    rules_of: RulesSource | None = None  # None: the work directory's


class LiveRound:
    """A round that this process carries out."""

    def __init__(self, review: Review, round_: ReviewRound, turn: LiveTurn) -> None:
        self.review = review
        self.round = round_  # as it was when it began
        self.turns = [turn]  # the second one, if any, asks for the answer again in the required form
        self.is_settled = asyncio.Event()  # set once it is known whether there is a second turn
        self.is_cancelled = False  # stored, because a cancel may come between the two turns
        self.task: asyncio.Task[ReviewRound]

    async def events(self) -> AsyncIterator[JournalEntry]:
        """The events of its first run, and of the second if there is one."""
        for turn in self.turns:  # the list may grow meanwhile
            async for entry in turn.events():
                yield entry
            if turn is self.turns[-1]:
                await self.is_settled.wait()

    async def finish(self) -> ReviewRound:
        """Waits for the end; a cancelled wait does not cancel the round."""
        return await asyncio.shield(self.task)

    def cancel(self) -> None:
        self.is_cancelled = True
        self.turns[-1].cancel()

    def kill(self) -> None:
        self.turns[-1].kill()


class ReviewRounds:
    """Carries out the rounds of reviews."""

    def __init__(self, engine: Engine, *, max_age_s: float | None) -> None:
        self._engine = engine
        self._max_age_s = max_age_s

    async def begin(self, review: Review, thread: Thread, prepared: PreparedRound, options: RoundOptions) -> LiveRound:
        """Stores the round and its run in one transaction, so that no round exists without a run."""
        context, diff = self._engine.context, prepared.diff
        agent = options.agent or thread.agent

        def add(store: Store, run: Run) -> None:
            known = [self.conclude_abandoned(store, each) for each in store.reviews.rounds(review.id)]
            if len(known) != prepared.number - 1 or any(each.status is RoundStatus.RUNNING for each in known):
                raise busy(known[-1])
            pin = candidate(store.pins.of_thread(thread.id, retired=False), run.agent, run.model or "")
            round_ = ReviewRound(
                review_id=review.id,
                number=prepared.number,
                status=RoundStatus.RUNNING,
                agent=agent,
                model=run.model,
                owner=context.owner,
                message=options.message,
                base_commit=diff.base_commit,
                head_commit=diff.head_commit,
                changes=prepared.changes,
                changed_since=prepared.changed_since,
                run_id=run.id,
                first_run_id=run.id,
                runs=1,
                session_age_s=None if pin is None else max(0.0, context.clock() - pin.used_at),
                started_at=now(store, context),
            )
            store.reviews.add_round(round_, diff=diff.text, files=diff.files)

        try:
            request = self._request(thread, prepared.text, options, agent).replace(rules_of=prepared.rules_of)
            turn = await self._engine.start(request, add)
        except Busy as error:
            rounds = await self._engine.store.call(lambda store: store.reviews.rounds(review.id))
            raise busy(rounds[-1]) if rounds and rounds[-1].run_id == error.run_id else error from None
        rounds = await self._engine.store.call(lambda store: store.reviews.rounds(review.id))
        live = LiveRound(review, rounds[prepared.number - 1], turn)
        live.task = self._engine.in_background(self._carry_out(live, thread, options))
        return live

    def _request(self, thread: Thread, text: str, options: RoundOptions, agent: str) -> TurnRequest:
        turn_options = TurnOptions(
            agent=agent, model=options.model, resume=options.resume, timeout_s=options.timeout_s, wait=False
        )
        return TurnRequest(thread, text, turn_options, standing=thread.standing, max_age_s=self._max_age_s)

    async def _carry_out(self, live: LiveRound, thread: Thread, options: RoundOptions) -> ReviewRound:
        round_ = live.round
        try:
            finished = await live.turns[0].finish()
            problem = _schema_problem(finished)
            if problem is not None:
                # The second run resumes the session whatever the settings are, because it is part of the same round.
                again = replace(options, resume=True, model=finished.run.model)
                figures = _figures(round_, finished.run)

                def add_run(store: Store, run: Run) -> None:
                    _update(store, round_, **figures, run_id=run.id, runs=2)

                request = self._request(thread, words.again(problem), again, round_.agent)
                turn = await self._engine.start(request, add_run)
                live.turns.append(turn)
                if live.is_cancelled:
                    turn.cancel()
                live.is_settled.set()
                finished = await turn.finish()
            return await self._engine.store.atomically(lambda store: self._conclude(store, round_, finished))
        except ClewError as error:
            log.debug("a round failed: %s", error.message)
            failure = error
            return await self._engine.store.call(lambda store: self._fail(store, round_, failure))
        except Exception as error:
            fault = AgentFailed(f"A fault in Clew itself: {error!r}")
            await self._engine.store.call(lambda store: self._fail(store, round_, fault))
            raise
        finally:
            live.is_settled.set()

    def _conclude(self, store: Store, round_: ReviewRound, finished: FinishedRun) -> ReviewRound:
        """Stores the figures and the end of the round in one transaction, so that each run is counted once."""
        round_ = next(each for each in store.reviews.rounds(round_.review_id) if each.number == round_.number)
        round_ = _update(store, round_, **_figures(round_, finished.run))
        if finished.error is not None:
            return self._fail(store, round_, finished.error)
        return self._store_answer(store, round_, finished.text)

    def _store_answer(self, store: Store, round_: ReviewRound, text: str) -> ReviewRound:
        """Stores the answer. Its findings are numbered in the same transaction, so that each number is unique."""
        top = store.reviews.require(round_.review_id).top
        try:
            answer = read_answer(
                text,
                already=len(findings_of(store.reviews.rounds(round_.review_id))),
                round_number=round_.number,
                is_file=lambda path: _is_file(path, round_, top),
            )
        except SchemaMismatch as error:
            again = ", and neither did the first" if round_.runs > 1 else ""
            failure = AgentFailed(
                f"The answer does not fit{again}: {error}",
                hint=f"clew threads show review-{round_.review_id} has it. Ask again, or with another model.",
            )
            return self._fail(store, round_, failure)
        return _update(store, round_, status=RoundStatus.DONE, answer=answer, ended_at=self._engine.context.clock())

    def _fail(self, store: Store, round_: ReviewRound, error: ClewError) -> ReviewRound:
        return _update(
            store,
            round_,
            status=RoundStatus.FAILED,
            error=error.message,
            hint=error.hint,
            error_code=error.code,
            ended_at=self._engine.context.clock(),
        )

    def current(self, store: Store, round_: ReviewRound) -> ReviewRound:
        """The round; if its process has died, as it will be once it is concluded. Nothing is written."""
        run, is_abandoned = self._newest_run(store, round_)
        if not is_abandoned:
            return round_
        with contextlib.suppress(_RollBack), store.savepoint():
            if run is not None and run.status in LIVE:
                error = AgentFailed("Clew died during the run.", hint="Ask for the next round.")
                concluded = self._fail(store, round_, error)
            else:
                concluded = self.conclude_abandoned(store, round_)
            raise _RollBack
        # `ended_at` must be the same each time that the round is read.
        return concluded.replace(ended_at=(run and run.ended_at) or round_.started_at)

    def _newest_run(self, store: Store, round_: ReviewRound) -> tuple[Run | None, bool]:
        """The newest run of a running round, and whether the round's process died before it concluded the round."""
        if round_.status is not RoundStatus.RUNNING:
            return None, False
        run = store.runs.find(round_.run_id) if round_.run_id is not None else None
        if run is not None and run.status in LIVE:
            return run, recovery.is_run_dead(store, run, self._engine.context)
        alive_at = (run.ended_at if run is not None else None) or round_.started_at
        return run, is_process_dead(store, round_.owner, alive_at + SILENCE_S, self._engine.context)

    def conclude_abandoned(self, store: Store, round_: ReviewRound) -> ReviewRound:
        """Concludes a round whose process has died, once its run has ended. Other rounds are returned unchanged."""
        run, is_abandoned = self._newest_run(store, round_)
        if not is_abandoned or (run is not None and run.status in LIVE):
            return round_
        with store.transaction():
            if run is None:
                return self._fail(store, round_, AgentFailed("The round was cut off before it started."))
            turn = store.turns.find(run.answer_turn_id) if run.answer_turn_id is not None else None
            is_answered = turn is not None and not turn.partial
            error = None if is_answered else AgentFailed(run.error or "The round was cut off.")
            return self._conclude(store, round_, FinishedRun(run, turn.text if turn is not None else "", error))


class _RollBack(Exception):
    """Undoes writes that were made only to see their result."""


def _update(store: Store, round_: ReviewRound, **changes: object) -> ReviewRound:
    return store.reviews.update_round(round_.review_id, round_.number, **changes)


def _schema_problem(finished: FinishedRun) -> str | None:
    """What is wrong with the form of an answer, in words for the model. None: nothing, or the run has failed."""
    if finished.error is not None:
        return None
    try:
        check(finished.text)
    except SchemaMismatch as error:
        return str(error)
    return None


def _is_file(path: str, round_: ReviewRound, top: str) -> bool:
    """Whether the round's diff or the repository, as it is now, has the path."""
    if any(path in (change.path, change.old_path) for change in round_.changes):
        return True
    leads_out = path.startswith("/") or ".." in path.split("/")
    return not leads_out and os.path.lexists(Path(top, path))


def _figures(round_: ReviewRound, run: Run) -> dict[str, object]:
    """The figures of the round including this run. How the session began is taken from the first run."""
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
    """The newest round whose prompt is in the thread, unedited. The next round shows what changed since that one."""
    turns = store.turns.history(review.thread_id)
    runs = {turn.run_id for turn in turns if turn.role is Role.USER and turn.run_id and not turn.revision}
    return next((each for each in reversed(rounds) if each.first_run_id in runs), None)


def busy(last: ReviewRound) -> Busy:
    return Busy(
        f"Round {last.number} of {last.review_id} is still running.",
        hint="Wait for it, or stop it.",
        run_id=last.run_id,
    )
