"""Reads a session's file: before a turn (does it hold what its pin says?) and after it (does it hold the turn?)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from clew.agents.adapter import Adapter, SessionEntry, SessionView
from clew.core import prompts
from clew.core.costs.usage import Usage
from clew.core.history import Role
from clew.core.pins import Mark, Observed, Pin, SessionEnd, is_unconfirmed_copy
from clew.core.record import replace
from clew.core.runs.answer import join_messages
from clew.core.session import BEFORE_FIRST, SessionState, SessionTurn, compare, session_turns
from clew.core.thread import is_safe_argument
from clew.engine.sessions.fingerprint import Fingerprint, fingerprint, is_altered, stamp_of

if TYPE_CHECKING:
    from clew.core.session_check import Utterance

NO_ROOM_BYTES = 256 * 1024  # with less free space than this, the disk counts as full
MAX_ID_CHARS = 200

GONE = Observed(SessionState.GONE)
DAMAGED = Observed(SessionState.DAMAGED)


def observe(adapter: Adapter, pin: Pin) -> Observed:
    """What the file shows. It is cheap if no turn is pending and the file has not changed since our last turn."""
    path = file_of(adapter, pin)
    if path is None:
        return GONE
    try:
        return _observe(adapter, pin, path)
    except OSError:
        return GONE  # the agent cannot read it either


def _observe(adapter: Adapter, pin: Pin, path: Path) -> Observed:
    mark, origin_files = pin.mark, adapter.origin_files(path)
    at_rest = mark is not None and pin.pending is None and pin.borrowed_at is None
    if mark is not None and at_rest and mark.stamp is not None and mark.stamp == stamp_of(path, origin_files):
        return Observed(SessionState.SAME, mark=mark)
    size = path.stat().st_size
    if not size:
        return GONE
    found = fingerprint(path, size, mark.size_bytes if mark is not None else 0, origin_files)
    if is_altered(mark, found) and not _is_in_earlier_file(adapter, path, mark):
        return DAMAGED
    mark = None if is_altered(mark, found) else mark  # it is one of an earlier file
    if mark is not None and at_rest and mark.size_bytes == size:
        return Observed(SessionState.SAME, mark=replace(mark, digest=found.digest, stamp=found.stamp))
    if pin.borrowed_at is not None:
        return borrowed_in(adapter.read_session(path), pin.borrowed_at)
    view = _read_since(adapter, path, mark)
    if view is None:
        return GONE
    if view.size_bytes < size:  # the last line is not finished, so it was not read; the stamp was made before
        size = view.size_bytes
        found = replace(fingerprint(path, size, origin_files=origin_files), stamp=found.stamp)
    return _marked(observed_in(view, pin), found, size)


def _is_in_earlier_file(adapter: Adapter, path: Path, mark: Mark | None) -> bool:
    """Whether what our last turn left is unchanged, in a file in which the session was before somebody went back."""
    size = mark.size_bytes if mark is not None else 0
    earlier = [(each, adapter.origin_files(each)) for each in adapter.earlier_files(path)]
    return any(not is_altered(mark, fingerprint(each, size, size, origins)) for each, origins in earlier)


def _read_since(adapter: Adapter, path: Path, mark: Mark | None) -> SessionView | None:
    """What was added after our last turn, if that is only bookkeeping; else the whole session. None: it is empty.

    Only the whole session shows whether our last line is still on its chain, and whether a new line repeats the id of
    an earlier one.
    """
    if mark is not None:
        view = adapter.read_session(path, mark.size_bytes)
        if not view.chain and compare(view, mark.last_entry) is SessionState.SAME:
            return view
    view = adapter.read_session(path)
    return view if view.entries or view.last_entry == BEFORE_FIRST else None


def _marked(observed: Observed, found: Fingerprint, size: int) -> Observed:
    """Adds the fingerprint to the mark, unless the file has grown between the two reads."""
    if observed.mark is None or observed.mark.size_bytes != size:
        return observed
    return replace(observed, mark=replace(observed.mark, digest=found.digest, stamp=found.stamp))


def mark_of(adapter: Adapter, path: Path, view: SessionView) -> Mark:
    """The mark of a file that has just been read completely. Raises OSError."""
    found = fingerprint(path, view.size_bytes, origin_files=adapter.origin_files(path))
    return Mark(view.size_bytes, view.last_entry, found.digest, found.stamp)


def observed_in(view: SessionView, pin: Pin, *, is_ours: bool = False) -> Observed:
    """What was added to the session: our own turn, if one is pending, and turns that were made outside Clew.

    `is_ours`: our own run has just succeeded, so the session has been continued by us, wherever its chain goes.
    """
    left_at = pin.mark.last_entry if pin.mark is not None else None
    compared = compare(view, left_at)
    mark = Mark(view.size_bytes, view.last_entry or left_at)
    if compared is SessionState.DAMAGED:
        return DAMAGED
    if compared is SessionState.BRANCHED and not is_ours:
        return Observed(SessionState.BRANCHED, mark=mark)
    added = _added(view, pin.mark)
    place = _place_of_pending(added, pin)
    # What a copy has before our prompt was copied. Everything in a new session is ours, from its first line.
    before = added[:place] if pin.mark is not None else []
    ours, after = _until_next_prompt(added[place:]) if pin.pending is not None else ([], [])
    is_compacted = compared is SessionState.COMPACTED
    found = Observed(
        SessionState.COMPACTED if is_compacted else SessionState.SAME,
        mark=mark,
        holds_pending=None if pin.pending is None else bool(ours),
        before=_turns(before, view) if ours else (),
        outside=_turns(after if ours else before, view),
        compacted=is_compacted,
        summarised=_summarised(before, view) if is_compacted and not ours else 0,
        model=view.model,
        cost_total_usd=view.cost_total_usd if _is_new(view.cost_offset, pin.mark) else None,
        cost_before_usd=added[0].total_usd if added else None,
    )
    if (found.before or found.outside) and not is_compacted:
        found = replace(found, state=SessionState.GREW)
    return _with_answer(found, ours[1:]) if ours else found


def _is_new(offset: int | None, mark: Mark | None) -> bool:
    """Whether a line was written after our last turn. One whose place is not known counts as new."""
    return offset is None or mark is None or offset >= mark.size_bytes


def _added(view: SessionView, mark: Mark | None) -> Sequence[SessionEntry]:
    """The entries that were added after our last turn."""
    if mark is None or mark.last_entry not in view.chain:
        return [entry for entry in view.entries if entry.offset is None or entry.offset >= 0]
    left_at = view.chain.index(mark.last_entry)
    known = set(view.chain[: left_at + 1])
    return [
        entry for entry in view.entries if (entry.id not in known if entry.place is None else entry.place > left_at)
    ]


def _summarised(added: Sequence[SessionEntry], view: SessionView) -> int:
    """How many prompts and answers were added before the last compaction."""
    after = len(view.entries) - view.compacted_after
    early = added[: max(0, len(added) - after)]
    return sum((turn.prompt is not None) + bool(turn.answers) for turn in _turns(early, view))


def _place_of_pending(added: Sequence[SessionEntry], pin: Pin) -> int:
    """Where our pending prompt is; the end, if it is not there."""
    asked = pin.pending.user_uuid if pin.pending is not None else None
    return next((n for n, entry in enumerate(added) if entry.id == asked), len(added))


def _until_next_prompt(entries: Sequence[SessionEntry]) -> tuple[Sequence[SessionEntry], Sequence[SessionEntry]]:
    """Our prompt with its answer, and what follows it."""
    end = next((n for n, entry in enumerate(entries) if n and entry.is_prompt), len(entries))
    return entries[:end], entries[end:]


def turns_in(view: SessionView, end: int | None = None) -> tuple[SessionTurn, ...]:
    """All turns that the session holds, or those in its first entries."""
    return _turns(view.entries[:end], view)


def _turns(entries: Sequence[SessionEntry], view: SessionView) -> tuple[SessionTurn, ...]:
    """The turns that the model was shown or has made; not those that only hold a thought."""
    found = session_turns(entries, view.subagents)
    return tuple(turn for turn in found if turn.prompt is not None or turn.text or turn.calls)


def _with_answer(found: Observed, answer: Sequence[SessionEntry]) -> Observed:
    said = [entry for entry in answer if entry.role is Role.ASSISTANT]
    return replace(
        found,
        answer_text=join_messages(entry.text for entry in said),
        complete=bool(answer) and answer[-1].role is Role.ASSISTANT and answer[-1].complete,
        end_id=_safe_id(said[-1].end_id) if said else None,
    )


def borrowed_in(view: SessionView, message_id: str) -> Observed:
    """Whether another thread's session still holds the message up to which it was borrowed. Its owner may add messages,
    so the size of the file tells nothing."""
    mark = Mark(view.size_bytes, view.last_entry)
    place = next((n for n, entry in enumerate(view.entries) if message_id in (entry.id, entry.end_id)), None)
    if place is None:  # the message was removed, or its id was never known
        if not view.entries:
            return GONE
        return Observed(SessionState.BRANCHED if message_id else SessionState.SAME, mark=mark)
    return Observed(SessionState.SAME, mark=mark, continues_past_fork=place < len(view.entries) - 1)


def observe_turn(adapter: Adapter, pin: Pin, *, warm: bool = False) -> Observed:
    """What the file shows after a success. Reads only what the turn added, and checks that the rest is unchanged.

    `warm`: the agent ran before and is blind to what others add, so its turn must follow the line with which our last
    turn ended.
    """
    path = file_of(adapter, pin)
    if path is None:
        return GONE
    left_at = pin.mark.size_bytes if pin.mark else 0
    try:
        view = adapter.read_session(path, left_at)
        found = fingerprint(path, view.size_bytes, left_at, adapter.origin_files(path))
    except OSError:
        return GONE
    if is_altered(pin.mark, found):
        return DAMAGED
    observed = observed_in(view, pin, is_ours=not warm)
    ours = pin.pending.user_uuid if pin.pending is not None else None
    is_displaced = observed.state is SessionState.BRANCHED or any(entry.id == ours for entry in view.beside)
    return _marked(replace(observed, beside=_beside(view, pin), is_displaced=is_displaced), found, view.size_bytes)


def _beside(view: SessionView, pin: Pin) -> tuple[SessionTurn, ...]:
    """Turns that somebody made while our run was going on. Both continued from the same line, so one side is lost to
    the session: the one that ended first."""
    ours = pin.pending.user_uuid if pin.pending is not None else None
    return tuple(turn for turn in _turns(view.beside, view) if turn.prompt is not None and turn.prompt.id != ours)


def ends_of(adapter: Adapter, pin: Pin) -> tuple[SessionEnd, ...]:
    """Where a copy of the session can end, oldest first. Reads the whole file."""
    path = file_of(adapter, pin)
    try:
        return ends_in(adapter.read_session(path)) if path is not None else ()
    except OSError:
        return ()


def ends_in(view: SessionView) -> tuple[SessionEnd, ...]:
    """Only ends after the last compaction count (law 3)."""
    found: list[SessionEnd] = []
    after = {entry.id for entry in view.entries[view.compacted_after :]}
    turns = list(session_turns(view.entries))
    told = [n for n, turn in enumerate(turns) if turn.prompt and f"{prompts.STANDING}\n" in turn.prompt.text]
    asked = 0
    for place, turn in enumerate(turns):
        asked += turn.prompt is not None
        if (end_id := _safe_id(turn.end_id)) is not None and turn.answers[-1].id in after:
            ids = frozenset({end_id, *(entry.id for entry in turn.answers)})
            found.append(SessionEnd(end_id, ids, asked, told_later=bool(told) and told[-1] > place))
    return tuple(found)


def _safe_id(message_id: str | None) -> str | None:
    """The id, if it is safe as an argument of a command: the session's file may come from another machine."""
    is_safe = message_id and is_safe_argument(message_id) and len(message_id) <= MAX_ID_CHARS
    return message_id if is_safe else None


def utterances(view: SessionView) -> Iterator[Utterance]:
    """Each prompt, and the whole answer up to the next prompt."""
    from clew.core.session_check import Utterance  # here, because a turn needs none

    said = (entry for entry in view.entries if entry.role is Role.ASSISTANT or entry.is_prompt)
    for role, group in groupby(said, key=lambda entry: entry.role):
        entries = list(group)
        if role is Role.USER:
            yield from (Utterance(role, entry.text) for entry in entries)
        elif text := join_messages(entry.text for entry in entries):
            yield Utterance(role, text, entries[-1].id)


def file_of(adapter: Adapter, pin: Pin) -> Path | None:
    return adapter.session_file(pin.runtime.config_dir, pin.work_dir, pin.session_id)


def used(adapter: Adapter, pin: Pin) -> Usage | None:
    """The session's running total from its file. None: the agent reports the usage of each run, or there is no file."""
    path = file_of(adapter, pin)
    try:
        return adapter.session_usage(path) if path else None
    except OSError:
        return None


def tool_called(adapter: Adapter, pin: Pin) -> bool:
    """Whether the model has called a tool since our last turn ended. In a new copy, only what follows our prompt
    counts: what is before was copied."""
    path = file_of(adapter, pin)
    try:
        view = adapter.read_session(path, pin.mark.size_bytes if pin.mark else 0) if path is not None else None
    except OSError:
        return False
    if view is None or not (view.tool_called and is_unconfirmed_copy(pin)):
        return view is not None and view.tool_called
    return any(entry.calls for entry in view.entries[_place_of_pending(view.entries, pin) :])


def is_full(path: Path) -> bool:
    """Whether the disk of this path has no room for another turn."""
    try:
        found = os.statvfs(path)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < NO_ROOM_BYTES or (found.f_files > 0 and found.f_favail == 0)
