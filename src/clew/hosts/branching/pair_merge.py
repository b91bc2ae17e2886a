"""Merges two pairs into a new one: instructor with instructor, worker with worker, as two threads are merged.

The new pair has the rounds that both begin with, then those of A, then those of B, under new numbers. It does not run
until somebody resumes it, best with a message that says what is next. The two pairs do not change.
"""

from __future__ import annotations

from collections.abc import Mapping

from clew.core.branching.edits import FileDiff
from clew.core.ids import ThreadId
from clew.core.pairs.pair import Pair, PairPart, PairRound, Phase, known_models
from clew.core.pairs.prompts import shortened
from clew.core.prompts import fenced
from clew.core.record import Record, replace
from clew.core.thread import Origin, OriginKind, SourceThread, Thread, narrower
from clew.engine.engine import Engine
from clew.engine.request import check_argument
from clew.errors import Conflict, UsageError
from clew.hosts.branching.merge import (
    Edits,
    MergedTurns,
    MergeOptions,
    MergeSources,
    edits_in,
    idle_sources,
    merged_turns,
)
from clew.hosts.pairs.folder import new_pair_id
from clew.hosts.pairs.imports import create_with_threads
from clew.hosts.pairs.live import check_free
from clew.hosts.pairs.naming import check_pair_name
from clew.hosts.validation import existing_dir
from clew.store.store import Store

NAME_CHARS = 28  # of each pair's name, in the name of the new one


class MergedPart(Record):
    """How a thread of the new pair was merged."""

    common: int  # turns with which both begin
    own: tuple[int, int]  # further turns of each
    files: tuple[FileDiff, ...]
    chars: int  # of all turns


class MergedPair(Record):
    """The result of a merge of two pairs."""

    pair: Pair
    of: tuple[Pair, Pair]
    common: int  # rounds with which both begin
    own: tuple[int, int]  # further rounds of each
    parts: Mapping[PairPart, MergedPart]
    shown_chars: int  # the most characters of a transcript that a fresh session gets


class _Sources(Record):
    """The two pairs, as they were at one moment."""

    pairs: tuple[Pair, Pair]
    rounds: tuple[tuple[PairRound, ...], tuple[PairRound, ...]]
    parts: Mapping[PairPart, MergeSources]

    @property
    def common(self) -> int:
        """With how many rounds both begin."""
        count = 0
        for one, other in zip(*self.rounds, strict=False):
            if (one.message, one.order, one.result) != (other.message, other.order, other.result):
                break
            count += 1
        return count


class _Draft(Record):
    """The new pair, not stored yet."""

    pair: Pair
    rounds: tuple[PairRound, ...]
    parts: Mapping[PairPart, MergedTurns]


_Seen = tuple[_Sources, dict[PairPart, tuple[Edits, Edits]]]


async def merge_pairs(engine: Engine, a: str, b: str, options: MergeOptions) -> MergedPair:
    """Merges both pairs as they are at one moment.

    Raises NotFound, UsageError, Busy while either runs, and Conflict when the name is taken or they keep changing.
    """
    if options.name is not None:
        check_pair_name(options.name)
    if options.agent is not None:
        engine.adapter(options.agent)
    check_argument("model", options.model)

    def read(store: Store) -> _Seen:
        with store.reading():
            sources = _sources(store, engine, a, b)
            return sources, {part: edits_in(store, engine, each) for part, each in sources.parts.items()}

    def draft(seen: _Seen) -> _Draft:
        return _draft(engine, *seen, options)

    def write(seen: _Seen, draft: _Draft, store: Store) -> MergedPair | None:
        with store.transaction():  # so that nothing can be added between the check and the write
            if _sources(store, engine, a, b) != seen[0]:
                return None
            return _write(store, engine, seen[0], draft, unique=options.name is None)

    merged = await engine.store.optimistic_read(read, draft, write)
    if merged is None:
        raise Conflict(f"{a} and {b} keep changing.", hint="Try again when neither runs.")
    return merged


def _sources(store: Store, engine: Engine, a: str, b: str) -> _Sources:
    one, other = store.pairs.require(a), store.pairs.require(b)
    if one.id == other.id:
        raise UsageError(f"{a} and {b} are the same pair.", hint="Name two.")
    for pair in (one, other):
        check_free(store, engine, pair)
    parts = {}
    for part in PairPart:
        threads = [store.threads.require_by_id(pair.thread_of(part)) for pair in (one, other)]
        parts[part] = idle_sources(store, engine, threads[0], threads[1])
    for pair, history in zip((one, other), parts[PairPart.INSTRUCTOR].histories, strict=True):
        if not history:
            raise UsageError(
                f"Nothing was said in {pair.name} yet.", hint=f"Continue it: clew pair --session {pair.name}."
            )
    return _Sources((one, other), (tuple(store.pairs.rounds(one.id)), tuple(store.pairs.rounds(other.id))), parts)


def _draft(
    engine: Engine, sources: _Sources, edits: Mapping[PairPart, tuple[Edits, Edits]], options: MergeOptions
) -> _Draft:
    pair = _pair(engine, sources, options)
    parts = {}
    for part, each in sources.parts.items():
        answers_next = each.threads[0].replace(agent=pair.agent, model=pair.model_of(part))
        turns = merged_turns(engine, each, edits[part], answers_next)
        parts[part] = _with_unseen_report(turns, sources) if part is PairPart.INSTRUCTOR else turns
    return _Draft(pair, _renumbered(pair, sources), parts)


def _with_unseen_report(merged: MergedTurns, sources: _Sources) -> MergedTurns:
    """Adds the last report of A's worker to the brief, if A's instructor was not shown it. The next round shows B's."""
    last = sources.rounds[0][-1]
    if last.result is None or sources.common == len(sources.rounds[0]):
        return merged
    told = f"The worker of {sources.pairs[0].name} reported this at last, which its instructor was not shown:"
    *before, brief = merged.turns
    text = f"{brief.text}\n\n{told}\n{fenced(shortened(last.result), merged.mark)}"
    return merged.replace(turns=(*before, brief.replace(text=text)))


def _renumbered(pair: Pair, sources: _Sources) -> tuple[PairRound, ...]:
    ours, theirs = sources.rounds
    return tuple(
        replace(round_, pair_id=pair.id, number=number, instructor_run_id=None, worker_run_id=None)
        for number, round_ in enumerate((*ours, *theirs[sources.common :]), start=1)
    )


def _pair(engine: Engine, sources: _Sources, options: MergeOptions) -> Pair:
    """The new pair. It is at the end of its last round, and has as many more as the longer of the two had at first."""
    (one, other), now = sources.pairs, engine.context.clock()
    agent = options.agent or one.agent
    same = [pair for pair in (one, other) if pair.agent == agent]  # another agent does not know the models' names
    models = {
        part: options.model or next((pair.model_of(part) for pair in same if pair.model_of(part)), None)
        for part in PairPart
    }
    number = sum(map(len, sources.rounds)) - sources.common
    max_rounds = max(one.max_rounds, other.max_rounds)
    return Pair(
        id=new_pair_id(now, engine.context.new_id()),
        name=options.name or f"{one.name[:NAME_CHARS]}-{other.name[:NAME_CHARS]}",
        task=one.task if one.task == other.task else f"{one.task}\n\n{other.task}",
        cwd=existing_dir(options.cwd or one.cwd),
        agent=agent,
        instructor_thread_id=ThreadId(engine.context.new_id()),
        worker_thread_id=ThreadId(engine.context.new_id()),
        instructor_model=models[PairPart.INSTRUCTOR],
        worker_model=models[PairPart.WORKER],
        models=known_models(*models.values(), before=tuple(model for pair in same for model in pair.models)),
        thinking=one.thinking or other.thinking,
        max_rounds=max_rounds,
        last_round=number + max_rounds,
        number=number,
        phase=Phase.DONE,
        message="\n\n".join(pair.message for pair in (one, other) if pair.message),
        created_at=now,
        updated_at=now,
    )


def _write(store: Store, engine: Engine, sources: _Sources, draft: _Draft, *, unique: bool) -> MergedPair:
    worker = sources.parts[PairPart.WORKER].threads
    pair = create_with_threads(
        store,
        draft.pair,
        narrower(worker[0].permissions, worker[1].permissions),
        unique=unique,
        origins={part: _origin(each.threads) for part, each in sources.parts.items()},
    )
    for round_ in draft.rounds:
        store.pairs.add_round(round_)
    for part, merged in draft.parts.items():
        for turn in merged.turns:
            store.turns.add(pair.thread_of(part), turn)
    ours, theirs = (len(rounds) - sources.common for rounds in sources.rounds)
    parts = {
        part: MergedPart(merged.common, merged.own(sources.parts[part]), merged.files, merged.chars)
        for part, merged in draft.parts.items()
    }
    return MergedPair(pair, sources.pairs, sources.common, (ours, theirs), parts, engine.settings.policy.limit_chars)


def _origin(threads: tuple[Thread, Thread]) -> Origin:
    return Origin(OriginKind.MERGE, tuple(SourceThread(thread.id, thread.name) for thread in threads))
