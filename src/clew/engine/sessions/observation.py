"""Reads a session's file: before a turn (does it hold what its pin says?) and after it (does it hold the turn?)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from clew.agents.adapter import Adapter, SessionEntry, SessionView
from clew.core.costs.usage import Usage
from clew.core.history import Role
from clew.core.pins import Mark, Observed, Pin
from clew.core.record import replace
from clew.core.runs.answer import join_messages
from clew.core.session_check import Utterance
from clew.engine.sessions.fingerprint import Fingerprint, fingerprint, is_altered, stamp_of

NO_ROOM_BYTES = 256 * 1024  # with less free space than this, the disk counts as full


def observe(adapter: Adapter, pin: Pin) -> Observed:
    """What the file shows. It is cheap if no turn is pending and the file has not changed since our last turn."""
    path = file_of(adapter, pin)
    if path is None:
        return Observed(exists=False)
    try:
        return _observe(adapter, pin, path)
    except OSError:
        return Observed(exists=False)  # the agent cannot read it either


def _observe(adapter: Adapter, pin: Pin, path: Path) -> Observed:
    mark, origin_files = pin.mark, adapter.origin_files(path)
    at_rest = mark is not None and pin.pending is None and pin.borrowed_at is None
    if mark is not None and at_rest and mark.stamp is not None and mark.stamp == stamp_of(path, origin_files):
        return Observed(exists=True, mark=mark)
    size = path.stat().st_size
    if not size:
        return Observed(exists=False)
    found = fingerprint(path, size, mark.size_bytes if mark is not None else 0, origin_files)
    if is_altered(mark, found):
        return Observed(exists=True, damaged=True)
    if mark is not None and at_rest and mark.size_bytes == size:
        return Observed(exists=True, mark=replace(mark, digest=found.digest, stamp=found.stamp))
    if mark is not None and at_rest and not adapter.only_bookkeeping(path, mark.size_bytes, mark.last_entry):
        return Observed(exists=True, continued_outside=True)
    view = adapter.read_session(path)
    if pin.borrowed_at is not None:
        return borrowed_in(view, pin.borrowed_at)
    return _marked(observed_in(view, pin), found, size)


def _marked(observed: Observed, found: Fingerprint, size: int) -> Observed:
    """Adds the fingerprint to the mark, unless the file has grown between the two reads."""
    if observed.mark is None or observed.mark.size_bytes != size:
        return observed
    return replace(observed, mark=replace(observed.mark, digest=found.digest, stamp=found.stamp))


def mark_of(adapter: Adapter, path: Path, view: SessionView) -> Mark:
    """The mark of a file that has just been read completely. Raises OSError."""
    found = fingerprint(path, view.size_bytes, origin_files=adapter.origin_files(path))
    return Mark(view.size_bytes, view.last_entry, found.digest, found.stamp)


def observed_in(view: SessionView, pin: Pin) -> Observed:
    mark = Mark(view.size_bytes, view.last_entry)
    if not view.entries:
        return Observed(exists=False, mark=mark)
    if pin.pending is None:
        return Observed(exists=True, mark=mark)
    left_at = pin.mark.size_bytes if pin.mark else 0
    ours = (n for n, entry in enumerate(view.entries) if entry.id == pin.pending.user_uuid and _is_new(entry, left_at))
    place = next(ours, None)
    if place is None:
        return Observed(exists=True, mark=mark, holds_pending=False)
    after = view.entries[place + 1 :]
    return Observed(
        exists=True,
        mark=mark,
        holds_pending=True,
        answer_text=join_messages(entry.text for entry in after if entry.role is Role.ASSISTANT),
        complete=bool(after) and after[-1].role is Role.ASSISTANT and after[-1].complete,
        continued_outside=any(entry.is_prompt for entry in after),
        model=view.model,
    )


def borrowed_in(view: SessionView, message_id: str) -> Observed:
    """Whether another thread's session still holds the message up to which it was borrowed. Its owner may add messages,
    so the size of the file tells nothing."""
    mark = Mark(view.size_bytes, view.last_entry)
    place = next((n for n, entry in enumerate(view.entries) if entry.id == message_id), None)
    if place is None:  # the message was removed, or its id was never known
        return Observed(exists=bool(view.entries), mark=mark, continued_outside=bool(message_id))
    return Observed(exists=True, mark=mark, continues_past_fork=place < len(view.entries) - 1)


def _is_new(entry: SessionEntry, left_at: int) -> bool:
    """Whether the entry was added after our last turn: the same prompt may have been asked before."""
    return entry.offset is None or entry.offset >= left_at


def observe_turn(adapter: Adapter, pin: Pin) -> Observed:
    """What the file shows after a success. Reads only what the turn added, and checks that the rest is unchanged."""
    path = file_of(adapter, pin)
    if path is None:
        return Observed(exists=False)
    left_at = pin.mark.size_bytes if pin.mark else 0
    try:
        view = adapter.read_session(path, left_at)
        found = fingerprint(path, view.size_bytes, left_at, adapter.origin_files(path))
    except OSError:
        return Observed(exists=False)
    if is_altered(pin.mark, found):
        return Observed(exists=True, damaged=True)
    return _marked(observed_in(view, pin), found, view.size_bytes)


def utterances(view: SessionView) -> Iterator[Utterance]:
    """Each prompt, and the whole answer up to the next prompt."""
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
    """Whether the model has called a tool since our last turn ended."""
    path = file_of(adapter, pin)
    try:
        return path is not None and adapter.read_session(path, pin.mark.size_bytes if pin.mark else 0).tool_called
    except OSError:
        return False


def is_full(path: Path) -> bool:
    """Whether the disk of this path has no room for another turn."""
    try:
        found = os.statvfs(path)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < NO_ROOM_BYTES or (found.f_files > 0 and found.f_favail == 0)
