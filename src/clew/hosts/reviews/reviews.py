"""The reviews host: rounds over a diff. A later round shows what changed since the last one, not the whole diff again.

A review has its own thread, and a round is a turn in it. The rubric is the thread's standing text; the diff, or what
changed, is the text of the turn. As for any turn, the engine decides whether the model's session is resumed. If it is
not, the transcript contains the earlier rounds. An answer without the required form is asked for once more, in the same
session.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from clew.core.ids import SHORT_ID, ThreadId
from clew.core.lookup import LATEST, SEARCH_LIMIT, by_prefix
from clew.core.pins import PinState
from clew.core.record import Record
from clew.core.reviews import prompts as words
from clew.core.reviews.review import Review, ReviewMeasures, ReviewRound, RoundStatus, Scope, findings_of, measure
from clew.core.rules.rules import RulesSource
from clew.core.thread import Permissions, Thread, Trust
from clew.engine.engine import Engine
from clew.engine.request import check_argument
from clew.engine.settings import RuntimeContext
from clew.errors import NotFound, UsageError
from clew.git.changes import ChangesSince, Diff, EarlierDiff, Repository
from clew.hosts.reviews.rounds import LiveRound as LiveRound
from clew.hosts.reviews.rounds import PreparedRound, ReviewRounds, busy, last_seen
from clew.hosts.reviews.rounds import RoundOptions as RoundOptions
from clew.hosts.validation import existing_dir
from clew.store.store import Store

KIND = "review"
MESSAGE_MAX_CHARS = 100_000
FOCUS_MAX_CHARS = 10_000


class ReviewSpec(Record):
    """What a new review needs."""

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
    """A review with its thread and its rounds, each as `ReviewRounds.current` returns it."""

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
        """Creates a review; it and its diff are on disk when this returns. The first round runs in the background."""
        _check_length("focus", new.focus, FOCUS_MAX_CHARS)
        self._engine.find(new.agent)
        check_argument("model", new.model)
        repository = Repository(existing_dir(new.cwd), self._engine.context.environ)
        top = await repository.top()
        paths = await repository.inside(new.paths)
        diff = await repository.diff(new.scope, base=new.base, paths=paths)
        if not diff.changes:
            await repository.require(paths)
            raise UsageError("There is nothing to review: no file differs.", hint=_empty_hint(new))
        now, thread_id = self._engine.context.clock(), ThreadId(self._engine.context.new_id())
        day = time.strftime("%Y-%m-%d", time.localtime(now))
        draft = Review("", thread_id, top, new.scope, new.base, paths, new.focus.strip(), None, now)

        def create(store: Store) -> tuple[Review, Thread]:
            name = f"review-{thread_id[:SHORT_ID]}"  # until the review has its number
            store.threads.create(review_thread(thread_id, name, top, new.agent, new.model, now))
            review = store.reviews.create(draft, day)
            return review, store.threads.update(thread_id, at=now, name=f"review-{review.id}")

        rules_of = await _rules_of(repository, new.base, diff)
        prepared = self._first(draft, diff, 1).replace(rules_of=rules_of)
        review, thread = await self._engine.store.atomically(create)
        options = RoundOptions(agent=new.agent, resume=new.resume, timeout_s=new.timeout_s)
        return await self._rounds.begin(review, thread, prepared, options)

    async def follow(self, review_id: str, options: RoundOptions) -> LiveRound:
        """Begins a round about what changed since the newest round in the thread. Raises Busy during a round."""
        state = await self.find(review_id)
        review, thread, rounds = state.review, state.thread, state.rounds
        if state.last is not None and state.last.status is RoundStatus.RUNNING:
            raise busy(state.last)
        _check_length("message", options.message, MESSAGE_MAX_CHARS)
        if options.agent is not None:
            self._engine.find(options.agent)
        check_argument("model", options.model)
        repository = Repository(_existing_top(review), self._engine.context.environ)
        known = [each.base_commit for each in rounds if each.base_commit is not None]
        diff = await repository.diff(
            review.scope,
            base=review.base,
            base_commit=(known[-1] if review.base else known[0]) if known else None,
            paths=review.paths,
        )
        seen = await self._engine.store.call(lambda store: last_seen(store, review, rounds))
        if seen is None:
            prepared = self._first(review, diff, len(rounds) + 1, options.message, rounds)
        else:
            files = await self._engine.store.call(lambda store: store.reviews.round_files(review.id, seen.number))
            since = await repository.since(EarlierDiff(seen.base_commit, seen.changes, files), diff)
            if not since.text and not options.message and _is_repeated(state, options):
                raise UsageError(
                    f"Nothing has changed since round {seen.number}, and there is no message.",
                    hint="Change a file, add a message, or name another model.",
                )
            prepared = self._next(diff, since, seen, options.message, rounds)
        prepared = prepared.replace(rules_of=await _rules_of(repository, review.base, diff))
        return await self._rounds.begin(review, thread, prepared, options)

    async def find(self, review_id: str) -> ReviewState:
        """Raises NotFound."""
        return await self._engine.store.call(lambda store: self._state(store, store.reviews.require(review_id)))

    async def top(self, cwd: str) -> str:
        """The root of the work tree that contains `cwd`. Raises UsageError if there is none."""
        return await Repository(existing_dir(cwd), self._engine.context.environ).top()

    async def resolve(self, name: str, cwd: str = ".") -> str:
        """The id of a review, by its id, by an unambiguous prefix of it, or by `latest` for the newest of `cwd`'s
        repository. Raises NotFound."""
        if name == LATEST:
            top = await self.top(cwd)
            newest = await self._engine.store.call(lambda store: store.reviews.newest(top=top, limit=1))
            if not newest:
                raise NotFound(f"There is no review of {top} yet.", hint="Start one with `clew review start`.")
            return newest[0].id
        if await self._engine.store.call(lambda store: store.reviews.find(name)) is not None:
            return name
        recent = await self._engine.store.call(lambda store: store.reviews.newest(limit=SEARCH_LIMIT))
        hint = "`clew review list` shows them."
        return by_prefix(name, recent, lambda review: review.id, noun="review", hint=hint).id

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
        """The whole diff of a round, as git prints it."""
        return await self._engine.store.call(lambda store: store.reviews.round_diff(review_id, number))

    async def sessions(self, state: ReviewState) -> dict[str, str]:
        """By model: the session that its next round would resume."""

        def read(store: Store) -> dict[str, str]:
            pins = store.pins.of_thread(state.thread.id, retired=False)
            return {pin.model or "default": pin.session_id for pin in pins if pin.state is PinState.GOOD}

        return await self._engine.store.call(read)

    async def measures(self, *, since: float | None = None, thread_id: str | None = None) -> ReviewMeasures:
        """The measures of all reviews, or of the review in one thread."""
        rounds = await self._engine.store.call(lambda store: store.reviews.all_rounds(since=since, thread_id=thread_id))
        return measure(rounds)

    def _first(
        self, review: Review, diff: Diff, number: int, message: str = "", rounds: Sequence[ReviewRound] = ()
    ) -> PreparedRound:
        """A round that shows the whole diff: the first one, or one after rounds whose files are not known."""
        fitted = words.fit(diff.text)
        changes = words.marked(diff.changes, fitted.left_out)
        mark = new_mark(self._engine.context)
        text = words.first_round(
            review, number, changes, fitted.text, mark, diff.base_commit, message, findings_of(rounds)
        )
        changed_since = tuple(change.path for change in changes) if number > 1 else ()
        return PreparedRound(number, text, changes, changed_since, diff)

    def _next(
        self, diff: Diff, since: ChangesSince, seen: ReviewRound, message: str, rounds: Sequence[ReviewRound]
    ) -> PreparedRound:
        """A round that shows what changed since the round `seen`."""
        fitted, number = words.fit(since.text), len(rounds) + 1
        text = words.next_round(
            number,
            message,
            findings_of(rounds),
            since.paths,
            fitted,
            new_mark(self._engine.context),
            base_moved=diff.base_commit != seen.base_commit,
            last=seen.number,
        )
        return PreparedRound(number, text, words.marked(diff.changes, fitted.left_out), since.paths, diff)

    def _state(self, store: Store, review: Review) -> ReviewState:
        rounds = tuple(self._rounds.current(store, each) for each in store.reviews.rounds(review.id))
        return ReviewState(review, store.threads.require_by_id(review.thread_id), rounds)


def review_thread(thread_id: ThreadId, name: str, cwd: str, agent: str, model: str | None, now: float) -> Thread:
    return Thread(
        id=thread_id,
        name=name,
        cwd=cwd,
        agent=agent,
        model=model,
        permissions=Permissions.READ_ONLY,
        trust=Trust.USER,
        standing=words.RUBRIC,
        kind=KIND,
        created_at=now,
        updated_at=now,
    )


async def _rules_of(repository: Repository, base: str | None, diff: Diff) -> RulesSource | None:
    """Commits that are compared with a base may be somebody else's, whoever they name as their author: the reviewer is
    shown the rules of the base. Changes that are not committed are the user's own."""
    if base is None:
        return None
    return RulesSource(diff.top, await repository.tip(base) or diff.base_commit or "")


def new_mark(context: RuntimeContext) -> str:
    """A random mark for the fence lines around data in a prompt."""
    return context.new_id()[:16]


def _check_length(what: str, text: str, limit: int) -> None:
    if len(text) > limit:
        raise UsageError(f"The {what} has {len(text):,} characters; the limit is {limit:,}.")


def _is_repeated(state: ReviewState, options: RoundOptions) -> bool:
    """Whether the last round was answered by the same model that the next round would ask."""
    last, thread = state.last, state.thread
    if last is None or last.status is not RoundStatus.DONE:
        return False
    agent = options.agent or thread.agent
    model = options.model or (thread.model if agent == thread.agent else None)
    return agent == last.agent and model in (None, last.model)


def _existing_top(review: Review) -> str:
    try:
        return existing_dir(review.top)
    except UsageError as error:
        raise UsageError(
            f"{review.top}, the directory of review {review.id}, does not exist any more.",
            hint="Restore it, or start another review.",
        ) from error


def _empty_hint(new: ReviewSpec) -> str:
    if new.base is not None or new.paths:
        return "Another base or other paths may have changes."
    if new.scope is not Scope.ALL:
        return "Without --staged or --unstaged (scope: all), a review includes everything that is not committed."
    return "Name a base, such as main, to review commits."
