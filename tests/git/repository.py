"""A user's repository for checkpoints, and functions that show all of its state."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from clew.git.checkpoints import Checkpoints

File = tuple[str, bytes]  # its kind ("file", "program", "link") and its bytes
Tree = dict[bytes, File]

PATH = "/usr/local/bin:/usr/bin:/bin"


class Repository:
    """A work tree with real git, with its own home and without the machine's settings."""

    def __init__(self, folder: Path, *init: str, work: str = "work") -> None:
        self.folder = folder
        self.work = folder / work
        self.environ = {
            "HOME": str(folder / "home"),
            "PATH": PATH,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",  # reading must not update the index
        }
        (folder / "home").mkdir(exist_ok=True)
        self.work.mkdir()
        self.git("init", "-q", "-b", "main", *init)
        self.git("config", "user.name", "User")
        self.git("config", "user.email", "user@localhost")

    def git(self, *args: str, cwd: Path | None = None, stdin: bytes = b"", check: bool = True) -> bytes:
        done = subprocess.run(
            ["git", *args], cwd=cwd or self.work, env=self.environ, input=stdin, capture_output=True, check=False
        )
        assert done.returncode == 0 or not check, done.stderr.decode("utf-8", "replace")
        return done.stdout

    def commit(self, **files: str) -> None:
        for name, text in files.items():
            self.write(name, text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "the user's")

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def checkpoints(
        self, name: str = "job-1", *, cwd: Path | None = None, environ: Mapping[str, str] | None = None
    ) -> Checkpoints:
        return Checkpoints(str(cwd or self.work), name, {**self.environ, **(environ or {})})

    def files(self, top: Path | None = None) -> Tree:
        """Every file, without those of git itself."""
        top = top or self.work
        inside = [path for path in top.rglob("*") if ".git" not in path.relative_to(top).parts]
        return {
            os.fsencode(path.relative_to(top)): _file(path) for path in inside if path.is_symlink() or path.is_file()
        }

    def kept(self, commit: str) -> Tree:
        """The files of the commit."""
        listed = self.git("ls-tree", "-r", "-z", commit)
        kinds = {b"100644": "file", b"100755": "program", b"120000": "link"}
        found: Tree = {}
        for line in filter(None, listed.split(b"\0")):
            about, path = line.split(b"\t", 1)
            mode, _, number = about.split()
            found[path] = (kinds[mode], self.git("cat-file", "blob", number.decode()))
        return found

    def state(self) -> dict[str, bytes]:
        """The user's state: git's output, and every file of the git directory that is neither an object nor ours."""
        said = {
            "status": self.git("status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all"),
            "stash": self.git("stash", "list"),
            "refs": b"\n".join(line for line in self.git("for-each-ref").splitlines() if b"refs/clew/" not in line),
        }
        git_dir = Path(os.fsdecode(self.git("rev-parse", "--absolute-git-dir")).rstrip("\n"))
        common = git_dir.parent.parent if git_dir.parent.name == "worktrees" else git_dir
        for path in sorted(common.rglob("*")):
            name = str(path.relative_to(common))
            if path.is_file() and not name.startswith(
                ("objects/", "refs/clew/", "clew/", f"worktrees/{git_dir.name}/clew/")
            ):
                said[name] = path.read_bytes() + b" %o" % stat.S_IMODE(path.stat().st_mode)
        return said

    def is_sound(self) -> bool:
        """Nothing is missing or broken, and no lock is left."""
        ours = self.work / ".git" / "clew"
        locks = [path for path in (self.work / ".git").rglob("*.lock") if not path.is_relative_to(ours)]
        return b"missing" not in self.git("fsck", "--strict", "--no-dangling") and not locks

    def wrapped(self, script: str) -> dict[str, str]:
        """An environment with a wrapper of git: `script` has the command in $verb ("add" for reading files in)."""
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        real = shutil.which("git", path=PATH)
        assert real is not None
        program = folder / "git"
        program.write_text(
            f'#!/bin/sh\ngit={real}\nverb=""; skip=""\n'
            'for word in "$@"; do\n'
            '  if [ -n "$skip" ]; then skip=""; elif [ "$word" = -c ]; then skip=1; else verb="$word"; break; fi\n'
            f'done\ncase " $* " in *" --add "*) verb=add;; esac\n{script}\nexec "$git" "$@"\n'
        )
        program.chmod(0o755)
        return {"PATH": f"{folder}:{PATH}"}


def _file(path: Path) -> File:
    if path.is_symlink():
        return "link", os.fsencode(path.readlink())
    return ("program" if path.stat().st_mode & stat.S_IXUSR else "file"), path.read_bytes()
