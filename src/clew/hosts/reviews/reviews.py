"""The reviews host: rounds over a diff. A follow-up is shown what changed since the last round, not the whole again.

A review has a thread of its own, and a round is a turn of it: the rubric is the thread's standing text, the diff (or
what changed) the turn's. The engine decides as for any turn whether the model's session is resumed; when it is not, the
transcript brings back the earlier rounds. An answer that does not fit the shape is asked for once more, in the session.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TypeVar

from clew.core.ids import ThreadId
from clew.core.lookup import SEARCHED, by_beginning
from clew.core.pins import PinState
from clew.core.record import Record
from clew.core.reviews import prompts as words
from clew.core.reviews.review import (
    Review,
    ReviewMeasures,
    ReviewRound,
    RoundStatus,
    Scope,
    findings_of,
    measure,
)
from clew.core.thread import Permissions, Thread, Trust
from clew.engine.engine import Engine
from clew.engine.request import check_argument
from clew.errors import NotFound, UsageError
from clew.git.changes import ChangesSince, Diff, EarlierDiff, Repository
from clew.hosts.reviews.rounds import LiveRound as LiveRound
from clew.hosts.reviews.rounds import Prepared, ReviewRounds, busy, last_seen
from clew.hosts.reviews.rounds import RoundOptions as RoundOptions
from clew.hosts.validation import existing_dir
from clew.store.store import Store

log = logging.getLogger("clew.hosts.reviews.reviews")

T = TypeVar("T")
KIND = "review"
MESSAGE_MAX_CHARS = 100_000
FOCUS_MAX_CHARS = 10_000
LATEST = "latest"  # instead of an id


class ReviewSpec(Record):
    """What a review is made with."""

    cwd: str
    agent: str
    model: str | None = None
    paths: tuple[str, ...] = ()
    scope: Scope = Scope.ALL
    base: str | None = None
    focus: str = ""
    resume: bool | None = None
    timeout_s: float | None = None


class ReviewState(Record):
    """A review with its rounds as they are."""

    review: Review
    thread: Thread
    rounds: tuple[ReviewRound, ...]

    @property
    def last(self) -> ReviewRound | None:
        return self.rounds[-1] if self.rounds else None


class Reviews:
    def __init__(self, engine: Engine, *, max_age_s: float | None) -> None:
        self._engine = engine
        self._rounds = ReviewRounds(engine, max_age_s=max_age_s)

    async def start(self, new: ReviewSpec) -> LiveRound:
        """The review and what it compares are on disk when this returns; its first round goes on by itself."""
        if len(new.focus) > FOCUS_MAX_CHARS:
            raise UsageError(f"The focus has {len(new.focus):,} characters; the limit is {FOCUS_MAX_CHARS:,}.")
        self._engine.find(new.agent)
        check_argument("model", new.model)
        repository = Repository(existing_dir(new.cwd), self._engine.context.environ)
        top = await repository.top()
        paths = await repository.inside(new.paths)
        diff = await repository.diff(new.scope, base=new.base, paths=paths)
        if not diff.changes:
            await repository.require(paths)
            raise UsageError("There is nothing to review: no file differs.", hint=_elsewhere(new))
        now, thread_id = self._engine.context.clock(), ThreadId(self._engine.context.new_id())
        day = time.strftime("%Y-%m-%d", time.localtime(now))
        asked = Review("", thread_id, top, new.scope, new.base, paths, new.focus.strip(), None, now)

        def create(store: Store) -> tuple[Review, Thread]:
            thread = self._thread(thread_id, top, new.agent, new.model)
            thread = store.threads.create(thread)
            review = store.reviews.create(asked, day)
            return review, store.threads.update(thread.id, at=now, name=f"review-{review.id}")

        prepared = self._first(asked, diff, 1)
        review, thread = await self._engine.store.atomically(create)
        options = RoundOptions(agent=new.agent, resume=new.resume, timeout_s=new.timeout_s)
        return await self._rounds.begin(review, thread, prepared, options)

    async def follow(self, review_id: str, options: RoundOptions) -> LiveRound:
        """The next round: what changed since the last one that the reviewer saw. Raises Busy while one is going on."""
        state = await self.find(review_id)
        review, thread, rounds = state.review, state.thread, state.rounds
        if state.last is not None and state.last.status is RoundStatus.RUNNING:
            raise busy(state.last)
        if len(options.message) > MESSAGE_MAX_CHARS:
            raise UsageError(
                f"The message has {len(options.message):,} characters; the limit is {MESSAGE_MAX_CHARS:,}."
            )
        if options.agent is not None:
            self._engine.find(options.agent)
        check_argument("model", options.model)
        repository = Repository(_still_there(review), self._engine.context.environ)
        known = [each.base_commit for each in rounds if each.base_commit is not None]
        diff = await repository.diff(
            review.scope,
            base=review.base,
            base_commit=(known[-1] if review.base else known[0]) if known else None,
            paths=review.paths,
        )
        number = len(rounds) + 1
        seen = await self._engine.store.call(lambda store: last_seen(store, review, rounds))
        if seen is None:
            prepared = self._first(review, diff, number, options.message, rounds)
        else:
            files = await self._engine.store.call(lambda store: store.reviews.round_files(review.id, seen.number))
            since = await repository.since(EarlierDiff(seen.base_commit, seen.changes, files), diff)
            if not since.text and not options.message and _is_repeated(state, options):
                raise UsageError(
                    f"Nothing has changed since round {seen.number}, and there is no message.",
                    hint="Change something, say something, or ask another model.",
                )
            prepared = self._next(diff, since, seen, number, options.message, rounds)
        return await self._rounds.begin(review, thread, prepared, options)

    async def find(self, review_id: str) -> ReviewState:
        """Raises NotFound."""
        return await self._engine.store.call(lambda store: self._state(store, store.reviews.require(review_id)))

    async def top(self, cwd: str) -> str:
        """The work tree that a review begun in `cwd` is about. UsageError when there is none."""
        return await Repository(existing_dir(cwd), self._engine.context.environ).top()

    async def resolve(self, name: str, cwd: str = ".") -> str:
        """The id that is meant: whole, an unambiguous beginning, or `latest` in the repository of `cwd`. NotFound."""
        if name == LATEST:
            top = await self.top(cwd)
            newest = await self._engine.store.call(lambda store: store.reviews.newest(top=top, limit=1))
            if not newest:
                raise NotFound(f"There is no review of {top} yet.", hint="Start one with `clew review start`.")
            return newest[0].id
        if await self._engine.store.call(lambda store: store.reviews.find(name)) is not None:
            return name
        recent = await self._engine.store.call(lambda store: store.reviews.newest(limit=SEARCHED))
        hint = "`clew review list` shows them."
        return by_beginning(name, recent, lambda review: review.id, noun="review", hint=hint).id

    async def list(self, *, top: str | None = None, limit: int = 50, offset: int = 0) -> Sequence[ReviewState]:
        """The newest first."""
        return await self._engine.store.call(
            lambda store: [
                self._state(store, each) for each in store.reviews.newest(top=top, limit=limit, offset=offset)
            ]
        )

    async def count(self, *, top: str | None = None) -> int:
        return await self._engine.store.call(lambda store: store.reviews.count(top=top))

    async def diff(self, review_id: str, number: int) -> str:
        """What round `number` compared, whole, as git words it."""
        return await self._engine.store.call(lambda store: store.reviews.round_diff(review_id, number))

    async def sessions(self, state: ReviewState) -> dict[str, str]:
        """One session a model: the one that its next round would go on in."""

        def look(store: Store) -> dict[str, str]:
            pins = store.pins.of_thread(state.thread.id, retired=False)
            return {pin.model or "default": pin.session_id for pin in pins if pin.state is PinState.GOOD}

        return await self._engine.store.call(look)

    async def measures(self, *, since: float | None = None, thread_id: str | None = None) -> ReviewMeasures:
        """Of all reviews, or of that thread's."""
        rounds = await self._engine.store.call(lambda store: store.reviews.all_rounds(since=since, thread_id=thread_id))
        return measure(rounds)

    def _thread(self, thread_id: ThreadId, top: str, agent: str, model: str | None) -> Thread:
        now = self._engine.context.clock()
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
        return self._engine.context.new_id()[:16]

    def _first(
        self, review: Review, diff: Diff, number: int, message: str = "", rounds: Sequence[ReviewRound] = ()
    ) -> Prepared:
        """A round that shows the whole diff: the first, or one after rounds whose files are not known."""
        fitted = words.fit(diff.text)
        changes = words.marked(diff.changes, fitted.left_out)
        text = words.first_round(
            review, number, changes, fitted.text, self._mark(), diff.base_commit, message, findings_of(rounds)
        )
        news = tuple(change.path for change in changes) if number > 1 else ()  # to whoever has seen none of it
        return Prepared(number, text, changes, news, diff)

    def _next(
        self,
        diff: Diff,
        since: ChangesSince,
        seen: ReviewRound,
        number: int,
        message: str,
        rounds: Sequence[ReviewRound],
    ) -> Prepared:
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
        return Prepared(number, text, words.marked(diff.changes, fitted.left_out), since.paths, diff)

    def _state(self, store: Store, review: Review) -> ReviewState:
        rounds = tuple(self._rounds.as_it_is(store, each) for each in store.reviews.rounds(review.id))
        return ReviewState(review, store.threads.require_by_id(review.thread_id), rounds)


def _is_repeated(state: ReviewState, options: RoundOptions) -> bool:
    """The same model would be asked about the same, and had answered."""
    last, thread = state.last, state.thread
    if last is None or last.status is not RoundStatus.DONE:
        return False
    agent = options.agent or thread.agent
    model = options.model or (thread.model if agent == thread.agent else None)
    return agent == last.agent and model in (None, last.model)


def _still_there(review: Review) -> str:
    try:
        return existing_dir(review.top)
    except UsageError as error:
        raise UsageError(
            f"{review.top}, which {review.id} is about, is gone.", hint="Put it back, or start another review."
        ) from error


def _elsewhere(new: ReviewSpec) -> str:
    if new.base is not None or new.paths:
        return "Another base or other paths may have changes."
    if new.scope is not Scope.ALL:
        return "Without --staged and --unstaged (as scope: all) everything that is not committed is looked at."
    return "Name a base, such as main, to review what is committed."
