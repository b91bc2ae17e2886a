"""Imports a pair from its state file: on another machine, in another directory, or into another store.

The histories become the turns of two threads, so the first turn of each starts fresh with the transcript. Where the
agent's own session files exist and hold exactly these turns, the sessions are resumed. Permissions are not taken from
the file: the user who continues the pair says what the worker may do.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from types import MappingProxyType

from clew.agents.adapter import SessionView
from clew.core.history import Absorbed, Role, Turn, text_digest
from clew.core.ids import PinId, SessionId, ThreadId, TurnId
from clew.core.pairs import prompts
from clew.core.pairs.pair import PAIR_NAME_CHARS, Pair, PairPart, known_models
from clew.core.pins import Pin, PinState
from clew.core.record import Record, replace
from clew.core.runs.answer import join_messages
from clew.core.thread import NAME, Origin, Permissions, Thread, Trust, name_from
from clew.engine.engine import Engine
from clew.engine.request import check_argument
from clew.engine.sessions.adoption import FoundSession
from clew.errors import AgentMissing, Busy, Conflict, UsageError
from clew.hosts.pairs.live import check_free
from clew.hosts.pairs.naming import thread_name
from clew.hosts.pairs.reading import StateFile, clamped_rounds, position_of, read
from clew.hosts.pairs.state import blank, may_be_same, secrets_of
from clew.hosts.validation import MAX_PROMPT_CHARS, existing_dir
from clew.store.store import Store

KIND = "pair"
NO_ORIGINS: Mapping[PairPart, Origin] = MappingProxyType({})
_SESSION = re.compile(r"[A-Za-z0-9-]{8,64}\Z")


class ImportedPair(Record):
    pair: Pair
    warnings: tuple[str, ...]


async def import_file(engine: Engine, path: Path, *, cwd: str, agent: str, permissions: Permissions) -> ImportedPair:
    """Stores the pair in the file. Raises UsageError, Conflict, and Busy while the pair is running."""
    state = read(path)
    texts = (state.asking, state.message, state.task, *(each.text for each in state.planned_messages))
    if max(map(len, texts)) > MAX_PROMPT_CHARS:
        raise UsageError(f"{path} has a prompt of more than {MAX_PROMPT_CHARS:,} characters.")
    agent = state.agent if state.agent in engine.agents() and state.agent else agent
    work_dir = existing_dir(cwd)
    for model in (state.config.instructor_model, state.config.worker_model, *state.models):
        check_argument("model", model)
    found = {part: await _find_sessions(engine, state, part, agent, work_dir) for part in PairPart}

    def write(store: Store) -> ImportedPair:
        known = store.pairs.find(state.session_id)
        if known is not None and known.id == state.session_id:
            _check_idle(store, engine, known)
            return _update(store, engine, known, state, path)
        return _create(store, engine, state, path, work_dir, agent, permissions, found)

    return await engine.store.atomically(write)


async def _find_sessions(
    engine: Engine, state: StateFile, part: PairPart, agent: str, work_dir: str
) -> dict[str, tuple[str, FoundSession]]:
    """The part's sessions whose files exist here: by model, their ids and contents."""
    known = {}
    with contextlib.suppress(AgentMissing):  # the agent is not installed, but a resume may name another one
        for model, session_id in state.sessions.get(part.value, {}).items():
            if _SESSION.match(session_id) and (found := await engine.find_session(agent, work_dir, session_id)):
                known[model] = (session_id, found)
    return known


def _create(
    store: Store,
    engine: Engine,
    state: StateFile,
    path: Path,
    cwd: str,
    agent: str,
    permissions: Permissions,
    found: Mapping[PairPart, Mapping[str, tuple[str, FoundSession]]],
) -> ImportedPair:
    now = engine.context.clock()
    position, rounds = position_of(state)
    task = state.task or next((text for role, text, _ in state.messages(PairPart.INSTRUCTOR) if role is Role.USER), "")
    models = (state.config.instructor_model or None, state.config.worker_model or None)
    ids = {part: ThreadId(engine.context.new_id()) for part in PairPart}
    pair = Pair(
        id=state.session_id,
        name=state.name if NAME.match(state.name) else name_from(task),
        task=task,
        cwd=cwd,
        agent=agent,
        instructor_thread_id=ids[PairPart.INSTRUCTOR],
        worker_thread_id=ids[PairPart.WORKER],
        instructor_model=models[0],
        worker_model=models[1],
        models=known_models(*models, before=tuple(state.models)),
        thinking=state.config.use_thinking,
        max_rounds=clamped_rounds(state.config.max_rounds),
        message=state.message,
        imported_from=str(path),
        imported_round=position.number,
        created_at=now,
        updated_at=now,
        asked_at=now,
        **position.as_dict(),
    )
    pair = create_with_threads(store, pair, permissions)
    for round_ in rounds:
        store.pairs.add_round(replace(round_, started_at=now))
    warnings = []
    for part in PairPart:
        turns = _turns(engine, pair, part, state.messages(part), now)
        for turn in turns:
            store.turns.add(ids[part], turn)
        resumed = [_pin_session(store, engine, pair, part, turns, *each) for each in found[part].items()]
        if turns and not any(resumed):
            warnings.append(f"The {part}'s session is not here: its next turn starts fresh, with the transcript.")
    return ImportedPair(pair, tuple(warnings))


def create_with_threads(
    store: Store,
    pair: Pair,
    permissions: Permissions,
    *,
    unique: bool = True,
    origins: Mapping[PairPart, Origin] = NO_ORIGINS,
) -> Pair:
    """Stores the pair and its two threads. `unique`: under a free name; else a taken name raises Conflict."""
    pair = replace(pair, name=store.pairs.free_name(pair.name) if unique else pair.name[:PAIR_NAME_CHARS])
    for part in PairPart:
        name = thread_name(pair.name, part)
        is_taken = store.threads.find(name) is not None
        thread = Thread(
            id=pair.thread_of(part),
            name=f"pair-{pair.id[:50]}-{part}" if is_taken else name,
            cwd=pair.cwd,
            agent=pair.agent,
            model=pair.model_of(part),
            permissions=Permissions.READ_ONLY if part is PairPart.INSTRUCTOR else permissions,
            trust=Trust.USER,
            standing=prompts.standing_text(pair, part),
            kind=KIND,
            origin=origins.get(part),
            created_at=pair.created_at,
            updated_at=pair.updated_at,
        )
        store.threads.create(thread)
    return store.pairs.create(pair, unique=False)


def _check_idle(store: Store, engine: Engine, pair: Pair) -> None:
    """Raises Busy if the pair is in use. Called in the transaction that writes, so that nothing starts in between."""
    check_free(store, engine, pair)
    if any(engine.is_held(store, pair.thread_of(part)) for part in PairPart):
        raise Busy(f"A run is in progress in a thread of {pair.name}.", hint="Wait for it, or stop it.")


def _update(store: Store, engine: Engine, known: Pair, state: StateFile, path: Path) -> ImportedPair:
    """Adds what only the file has to the stored pair. What only the store has stays."""
    now = engine.context.clock()
    secrets = secrets_of(engine.context.environ)
    new: dict[PairPart, list[tuple[Role, str, bool]]] = {}
    is_older = is_different = False
    for part in PairPart:
        here, there = store.turns.history(known.thread_of(part)), state.messages(part)
        is_different = is_different or not all(
            turn.role is role and may_be_same(blank(turn.text, secrets), blank(text, secrets))
            for turn, (role, text, _) in zip(here, there, strict=False)
        )
        new[part] = there[len(here) :]
        is_older = is_older or len(here) > len(there)
    if is_different or (is_older and any(new.values())):
        raise Conflict(
            f"{path} and the pair {known.name} in this store have different histories.",
            hint=f"Continue the one here (--session {known.name}), or the file in another CLEW_HOME.",
        )
    if not any(new.values()):
        return ImportedPair(
            known, ("The file is older than what is stored: the pair continues from the store.",) * is_older
        )
    for part, messages in new.items():
        for turn in _turns(engine, known, part, messages, now):
            store.turns.add(known.thread_of(part), turn)
    position, rounds = position_of(state)
    stored = {round_.number for round_ in store.pairs.rounds(known.id)}
    for round_ in rounds:
        if round_.number in stored:
            store.pairs.update_round(known.id, round_.number, order=round_.order, result=round_.result)
        else:
            store.pairs.add_round(replace(round_, started_at=now))
    changed = store.pairs.update(
        known.id,
        at=now,
        message=state.message,
        run_id=None,
        asked_at=now,
        imported_round=position.number,
        **position.as_dict(),
    )
    return ImportedPair(changed, ("The pair was continued elsewhere: what is new in the file was added.",))


def _turns(
    engine: Engine, pair: Pair, part: PairPart, messages: Sequence[tuple[Role, str, bool]], now: float
) -> list[Turn]:
    return [
        Turn(
            TurnId(engine.context.new_id()),
            role,
            text,
            agent=pair.agent,
            model=pair.model_of(part),
            partial=partial and role is Role.ASSISTANT,
            created_at=now,
        )
        for role, text, partial in messages
    ]


def _pin_session(
    store: Store,
    engine: Engine,
    pair: Pair,
    part: PairPart,
    turns: Sequence[Turn],
    model: str,
    session: tuple[str, FoundSession],
) -> bool:
    """Pins the session if its file holds exactly these turns. Returns False if not, or if another thread has it."""
    session_id, found = session
    known = store.pins.of_session(session_id)
    if (known is not None and known.state is not PinState.RETIRED) or not _holds_exactly(found.view, turns):
        return False
    now = engine.context.clock()
    store.pins.save(
        Pin(
            id=PinId(engine.context.new_id()),
            thread_id=pair.thread_of(part),
            agent=pair.agent,
            model=model,
            session_id=SessionId(session_id),
            state=PinState.GOOD,
            work_dir=pair.cwd,
            runtime=found.runtime,
            absorbed=tuple(Absorbed.of(turn) for turn in turns),
            standing=text_digest(prompts.standing_text(pair, part)),
            mark=found.mark,
            created_at=now,
            used_at=min(found.changed_at, now),
        )
    )
    return True


def _holds_exactly(view: SessionView, turns: Sequence[Turn]) -> bool:
    """Whether the session's prompts and answers are the last of these turns, word for word.

    Text before a prompt is ignored: the session's first prompt has the earlier turns as a transcript.
    """
    entries = [entry for entry in view.entries if entry.role is Role.ASSISTANT or entry.is_prompt]
    spoken: list[tuple[Role, str]] = []
    for role, group in groupby(entries, key=lambda entry: entry.role):
        texts = [entry.text for entry in group]
        spoken += [(role, join_messages(texts))] if role is Role.ASSISTANT else [(role, text) for text in texts]
    last = turns[len(turns) - len(spoken) :] if 0 < len(spoken) <= len(turns) else ()
    return bool(last) and all(
        turn.role is role and (text.endswith(turn.text) if role is Role.USER else text == turn.text)
        for turn, (role, text) in zip(last, spoken, strict=True)
    )
