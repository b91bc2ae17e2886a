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
from clew.core import pair_prompts as words
from clew.core.answer import joined
from clew.core.history import Role, Turn, text_digest
from clew.core.ids import PinId, SessionId, ThreadId, TurnId
from clew.core.pair import Pair, Part, known_models
from clew.core.pins import Absorbed, Pin, PinState
from clew.core.record import Record, replace
from clew.core.thread import NAME, Permissions, Thread, Trust, name_from
from clew.engine.adoption import Found
from clew.engine.engine import Engine, check_word
from clew.errors import AgentMissing, Busy, Conflict, UsageError
from clew.hosts.checks import MAX_PROMPT_CHARS, existing_dir
from clew.hosts.pair_live import check_free
from clew.hosts.pair_naming import thread_name
from clew.hosts.pair_reading import Place, State, place_of, read, within
from clew.hosts.pair_state import alike, blank, secrets_of
from clew.store.pairs import NAME_CHARS
from clew.store.store import Store

KIND = "pair"
_SESSION = re.compile(r"[A-Za-z0-9-]{8,64}\Z")


class Imported(Record):
    pair: Pair
    warnings: tuple[str, ...]


async def bring_in(
    engine: Engine, path: Path, *, cwd: str, agent: str, permissions: Permissions = Permissions.EDITS
) -> Imported:
    """The pair of that file, in the store. Raises UsageError, Conflict, and Busy while the pair is going on."""
    state = read(path)
    if max(len(state.asking), len(state.message), len(state.task)) > MAX_PROMPT_CHARS:
        raise UsageError(f"{path} asks more than {MAX_PROMPT_CHARS:,} characters at once.")
    agent = state.agent if state.agent in engine.agents() and state.agent else agent
    work_dir = existing_dir(cwd)
    for model in (state.config.instructor_model, state.config.worker_model, *state.models):
        check_word("model", model)
    found = {part: await _look(engine, state, part, agent, work_dir) for part in Part}

    def store_it(store: Store) -> Imported:
        known = store.pair(state.session_id)
        if known is not None and known.id == state.session_id:
            _check_at_rest(store, engine, known)
            return _bring_up(store, engine, known, state, path)
        return _create(store, engine, state, path, work_dir, agent, permissions, found)

    return await engine.database.atomically(store_it)


async def _look(engine: Engine, state: State, part: Part, agent: str, work_dir: str) -> dict[str, tuple[str, Found]]:
    """The sessions of that part whose files are here: by model, their ids and what is in them."""
    known = {}
    for model, session_id in state.sessions.get(part.value, {}).items():
        there = None
        if _SESSION.match(session_id):
            with contextlib.suppress(AgentMissing):  # whoever goes on with it may name another agent
                there = await engine.look_at(agent, work_dir, session_id)
        if there is not None:
            known[model] = (session_id, there)
    return known


def _create(
    store: Store,
    engine: Engine,
    state: State,
    path: Path,
    cwd: str,
    agent: str,
    permissions: Permissions,
    found: Mapping[Part, Mapping[str, tuple[str, Found]]],
) -> Imported:
    now = engine.around.clock()
    place = place_of(state)
    task = state.task or next((text for role, text, _ in state.messages(Part.INSTRUCTOR) if role is Role.USER), "")
    models = (state.config.instructor_model or None, state.config.worker_model or None)
    ids = {part: ThreadId(engine.around.new_id()) for part in Part}
    pair = Pair(
        id=state.session_id,
        name=state.name if NAME.match(state.name) else name_from(task),
        task=task,
        cwd=cwd,
        agent=agent,
        instructor_thread_id=ids[Part.INSTRUCTOR],
        worker_thread_id=ids[Part.WORKER],
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
        store.add_pair_round(replace(round_, started_at=now))
    warnings = []
    for part in Part:
        turns = _turns(engine, pair, part, state.messages(part), now)
        for turn in turns:
            store.add_turn(ids[part], turn)
        resumed = [_pinned(store, engine, pair, part, turns, *each) for each in found[part].items()]
        if turns and not any(resumed):
            warnings.append(f"The {part}'s session is not here: its next turn starts fresh, with the transcript.")
    return Imported(pair, tuple(warnings))


def create_with_threads(store: Store, pair: Pair, permissions: Permissions, *, unique: bool = True) -> Pair:
    """The pair under a free name, and its two threads."""
    threads = {
        part: Thread(
            id=pair.thread_of(part),
            name=f"pair-{pair.id[:50]}-{part}",  # until the pair's own name is known
            cwd=pair.cwd,
            agent=pair.agent,
            model=pair.instructor_model if part is Part.INSTRUCTOR else pair.worker_model,
            permissions=Permissions.READ_ONLY if part is Part.INSTRUCTOR else permissions,
            trust=Trust.USER,
            standing=words.rubric(pair) if part is Part.INSTRUCTOR else words.WORKER,
            kind=KIND,
            created_at=pair.created_at,
            updated_at=pair.updated_at,
        )
        for part in Part
    }
    for thread in threads.values():
        store.create_thread(thread)
    made = store.create_pair(replace(pair, name=pair.name[:NAME_CHARS]), unique=unique)
    for part, thread in threads.items():
        name = thread_name(made, part)
        if store.thread(name) is None:  # or somebody has a thread of that name: the id's will do
            store.update_thread(thread.id, at=pair.updated_at, name=name)
    return made


def _check_at_rest(store: Store, engine: Engine, pair: Pair) -> None:
    """Raises Busy: what is written is written in the same transaction, so it goes into nobody's work."""
    check_free(store, engine, pair)
    if any(engine.is_held(store, pair.thread_of(part)) for part in Part):
        raise Busy(f"A run is going on in a thread of {pair.name}.", hint="Wait for it, or stop it.")


def _bring_up(store: Store, engine: Engine, known: Pair, state: State, path: Path) -> Imported:
    """A pair that is here already: what the file has beyond it is added; what it lacks stays."""
    now = engine.around.clock()
    secrets = secrets_of(engine.around.environ)
    ahead: dict[Part, list[tuple[Role, str, bool]]] = {}
    behind = False
    for part in Part:
        here = store.history(known.thread_of(part))
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
        return Imported(known, ("The file is older than what is stored: the pair goes on from the store.",) * behind)
    if behind:
        raise Conflict(
            f"{path} and the pair {known.name} in this store have gone different ways.",
            hint=f"Go on with the one here: --session {known.name}.",
        )
    for part, more in ahead.items():
        for turn in _turns(engine, known, part, more, now):
            store.add_turn(known.thread_of(part), turn)
    place = place_of(state)
    have = {round_.number for round_ in store.pair_rounds(known.id)}
    for round_ in place.rounds:
        if round_.number in have:
            store.update_pair_round(known.id, round_.number, order=round_.order, result=round_.result)
        else:
            store.add_pair_round(replace(round_, started_at=now))
    changed = store.update_pair(known.id, at=now, message=state.message, run_id=None, **_fields(place, now))
    return Imported(changed, ("The pair went on elsewhere: what the file has beyond the store is added.",))


def _fields(place: Place, now: float) -> dict[str, Any]:
    return {
        "number": place.number,
        "phase": place.phase,
        "is_finished": place.is_finished,
        "asking": place.asking,
        "asked_at": now,
        "last_round": place.last_round,
    }


def _turns(
    engine: Engine, pair: Pair, part: Part, messages: Sequence[tuple[Role, str, bool]], now: float
) -> list[Turn]:
    model = pair.instructor_model if part is Part.INSTRUCTOR else pair.worker_model
    return [
        Turn(
            TurnId(engine.around.new_id()),
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
    part: Part,
    turns: Sequence[Turn],
    model: str,
    session: tuple[str, Found],
) -> bool:
    """The session goes on when its file holds just these turns. False: it does not, or is another thread's."""
    session_id, found = session
    known = store.pin_by_session(session_id)
    if (known is not None and known.state is not PinState.RETIRED) or not _holds(found.view, turns):
        return False
    now = engine.around.clock()
    standing = words.rubric(pair) if part is Part.INSTRUCTOR else words.WORKER
    store.save_pin(
        Pin(
            id=PinId(engine.around.new_id()),
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
            spoken += [(Role.ASSISTANT, joined(said))] if said else []
            said.clear()
            spoken.append((Role.USER, entry.text))
    spoken += [(Role.ASSISTANT, joined(said))] if said else []
    last = turns[len(turns) - len(spoken) :] if 0 < len(spoken) <= len(turns) else ()
    return bool(last) and all(
        turn.role is role and (text.endswith(turn.text) if role is Role.USER else text == turn.text)
        for turn, (role, text) in zip(last, spoken, strict=True)
    )
