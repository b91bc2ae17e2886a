"""What runs did to the files, in words: for a session that is rewound and does not remember those runs any more.

Not only the turns that the session held are of interest. A turn that another agent made, and that was removed together
with them, has changed files too. And if a session is rewound twice, the note of the first time may be in a turn that
the second one drops. So everything counts that comes after the place in the thread, was asked there at any time, and
does not stand now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from clew.agents.adapter import Adapter
from clew.core.branching.edits import EditKind
from clew.core.ids import ThreadId, TurnId
from clew.core.lookup import ALL_ROWS
from clew.core.runs.events import Event
from clew.core.runs.run import Run
from clew.core.work_done import Call, calls
from clew.engine.sessions.outside import OutsideRound
from clew.store.records import StoredTurn
from clew.store.store import Store

COMMAND_CHARS = 200

_VERBS = {EditKind.WRITE: "written", EditKind.CHANGE: "changed", EditKind.DELETE: "deleted"}


def effects_after(
    store: Store,
    adapter_of: Callable[[str], Adapter | None],
    thread_id: ThreadId,
    last_kept: TurnId,
    standing: Container[TurnId],
    arrived: Iterable[OutsideRound] = (),
) -> dict[TurnId, str]:
    """The files that runs wrote to and the commands that they ran, one line each, by turn and in order of time.

    `last_kept` is the last turn that the rewound session holds. Runs before it are left out, and so are those of which
    every turn is in `standing`. `arrived` has turns from outside Clew that are about to be stored after it.
    """
    places = {stored.turn.id: place for place, stored in enumerate(store.turns.all(thread_id))}
    last_place = places.get(last_kept, len(places))
    found: dict[TurnId, list[str]] = {}

    def add(turns: Sequence[TurnId], agent: str, events: Callable[[], Iterable[Event | None]]) -> None:
        adapter = adapter_of(agent) if any(turn_id not in standing for turn_id in turns) else None
        if adapter is not None:
            found.setdefault(turns[0], []).extend(_lines(adapter, calls(events())))

    for run, turns in _runs(store, thread_id):
        if any(places[turn_id] > last_place for turn_id in turns):
            add(turns, run.agent, lambda run=run: (stored.event for stored in store.events.steps(run.id)))  # type: ignore[misc]
    for each in arrived:
        ids = [turn.id for turn in each.turns]
        add(ids, each.run.agent, lambda each=each: (event for _, _, event in each.events))  # type: ignore[misc]
    return {turn_id: "\n".join(lines) for turn_id, lines in found.items() if lines}


def _runs(store: Store, thread_id: ThreadId) -> Iterator[tuple[Run, list[TurnId]]]:
    """The runs of the thread, the oldest first, each with its prompt and its answer, as far as these are turns of the
    thread. A fork begins with turns of other threads: it has copies of them, but not their runs."""
    turns = store.turns.all(thread_id)
    own = {stored.turn.id for stored in turns}
    thread = store.threads.by_id(thread_id)
    for source in thread.origin.of if thread is not None and thread.origin is not None else ():
        copies = {_identity(stored): stored.turn.id for stored in turns if stored.turn.run_id is None}
        copy_of = {stored.turn.id: copies.get(_identity(stored)) for stored in store.turns.all(source.id)}
        for run, originals in _runs(store, source.id):
            copied = [copy for copy in map(copy_of.get, originals) if copy is not None]
            if copied:
                yield run, copied
    for run in reversed(store.runs.newest(thread_id=thread_id, limit=ALL_ROWS)):
        asked = [turn_id for turn_id in (run.prompt_turn_id, run.answer_turn_id) if turn_id in own]
        if asked:
            yield run, [turn_id for turn_id in asked if turn_id is not None]


def _identity(stored: StoredTurn) -> tuple[str, float]:
    """What a turn and its copy in a fork have in common: the text of either may have been edited since."""
    return stored.turn.role, stored.turn.created_at


def _lines(adapter: Adapter, made: Iterable[Call]) -> Iterator[str]:
    edited: Counter[tuple[str, EditKind]] = Counter()
    commands: list[str] = []
    for call in made:
        edits = adapter.edits(call.name, call.input) if not call.failed else ()
        edited.update((edit.path, edit.kind) for edit in edits)
        command = call.input.get("command")
        if not edits and command:
            commands.append(_short(command if isinstance(command, str) else " ".join(map(str, command))))
    for (path, kind), count in edited.items():
        times = f" {count} times" if count > 1 else ""
        yield f"- `{_short(path)}` was {_VERBS[kind]}{times}"
    for text in dict.fromkeys(commands):
        yield f"- a command was run: `{text}`"


def _short(text: str) -> str:
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return line if len(line) <= COMMAND_CHARS else f"{line[: COMMAND_CHARS - 1]}…"
