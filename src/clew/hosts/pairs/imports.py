"""A pair out of its state file: on another machine, in another directory, or in another store.

The histories become the turns of two threads, so the first turn there starts fresh with the transcript. Where the
agent's own session files are there too, and hold just these turns, the sessions are gone on with.
What a file says of permissions does not count: whoever goes on with it says what the worker may do.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.agents.adapter import SessionView
from clew.core.history import Role, Turn, text_digest
from clew.core.ids import PinId, SessionId, ThreadId, TurnId
from clew.core.pairs import prompts as words
from clew.core.pairs.pair import PAIR_NAME_CHARS, Pair, PairPart, known_models
from clew.core.pins import Absorbed, Pin, PinState
from clew.core.record import Record, replace
from clew.core.runs.answer import join_messages
from clew.core.thread import NAME, Permissions, Thread, Trust, name_from
from clew.engine.engine import Engine
from clew.engine.request import check_argument
from clew.engine.sessions.adoption import FoundSession
from clew.errors import AgentMissing, Busy, Conflict, UsageError
from clew.hosts.pairs.live import check_free
from clew.hosts.pairs.naming import thread_name
from clew.hosts.pairs.reading import PairPosition, StateFile, position_of, read, within
from clew.hosts.pairs.state import alike, blank, secrets_of
from clew.hosts.validation import MAX_PROMPT_CHARS, existing_dir
from clew.store.store import Store

KIND = "pair"
_SESSION = re.compile(r"[A-Za-z0-9-]{8,64}\Z")


class ImportedPair(Record):
    pair: Pair
    warnings: tuple[str, ...]


async def bring_in(
    engine: Engine, path: Path, *, cwd: str, agent: str, permissions: Permissions = Permissions.EDITS
) -> ImportedPair:
    """The pair of that file, in the store. Raises UsageError, Conflict, and Busy while the pair is going on."""
    state = read(path)
    if max(len(state.asking), len(state.message), len(state.task)) > MAX_PROMPT_CHARS:
        raise UsageError(f"{path} asks more than {MAX_PROMPT_CHARS:,} characters at once.")
    agent = state.agent if state.agent in engine.agents() and state.agent else agent
    work_dir = existing_dir(cwd)
    for model in (state.config.instructor_model, state.config.worker_model, *state.models):
        check_argument("model", model)
    found = {part: await _look(engine, state, part, agent, work_dir) for part in PairPart}

    def store_it(store: Store) -> ImportedPair:
        known = store.pairs.find(state.session_id)
        if known is not None and known.id == state.session_id:
            _check_at_rest(store, engine, known)
            return _bring_up(store, engine, known, state, path)
        return _create(store, engine, state, path, work_dir, agent, permissions, found)

    return await engine.store.atomically(store_it)


async def _look(
    engine: Engine, state: StateFile, part: PairPart, agent: str, work_dir: str
) -> dict[str, tuple[str, FoundSession]]:
    """The sessions of that part whose files are here: by model, their ids and what is in them."""
    known = {}
    for model, session_id in state.sessions.get(part.value, {}).items():
        there = None
        if _SESSION.match(session_id):
            with contextlib.suppress(AgentMissing):  # whoever goes on with it may name another agent
                there = await engine.find_session(agent, work_dir, session_id)
        if there is not None:
            known[model] = (session_id, there)
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
    place = position_of(state)
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
        max_rounds=within(state.config.max_rounds),
        message=state.message,
        imported_from=str(path),
        created_at=now,
        updated_at=now,
        **_fields(place, now),
    )
    pair = create_with_threads(store, pair, permissions)
    for round_ in place.rounds:
        store.pairs.add_round(replace(round_, started_at=now))
    warnings = []
    for part in PairPart:
        turns = _turns(engine, pair, part, state.messages(part), now)
        for turn in turns:
            store.turns.add(ids[part], turn)
        resumed = [_pinned(store, engine, pair, part, turns, *each) for each in found[part].items()]
        if turns and not any(resumed):
            warnings.append(f"The {part}'s session is not here: its next turn starts fresh, with the transcript.")
    return ImportedPair(pair, tuple(warnings))


def create_with_threads(store: Store, pair: Pair, permissions: Permissions, *, unique: bool = True) -> Pair:
    """The pair under a free name, and its two threads."""
    threads = {
        part: Thread(
            id=pair.thread_of(part),
            name=f"pair-{pair.id[:50]}-{part}",  # until the pair's own name is known
            cwd=pair.cwd,
            agent=pair.agent,
            model=pair.instructor_model if part is PairPart.INSTRUCTOR else pair.worker_model,
            permissions=Permissions.READ_ONLY if part is PairPart.INSTRUCTOR else permissions,
            trust=Trust.USER,
            standing=words.rubric(pair) if part is PairPart.INSTRUCTOR else words.WORKER,
            kind=KIND,
            created_at=pair.created_at,
            updated_at=pair.updated_at,
        )
        for part in PairPart
    }
    for thread in threads.values():
        store.threads.create(thread)
    made = store.pairs.create(replace(pair, name=pair.name[:PAIR_NAME_CHARS]), unique=unique)
    for part, thread in threads.items():
        name = thread_name(made.name, part)
        if store.threads.find(name) is None:  # or somebody has a thread of that name: the id's will do
            store.threads.update(thread.id, at=pair.updated_at, name=name)
    return made


def _check_at_rest(store: Store, engine: Engine, pair: Pair) -> None:
    """Raises Busy: what is written is written in the same transaction, so it goes into nobody's work."""
    check_free(store, engine, pair)
    if any(engine.is_held(store, pair.thread_of(part)) for part in PairPart):
        raise Busy(f"A run is going on in a thread of {pair.name}.", hint="Wait for it, or stop it.")


def _bring_up(store: Store, engine: Engine, known: Pair, state: StateFile, path: Path) -> ImportedPair:
    """A pair that is here already: what the file has beyond it is added; what it lacks stays."""
    now = engine.context.clock()
    secrets = secrets_of(engine.context.environ)
    ahead: dict[PairPart, list[tuple[Role, str, bool]]] = {}
    behind = False
    for part in PairPart:
        here = store.turns.history(known.thread_of(part))
        there = state.messages(part)
        both = min(len(here), len(there))
        if not all(
            turn.role is role and alike(blank(turn.text, secrets), blank(text, secrets))
            for turn, (role, text, _) in zip(here, there, strict=False)
        ):
            raise Conflict(
                f"{path} and the pair {known.name} in this store have gone different ways.",
                hint=f"Go on with the one here (--session {known.name}), or with the file in another CLEW_HOME.",
            )
        ahead[part] = there[both:]
        behind = behind or len(here) > both
    if not any(ahead.values()):
        return ImportedPair(
            known, ("The file is older than what is stored: the pair goes on from the store.",) * behind
        )
    if behind:
        raise Conflict(
            f"{path} and the pair {known.name} in this store have gone different ways.",
            hint=f"Go on with the one here: --session {known.name}.",
        )
    for part, more in ahead.items():
        for turn in _turns(engine, known, part, more, now):
            store.turns.add(known.thread_of(part), turn)
    place = position_of(state)
    have = {round_.number for round_ in store.pairs.rounds(known.id)}
    for round_ in place.rounds:
        if round_.number in have:
            store.pairs.update_round(known.id, round_.number, order=round_.order, result=round_.result)
        else:
            store.pairs.add_round(replace(round_, started_at=now))
    changed = store.pairs.update(known.id, at=now, message=state.message, run_id=None, **_fields(place, now))
    return ImportedPair(changed, ("The pair went on elsewhere: what the file has beyond the store is added.",))


def _fields(place: PairPosition, now: float) -> dict[str, Any]:
    return {
        "number": place.number,
        "phase": place.phase,
        "is_finished": place.is_finished,
        "asking": place.asking,
        "asked_at": now,
        "last_round": place.last_round,
    }


def _turns(
    engine: Engine, pair: Pair, part: PairPart, messages: Sequence[tuple[Role, str, bool]], now: float
) -> list[Turn]:
    model = pair.instructor_model if part is PairPart.INSTRUCTOR else pair.worker_model
    return [
        Turn(
            TurnId(engine.context.new_id()),
            role,
            text,
            agent=pair.agent,
            model=model,
            partial=partial and role is Role.ASSISTANT,
            created_at=now,
        )
        for role, text, partial in messages
    ]


def _pinned(
    store: Store,
    engine: Engine,
    pair: Pair,
    part: PairPart,
    turns: Sequence[Turn],
    model: str,
    session: tuple[str, FoundSession],
) -> bool:
    """The session goes on when its file holds just these turns. False: it does not, or is another thread's."""
    session_id, found = session
    known = store.pins.of_session(session_id)
    if (known is not None and known.state is not PinState.RETIRED) or not _holds(found.view, turns):
        return False
    now = engine.context.clock()
    standing = words.rubric(pair) if part is PairPart.INSTRUCTOR else words.WORKER
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
            standing=text_digest(standing),
            mark=found.mark,
            created_at=now,
            used_at=min(found.changed_at, now),
        )
    )
    return True


def _holds(view: SessionView, turns: Sequence[Turn]) -> bool:
    """Its prompts and answers are the last of these turns, word for word; earlier ones stood in its first prompt."""
    spoken: list[tuple[Role, str]] = []
    said: list[str] = []
    for entry in view.entries:
        if entry.role is Role.ASSISTANT:
            said.append(entry.text)
        elif entry.is_prompt:
            spoken += [(Role.ASSISTANT, join_messages(said))] if said else []
            said.clear()
            spoken.append((Role.USER, entry.text))
    spoken += [(Role.ASSISTANT, join_messages(said))] if said else []
    last = turns[len(turns) - len(spoken) :] if 0 < len(spoken) <= len(turns) else ()
    return bool(last) and all(
        turn.role is role and (text.endswith(turn.text) if role is Role.USER else text == turn.text)
        for turn, (role, text) in zip(last, spoken, strict=True)
    )
