"""What can be typed after `/` and after `@`: commands with their descriptions, and paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from pathlib import Path

from clew.agents.adapter import CommandFolder
from clew.core.expansion.invocation import CLEAR, COMPACT
from clew.core.record import Record
from clew.hosts.expansion import command_files

DESCRIPTION_CHARS = 200
MAX_WALKED = 20_000  # entries that a search for a name looks at
HIDDEN_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv"})  # never searched for a name


class Command(Record):
    """A command or a skill that a prompt can begin with."""

    name: str  # without the slash
    description: str
    argument_hint: str
    source: str  # "clew", "user" or "project"
    is_skill: bool


OF_CLEW = (
    Command(CLEAR, "Begin with an empty history: the turns so far are archived", "", "clew", False),
    Command(COMPACT, "Let the agent replace what its session holds by a summary", "[focus]", "clew", False),
)


def commands(folders: Iterable[CommandFolder]) -> tuple[Command, ...]:
    """Those of Clew, then the user's and the repository's by name. Skills that only the agent uses are left out."""
    return (*OF_CLEW, *sorted(_of_files(folders), key=lambda command: command.name))


def _of_files(folders: Iterable[CommandFolder]) -> Iterator[Command]:
    own = {command.name for command in OF_CLEW}
    for found in command_files.commands(folders):
        file = command_files.head(found)
        if file.for_user and file.body and found.name not in own:
            description = _line(file.description)
            yield Command(found.name, description, _line(file.argument_hint), found.source, found.folder.skills)


def _line(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)[:DESCRIPTION_CHARS].strip()


def files(work_dir: str, prefix: str, limit: int) -> tuple[str, ...]:
    """Paths that begin with `prefix`, relative to the directory; folders end with a slash.

    A prefix without a slash also finds files and folders further down whose name begins so.
    """
    folder, slash, beginning = prefix.replace("\0", "").rpartition("/")
    inside = os.path.realpath(os.path.join(work_dir, folder))  # noqa: PTH118
    if (slash and not folder) or not Path(inside).is_relative_to(os.path.realpath(work_dir)):
        return ()  # only inside the work directory
    above = f"{folder}/" if folder else ""
    here = [above + name for name in _entries(os.path.join(work_dir, folder), beginning)]  # noqa: PTH118
    if len(here) < limit and beginning and not folder:
        here += [path for path in _below(work_dir, beginning, limit) if path not in here]
    return tuple(here[:limit])


def _entries(folder: str, beginning: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.is_dir()) for entry in entries if entry.name.startswith(beginning)]
    except (OSError, ValueError):
        return []
    shown = [name + "/" * is_dir for name, is_dir in found if _is_shown(name, beginning)]
    return sorted(shown, key=lambda name: (name.startswith("."), name.lower()))


def _is_shown(name: str, beginning: str) -> bool:
    return name.isprintable() and name != ".git" and (not name.startswith(".") or beginning.startswith("."))


def _below(work_dir: str, beginning: str, limit: int) -> list[str]:
    """The paths that are nearest to the directory first."""

    def walk() -> Iterator[tuple[int, str]]:
        walked = 0
        for here, folders, names in os.walk(work_dir):
            folders[:] = [name for name in folders if name not in HIDDEN_FOLDERS and not name.startswith(".")]
            walked += len(folders) + len(names)
            if walked > MAX_WALKED:
                return
            relative = os.path.relpath(here, work_dir)
            for name in (*names, *(f"{folder}/" for folder in folders)):
                if relative != "." and name.lower().startswith(beginning.lower()) and name.isprintable():
                    path = f"{relative}/{name}"
                    yield path.count("/"), path

    return [path for _, path in nsmallest(limit, walk())]
