"""Threads that are made from others, for every surface: fork, compare, merge and replay.

    operation = await branching.replay(client, "fix-login", ReplayOptions(model="opus"))
    async for event in operation:
        print(event.message)
    replayed = await operation

The functions return records; each has a function or a method that makes its wire shape.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.api.operations import Operation, Report
from clew.api.wire import branching as wire
from clew.api.wire.failures import Failure
from clew.api.wire.threads import origin
from clew.api.wire.usage import Usage as UsageShape
from clew.core.branching.edits import diff_lines
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.history import Turn
from clew.core.record import Record
from clew.core.thread import Thread
from clew.errors import Busy, ClewError
from clew.hosts.branching import compare as comparing
from clew.hosts.branching import merge as merging
from clew.hosts.branching import replay as replaying
from clew.hosts.branching.compare import Comparison as Comparison
from clew.hosts.branching.fork import Forked as Forked
from clew.hosts.branching.merge import Merged as Merged
from clew.hosts.branching.merge import MergeOptions as MergeOptions
from clew.hosts.branching.replay import LiveReplay as LiveReplay
from clew.hosts.branching.replay import ReplayAnswer as ReplayAnswer
from clew.hosts.branching.replay import ReplayAnswered as ReplayAnswered
from clew.hosts.branching.replay import ReplayAsking as ReplayAsking
from clew.hosts.branching.replay import ReplayEvent as ReplayEvent
from clew.hosts.branching.replay import ReplayOptions as ReplayOptions
from clew.hosts.branching.replay import ReplayRound as ReplayRound
from clew.hosts.branching.replay import ReplayRunEvent as ReplayRunEvent

if TYPE_CHECKING:
    from clew.api.client import Client

DIFF_CONTEXT = 3  # equal lines around a difference


async def fork(
    client: Client, name: str, new: str | None = None, *, at_round: int | None = None, at_turn: str | None = None
) -> Forked:
    """Copies a thread's history up to a round or a turn into a new thread, or a pair's into a new pair.

    Raises NotFound, Conflict, Busy when that round is still being answered, and UsageError.
    """
    return await client.fork(name, new, at_round=at_round, at_turn=at_turn)


async def fork_shape(client: Client, made: Forked) -> wire.Fork:
    return wire.Fork(
        name=made.pair or made.threads[0].name,
        id=None if made.pair else made.threads[0].id,
        of=[wire.NamedThread(made.of_id, made.of)],
        pair=made.pair,
        turns=made.turns,
        rounds=made.rounds,
        notes=list(made.notes),
        threads=[await _forked_thread(client, each) for each in made.threads],
    )


async def _forked_thread(client: Client, thread: Thread) -> wire.ForkedThread:
    return wire.ForkedThread.of(
        thread,
        instructions=thread.standing,
        origin=None if thread.origin is None else origin(thread.origin),
        next_turn=await next_turn(client, thread),
    )


async def next_turn(client: Client, thread: Thread) -> wire.NextTurn:
    """What the next turn of the thread will do. If that is not known, the words say why."""
    try:
        preview = await (await client.find(thread.id)).preview()
    except ClewError as error:
        return wire.NextTurn(resumes=None, reason=None, words=error.message)
    return wire.NextTurn.of(preview)


async def compare(client: Client, a: str, b: str) -> tuple[Comparison, ...]:
    """Compares two threads, or two pairs part by part. Raises NotFound and UsageError."""
    return await comparing.compare(client.engine, a, b)


def comparison_shape(found: Sequence[Comparison], context: int = DIFF_CONTEXT) -> wire.Comparison | wire.PairComparison:
    """`context`: how many equal lines the diffs of files show around a difference."""
    same = all(each.is_same for each in found)
    parts = [_compared(each, context) for each in found]
    if len(parts) == 1:
        return wire.Comparison.of(parts[0], same=same)
    instructor, worker = parts
    return wire.PairComparison(same=same, instructor=instructor, worker=worker)


def _compared(compared: Comparison, context: int) -> wire.ComparedPart:
    names = compared.a.name, compared.b.name
    return wire.ComparedPart(
        a=wire.NamedThread.of(compared.a),
        b=wire.NamedThread.of(compared.b),
        turns=[wire.TurnDifference.of(each, a=_turn(each.a), b=_turn(each.b)) for each in compared.turns],
        files=[
            wire.FileDifference.of(
                file, a_edits=len(file.a), b_edits=len(file.b), diff="\n".join(diff_lines(file, names, context))
            )
            for file in compared.files
        ],
    )


def _turn(turn: Turn | None) -> wire.ComparedTurn | None:
    return None if turn is None else wire.ComparedTurn.of(turn)


async def merge(client: Client, a: str, b: str, options: MergeOptions) -> Merged:
    """Makes a new thread with the turns of both, which stay as they are.

    Raises NotFound, UsageError, Busy during a run in either, and Conflict when the name is taken or they keep changing.
    """
    return await merging.merge(client.engine, a, b, options)


def merge_shape(made: Merged) -> wire.Merge:
    thread = made.thread
    return wire.Merge(
        name=thread.name,
        id=thread.id,
        of=[wire.NamedThread.of(each) for each in made.of],
        agent=thread.agent,
        model=thread.model,
        cwd=thread.cwd,
        common_turns=made.common,
        own_turns=list(made.own),
        size_chars=made.chars,
        files=[wire.MergedFile.of(file) for file in made.files],
    )


class ReplayTotals(Record):
    """The sums of one thread's answers. Values that are not known are not counted."""

    answers: int
    cut_off: int
    usage: Usage
    cost_usd: float | None
    unpriced: int  # answers whose cost is not known
    seconds: float | None


class Replayed(Record):
    """A replay, as far as it has come."""

    old: Thread
    thread: Thread
    count: int  # prompts in all
    rounds: tuple[ReplayRound, ...]  # those that were asked
    error: ClewError | None  # why it ended early

    @property
    def before(self) -> ReplayTotals:
        return _totals([each.before for each in self.rounds])

    @property
    def after(self) -> ReplayTotals:
        return _totals([each.after for each in self.rounds])

    def to_shape(self) -> wire.Replay:
        thread = self.thread
        return wire.Replay(
            name=thread.name,
            id=thread.id,
            of=[wire.NamedThread.of(self.old)],
            agent=thread.agent,
            model=thread.model,
            permissions=thread.permissions.value,
            cwd=thread.cwd,
            prompts=self.count,
            rounds=[
                wire.ReplayRound.of(each, before=_answer(each.before), after=_answer(each.after))
                for each in self.rounds
            ],
            before=_totals_shape(self.before),
            after=_totals_shape(self.after),
            error=None if self.error is None else Failure.of(self.error),
        )


def _totals(said: Sequence[ReplayAnswer | None]) -> ReplayTotals:
    known = [each for each in said if each is not None]
    times = [each.seconds for each in known if each.seconds is not None]
    costs = [each.cost_usd for each in known if each.cost_usd is not None]
    return ReplayTotals(
        answers=sum(not each.partial for each in known),
        cut_off=sum(each.partial for each in known),
        usage=sum((each.usage for each in known), NO_USAGE),
        cost_usd=sum(costs) if costs else None,
        unpriced=len(known) - len(costs),
        seconds=sum(times) if times else None,
    )


def _totals_shape(totals: ReplayTotals) -> wire.ReplayTotals:
    return wire.ReplayTotals.of(totals, usage=UsageShape.of(totals.usage))


def _answer(answer: ReplayAnswer | None) -> wire.ReplayAnswer | None:
    return None if answer is None else wire.ReplayAnswer.of(answer, usage=UsageShape.of(answer.usage))


async def replay(client: Client, name: str, options: ReplayOptions) -> Operation[Replayed]:
    """Asks another model the prompts of a thread, one after the other, in a new thread.

    A cancel stops the run gracefully and keeps what was answered. The same call with the new thread's name in the
    options continues with the first prompt that has no complete answer. The agent's questions are declined. A replay
    that fails or is cancelled has a result too: what was answered so far.

    Raises NotFound, UsageError, AgentMissing, Busy, and Conflict: see `prepare_replay`.
    """
    client.operations.check_capacity()
    return start_replay(client, await prepare_replay(client, name, options))


async def prepare_replay(client: Client, name: str, options: ReplayOptions) -> LiveReplay:
    """A replay that has not begun: its thread is on disk. Iterating over its `events` asks the prompts.

    Raises NotFound, UsageError, AgentMissing, Busy during a run in the new thread, and Conflict when its name is that
    of another thread, or when its prompts differ from those of the old one.
    """
    return await replaying.replay(client.engine, name, options)


def start_replay(client: Client, live: LiveReplay) -> Operation[Replayed]:
    """Carries out a prepared replay. Each round's events have its number, the new thread and the id of its run.

    Raises Busy when another replay asks in the new thread, or when too many operations run.
    """
    _check_no_other(client, live.thread)

    async def work(operation: Operation[Replayed], report: Report) -> Replayed:
        try:
            await _report_rounds(live, report)
        except asyncio.CancelledError:
            live.kill()
            raise
        done = await replayed(live)
        if done.error is not None:
            operation.keep(done, done.to_shape())
            raise done.error
        return done

    names = (live.old.name, live.thread.name)
    operation = client.operations.start("replay", work, Replayed.to_shape, subjects=names)
    operation.target = live.thread.id
    operation.stop_with(live.cancel)
    return operation


def _check_no_other(client: Client, thread: Thread) -> None:
    for each in client.operations.list():
        if each.is_running and each.kind == "replay" and each.target == thread.id:
            raise Busy(f"Another replay asks in {thread.name}.", hint="Wait for it, or cancel it.")


async def _report_rounds(live: LiveReplay, report: Report) -> None:
    run_id: str | None = None
    async for event in live.events():
        which = f"round {event.number} of {live.count}"
        about = {"round": event.number, "thread_id": live.thread.id, "thread": live.thread.name}
        if isinstance(event, ReplayRunEvent) and run_id is None:
            run_id = live.run_id
            report.progress(f"asking {which}", event.number - 1, live.count, **about, run_id=run_id)
        elif isinstance(event, ReplayAnswered):
            answer = event.answers.after
            is_complete = answer is not None and not answer.partial
            said = f"{which} is answered" if is_complete else f"{which} has no complete answer"
            done = event.number if is_complete else event.number - 1
            report.progress(said, done, live.count, **about, run_id=run_id)
            run_id = None


async def replayed(live: LiveReplay) -> Replayed:
    """How far the replay has come."""
    answers = (await live.answers())[: live.count]
    return Replayed(live.old, live.thread, live.count, tuple(answers), live.error)
