"""The repositories of the tests of work trees: a shared one, the clone that the settings name, and another clone."""

from __future__ import annotations

from pathlib import Path

from clew.git.worktrees.worktrees import ClosedTree, WorkTree, WorkTrees
from git.repository import Repository

KEY = "boss:charles/peon:4"


class Repositories:
    """A shared bare repository, the clone that the settings name, and another clone that pushes."""

    def __init__(self, folder: Path, source: str = "source") -> None:
        self.folder = folder
        self.other = Repository(folder, work="other")
        self.other.commit(a="one\n", **{".gitignore": "*.log\n"})
        self.hub = folder / "hub.git"
        self.other.git("clone", "-q", "--bare", str(self.other.work), str(self.hub))
        self.other.git("remote", "add", "origin", f"file://{self.hub}")
        self.source = folder / source
        self.clone(self.source)
        self.home = folder / "clew" / "worktrees"

    def clone(self, path: Path, *options: str) -> None:
        self.other.git("clone", "-q", *options, f"file://{self.hub}", str(path))
        self.git("config", "user.name", "Agent", cwd=path)
        self.git("config", "user.email", "agent@localhost", cwd=path)

    def trees(self, **options: float) -> WorkTrees:
        return WorkTrees(self.home, self.other.environ, **options)

    async def open(self, key: str = KEY, **options: object) -> WorkTree:
        return await self.trees().open(str(self.source), key, **options)  # type: ignore[arg-type]

    async def close(self, key: str = KEY) -> ClosedTree:
        return await self.trees().close(str(self.source), key)

    def git(self, *args: str, cwd: Path | str | None = None, check: bool = True) -> str:
        return self.other.git(*args, cwd=Path(cwd or self.source), check=check).decode().strip()

    def push(self, to: str = "main", *, force: bool = False, **files: str) -> str:
        """A new commit of another person, pushed under that name."""
        self.other.commit(**files)
        to = to if to.startswith("refs/") else f"refs/heads/{to}"
        self.other.git("push", "-q", *(["--force"] if force else []), "origin", f"HEAD:{to}")
        return self.tip("HEAD", self.other.work)

    def work(self, tree: WorkTree, **files: str) -> str:
        """A commit by the agent."""
        for name, text in files.items():
            Path(tree.path, name).write_text(text)
        self.git("add", "-A", cwd=tree.path)
        self.git("commit", "-q", "-m", "the agent's", cwd=tree.path)
        return self.tip("HEAD", tree.path)

    def tip(self, name: str, cwd: Path | str | None = None) -> str:
        return self.git("rev-parse", "--verify", "--quiet", name, cwd=cwd, check=False)

    def branches(self) -> set[str]:
        return set(self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split())

    def left(self) -> list[str]:
        """What our folder contains, without locks."""
        return sorted(path.name for path in self.home.iterdir() if path.suffix != ".lock")
