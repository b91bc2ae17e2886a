"""Finds and reads the files of slash commands and skills: the user's own, and those of a repository.

A repository's files are text, so they are read without trust. They must be plain files inside the repository: no link
is followed, because a link could show the model any file of the user's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from clew.agents.adapter import CommandFolder
from clew.core.expansion.command_file import CommandFile, parse
from clew.core.record import Record
from clew.errors import UsageError
from clew.hosts.validation import read_plain

MAX_FILE_BYTES = 200_000
MAX_LISTED = 1_000  # files of one folder that are looked at
MAX_DEPTH = 5  # folders in a name: /a:b:c
HEAD_BYTES = 8_192  # how much of a file a list reads
SKILL = "SKILL.md"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*\Z")


class FoundCommand(Record):
    """A file that can be a command."""

    name: str  # without the slash
    path: Path
    folder: CommandFolder

    @property
    def source(self) -> str:
        return "project" if self.folder.of_project else "user"


def find(folders: Iterable[CommandFolder], name: str) -> FoundCommand | None:
    """The command of that name. The first folder that has it counts; the other name of a skill counts last."""
    listed = list(folders)
    for folder in listed:
        path = _path(folder, name)
        if path is not None and os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises for a name that is too long
            return FoundCommand(name, path, folder)
    for found in commands(folder for folder in listed if folder.skills):
        if head(found).name == name:
            return found
    return None


def commands(folders: Iterable[CommandFolder]) -> Iterator[FoundCommand]:
    """All of them, each name once."""
    seen = set[str]()
    for folder in folders:
        for found in islice(_in(folder), MAX_LISTED):
            if found.name not in seen:
                seen.add(found.name)
                yield found


def _path(folder: CommandFolder, name: str) -> Path | None:
    parts = name.removeprefix(folder.prefix).split(":")
    if not name.startswith(folder.prefix) or not all(map(_NAME.match, parts)) or len(parts) > MAX_DEPTH:
        return None
    if folder.skills:
        return folder.path / parts[0] / SKILL if len(parts) == 1 else None
    return Path(folder.path, *parts[:-1], f"{parts[-1]}.md")


def _in(folder: CommandFolder) -> Iterator[FoundCommand]:
    try:
        if folder.skills:
            for name in sorted(os.listdir(folder.path)):  # noqa: PTH208
                if _NAME.match(name) and (folder.path / name / SKILL).is_file():
                    yield FoundCommand(name, folder.path / name / SKILL, folder)
            return
    except OSError:
        return  # the folder does not exist, or may not be read
    for here, folders, files in islice(os.walk(folder.path), MAX_LISTED):
        above = Path(here).relative_to(folder.path).parts
        folders[:] = sorted(name for name in folders if _NAME.match(name) and len(above) + 1 < MAX_DEPTH)
        for file in sorted(files):
            if file.endswith(".md") and _NAME.match(file):
                name = folder.prefix + ":".join((*above, file.removesuffix(".md")))
                yield FoundCommand(name, Path(here, file), folder)


def head(found: FoundCommand) -> CommandFile:
    """What the beginning of the file says, for a list. A file that cannot be read says nothing."""
    try:
        return parse(_content(found, HEAD_BYTES)[:HEAD_BYTES].decode("utf-8", "replace"))
    except (OSError, UsageError):
        return CommandFile("")


def read(found: FoundCommand) -> CommandFile:
    """Raises UsageError for a file that is a link, too large, or no text."""
    try:
        content = _content(found, MAX_FILE_BYTES)
    except OSError as error:
        raise UsageError(f"The file of /{found.name} cannot be read: {found.path}: {error.strerror}.") from error
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(f"The file of /{found.name} has more than {MAX_FILE_BYTES:,} bytes: {found.path}.")
    try:
        return parse(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise UsageError(f"The file of /{found.name} is not UTF-8 text: {found.path}.") from None


def _content(found: FoundCommand, limit: int) -> bytes:
    if found.folder.of_project and Path(os.path.realpath(found.path)) != found.path:
        raise UsageError(
            f"The file of /{found.name} is a link, or below one: {found.path}.",
            hint="A repository's commands are read only from plain files inside it. Copy the file there.",
        )
    return read_plain(found.path, limit)
