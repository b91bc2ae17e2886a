"""Replays: the prompts of a thread, asked of another model in a thread of its own, each after the former's answer.

The old thread is only read. All that was answered stays, whatever ends a replay; one that is asked for again under the
same name goes on with the first prompt that has no whole answer yet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

from clew.core.branching.compare import PromptRound, rounds
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.history import Role
from clew.core.ids import ThreadId, TurnId
from clew.core.record import Record
from clew.core.runs.events import Event
from clew.core.runs.options import Person, TurnOptions
from clew.core.thread import Origin, OriginKind, Permissions, SourceThread, Thread, name_from
from clew.engine.engine import Engine
from clew.engine.request import TurnRequest, check_argument
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
from clew.hosts.validation import check_dir, check_name, existing_dir, single_thread
from clew.store.store import Store

NAME_CHARS = 39  # of the old thread's name, in the new one's
KEPT = "What was answered is kept, and the replay can go on."
MORE_TIME = "What was answered is kept, and the replay can go on; give it more time with --timeout."


class ReplayOptions(Record):
    """Who is asked, and how; None: as the old thread has it."""

    model: str | None = None
    agent: str | None = None
    rounds: int | None = None  # only the first so many
    cwd: str | None = None
    permissions: Permissions | None = None  # None: read-only
    name: str | None = None


class ReplayAnswer(Record):
    """An answer, and what it took."""

    agent: str
    model: str | None
    text: str
    partial: bool = False
    usage: Usage = NO_USAGE
    cost_usd: float | None = None  # None: not known
    seconds: float | None = None  # None: not known


class ReplayRound(Record):
    """One prompt, and what came of it in both threads; None: nothing."""

    number: int
    prompt: str
    before: ReplayAnswer | None
    after: ReplayAnswer | None


class ReplayEvent(Record):
    """One thing that happened in a replay."""

    kind: ClassVar[str] = ""
    number: int  # of the round


class ReplayAsking(ReplayEvent):
    kind: ClassVar[str] = "asking"
    prompt: str


class ReplayRunEvent(ReplayEvent):
    """An event of the run, as it came."""

    kind: ClassVar[str] = "heard"
    event: Event


class ReplayAnswered(ReplayEvent):
    kind: ClassVar[str] = "answered"
    answers: ReplayRound


class _Due(Record):
    number: int
    text: str
    retry_of: TurnId | None = None  # it was asked before, and not answered to its end


class LiveReplay:
    """A replay that this process carries out, while somebody listens to its events."""

    def __init__(
        self, engine: Engine, old: Thread, thread: Thread, due: Sequence[_Due], count: int, *, goes_on: bool
    ) -> None:
        self.old = old
        self.thread = thread
        self.count = count  # prompts in all
        self.goes_on = goes_on  # the new thread was there before
        self.asked_before = count - len(due)
        self.error: ClewError | None = None  # why it stopped, once it has
        self._engine = engine
        self._due = due
        self._stopped = False
        self._turn: LiveTurn | None = None

    def cancel(self) -> None:
        """Stops gently: what was said is kept."""
        self._stopped = True
        if self._turn is not None:
            self._turn.cancel()

    def kill(self) -> None:
        self._stopped = True
        if self._turn is not None:
            self._turn.kill()

    async def events(self, person: Person | None = None) -> AsyncIterator[ReplayEvent]:
        """Asks what is due, one prompt after the other. The first that is not answered is the last."""
        for due in self._due:
            if self._stopped:
                self.error = Cancelled("The replay was stopped.", hint=KEPT)
                return
            yield ReplayAsking(due.number, due.text)
            try:
                self._turn = await self._ask(due, person)
            except ClewError as error:
                self.error = error
                return
            if self._stopped:
                self._turn.cancel()
            async for noted in self._turn.events():
                yield ReplayRunEvent(due.number, noted.event)
            finished = await self._turn.finish()
            self._turn = None
            self.error = _in_our_words(finished.error)
            yield ReplayAnswered(due.number, await self._answers_to(due))
            if self.error is not None:
                return

    async def _ask(self, due: _Due, person: Person | None) -> LiveTurn:
        thread = self.thread
        check_dir(thread)
        options = TurnOptions(model=thread.model, fresh_session=due.retry_of is not None, person=person)
        return await self._engine.start(
            TurnRequest(thread, due.text, options, standing=thread.standing, retry_of=due.retry_of)
        )

    async def _answers_to(self, due: _Due) -> ReplayRound:
        """A prompt that was stopped while it waited did not come into its thread."""
        known = await self.answers()
        return known[due.number - 1] if len(known) >= due.number else ReplayRound(due.number, due.text, None, None)

    async def answers(self) -> list[ReplayRound]:
        """Every prompt that was asked in both, and what was answered so far."""

        def read(store: Store) -> list[ReplayRound]:
            old, new = _asked(store, self.old), _asked(store, self.thread)
            return [
                ReplayRound(number, mine.prompt, _said(store, theirs), _said(store, mine))
                for number, (theirs, mine) in enumerate(zip(old, new, strict=False), start=1)
            ]

        return await self._engine.store.call(read)


async def replay(engine: Engine, name: str, wanted: ReplayOptions) -> LiveReplay:
    """The new thread is on disk when this returns; its events carry the replay out.

    Raises NotFound, UsageError, AgentMissing, Busy while a run is going on in the new thread, and Conflict when its
    name is that of another thread, or when it no longer follows the old one.
    """
    if wanted.name is not None:
        check_name(wanted.name)
    if wanted.model is not None and not wanted.model.strip():
        raise UsageError("The model has no name.", hint="Name one, or leave it out: then it is the agent's own.")
    check_argument("model", wanted.model)
    cwd = existing_dir(wanted.cwd) if wanted.cwd is not None else None

    def prepare(store: Store) -> LiveReplay:
        old = single_thread(store, name)
        prompts = _asked(store, old)[: wanted.rounds]
        if not prompts:
            raise UsageError(f"Nothing was asked in {old.name} yet.", hint="There is nothing to replay.")
        engine.find(wanted.agent or old.agent)
        found = store.threads.find(wanted.name) if wanted.name is not None else None
        if found is None:
            thread = store.threads.create(_new(engine, old, wanted, cwd), unique=wanted.name is None)
        else:
            thread = _gone_on(store, engine, old, found, wanted, cwd)
        due = _due(store, old, thread, prompts)
        return LiveReplay(engine, old, thread, due, len(prompts), goes_on=found is not None)

    return await engine.store.atomically(prepare)


def _in_our_words(error: ClewError | None) -> ClewError | None:
    """Whoever asks in the thread to go on makes another one of it than the replay was."""
    if isinstance(error, AgentError) and not isinstance(error, AuthFailed | BillingFailed | WrongModel):
        error.hint = MORE_TIME if isinstance(error, TimedOut) else KEPT
    return error


def _asked(store: Store, thread: Thread) -> list[PromptRound]:
    return [each for each in rounds(store.turns.history(thread.id)) if each.turns[0].role is Role.USER]


def _new(engine: Engine, old: Thread, wanted: ReplayOptions, cwd: str | None) -> Thread:
    now = engine.context.clock()
    agent = wanted.agent or old.agent
    return Thread(
        id=ThreadId(engine.context.new_id()),
        name=wanted.name or f"{old.name[:NAME_CHARS]}-{name_from(wanted.model or agent)}",
        cwd=cwd or existing_dir(old.cwd),
        agent=agent,
        model=wanted.model,
        permissions=wanted.permissions or Permissions.READ_ONLY,
        standing=old.standing,
        origin=Origin(OriginKind.REPLAY, (SourceThread(old.id, old.name),)),
        created_at=now,
        updated_at=now,
    )


def _gone_on(
    store: Store, engine: Engine, old: Thread, found: Thread, wanted: ReplayOptions, cwd: str | None
) -> Thread:
    """A replay that was begun before, with the directory and the permissions that are wanted now."""
    origin = found.origin
    if origin is None or origin.how is not OriginKind.REPLAY or [source.id for source in origin.of] != [old.id]:
        raise Conflict(
            f"There is a thread named {found.name} already, and it is no replay of {old.name}.",
            hint="Choose another --name.",
        )
    if engine.is_held(store, found.id):
        raise Busy(f"A run is going on in {found.name}.", hint="Wait for it, or stop it with clew runs cancel.")
    asked = (wanted.agent or old.agent, wanted.model)
    if asked not in ((found.agent, found.model), (found.agent, None)):
        who = " ".join(part for part in (found.agent, found.model) if part)
        raise Conflict(f"{found.name} is a replay with {who}.", hint="Choose another --name for another model.")
    changes = {"cwd": cwd, "permissions": wanted.permissions}
    changes = {key: value for key, value in changes.items() if value not in (None, getattr(found, key))}
    return store.threads.update(found.id, at=engine.context.clock(), **changes) if changes else found


def _due(store: Store, old: Thread, thread: Thread, prompts: Sequence[PromptRound]) -> list[_Due]:
    """What is still to be asked. Raises Conflict when the threads no longer ask the same."""
    asked = _asked(store, thread)
    theirs = [each.prompt for each in _asked(store, old)]
    if [each.prompt for each in asked] != theirs[: len(asked)]:
        raise Conflict(
            f"{thread.name} and {old.name} no longer ask the same: one of them was changed since.",
            hint="Choose another --name, and it is replayed from the start.",
        )
    again = asked[-1].turns[0].id if asked and not _is_answered(asked[-1]) else None
    whole = len(asked) - (again is not None)
    return [
        _Due(number, each.prompt, again if number == len(asked) else None)
        for number, each in enumerate(prompts, start=1)
        if number > whole
    ]


def _is_answered(round_: PromptRound) -> bool:
    return any(not turn.partial for turn in round_.answers)


def _said(store: Store, round_: PromptRound) -> ReplayAnswer | None:
    if not round_.answers:
        return None
    last = round_.answers[-1]
    run = store.runs.find(last.run_id) if last.run_id is not None else None
    seconds = None
    if run is not None and run.started_at is not None and run.ended_at is not None:
        seconds = max(0.0, run.ended_at - run.started_at)
    # A run that took tokens and cost nothing is one whose price the agent does not report.
    is_priced = run is not None and (run.cost_usd > 0 or run.usage == NO_USAGE)
    return ReplayAnswer(
        agent=last.agent or "agent",
        model=last.model,
        text=round_.answer,
        partial=last.partial,
        usage=run.usage if run is not None else NO_USAGE,
        cost_usd=run.cost_usd if run is not None and is_priced else None,
        seconds=seconds,
    )
