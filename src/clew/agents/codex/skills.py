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
from clew.core.expansion.file_syntax import FileSyntax
from clew.core.thread import Trust
from clew.errors import UsageError
from clew.system.work_trees import repository

OF_PROJECT = (".agents/skills", ".codex/skills")
FOR_ALL_USERS = Path("/etc/codex/skills")
FILE = "SKILL.md"
MAX_DEPTH = 6  # of folders, as Codex follows them
MAX_FOLDERS = 20_000  # ten times what Codex searches
HEAD_CHARS = 16_384  # of a file: they hold its name
MAX_CHARS = 120_000  # of a word of a command line

_CALL = re.compile(r"\$([A-Za-z0-9_:-]+)")
_LINK = re.compile(r"\[\$[A-Za-z0-9_:-]+\]\s*\(")
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?:[ \t]+(.*))?\Z")
_NAME = re.compile(r"([\"']?)([A-Za-z0-9_:-]+)\1")
_VALUE = re.compile(r"""[^\s"'|>&*!{}\[\]%@`#,?:-][^:#]*|"[^"\\]*"|'[^']*'""")  # on one line, and nothing else
_BLOCK = re.compile(r"[|>][+-]?")  # what follows it is indented


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
    """Values of `-c` (reads the disk). Raises UsageError if the skills cannot all be switched off that must be."""
    work_dir = Path(os.path.realpath(launch.work_dir))
    # With no root markers, Codex looks in the work directory only.
    if launch.trust is not Trust.PROJECT and any(os.path.lexists(work_dir / name) for name in OF_PROJECT):
        yield "skills.include_instructions", "false"
    calls = set(_CALL.findall(launch.prompt))
    if not calls:
        return
    has_links = _LINK.search(launch.prompt) is not None
    selectors = dict[str, None]()
    for file in sorted(_files(launch, work_dir)):
        name, real = _name(file), os.path.realpath(file)
        # A link names a file by its path, or by a shorter one that ends with the same folder.
        is_linked = has_links and any(Path(each).parent.name in launch.prompt for each in (file, real))
        if is_linked or name is None or any(call == name or call.endswith(f":{name}") for call in calls):
            selectors[_selector(real, name)] = None
            if sum(map(len, selectors)) > MAX_CHARS:
                raise _refused("too many skills that a word with a $ in the prompt may call", str(file.parent.parent))
    if selectors:
        yield "skills.config", f"[{','.join(selectors)}]"


def _selector(path: str, name: str | None) -> str:
    try:
        path.encode()
        return f"{{path={quoted(path)},enabled=false}}"
    except UnicodeEncodeError:
        if name is None:
            raise _refused("a skill without a readable name, in a folder whose name is not UTF-8", path) from None
        return f"{{name={quoted(name)},enabled=false}}"


def _refused(what: str, where: str) -> UsageError:
    return UsageError(
        f"Codex would find {what}: {where.encode('utf-8', 'replace').decode()[:300]}.",
        hint="Remove what is not needed there, or ask another agent.",
    )


def _name(file: Path) -> str | None:
    """The skill's name. None: it may be any, because only the plainest frontmatter is sure to be read as Codex does."""
    try:
        with file.open(encoding="utf-8", errors="replace", newline="") as opened:
            lines = opened.read(HEAD_CHARS).replace("\r\n", "\n").split("\n")
    except OSError:
        return None
    end = next((place for place, line in enumerate(lines) if place and line.strip() == "---"), None)
    if lines[0] != "---" or end is None:
        return None
    names, may_be_indented = list[str](), False
    for line in lines[1:end]:
        key = _KEY.match(line)
        if len(line.splitlines()) > 1 or (key is None and line.strip() and not (may_be_indented and line[0] in " -")):
            return None
        if key is not None:
            value = (key[2] or "").strip()
            may_be_indented = not value or _BLOCK.fullmatch(value) is not None
            if not may_be_indented and _VALUE.fullmatch(value) is None:
                return None
            if key[1] == "name":
                names.append(value)
    found = _NAME.fullmatch(names[0]) if len(names) == 1 else None
    return found[2] if found is not None else None


def _files(launch: LaunchProfile, work_dir: Path) -> Iterator[Path]:
    config = launch.config_dir or config_dir({"HOME": launch.home})
    folders = repository(work_dir) if launch.trust is Trust.PROJECT else [work_dir]
    roots = [*_of_user(config, launch.home), Path(config, "plugins"), FOR_ALL_USERS]
    roots += [folder / name for folder in folders for name in OF_PROJECT]
    for root in roots:
        yield from _below(root)


def _below(root: Path) -> Iterator[Path]:
    """The files of skills in all folders below, each folder once: links are followed, also to elsewhere."""
    level, seen = [root], set[tuple[int, int]]()
    for _ in range(MAX_DEPTH + 1):
        above, level = level, []
        for folder in above:
            for entry in _entries(folder, seen):
                with suppress(OSError):  # a link to itself, or to what is no folder
                    if entry.is_dir():
                        level.append(folder / entry.name)
                    elif entry.name.lower() == FILE.lower() and entry.is_file():  # and no pipe
                        yield folder / entry.name
            if len(seen) > MAX_FOLDERS:
                raise _refused("too many folders in which to look for skills", str(root))


def _entries(folder: Path, seen: set[tuple[int, int]]) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        known = folder.stat()
        if (known.st_dev, known.st_ino) not in seen:
            seen.add((known.st_dev, known.st_ino))
            return list(entries)
    return []
