"""Pairs for surfaces: start, resume, stop, show, follow, rename, fork, replay, merge and clean up pairs.

A pair is given by its name, its id, or the beginning of its id. Each function raises NotFound if there is no such pair.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.api.operations import Operation, Report
from clew.api.thread import choice
from clew.api.wire import branching
from clew.api.wire import pairs as wire
from clew.api.wire.failures import Failure, failure
from clew.api.wire.usage import Usage
from clew.core.pairs.cursor import AT_END as AT_END
from clew.core.pairs.cursor import BEGINNING as BEGINNING
from clew.core.pairs.cursor import FollowedEvent as FollowedEvent
from clew.core.pairs.cursor import PairCursor as PairCursor
from clew.core.pairs.pair import Pair, PairEvent, PairPart, PairRunEvent, PairStatus
from clew.core.record import Record
from clew.core.runs.events import to_body
from clew.core.thread import Permissions
from clew.errors import AgentFailed, Busy, ClewError, UsageError
from clew.hosts.branching.merge import MergeOptions as MergeOptions
from clew.hosts.branching.pair_replay import PairReplayOptions as PairReplayOptions
from clew.hosts.pairs import folder as pair_folder
from clew.hosts.pairs.live import LivePair as LivePair
from clew.hosts.pairs.live import PairRunOptions
from clew.hosts.pairs.pairs import NewPair
from clew.hosts.pairs.pairs import PairState as PairState
from clew.hosts.pairs.rows import ResumeOptions

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.core.runs.options import Person
    from clew.hosts.branching.fork import Forked as Forked
    from clew.hosts.branching.pair_merge import MergedPair as MergedPair
    from clew.hosts.branching.pair_replay import PairReplay as PairReplay
    from clew.hosts.pairs.naming import Renamed as Renamed
    from clew.store.store import Store

WORKER_PERMISSIONS = (Permissions.EDITS, Permissions.ALL, Permissions.READ_ONLY)
EVERY_PAIR = 1_000_000


class PairOptions(Record):
    """What a pair is started or resumed with; None: the setting, or what is stored."""

    text: str = ""  # the task of a new pair, or a message to a resumed one
    cwd: str | None = None
    name: str | None = None
    rounds: int | None = None
    instructor_model: str | None = None
    worker_model: str | None = None
    agent: str | None = None
    thinking: bool | None = None
    permissions: str | None = None
    fresh_session: bool = False  # of a resume: the next run of each part starts fresh, with the whole transcript
    timeout_s: float | None = None
    auto_save: bool | None = None
    wait_for_limit: bool = True
    person: Person | None = None


class PairSelection(Record):
    """Which pair is resumed; without a field, the latest pair of the directory."""

    session: str | None = None  # an id, a name, or the beginning of an id
    file: str | None = None
    fork_at: int | None = None  # a round: a copy that ends with it is resumed


async def start(client: Client, options: PairOptions) -> LivePair:
    """Starts a pair, which is stored and running when this returns. Missing options come from the settings."""
    settings = client.settings
    agent = options.agent or settings.of("agent")
    return await client.pairs.start(
        NewPair(
            task=options.text,
            cwd=options.cwd or ".",
            agent=agent,
            name=options.name,
            instructor_model=options.instructor_model or settings.pair_model_of(PairPart.INSTRUCTOR, agent),
            worker_model=options.worker_model or settings.pair_model_of(PairPart.WORKER, agent),
            thinking=settings.of("pair.thinking") if options.thinking is None else options.thinking,
            max_rounds=options.rounds or settings.of("pair.rounds"),
            permissions=_permissions(options.permissions) or Permissions.EDITS,
        ),
        _run_options(client, options),
    )


async def settings_of(client: Client, cwd: str | None, session: str | None) -> tuple[str, str]:
    """The directory and the worker's permissions of the pair that continues. None: the latest one of the directory."""
    pair_id = await (client.pairs.resolve(session) if session is not None else client.pairs.latest(cwd or "."))
    state = await client.pairs.find(pair_id)
    return state.pair.cwd, state.permissions


async def resume(client: Client, which: PairSelection, options: PairOptions) -> tuple[LivePair, tuple[str, ...]]:
    """Resumes a pair where it stopped. Returns it with the warnings to show first."""
    permissions = _permissions(options.permissions)
    cwd, said = options.cwd, tuple[str, ...]()
    if which.file is not None:
        imported = await client.pairs.import_file(
            Path(which.file),
            cwd=cwd or ".",
            agent=options.agent or client.settings.of("agent"),
            permissions=permissions or Permissions.EDITS,
        )
        pair_id, said = imported.pair.id, imported.warnings
    elif which.session is not None:
        pair_id = await client.pairs.resolve(which.session)
    else:
        pair_id, cwd = await client.pairs.latest(cwd or "."), None
    models = await _models_for_another_agent(client, pair_id, options.agent)
    resumption = ResumeOptions(
        message=options.text.strip(),
        more_rounds=options.rounds,
        instructor_model=options.instructor_model or models.get(PairPart.INSTRUCTOR),
        worker_model=options.worker_model or models.get(PairPart.WORKER),
        agent=options.agent,
        thinking=options.thinking,
        permissions=permissions,
        cwd=cwd,
        fresh_session=options.fresh_session,
    )
    if which.fork_at is not None:
        # Checked before the fork is made, because a fork that cannot continue would stay in the store.
        await client.pairs.check(pair_id, resumption, fork_at=which.fork_at)
        forked = await client.fork(pair_id, options.name, at_round=which.fork_at)
        pair_id = await client.pairs.resolve(forked.pair or pair_id)
        said += tuple(forked.notes)
    return await client.pairs.resume(pair_id, resumption, _run_options(client, options)), said


async def _models_for_another_agent(client: Client, pair_id: str, agent: str | None) -> dict[PairPart, str | None]:
    """The models of the settings, as for a new pair, if the pair continues with another agent than before."""
    if agent is None or agent == (await client.pairs.find(pair_id)).pair.agent:
        return {}
    return {part: client.settings.pair_model_of(part, agent) for part in PairPart}


def _permissions(named: str | None) -> Permissions | None:
    if named is None:
        return None
    found = choice(Permissions, named)
    if found not in WORKER_PERMISSIONS:
        raise UsageError(
            f"The worker's permissions cannot be {named}.",
            hint=f"One of {', '.join(WORKER_PERMISSIONS)}: no person answers questions in every round.",
        )
    return found


def _run_options(client: Client, options: PairOptions) -> PairRunOptions:
    return PairRunOptions(
        timeout_s=options.timeout_s,
        auto_save=client.settings.of("pair.auto_save") if options.auto_save is None else options.auto_save,
        wait_for_limit=options.wait_for_limit,
        person=options.person,
    )


async def list_pairs(client: Client, *, cwd: str | None = None, limit: int = 50) -> Sequence[PairState]:
    """The last used first; with `cwd`, those of that directory."""
    return await client.pairs.list(cwd=cwd, limit=limit)


async def show(client: Client, name: str) -> PairState:
    """The pair with its rounds, sessions and costs."""
    return await client.pairs.find(await client.pairs.resolve(name))


async def latest(client: Client, cwd: str = ".") -> PairState:
    """The pair that was last used in that directory; replays do not count."""
    return await client.pairs.find(await client.pairs.latest(cwd))


async def is_pair(client: Client, name: str) -> bool:
    """Whether that is the name or the id of a pair. A thread's name is not, even if the thread belongs to a pair."""
    return await client.engine.store.call(
        lambda store: store.threads.find(name) is None and store.pairs.find(name) is not None
    )


async def follow(client: Client, name: str, after: PairCursor = BEGINNING) -> AsyncGenerator[FollowedEvent, None]:
    """The events of a pair that any process runs, each when it is stored, until no process runs it.

    `after` is the place of the last event that the caller has. These are the events of `LivePair` without `saved` and
    `warned`, which are not stored, and in addition `opened` and `ended` of each round.
    """
    async for each in client.pairs.follow(await client.pairs.resolve(name), after):
        yield each


async def stop(client: Client, name: str) -> bool:
    """Asks the process that runs the pair, whichever it is, to stop gently. False: no process runs it."""
    return await client.pairs.stop(await client.pairs.resolve(name))


async def rename(client: Client, name: str, new: str) -> Renamed | None:
    """Renames the pair, its threads and its state file. None: `name` is a thread's, or unknown.

    Raises UsageError, Conflict, and Busy while the pair is running.
    """
    from clew.hosts.pairs import naming

    return await naming.rename(client.engine, name, new)


async def fork(client: Client, name: str, new: str | None = None, *, at_round: int | None = None) -> Forked:
    """A new pair with everything up to that round; None: the last that has ended. It runs when it is resumed.

    Raises UsageError and Conflict.
    """
    return await client.fork(await client.pairs.resolve(name), new, at_round=at_round)


async def replay(client: Client, name: str, options: PairReplayOptions, *, person: Person | None = None) -> PairReplay:
    """A new pair with the same task and messages, and with other models. It is running when this returns.

    With the name of a replay of the same pair, that one continues. Raises UsageError, AgentMissing, Busy, and Conflict
    when the name is that of another pair or thread.
    """
    from clew.hosts.branching.pair_replay import DEFAULT_RUN_OPTIONS, replay_pair

    run_options = DEFAULT_RUN_OPTIONS.replace(person=person)
    return await replay_pair(client.engine, client.pairs, await client.pairs.resolve(name), options, run_options)


async def start_replay(client: Client, name: str, options: PairReplayOptions) -> Operation[PairReplayed]:
    """The same as an operation. A cancel stops the new pair gently, and what was said is kept. Raises as `replay`."""
    client.operations.check_capacity()
    made = await replay(client, name, options)

    async def work(operation: Operation[PairReplayed], report: Report) -> PairReplayed:
        live = made.live
        if live is not None:
            try:
                await _report_rounds(live, report)
                await live.finish()
            except asyncio.CancelledError:
                live.kill()
                raise
        done = PairReplayed(made.old, await show(client, made.pair.id), live.error if live is not None else None)
        if done.error is not None:
            operation.keep(done, done.to_shape())
            raise done.error
        return done

    names = (made.old.pair.name, made.pair.name)
    operation = client.operations.start("replay", work, PairReplayed.to_shape, subjects=names)
    if made.live is not None:
        operation.stop_with(made.live.cancel)
    return operation


async def _report_rounds(live: LivePair, report: Report) -> None:
    last = 0
    async for event in live.events():
        if event.round > last:
            last, total = event.round, live.pair.last_round
            about = {"round": last, "pair_id": live.pair.id, "pair": live.pair.name}
            report.progress(f"round {last} of {total}", last - 1, total, **about)


async def merge(client: Client, a: str, b: str, options: MergeOptions) -> MergedPair:
    """A new pair with the rounds of both. It runs when it is resumed. Raises UsageError, Busy and Conflict."""
    from clew.hosts.branching.pair_merge import merge_pairs

    one, other = await client.pairs.resolve(a), await client.pairs.resolve(b)
    return await merge_pairs(client.engine, one, other, options)


def merge_shape(made: MergedPair) -> branching.PairMerge:
    return branching.PairMerge(
        name=made.pair.name,
        id=made.pair.id,
        of=[branching.NamedThread(id=pair.id, name=pair.name) for pair in made.of],
        agent=made.pair.agent,
        instructor_model=made.pair.instructor_model,
        worker_model=made.pair.worker_model,
        cwd=made.pair.cwd,
        common_rounds=made.common,
        own_rounds=list(made.own),
        parts={
            part.value: branching.MergedPart.of(
                common_turns=merged.common,
                own_turns=list(merged.own),
                size_chars=merged.chars,
                files=[branching.MergedFile.of(file) for file in merged.files],
            )
            for part, merged in made.parts.items()
        },
    )


def error_of(live: LivePair, state: PairState) -> ClewError | None:
    """Why the pair is not finished; None: it is."""
    if live.error is not None:
        return live.error
    if state.status is PairStatus.OUT_OF_ROUNDS:
        pair = state.pair
        return AgentFailed(
            f"The rounds are used up ({pair.last_round}), but the instructor has not said that the task is done.",
            hint=f"clew pair --session {pair.name} continues with {pair.max_rounds} more, -r N with N.",
        )
    return None


class PairReplayed(Record):
    """Both pairs, when the replay has ended."""

    old: PairState
    new: PairState
    error: ClewError | None  # why the replay stopped; None: it came to its end

    def to_shape(self) -> wire.PairReplay:
        pair = self.new.pair
        return wire.PairReplay(
            name=pair.name,
            id=pair.id,
            of=[wire.ReplayedPair.of(self.old.pair)],
            agent=pair.agent,
            instructor_model=pair.instructor_model,
            worker_model=pair.worker_model,
            permissions=self.new.permissions.value,
            cwd=pair.cwd,
            before=pair_shape(self.old),
            after=pair_shape(self.new, self.error),
            error=failure(self.error),
        )


class CleanedPair(Record):
    """A pair that was removed (in a dry run: would be), and its archive."""

    state: PairState
    archive: Path | None = None
    kept_because: str | None = None  # why it was not removed: it is in use


async def clean(client: Client, cwd: str, older_than_s: float, *, dry_run: bool = False) -> list[CleanedPair]:
    """Removes the pairs of that directory that have not been used for that time; both threads are archived first."""
    from clew.hosts.validation import existing_dir

    until = client.engine.context.clock() - older_than_s
    old = [
        state
        for state in await client.pairs.list(cwd=existing_dir(cwd), limit=EVERY_PAIR)
        if state.pair.updated_at < until
    ]
    return [await _removed(client, state, dry_run=dry_run) for state in old]


def cleaned_shape(cleaned: CleanedPair) -> wire.CleanedPair:
    archive = None if cleaned.archive is None else str(cleaned.archive)
    return wire.CleanedPair.of(cleaned, pair_note(cleaned.state), archive=archive)


async def _removed(client: Client, state: PairState, *, dry_run: bool) -> CleanedPair:
    """Archives both threads into one file, and removes the state file."""
    if state.status is PairStatus.RUNNING:
        return CleanedPair(state, kept_because="it is running")
    if dry_run:
        return CleanedPair(state)
    try:
        archived = await client.archives.archive(state.pair.instructor_thread_id)
    except Busy as error:
        return CleanedPair(state, kept_because=error.message)
    return CleanedPair(state, archived.path)


async def files_left(client: Client, cwd: str) -> list[tuple[Path, Pair | None]]:
    """State files whose pair has moved to another directory, each with that pair; None: the store has no such pair."""
    files = sorted(Path(cwd, pair_folder.FOLDER).glob("session-*.json"))
    ids = {path: path.stem.removeprefix("session-") for path in files}

    def known(store: Store) -> dict[Path, Pair | None]:
        pairs = {path: store.pairs.find(pair_id) for path, pair_id in ids.items()}
        return {path: pair if pair is not None and pair.id == ids[path] else None for path, pair in pairs.items()}

    found = await client.engine.store.call(known)
    return [(path, pair) for path, pair in found.items() if pair is None or pair.cwd != cwd]


def followed_json(followed: FollowedEvent) -> dict[str, Any]:
    """An event of `follow`, with its place."""
    return {**event_json(followed.event), "cursor": str(followed.cursor)}


def event_json(event: PairEvent) -> dict[str, Any]:
    """One line of `clew pair --json`."""
    if isinstance(event, PairRunEvent):
        body = {"kind": event.event.kind, **to_body(event.event)}
        return {
            "type": event.kind,
            "round": event.round,
            "part": event.part.value,
            "run_id": event.run_id,
            "event": body,
        }
    return {"type": event.kind, **event.as_dict()}


def pair_note(state: PairState, error: ClewError | None = None) -> wire.PairNote:
    """The pair without its rounds. `error`: why it stopped, if that is not stored."""
    pair = state.pair
    stored = None if pair.error_code is None else Failure(pair.error_code, pair.error or "", pair.hint)
    path = pair_folder.path_of(pair.cwd, pair.id)
    return wire.PairNote.of(
        pair,
        state,
        type="pair",
        status=state.status,
        round=pair.number,
        threads=wire.PairThreads(pair.instructor_thread_id, pair.worker_thread_id),
        usage=Usage.of(state.usage),
        file=str(path) if path.is_file() else None,
        stop_requested=pair.stop_requested and state.status is PairStatus.RUNNING,
        error=failure(error) or stored,
    )


def pair_shape(state: PairState, error: ClewError | None = None) -> wire.Pair:
    """The pair with all its rounds."""
    return wire.Pair.of(pair_note(state, error), rounds=[wire.pair_round(each) for each in state.rounds])
