"""Replays: asks the prompts of a thread again, in a new thread with another model, one after the other.

Only what a user said is asked again: the prompts with which Clew continued an interrupted run are left out. The old
thread is only read. If a replay ends early, its answers are kept. A replay that is started again under the same
name continues with the first prompt that has no complete answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

from clew.core.branching.compare import PromptRound, asked_by_user
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.ids import ThreadId, TurnId
from clew.core.images import Image
from clew.core.record import Record
from clew.core.runs.events import Event
from clew.core.runs.options import Person, TurnOptions
from clew.core.runs.run import Run
from clew.core.thread import Origin, OriginKind, Permissions, SourceThread, Thread, name_from
from clew.engine.engine import Engine
from clew.engine.request import TurnRequest, check_argument
from clew.engine.rules.shown import inherit_source
from clew.engine.turn import LiveTurn
from clew.errors import (
    AgentError,
    AuthFailed,
    BillingFailed,
    Busy,
    Cancelled,
    ClewError,
    Conflict,
    TimedOut,
    UsageError,
    WrongModel,
)
from clew.hosts.validation import check_dir, check_idle, check_name, existing_dir, single_thread
from clew.store.store import Store

NAME_CHARS = 39  # of the old thread's name, in the name of the new one
KEPT = "The answers so far are kept, and the replay can be continued."
MORE_TIME = "The answers so far are kept, and the replay can be continued; give it more time with --timeout."


class ReplayOptions(Record):
    """Who is asked, and how. None: agent and directory as in the old thread, and the agent's default model."""

    model: str | None = None
    agent: str | None = None
    rounds: int | None = None  # how many prompts, from the first on; None: all
    cwd: str | None = None
    permissions: Permissions | None = None  # None: read-only
    name: str | None = None  # None: made from the old thread's name and the model
    timeout_s: float | None = None  # of each run; None: as the settings say


class ReplayAnswer(Record):
    """An answer, with its usage, cost and duration."""

    agent: str
    model: str | None
    text: str
    partial: bool = False
    usage: Usage = NO_USAGE
    cost_usd: float | None = None  # None: not known
    seconds: float | None = None  # None: not known


class ReplayRound(Record):
    """One prompt, and its answer in the old and in the new thread. None: that thread has no answer to it."""

    number: int
    prompt: str
    before: ReplayAnswer | None
    after: ReplayAnswer | None


class ReplayEvent(Record):
    """Something that happened in a replay."""

    kind: ClassVar[str] = ""
    number: int  # of the round


class ReplayAsking(ReplayEvent):
    kind: ClassVar[str] = "asking"
    prompt: str


class ReplayRunEvent(ReplayEvent):
    """An event of the run, passed on unchanged."""

    kind: ClassVar[str] = "heard"
    event: Event


class ReplayAnswered(ReplayEvent):
    kind: ClassVar[str] = "answered"
    answers: ReplayRound


class _Prompt(Record):
    """A prompt that is still to be asked."""

    number: int
    text: str
    typed: str | None = None
    images: tuple[Image, ...] = ()
    retry_of: TurnId | None = None  # its turn, if it was asked before and has no complete answer


class LiveReplay:
    """A replay in this process. It runs while its events are iterated."""

    def __init__(
        self,
        engine: Engine,
        old: Thread,
        thread: Thread,
        prompts: Sequence[str],
        to_ask: Sequence[_Prompt],
        *,
        is_continued: bool,
    ) -> None:
        self.old = old
        self.thread = thread
        self.count = len(prompts)  # in all
        self.is_continued = is_continued  # the new thread existed already
        self.asked_before = len(prompts) - len(to_ask)
        self.error: ClewError | None = None  # why it stopped, once it has
        self.timeout_s: float | None = None  # of each run; None: as the settings say
        self._engine = engine
        self._prompts = prompts
        self._to_ask = to_ask
        self._stopped = False
        self._turn: LiveTurn | None = None

    @property
    def run_id(self) -> str | None:
        """The run in progress."""
        return None if self._turn is None else self._turn.run.id

    def cancel(self) -> None:
        """Stops gently: what the agent has said is kept."""
        self._stopped = True
        if self._turn is not None:
            self._turn.cancel()

    def kill(self) -> None:
        self._stopped = True
        if self._turn is not None:
            self._turn.kill()

    async def events(self, person: Person | None = None) -> AsyncIterator[ReplayEvent]:
        """Asks the prompts, one after the other. Ends after the first that fails."""
        for prompt in self._to_ask:
            if self._stopped:
                self.error = Cancelled("The replay was stopped.", hint=KEPT)
                return
            yield ReplayAsking(prompt.number, prompt.text)
            try:
                self._turn = await self._ask(prompt, person)
            except ClewError as error:
                self.error = error
                return
            if self._stopped:
                self._turn.cancel()
            async for stored in self._turn.events():
                yield ReplayRunEvent(prompt.number, stored.event)
            finished = await self._turn.finish()
            self._turn = None
            self.error = _with_replay_hint(finished.error)
            yield ReplayAnswered(prompt.number, await self._answers_to(prompt))
            if self.error is not None:
                return

    async def _ask(self, prompt: _Prompt, person: Person | None) -> LiveTurn:
        thread = self.thread
        check_dir(thread)
        options = TurnOptions(
            model=thread.model,
            fresh_session=prompt.retry_of is not None,
            timeout_s=self.timeout_s,
            person=person,
            wait=False,  # a prompt that waits is not in the history yet, so that another replay would ask it too
        )
        request = TurnRequest(
            thread,
            prompt.text,
            options,
            typed=prompt.typed,
            standing=thread.standing,
            retry_of=prompt.retry_of,
            images=prompt.images,
        )

        def check(store: Store, _: Run) -> None:
            self._check_is_next(store, prompt)

        try:
            return await self._engine.start(request, check)
        except Busy as error:
            raise _asked_elsewhere(thread) from error

    def _check_is_next(self, store: Store, prompt: _Prompt) -> None:
        """Raises Conflict unless the new thread has the prompts before this one, and no others."""
        asked = _asked(store, self.thread)
        known = [each.prompt for each in asked]
        if prompt.retry_of is None:
            is_next = known == self._prompts[: prompt.number - 1]
        else:
            is_next = known == self._prompts[: prompt.number] and _incomplete(asked) == prompt.retry_of
        if not is_next:
            raise _asked_elsewhere(self.thread)

    async def _answers_to(self, prompt: _Prompt) -> ReplayRound:
        """The prompt with its answers. If it was cancelled while it was queued, it is not in the new thread."""
        known = await self.answers()
        if len(known) >= prompt.number:
            return known[prompt.number - 1]
        return ReplayRound(prompt.number, prompt.text, None, None)

    async def answers(self) -> list[ReplayRound]:
        """Every prompt that was asked in both threads, with the answers so far."""

        def read(store: Store) -> list[ReplayRound]:
            old, new = _asked(store, self.old), _asked(store, self.thread)
            return [
                ReplayRound(number, mine.prompt, _answer(store, theirs), _answer(store, mine))
                for number, (theirs, mine) in enumerate(zip(old, new, strict=False), start=1)
            ]

        return await self._engine.store.call(read)


async def replay(engine: Engine, name: str, options: ReplayOptions) -> LiveReplay:
    """Prepares a replay. The new thread is on disk when this returns; iterating the events asks the prompts.

    Raises NotFound, UsageError, AgentMissing, Busy during a run in the new thread, and Conflict when its name is that
    of another thread, or when its prompts differ from those of the old one.
    """
    if options.name is not None:
        check_name(options.name)
    if options.model is not None and not options.model.strip():
        raise UsageError("The model has no name.", hint="Name one, or leave it out to use the agent's default.")
    check_argument("model", options.model)
    cwd = existing_dir(options.cwd) if options.cwd is not None else None

    def prepare(store: Store) -> LiveReplay:
        old = single_thread(store, name)
        prompts = _asked(store, old)[: options.rounds]
        if not prompts:
            raise UsageError(f"Nothing was asked in {old.name} yet.", hint="There is nothing to replay.")
        engine.find(options.agent or old.agent)
        found = store.threads.find(options.name) if options.name is not None else None
        if found is None:
            thread = store.threads.create(_new(engine, old, options, cwd), unique=options.name is None)
            inherit_source(store, thread.id, old.id)
        else:
            thread = _continued(store, engine, old, found, options, cwd)
        to_ask = _prompts_to_ask(store, old, thread, prompts)
        texts = [each.prompt for each in prompts]
        return LiveReplay(engine, old, thread, texts, to_ask, is_continued=found is not None)

    live = await engine.store.atomically(prepare)
    live.timeout_s = options.timeout_s
    return live


def _with_replay_hint(error: ClewError | None) -> ClewError | None:
    """Replaces the usual hint, which is to ask again in the thread: then the thread would no longer be a replay."""
    if isinstance(error, AgentError) and not isinstance(error, AuthFailed | BillingFailed | WrongModel):
        error.hint = MORE_TIME if isinstance(error, TimedOut) else KEPT
    return error


def _asked(store: Store, thread: Thread) -> list[PromptRound]:
    return asked_by_user(store.turns.history(thread.id))


def _new(engine: Engine, old: Thread, options: ReplayOptions, cwd: str | None) -> Thread:
    now = engine.context.clock()
    agent = options.agent or old.agent
    return Thread(
        id=ThreadId(engine.context.new_id()),
        name=options.name or f"{old.name[:NAME_CHARS]}-{name_from(options.model or agent)}",
        cwd=cwd or existing_dir(old.cwd),
        agent=agent,
        model=options.model,
        permissions=options.permissions or Permissions.READ_ONLY,
        standing=old.standing,
        origin=Origin(OriginKind.REPLAY, (SourceThread(old.id, old.name),)),
        created_at=now,
        updated_at=now,
    )


def _continued(
    store: Store, engine: Engine, old: Thread, found: Thread, options: ReplayOptions, cwd: str | None
) -> Thread:
    """The thread of an earlier replay, with the directory and the permissions that the options give."""
    origin = found.origin
    if origin is None or origin.how is not OriginKind.REPLAY or [source.id for source in origin.of] != [old.id]:
        raise Conflict(
            f"There is a thread named {found.name} already, and it is not a replay of {old.name}.",
            hint="Choose another --name.",
        )
    check_idle(store, engine, found)
    asked = (options.agent or old.agent, options.model)
    if asked not in ((found.agent, found.model), (found.agent, None)):
        who = " ".join(part for part in (found.agent, found.model) if part)
        raise Conflict(f"{found.name} is a replay with {who}.", hint="Choose another --name for another model.")
    changes = {"cwd": cwd, "permissions": options.permissions}
    changes = {key: value for key, value in changes.items() if value not in (None, getattr(found, key))}
    return store.threads.update(found.id, at=engine.context.clock(), **changes) if changes else found


def _prompts_to_ask(store: Store, old: Thread, thread: Thread, prompts: Sequence[PromptRound]) -> list[_Prompt]:
    """The prompts without a complete answer. Raises Conflict when the two threads have different prompts."""
    asked = _asked(store, thread)
    theirs = [each.prompt for each in _asked(store, old)]
    if [each.prompt for each in asked] != theirs[: len(asked)]:
        raise Conflict(
            f"{thread.name} and {old.name} no longer have the same prompts: one of them was changed.",
            hint="Choose another --name to replay it from the start.",
        )
    retry_of = _incomplete(asked)
    answered = len(asked) - (retry_of is not None)
    return [
        _Prompt(
            number,
            each.prompt,
            each.turns[0].typed,
            each.turns[0].images,
            retry_of if number == len(asked) else None,
        )
        for number, each in enumerate(prompts[answered:], start=answered + 1)
    ]


def _incomplete(asked: Sequence[PromptRound]) -> TurnId | None:
    """The last prompt's turn, if it has no complete answer."""
    return asked[-1].turns[0].id if asked and all(turn.partial for turn in asked[-1].answers) else None


def _asked_elsewhere(thread: Thread) -> Conflict:
    return Conflict(
        f"Another replay asks in {thread.name}, or it was changed meanwhile.",
        hint="Wait for the other one, or choose another --name.",
    )


def _answer(store: Store, round_: PromptRound) -> ReplayAnswer | None:
    if not round_.answers:
        return None
    last = round_.answers[-1]
    ids = dict.fromkeys(turn.run_id for turn in round_.answers if turn.run_id is not None)
    runs = [run for run in (store.runs.find(run_id) for run_id in ids) if run is not None]
    times = [run.ended_at - run.started_at for run in runs if run.started_at is not None and run.ended_at is not None]
    # If a run used tokens and its cost is 0, the agent does not report costs.
    is_priced = bool(runs) and all(run.cost_usd > 0 or run.usage == NO_USAGE for run in runs)
    return ReplayAnswer(
        agent=last.agent or "agent",
        model=last.model,
        text=round_.answer,
        partial=last.partial,
        usage=sum((run.usage for run in runs), NO_USAGE),
        cost_usd=sum(run.cost_usd for run in runs) if is_priced else None,
        seconds=max(0.0, sum(times)) if times else None,
    )
