"""A project's rules for agents (CLAUDE.md, AGENTS.md and others): which files hold them, and how agents are shown them.

Rules are text. They are read without anything of the repository's being run, from a work directory or from a commit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from clew.core import prompts
from clew.core.record import Record

PREAMBLE = "These are the rules of the project, from files of its repository. Follow them."
NAME_CHARS = 60


class RuleLayout(Record):
    """Where a project keeps its rules for an agent: in each folder from the repository's root to the work directory."""

    names: tuple[str, ...]  # these files
    instead: tuple[str, ...] = ()  # where a folder has none of `names`: the first of these files
    folders: tuple[str, ...] = ()  # all Markdown files in these folders
    local: tuple[str, ...] = ()  # these files as well, which are usually not in the repository
    imports: bool = False  # `@path` in a rule file names another one
    copies: str = ""  # in a folder that is given to the agent: where the agent looks for rules


class RulesSource(Record):
    """A commit whose rules are shown in place of those in the work directory."""

    repository: str  # its folder
    commit: str  # "": none could be found, so no rules are shown


class RuleFile(Record):
    path: str  # relative to the root
    text: str
    globs: tuple[str, ...] = ()  # the rules are for files that match one of these; (): for all files


class LeftOut(Record):
    path: str
    why: str


class ProjectRules(Record):
    files: tuple[RuleFile, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def chars(self) -> int:
        return sum(len(file.text) for file in self.files)


NO_RULES = ProjectRules()


class Unreadable(Record):
    """A file that exists and is not read."""

    why: str
    link_to: str = ""  # where a link leads, as it says
    path: str = ""  # of the folder above it that is the reason; "": the file itself is


class FileTree(Protocol):
    """Files of a repository, read without following a link. Paths are relative to its root, with slashes."""

    async def read(self, path: str, limit: int) -> bytes | Unreadable | None:
        """None: there is no such file."""
        ...

    async def markdown(self, folder: str, limit: int) -> Sequence[tuple[str, Unreadable | None]]:
        """The Markdown files in the folder and below it, sorted; at most `limit`. Links are listed too."""
        ...


def heading(file: RuleFile) -> str:
    of = f", for files that match {' or '.join(file.globs)}" if file.globs else ""
    return f"Rules from {file.path}{of}"


def as_files(rules: ProjectRules) -> dict[str, str]:
    """Names and contents of files for an agent that reads rules from a folder. A file's name depends on nothing but its
    path, so that a changed file is shown to the agent again, and the others are not."""
    return {_name(file.path): f"# {heading(file)}\n\n{file.text}\n" for file in rules.files}


def _name(path: str) -> str:
    """Readable and unique. In a sorted list the files of the root come first; the Claude CLI does not sort."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", path).strip("-.")[-NAME_CHARS:]
    import hashlib  # here, because it takes 2 ms to load and few turns need it

    digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{min(path.count('/'), 99):02}-{readable.removesuffix('.md')}-{digest}.md"


def as_standing(rules: ProjectRules, standing: str | None) -> str | None:
    """The thread's standing text with the rules, for an agent that is given the rules in its prompt. A file's text
    cannot end the section that it is in, because what looks like a heading of ours is escaped."""
    if not rules.files:
        return standing
    shown = [f"## {heading(file)}\n\n{prompts.escape(file.text)}" for file in rules.files]
    return "\n\n".join([*([standing] if standing else []), PREAMBLE, *shown])
