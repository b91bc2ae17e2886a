"""Files that a fork of this process must not hold open.

A descriptor that is closed when a program starts stays open in a fork that starts none. A fork would so keep an agent's
input open when this process has ended, and the agent would wait for a prompt that nobody can send.
"""

from __future__ import annotations

import contextlib
import os
from typing import Protocol, TypeVar
from weakref import WeakSet


class File(Protocol):
    def close(self) -> object: ...


F = TypeVar("F", bound=File)

_files: WeakSet[File] = WeakSet()


def closed_in_forks(file: F) -> F:
    """A fork closes the file. It is an object that knows that it is closed: a number could be another file by then."""
    _files.add(file)
    return file


def _close_all() -> None:
    for file in list(_files):
        with contextlib.suppress(OSError):
            file.close()


os.register_at_fork(after_in_child=_close_all)
