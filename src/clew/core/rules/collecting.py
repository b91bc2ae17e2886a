"""Collects a project's rules from a tree of files. Links, pipes, devices and what is too large are left out."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from clew.core.record import Record
from clew.core.rules.rules import FileTree, LeftOut, ProjectRules, RuleFile, RuleLayout, Unreadable

MAX_FILE_BYTES = 100_000
MAX_BYTES = 200_000  # of all files together: 50,000 tokens
MAX_FILES = 100
MAX_IMPORTS = 200  # that are looked for: many words begin with an `@`
MAX_DEPTH = 4  # of imports, as the Claude CLI follows them (measured: of a to e, a is the file itself)
SIBLINGS = ("CLAUDE.md", "AGENTS.md")
MARKDOWN = ".md"
OUTSIDE = "an import from outside the repository"


async def collect(tree: FileTree, folders: Sequence[str], layout: RuleLayout, users: str | None = None) -> ProjectRules:
    """The rules in `folders`: the root ("") first, then each folder on the way to the work directory.

    `users` is the user's own settings folder if it is in the tree: the agent reads the rules in it by itself.
    """
    collecting = _Collecting(tree, layout, users)
    for folder in folders:
        await collecting.add_folder(folder)
    return ProjectRules(tuple(collecting.files), tuple(dict.fromkeys(collecting.left_out)))


class _Collecting:
    def __init__(self, tree: FileTree, layout: RuleLayout, users: str | None) -> None:
        self.files: list[RuleFile] = []
        self.left_out: list[LeftOut] = []
        self._tree, self._layout, self._users = tree, layout, users
        self._seen: set[str] = set()
        self._bytes = self._imports = 0

    async def add_folder(self, folder: str) -> None:
        layout = self._layout
        found = [name for name in layout.names if await self._add(_Wanted(posixpath.join(folder, name)))]
        for name in layout.instead:
            if not found and await self._add(_Wanted(posixpath.join(folder, name))):
                found.append(name)
        for rules in layout.folders:
            for path, unreadable in await self._listed(posixpath.join(folder, rules)):
                if unreadable is not None:
                    self._leave_out(unreadable.path or path, unreadable.why)
                else:
                    await self._add(_Wanted(path, has_frontmatter=True))
        for name in layout.local:
            await self._add(_Wanted(posixpath.join(folder, name)))

    async def _listed(self, folder: str) -> Sequence[tuple[str, Unreadable | None]]:
        return () if self._is_users(folder) else await self._tree.markdown(folder, 2 * MAX_FILES)

    async def _add(self, wanted: _Wanted) -> bool:
        """Whether the file is among the rules now."""
        path = wanted.path
        if path in self._seen:
            return True
        if self._is_users(path):
            return False
        content = await self._tree.read(path, MAX_FILE_BYTES)
        if isinstance(content, Unreadable) and content.link_to in SIBLINGS and not wanted.is_link:
            # One of them is often a link to the other: that file is read itself.
            beside = posixpath.join(posixpath.dirname(path), content.link_to)
            return await self._add(wanted.replace(path=beside, is_link=True))
        if content is None:
            return False
        if isinstance(content, Unreadable):
            self._leave_out(content.path or path, content.why)
            return False
        if why := self._objection(path, content):
            self._leave_out(path, why)
            return False
        from clew.core.rules.markdown import imports, without_frontmatter  # here, because many projects have no rules

        self._seen.add(path)
        text = content.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
        text, globs = without_frontmatter(text) if wanted.has_frontmatter else (text, ())
        if not text.strip():
            return False
        self._bytes += len(content)
        self.files.append(RuleFile(path, text.strip("\n"), globs or wanted.globs))
        if self._layout.imports and wanted.depth < MAX_DEPTH:
            for each in imports(text):
                await self._add_import(each, wanted.replace(depth=wanted.depth + 1, globs=globs or wanted.globs))
        return True

    async def _add_import(self, path: str, importer: _Wanted) -> None:
        """An import of a file that does not exist is not mentioned: it may be no import at all."""
        from clew.core.rules.markdown import imported_path

        whole = imported_path(path, importer.path)
        self._imports += 1
        if self._imports > MAX_IMPORTS:
            self._leave_out(importer.path, f"its imports: more than {MAX_IMPORTS} are named in the rules")
        elif whole is not None:
            await self._add(importer.replace(path=whole, has_frontmatter=False))
        elif path.endswith(MARKDOWN):
            self._leave_out(f"@{path}", OUTSIDE)

    def _objection(self, path: str, content: bytes) -> str:
        """Why the file is not among the rules; "": it is."""
        if not path.isprintable():
            return "its name cannot be printed"
        if len(content) > MAX_FILE_BYTES:
            return f"larger than {MAX_FILE_BYTES // 1000} kB"
        if b"\0" in content:
            return "not a text"
        if self._bytes + len(content) > MAX_BYTES:
            return f"all rules together are larger than {MAX_BYTES // 1000} kB"
        return f"more than {MAX_FILES} files" if len(self.files) >= MAX_FILES else ""

    def _leave_out(self, path: str, why: str) -> None:
        shown = "".join(letter if letter.isprintable() else "?" for letter in path)
        self.left_out.append(LeftOut(shown, why))

    def _is_users(self, path: str) -> bool:
        return self._users is not None and (path == self._users or path.startswith(f"{self._users}/"))


class _Wanted(Record):
    """A file that may be among the rules."""

    path: str
    has_frontmatter: bool = False
    depth: int = 0  # of imports
    globs: tuple[str, ...] = ()  # of the file that imports it
    is_link: bool = False  # another name is a link to it
