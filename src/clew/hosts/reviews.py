"""The reviews host: rounds over a diff. A follow-up is shown what changed since the last round, not the whole again.

A review has a thread of its own, and a round is a turn of it: the rubric is the thread's standing text, the diff (or
what changed) the turn's. The engine decides as for any turn whether the model's session is resumed; when it is not, the
transcript brings back the earlier rounds. An answer that does not fit the shape is asked for once more, in the session.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from clew.core import review_prompts as words
from clew.core.decision import candidate
from clew.core.ids import ThreadId
from clew.core.pins import Pin, PinState
from clew.core.record import Record, replace
from clew.core.review import (
    FileChange,
    Measures,
    Review,
    Round,
    RoundStatus,
    Scope,
    findings_of,
    measure,
)
from clew.core.run import LIVE, Run
from clew.core.thread import Permissions, Thread, Trust
from clew.engine.changes import Before, Diff, Repository, Since
from clew.engine.closing import Finished
from clew.engine.engine import Engine, check_word
from clew.engine.journal import Noted
from clew.engine.leases import is_gone
from clew.engine.settings import Ask
from clew.engine.turn import LiveTurn
from clew.errors import AgentFailed, Busy, ClewError, NotFound, UsageError
from clew.hosts.checks import existing_dir
from clew.hosts.review_answer import DoesNotFit, read_answer
from clew.store.store import Store

log = logging.getLogger("clew.hosts.reviews")

T = TypeVar("T")
KIND = "review"
SILENCE_S = 60.0  # of a process on another machine, before a round of its counts as cut off
MESSAGE_MOST = 100_000
LATEST = "latest"  # instead of an id
SEARCHED = 1000  # newest first, for the beginning of an id


class NewReview(Record):
    """What a review is made with."""

    cwd: str
    agent: str
    model: str | None = None
    paths: tuple[str, ...] = ()
    scope: Scope = Scope.ALL
    base: str | None = None
    focus: str = ""
    enable_resume: bool | None = None
    timeout_s: float | None = None


class Next(Record):
    """What the next round is asked with; None: the review's own, or the setting."""

    message: str = ""
    agent: str | None = None
    model: str | None = None
    enable_resume: bool | None = None
    timeout_s: float | None = None


class ReviewState(Record):
    """A review with its rounds as they are."""

    review: Review
    thread: Thread
    rounds: tuple[Round, ...]

    @property
    def last(self) -> Round | None:
        return self.rounds[-1] if self.rounds else None


class _Prepared(Record):
    """A round about to begin."""

    number: int
    text: str
    changes: tuple[FileChange, ...]
    changed_since: tuple[str, ...]
    diff: Diff


class LiveRound:
    """A round of this process: its events as they come, and its end."""

    def __init__(self, review: Review, round_: Round, turn: LiveTurn) -> None:
        self.review = review
        self.round = round_  # as it began
        self.turns = [turn]  # the second asks again for an answer that fits
        self.decided = asyncio.Event()  # whether there is a second one
        self.stopped = False  # somebody said so, maybe between its two runs
        self.task: asyncio.Task[Round]

    async def events(self) -> AsyncIterator[Noted]:
        """Of its first run, and of the second if there is one."""
        place = 0
        while place < len(self.turns):
            async for noted in self.turns[place].events():
                yield noted
            place += 1
            if place == len(self.turns):
                await self.decided.wait()

    async def finish(self) -> Round:
        """Waits for the end; a cancelled wait does not cancel the round."""
        return await asyncio.shield(self.task)

    def cancel(self) -> None:
        self.stopped = True
        self.turns[-1].cancel()

    def kill(self) -> None:
        self.turns[-1].kill()


class Reviews:
    def __init__(self, engine: Engine, *, max_age_s: float | None = 86_400.0) -> None:
        self._engine = engine
        self._max_age_s = max_age_s

    async def start(self, new: NewReview) -> LiveRound:
        """The review and what it compares are on disk when this returns; its first round goes on by itself."""
        self._engine.find(new.agent)
        check_word("model", new.model)
        repository = Repository(existing_dir(new.cwd), self._engine.around.environ)
        top = await repository.top()
        paths = await repository.inside(new.paths)
        diff = await repository.diff(new.scope, base=new.base, paths=paths)
        if not diff.changes:
            raise UsageError("There is nothing to review: no file differs.", hint=_elsewhere(new))
        now, thread_id = self._engine.around.clock(), ThreadId(self._engine.around.new_id())
        day = time.strftime("%Y-%m-%d", time.localtime(now))
        asked = Review("", thread_id, top, new.scope, new.base, paths, new.focus.strip(), None, now)

        def create(store: Store) -> tuple[Review, Thread]:
            thread = self._thread(thread_id, top, new.agent, new.model)
            thread = store.create_thread(thread)
            review = store.create_review(asked, day)
            return review, store.update_thread(thread.id, at=now, name=f"review-{review.id}")

        prepared = self._first(asked, diff, 1)
        review, thread = await self._engine.database.atomically(create)
        options = Next(agent=new.agent, enable_resume=new.enable_resume, timeout_s=new.timeout_s)
        return await self._begin(review, thread, prepared, options)

    async def follow(self, review_id: str, wanted: Next) -> LiveRound:
        """The next round: what changed since the last one that the reviewer saw. Raises Busy while one is going on."""
        state = await self.find(review_id)
        review, thread, rounds = state.review, state.thread, state.rounds
        if state.last is not None and state.last.status is RoundStatus.RUNNING:
            raise _busy(state.last)
        if len(wanted.message) > MESSAGE_MOST:
            raise UsageError(f"The message has {len(wanted.message):,} characters; the limit is {MESSAGE_MOST:,}.")
        if wanted.agent is not None:
            self._engine.find(wanted.agent)
        check_word("model", wanted.model)
        repository = Repository(existing_dir(review.top), self._engine.around.environ)
        first = next((each for each in rounds if each.base_commit is not None), None)
        diff = await repository.diff(
            review.scope,
            base=review.base,
            base_commit=first.base_commit if first is not None else None,
            paths=review.paths,
        )
        number = len(rounds) + 1
        seen = await self._engine.database.call(lambda store: _last_seen(store, review, rounds))
        if seen is None:
            prepared = self._first(review, diff, number, wanted.message, rounds)
        else:
            files = await self._engine.database.call(lambda store: store.round_files(review.id, seen.number))
            since = await repository.since(Before(seen.base_commit, seen.changes, files), diff)
            if not since.text and not wanted.message and _is_repeated(state, wanted):
                raise UsageError(
                    f"Nothing has changed since round {seen.number}, and there is no message.",
                    hint="Change something, say something, or ask another model.",
                )
            prepared = self._next(diff, since, seen, number, wanted.message, rounds)
        return await self._begin(review, thread, prepared, wanted)

    async def find(self, review_id: str) -> ReviewState:
        """Raises NotFound."""
        return await self._engine.database.call(lambda store: self._state(store, store.require_review(review_id)))

    async def top(self, cwd: str) -> str:
        """The work tree that a review begun in `cwd` is about. UsageError when there is none."""
        return await Repository(existing_dir(cwd), self._engine.around.environ).top()

    async def resolve(self, name: str, cwd: str = ".") -> str:
        """The id that is meant: whole, an unambiguous beginning, or `latest` in the repository of `cwd`. NotFound."""
        if name == LATEST:
            top = await self.top(cwd)
            newest = await self._engine.database.call(lambda store: store.reviews(top=top, limit=1))
            if not newest:
                raise NotFound(f"There is no review of {top} yet.", hint="Start one with `clew review start`.")
            return newest[0].id
        if await self._engine.database.call(lambda store: store.review(name)) is not None:
            return name
        recent = await self._engine.database.call(lambda store: store.reviews(limit=SEARCHED))
        close = [review.id for review in recent if name and review.id.startswith(name)]
        if len(close) != 1:
            what = f"More than one review begins with {name}" if close else f"There is no review {name}"
            raise NotFound(f"{what}.", hint="`clew review list` shows them.")
        return close[0]

    async def list(self, *, top: str | None = None, limit: int = 50, offset: int = 0) -> Sequence[ReviewState]:
        """The newest first."""
        return await self._engine.database.call(
            lambda store: [self._state(store, each) for each in store.reviews(top=top, limit=limit, offset=offset)]
        )

    async def count(self, *, top: str | None = None) -> int:
        return await self._engine.database.call(lambda store: store.count_reviews(top=top))

    async def diff(self, review_id: str, number: int) -> str:
        """What round `number` compared, whole, as git words it."""
        return await self._engine.database.call(lambda store: store.round_diff(review_id, number))

    async def sessions(self, state: ReviewState) -> dict[str, str]:
        """One session a model: the one that its next round would go on in."""

        def look(store: Store) -> dict[str, str]:
            pins = store.pins(state.thread.id, retired=False)
            return {pin.model or "default": pin.session_id for pin in pins if pin.state is PinState.GOOD}

        return await self._engine.database.call(look)

    async def measures(self, *, since: float | None = None, thread_id: str | None = None) -> Measures:
        """Of all reviews, or of that thread's."""
        rounds = await self._engine.database.call(lambda store: store.all_rounds(since=since, thread_id=thread_id))
        return measure(rounds)

    def _thread(self, thread_id: ThreadId, top: str, agent: str, model: str | None) -> Thread:
        now = self._engine.around.clock()
        return Thread(
            id=thread_id,
            name=f"review-{thread_id[:8]}",
            cwd=top,
            agent=agent,
            model=model,
            permissions=Permissions.READ_ONLY,
            trust=Trust.USER,
            standing=words.RUBRIC,
            kind=KIND,
            created_at=now,
            updated_at=now,
        )

    def _mark(self) -> str:
        return self._engine.around.new_id()[:16]

    def _first(
        self, review: Review, diff: Diff, number: int, message: str = "", rounds: Sequence[Round] = ()
    ) -> _Prepared:
        """A round that shows the whole diff: the first, or one after rounds whose files are not known."""
        fitted = words.fit(diff.text)
        changes = words.marked(diff.changes, fitted.left_out)
        text = words.first_round(
            review, number, changes, fitted.text, self._mark(), diff.base_commit, message, findings_of(rounds)
        )
        return _Prepared(number, text, changes, (), diff)

    def _next(
        self, diff: Diff, since: Since, seen: Round, number: int, message: str, rounds: Sequence[Round]
    ) -> _Prepared:
        fitted = words.fit(since.text)
        text = words.next_round(
            number,
            message,
            findings_of(rounds),
            since.paths,
            fitted,
            self._mark(),
            base_moved=diff.base_commit != seen.base_commit,
            last=seen.number,
        )
        return _Prepared(number, text, words.marked(diff.changes, fitted.left_out), since.paths, diff)

    async def _begin(self, review: Review, thread: Thread, prepared: _Prepared, wanted: Next) -> LiveRound:
        """The round's row first, then its run: a round without a run was never seen by anybody."""
        around, diff = self._engine.around, prepared.diff
        round_ = Round(
            review_id=review.id,
            number=prepared.number,
            status=RoundStatus.RUNNING,
            agent=wanted.agent or thread.agent,
            model=wanted.model or thread.model,
            owner=around.owner,
            message=wanted.message,
            base_commit=diff.base_commit,
            head_commit=diff.head_commit,
            changes=prepared.changes,
            changed_since=prepared.changed_since,
            started_at=around.clock(),
        )

        def add(store: Store) -> tuple[Pin, ...]:
            known = [self._as_it_is(store, each) for each in store.rounds(review.id)]
            if len(known) != prepared.number - 1 or any(each.status is RoundStatus.RUNNING for each in known):
                raise _busy(known[-1])
            store.add_round(round_, diff=diff.text, files=diff.files)
            return store.pins(thread.id)

        pins = await self._engine.database.atomically(add)
        try:
            turn = await self._engine.start(self._ask(thread, prepared.text, wanted, round_.agent))
        except BaseException as error:
            await self._update(round_, **self._failure(error))
            raise
        pin = candidate(pins, turn.run.agent, turn.run.model or "")
        round_ = await self._update(
            round_,
            model=turn.run.model,
            run_id=turn.run.id,
            runs=1,
            session_age_s=None if pin is None else max(0.0, around.clock() - pin.used_at),
        )
        live = LiveRound(review, round_, turn)
        live.task = self._engine.beside(self._carry_out(live, thread, wanted))
        return live

    def _ask(self, thread: Thread, text: str, wanted: Next, agent: str) -> Ask:
        return Ask(
            thread=thread,
            text=text,
            agent=agent,
            model=wanted.model,
            standing=thread.standing,
            enable_resume=wanted.enable_resume,
            max_age_s=self._max_age_s,
            timeout_s=wanted.timeout_s,
            wait=False,
        )

    async def _carry_out(self, live: LiveRound, thread: Thread, wanted: Next) -> Round:
        round_ = live.round
        try:
            finished = await live.turns[0].finish()
            round_ = await self._update(round_, **_figures(round_, finished.run, first=True))
            wrong = self._misfit(live, finished)
            if wrong is not None:
                again = replace(wanted, enable_resume=None, model=finished.run.model)
                turn = await self._engine.start(self._ask(thread, words.again(wrong), again, round_.agent))
                live.turns.append(turn)
                if live.stopped:
                    turn.cancel()
                live.decided.set()
                round_ = await self._update(round_, run_id=turn.run.id, runs=2)
                finished = await turn.finish()
                round_ = await self._update(round_, **_figures(round_, finished.run, first=False))
            return await self._conclude(round_, finished)
        except ClewError as error:
            log.debug("a round failed: %s", error.message)
            return await self._update(round_, **self._failure(error))
        except Exception as error:
            await self._update(round_, **self._failure(AgentFailed(f"A fault in Clew itself: {error!r}")))
            raise
        finally:
            live.decided.set()

    def _misfit(self, live: LiveRound, finished: Finished) -> str | None:
        """What is wrong with an answer that came, in words for the model."""
        if finished.error is not None:
            return None
        try:
            read_answer(finished.text, already=0, round_number=live.round.number)
        except DoesNotFit as error:
            return str(error)
        return None

    async def _conclude(self, round_: Round, finished: Finished) -> Round:
        if finished.error is not None:
            return await self._update(round_, **self._failure(finished.error))
        return await self._engine.database.atomically(lambda store: self._write_answer(store, round_, finished.text))

    def _write_answer(self, store: Store, round_: Round, text: str) -> Round:
        """Findings are numbered here, in the transaction that stores them."""
        already = len(findings_of(store.rounds(round_.review_id)))
        try:
            answer = read_answer(text, already=already, round_number=round_.number)
        except DoesNotFit as error:
            failure = AgentFailed(
                f"The answer does not fit, and neither did the first: {error}",
                hint=f"clew threads show review-{round_.review_id} has it. Ask again, or with another model.",
            )
            return store.update_round(round_.review_id, round_.number, **self._failure(failure))
        return store.update_round(
            round_.review_id,
            round_.number,
            status=RoundStatus.DONE,
            answer=answer,
            ended_at=self._engine.around.clock(),
        )

    def _failure(self, error: BaseException) -> dict[str, object]:
        known = error if isinstance(error, ClewError) else AgentFailed("The round was cut off.")
        return {
            "status": RoundStatus.FAILED,
            "error": known.message,
            "hint": known.hint,
            "error_code": known.code,
            "ended_at": self._engine.around.clock(),
        }

    async def _update(self, round_: Round, **changes: object) -> Round:
        return await self._engine.database.call(
            lambda store: store.update_round(round_.review_id, round_.number, **changes)
        )

    def _state(self, store: Store, review: Review) -> ReviewState:
        rounds = tuple(self._as_it_is(store, each) for each in store.rounds(review.id))
        return ReviewState(review, store.require_thread(review.thread_id), rounds)

    def _as_it_is(self, store: Store, round_: Round) -> Round:
        """A round that its process did not live to conclude is concluded by whoever looks next."""
        if round_.status is not RoundStatus.RUNNING:
            return round_
        run = store.run(round_.run_id) if round_.run_id is not None else None
        if run is not None and run.status in LIVE:
            return round_
        heard = (run.ended_at if run is not None else None) or round_.started_at
        if not is_gone(round_.owner, heard + SILENCE_S, self._engine.around):
            return round_
        turn = store.turn(run.answer_turn_id) if run is not None and run.answer_turn_id is not None else None
        if run is not None:
            store.update_round(round_.review_id, round_.number, **_figures(round_, run, first=round_.runs == 1))
        if turn is not None and not turn.partial:
            return self._write_answer(store, round_, turn.text)
        message = (run.error if run is not None else None) or "The round was cut off before it had begun."
        return store.update_round(round_.review_id, round_.number, **self._failure(AgentFailed(message)))


def _figures(round_: Round, run: Run, *, first: bool) -> dict[str, object]:
    """What its runs came to. How the session began is told by the first."""
    figures: dict[str, object] = {
        "usage": round_.usage + run.usage,
        "cost_usd": round_.cost_usd + run.cost_usd,
        "model": run.model or round_.model,
    }
    if first:
        figures |= {
            "session_resumed": run.session_resumed,
            "reason": run.reason,
            "fallback": run.fallback,
            "prompt_chars": run.prompt_chars,
            "transcript_chars": run.transcript_chars,
        }
    return figures


def _last_seen(store: Store, review: Review, rounds: Sequence[Round]) -> Round | None:
    """The newest round whose text is part of the thread: what changed is told from there."""
    standing = {turn.run_id for turn in store.history(review.thread_id)}
    for round_ in reversed(rounds):
        if any(run_id in standing for run_id in _runs_of(store, review, rounds, round_)):
            return round_
    return None


def _runs_of(store: Store, review: Review, rounds: Sequence[Round], round_: Round) -> list[str]:
    """The run that showed it: of two, the first; of a process that died in between, one that it had not noted yet."""
    if round_.run_id is not None and round_.runs < 2:
        return [round_.run_id]
    runs = store.runs(thread_id=review.thread_id, limit=1000)
    of_others = {other.run_id for other in rounds if other.number != round_.number}
    return [each.id for each in runs if each.created_at >= round_.started_at and each.id not in of_others]


def _is_repeated(state: ReviewState, wanted: Next) -> bool:
    """The same model would be asked about the same, and had answered."""
    last, thread = state.last, state.thread
    if last is None or last.status is not RoundStatus.DONE:
        return False
    agent = wanted.agent or thread.agent
    model = wanted.model or (thread.model if agent == thread.agent else None)
    return agent == last.agent and model in (None, last.model)


def _busy(last: Round) -> Busy:
    return Busy(
        f"Round {last.number} of {last.review_id} is going on.",
        hint="Wait for it, or stop it.",
        run_id=last.run_id,
    )


def _elsewhere(new: NewReview) -> str:
    if new.base is not None or new.paths:
        return "Another base or other paths may have changes."
    if new.scope is not Scope.ALL:
        return "The scope `all` looks at all that is not committed."
    return "Name a base, such as main, to review what is committed."
