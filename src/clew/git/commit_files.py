"""Files as a commit has them, read from the repository's objects. Nothing is checked out, and no filter runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from clew.core.rules.rules import RulesSource, Unreadable
from clew.git.command import Git

MAX_FOLDERS = 200  # below .claude/rules

_LINK = b"120000"
_FOLDER = b"040000"
_FILES = (b"100644", b"100755")
_LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}  # a path that begins with a colon is a path: rules name the files they import


class CommitFiles:
    """Implements `FileTree`. A submodule's files are not in the commit."""

    def __init__(self, source: RulesSource, environ: Mapping[str, str]) -> None:
        self._git = Git(environ, needed_for="The rules of a commit need", instead="")
        self._source = source

    async def read(self, path: str, limit: int) -> bytes | Unreadable | None:
        """At most `limit` bytes and one more."""
        for mode, blob, size, name in await self._listed(path):
            if name != path:
                continue  # it is below a folder of that name
            if mode not in (*_FILES, _LINK):
                return None
            if size > limit:
                return b" " * (limit + 1)  # too large, whatever it says
            content = await self._call("cat-file", "blob", blob)
            return Unreadable("a link", os.fsdecode(content)) if mode == _LINK else content
        return None

    async def markdown(self, folder: str, limit: int) -> Sequence[tuple[str, Unreadable | None]]:
        """Folder by folder: some hundred bytes of a repository can stand for a tree without an end."""
        found: list[tuple[str, Unreadable | None]] = []
        entries, looked, waiting = await self._listed(folder), 0, list[str]()
        while True:
            for mode, _, _, name in entries:
                if mode == _FOLDER:
                    waiting.append(name)
                elif name.endswith(".md"):
                    found.append((name, None))
                elif mode == _LINK:
                    found.append((name, Unreadable("a link")))
            if looked == MAX_FOLDERS and looked < len(waiting):
                found.append((waiting[looked], Unreadable(f"more than {MAX_FOLDERS} folders of rules")))
            if looked in (len(waiting), MAX_FOLDERS) or len(found) > limit:
                return sorted(found, key=lambda each: each[0])[:limit]
            looked += 1
            entries = await self._listed(f"{waiting[looked - 1]}/")

    async def _listed(self, path: str) -> list[tuple[bytes, str, int, str]]:
        """Mode, id, size and path of each entry."""
        output = await self._call("ls-tree", "-z", "-l", "--full-tree", self._source.commit, "--", path)
        found = []
        for line in output.split(b"\0")[:-1]:
            fields, _, name = line.partition(b"\t")
            mode, _, blob, size = fields.split()
            found.append((mode, blob.decode(), int(size) if size.isdigit() else 0, os.fsdecode(name)))
        return found

    async def _call(self, *args: str) -> bytes:
        return await self._git.call(*args, cwd=self._source.repository, extra=_LITERAL)
