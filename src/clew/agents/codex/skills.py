"""Codex's skills: where they and its prompts are, and what of them Codex itself shows to the model.

Codex takes each `$name` in a message for a call of that skill, and `[$name](PATH)` for a call of the skill in that
file, wherever the words come from: a transcript, another agent's answer, a diff. It has no setting against that, but a
skill can be switched off for one run. So those that a prompt names are: what a user calls, Clew has put into the prompt
already. The skills of a repository are listed to the model even where the user does not trust the project. Then nothing
is listed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from clew.agents.adapter import CommandFolder, LaunchProfile
from clew.agents.codex.location import config_dir
from clew.agents.codex.sandbox import quoted
from clew.core.expansion.command_file import FileSyntax
from clew.core.thread import Trust
from clew.errors import UsageError
from clew.system.work_trees import repository

OF_PROJECT = (".agents/skills", ".codex/skills")
FOR_ALL_USERS = Path("/etc/codex/skills")
FILE = "SKILL.md"
MAX_FOLDERS = 20_000  # that are searched for skills
HEAD_CHARS = 16_384  # of a file: they hold its name
MAX_CHARS = 120_000  # of a word of a command line

_CALL = re.compile(r"\$([A-Za-z0-9_:-]+)")
_LINK = re.compile(r"\[\$[A-Za-z0-9_:-]+\]\s*\(([^)]*)\)")
_HEAD = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
_PLAIN_LINE = re.compile(r"[A-Za-z][\w-]*:(?:\s|$)|[\s#-]|$")
_NAME_LINE = re.compile(r"^name:.*$", re.MULTILINE)
_PLAIN_NAME = re.compile(r"name:[ \t]+([\"']?)([A-Za-z0-9_:-]+)\1[ \t]*")


def command_folders(environ: Mapping[str, str], work_dir: str) -> Iterator[CommandFolder]:
    """`codex exec` expands no prompts (measured); the TUI names them so."""
    config = config_dir(environ)
    yield CommandFolder(Path(config, "prompts"), syntax=FileSyntax.CODEX, prefix="prompts:")
    for path in _of_user(config, environ.get("HOME", "")):
        yield CommandFolder(path, skills=True, dollar=True)
    for folder in repository(Path(work_dir)):
        for name in OF_PROJECT:
            yield CommandFolder(folder / name, of_project=True, skills=True, dollar=True)


def _of_user(config: str, home: str) -> list[Path]:
    return [Path(config, "skills"), *([Path(home, ".agents/skills")] if home else [])]


def settings(launch: LaunchProfile) -> Iterator[tuple[str, str]]:
    """Values of `-c` (reads the disk). Raises UsageError if they are too long."""
    work_dir = Path(os.path.realpath(launch.work_dir))
    # With no root markers, Codex looks in the work directory only.
    if launch.trust is not Trust.PROJECT and any(os.path.lexists(work_dir / name) for name in OF_PROJECT):
        yield "skills.include_instructions", "false"
    calls = set(_CALL.findall(launch.prompt))
    if not calls:
        return
    links = {Path(match.strip().removeprefix("skill://")) for match in _LINK.findall(launch.prompt)}
    off = sorted({os.path.realpath(file) for file in _files(launch, work_dir) if _may_be_called(file, calls, links)})
    value = ",".join(f"{{path={quoted(path)},enabled=false}}" for path in off)
    if len(value) > MAX_CHARS:
        raise UsageError(
            "The prompt names too many of Codex's skills with a $.", hint="Send less of it, or ask another agent."
        )
    if off:
        yield "skills.config", f"[{value}]"


def _may_be_called(file: Path, calls: set[str], links: set[Path]) -> bool:
    # Codex may list a file under a shorter path, which then ends with the same folder.
    if any(file.parent.name == link.parent.name for link in links):
        return True
    name = _name(file)
    return name is None or any(call == name or call.endswith(f":{name}") for call in calls)  # `plugin:name`


def _name(file: Path) -> str | None:
    """The skill's name; None if it cannot be told without a YAML parser: then it may be any."""
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            head = _HEAD.match(opened.read(HEAD_CHARS))
    except OSError:
        return None
    if head is None or not all(map(_PLAIN_LINE.match, head[1].split("\n"))):
        return None
    names = [_PLAIN_NAME.fullmatch(line) for line in _NAME_LINE.findall(head[1])]
    return names[0][2] if len(names) == 1 and names[0] is not None else None


def _files(launch: LaunchProfile, work_dir: Path) -> Iterator[Path]:
    config = launch.config_dir or config_dir({"HOME": launch.home})
    folders = repository(work_dir) if launch.trust is Trust.PROJECT else [work_dir]
    roots = [*_of_user(config, launch.home), Path(config, "plugins"), FOR_ALL_USERS]
    roots += [folder / name for folder in folders for name in OF_PROJECT]
    for root in roots:
        yield from _below(root)


def _below(root: Path) -> Iterator[Path]:
    """The files of skills in all folders below, each folder once: links are followed. Raises UsageError."""
    waiting, seen = [root], set[tuple[int, int]]()
    while waiting:
        folder = waiting.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            known = folder.stat()
            if (known.st_dev, known.st_ino) in seen:
                continue
            seen.add((known.st_dev, known.st_ino))
            for entry in entries:
                if entry.is_dir():
                    waiting.append(folder / entry.name)
                elif entry.name.lower() == FILE.lower() and entry.is_file():  # and no pipe
                    yield folder / entry.name
        if len(seen) > MAX_FOLDERS:
            raise UsageError(f"{root} has too many folders for Codex's skills.", hint="Move what is not a skill.")
