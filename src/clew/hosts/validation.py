"""Checks that hosts make before they store anything."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from clew.core.history import Turn
from clew.core.lookup import SHORTEST_BEGINNING, by_prefix
from clew.core.thread import NAME, NAME_CHARS, Thread
from clew.engine.engine import Engine
from clew.engine.leases import in_use, live_lease, thread_key
from clew.errors import UsageError
from clew.store.store import Store

MAX_PROMPT_CHARS = 10_000_000
NUMBER = re.compile(r"[1-9][0-9]{0,5}")  # of a turn: a longer one is the beginning of an id


def check_name(name: str) -> None:
    if not NAME.match(name):
        raise UsageError(
            f"{name!r} cannot be a thread's name.",
            hint=f"Use letters, digits, dot, dash and underscore, at most {NAME_CHARS}; begin with a letter or digit.",
        )


def check_prompt(text: str) -> None:
    if not text.strip().strip("\ufeff"):
        raise UsageError("The prompt is empty.", hint="Give it as an argument or on stdin.")
    if len(text) > MAX_PROMPT_CHARS:
        raise UsageError(f"The prompt has {len(text):,} characters; the limit is {MAX_PROMPT_CHARS:,}.")


def existing_dir(path: str) -> str:
    """The directory with its links resolved, because agents look sessions up by that path. Raises UsageError."""
    with contextlib.suppress(OSError, ValueError):  # the path is too long, or has a NUL in it
        real = os.path.realpath(path)
        if Path(real).is_dir():
            return real
    shown = path[:200] if path.isprintable() else repr(path[:200])
    raise UsageError(f"{shown} is not a directory.", hint="Name an existing one with --cwd.")


def named_path(name: str) -> Path:
    """The path with `~` expanded. Raises UsageError for the home of an unknown user."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise UsageError(f"{name[:200]} begins with the home of an unknown user.") from None


def is_file(path: Path) -> bool:
    """Whether the path is a file. False also for a name that no file can have."""
    try:
        return path.is_file()
    except OSError:
        return False


def read_plain(path: Path, most: int) -> bytes:
    """The content of a plain file, at most `most` + 1 bytes. Does not wait for a pipe. Raises OSError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "It is not a plain file", str(path))
        return file.read(min(most, found.st_size) + 1)


def check_dir(thread: Thread) -> None:
    """Raises UsageError unless the thread's directory exists and is still the one that was chosen."""
    if existing_dir(thread.cwd) != thread.cwd:
        raise UsageError(
            f"{thread.cwd} leads to another directory now: {existing_dir(thread.cwd)}.",
            hint="Name it with --cwd if the thread is to continue there.",
        )


def check_idle(store: Store, engine: Engine, thread: Thread) -> None:
    """Raises Busy during a run in the thread."""
    held = live_lease(store, thread_key(thread.id), engine.context)
    if held is not None:
        raise in_use(thread, held)


def single_thread(store: Store, name: str) -> Thread:
    """The thread of that name. Raises NotFound, and UsageError for a pair's name: it stands for two threads."""
    found = store.threads.find(name)
    pair = store.pairs.find(name) if found is None else None
    if pair is None:
        return found or store.threads.require(name)
    threads = [store.threads.require_by_id(each).name for each in (pair.instructor_thread_id, pair.worker_thread_id)]
    raise UsageError(f"{name} is a pair, with two threads.", hint=f"Name one of them: {' or '.join(threads)}.")


def named_turn(thread: Thread, history: Sequence[Turn], name: str) -> Turn:
    """The turn with that id, else with that number in the thread, else the one whose id begins with it.

    A beginning that is too short is refused: it may be the number of a turn that the thread does not have, and then it
    must not find another one. Raises NotFound, and UsageError.
    """
    hint = f"clew threads show {thread.name} lists them with their numbers and ids."
    by_id = {str(turn.id): turn for turn in history}
    if name in by_id:
        return by_id[name]
    is_number = NUMBER.fullmatch(name) is not None
    if is_number and int(name) <= len(history):
        return history[int(name) - 1]
    if len(name) >= SHORTEST_BEGINNING:
        return by_prefix(name, history, lambda turn: turn.id, noun=f"turn of {thread.name}", hint=hint)
    if is_number:
        raise UsageError(f"{thread.name} has no turn {name}: it has {len(history):,}.", hint=hint)
    raise UsageError(
        f"{name!r} is not a turn of {thread.name}: give a turn's number, or at least {SHORTEST_BEGINNING} characters "
        "of its id.",
        hint=hint,
    )
