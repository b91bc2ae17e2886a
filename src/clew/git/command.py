"""Running git: found on the PATH, without the `GIT_*` variables of the caller, and with a time limit.

A repository's settings may name commands (hooks, a file-system monitor, filters). What is run here in a user's
repository is plumbing that needs none of them, and they are switched off as well (see `clew.git.guard`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from clew.core.record import Record
from clew.errors import ClewError, StoreError, UsageError
from clew.git import guard
from clew.system.processes import ended
from clew.system.programs import on_path

QUICK_S = 60.0  # the time limit of calls that take milliseconds
WHOLE_S = 900.0  # the time limit of calls that read or write the whole tree
USER_SETTINGS_S = 10.0  # how long the user's own settings are cached, for use outside of repositories
SUBMODULES_MAX = 500
USAGE = 129  # git's exit status for an option that it does not know

INSTEAD = "Or do without: --no-checkpoint."

# Set on every call. No protocol is allowed: nothing here needs to reach a remote.
_FIXED = {
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
_SWITCHED_OFF = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.logAllRefUpdates=false",
    "commit.gpgSign=false",
)

# The user's settings as last read, with the time, by environment.
_user_settings: dict[tuple[tuple[str, str], ...], tuple[float, list[guard.GitSetting]]] = {}

P = ParamSpec("P")
T = TypeVar("T")


class Done(Record):
    status: int  # negative: a signal of this number ended git
    out: bytes
    err: str


class Git:
    """Calls git. The caller's own `GIT_*` variables are removed, except with `keeps`."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        needed_for: str = "Checkpoints need",
        instead: str = INSTEAD,
        keeps: bool = False,
        settings: Sequence[str] = (),
    ) -> None:
        """`needed_for` begins the message when git is missing; `instead` is the hint when it is missing or fails.

        `keeps`: the caller's own `GIT_*` variables stay, so that git sees what another program's git will see.
        `settings` apply to every call, as those of `git -c` do.
        """
        self._needed_for, self._instead = needed_for, instead
        kept = {key: value for key, value in environ.items() if keeps or not key.startswith("GIT_")}
        self._environ = kept | _FIXED
        self._settings_given = (*_SWITCHED_OFF, *settings)

    async def call(
        self, *args: str, cwd: str, extra: Mapping[str, str], stdin: bytes = b"", limit_s: float = QUICK_S
    ) -> bytes:
        """Git's stdout. If git fails, raises an error with the reason that its stderr gives."""
        done = await self.attempt(*args, cwd=cwd, extra=extra, stdin=stdin, limit_s=limit_s)
        if done.status != 0:
            raise failure(args, done, self._instead)
        return done.out

    async def attempt(
        self,
        *args: str,
        cwd: str,
        extra: Mapping[str, str],
        stdin: bytes = b"",
        limit_s: float = QUICK_S,
        held: Sequence[int] = (),
    ) -> Done:
        """Runs git, whatever its exit status. If this is cancelled or takes too long, git and its children are killed.

        `held` are open files with a lock: if this process is killed, git holds the lock until git ends.
        """
        process = await self._spawn(args, cwd, extra, held)
        try:
            async with asyncio.timeout(limit_s):
                out, err = await process.communicate(stdin)
        except TimeoutError as error:
            raise UsageError(
                f"git {_verb(args)} took longer than {limit_s:.0f} s.", hint=self._instead or None
            ) from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await ended(process)
        return Done(process.returncode or 0, out, err.decode("utf-8", "replace"))

    async def finish(
        self,
        *args: str,
        cwd: str,
        extra: Mapping[str, str],
        limit_s: float = QUICK_S,
        held: Sequence[int] = (),
    ) -> Done:
        """Like `attempt`, but git also finishes when this is cancelled: a git that is killed while it moves a ref
        leaves the ref's lock behind."""
        work = asyncio.ensure_future(self.attempt(*args, cwd=cwd, extra=extra, limit_s=limit_s, held=held))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            with contextlib.suppress(ClewError):
                await work
            raise

    async def guarded(self, cwd: str, extra: Mapping[str, str], *, nested: bool = False) -> Mapping[str, str]:
        """What to add to the environment so that no command runs that the repository's own settings name.

        `nested`: the same for its submodules, because `git status` enters them. Reads settings and the index, and runs
        no command that the repository names.
        """
        folders = [cwd]
        found: list[list[guard.GitSetting]] = []
        while folders:
            if len(found) > SUBMODULES_MAX:
                raise UsageError(
                    f"The repository has more than {SUBMODULES_MAX} submodules, whose git settings may name commands.",
                    hint="Start in one of them. With --trust project their commands stay on.",
                )
            folder = folders.pop()
            settings, below = await asyncio.gather(
                self._settings(folder, extra), self._submodules(folder, extra if nested else None)
            )
            found.append(settings)
            folders += below
        return guard.environment(found, {**self._environ, **extra})

    async def _settings(self, cwd: str, extra: Mapping[str, str]) -> list[guard.GitSetting]:
        """All settings that apply in that folder. If git cannot read them, the list is empty: git cannot run what they
        name either."""
        environ = {**self._environ, **extra}
        if _may_be_in_repository(cwd, environ):
            return await self._read_settings(cwd, extra)
        # Outside of a repository only the user's own settings apply, so they are the same in every folder.
        key = tuple(sorted(item for item in environ.items() if item[0].startswith(("GIT_", "HOME", "XDG_", "PATH"))))
        known = _user_settings.get(key)
        if known is None or time.monotonic() - known[0] > USER_SETTINGS_S:
            _user_settings.clear()
            known = _user_settings[key] = time.monotonic(), await self._read_settings(cwd, extra)
        return known[1]

    async def _read_settings(self, cwd: str, extra: Mapping[str, str]) -> list[guard.GitSetting]:
        words = ("config", "--list", "--show-scope", "--includes", "-z")
        done = await self.attempt(*words, cwd=cwd, extra=extra)
        if done.status == USAGE:
            raise UsageError(
                "This git is too old to list the commands that the repository's settings name.",
                hint="Install git 2.26 or later. With --trust project the commands stay on.",
            )
        if done.status < 0:
            raise failure(words, done, self._instead)
        found = guard.parse_settings(done.out) if done.status == 0 else []
        return found[: -len(self._settings_given)]  # without the settings of this call itself

    async def _submodules(self, cwd: str, extra: Mapping[str, str] | None) -> list[str]:
        """The folders of the submodules that are checked out. With `extra` None, none are looked for."""
        if extra is None or not _may_be_in_repository(cwd, {**self._environ, **extra}):
            return []
        everywhere = {**extra, "GIT_LITERAL_PATHSPECS": "0"}
        done = await self.attempt("ls-files", "--stage", "--full-name", "-z", ":/", cwd=cwd, extra=everywhere)
        links = [line.partition(b"\t")[2] for line in done.out.split(b"\0") if line.startswith(b"160000 ")]
        if not links:
            return []
        top = await self.call("rev-parse", "--show-toplevel", cwd=cwd, extra=extra)
        places = [Path(os.fsdecode(top.removesuffix(b"\n")), os.fsdecode(link)) for link in links]
        return [str(place) for place in places if (place / ".git").exists()]

    async def _spawn(
        self, args: tuple[str, ...], cwd: str, extra: Mapping[str, str], held: Sequence[int]
    ) -> asyncio.subprocess.Process:
        binary = on_path("git", self._environ)
        if binary is None:
            raise UsageError(
                f"{self._needed_for} git, and there is none on the PATH.",
                hint=f"Install git. {self._instead}".strip(),
            )
        try:
            return await asyncio.create_subprocess_exec(
                binary,
                *(word for setting in self._settings_given for word in ("-c", setting)),
                *args,
                cwd=cwd,
                env={**self._environ, **extra},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=tuple(held),
                start_new_session=True,  # so that a Ctrl-C or a kill of our process group does not end it
            )
        except OSError as error:
            if not Path(cwd).is_dir():
                raise UsageError(f"The work directory {cwd} is gone.", hint="Name another with --cwd.") from error
            raise UsageError(f"{binary} cannot be started: {error.strerror}.") from error


def _may_be_in_repository(folder: str, environ: Mapping[str, str]) -> bool:
    """False: git would find no repository. Checked without starting git, to save that on every attempt of a run."""
    at, above = "", os.path.realpath(folder)
    while at != above:
        at, above = above, above.rpartition("/")[0] or "/"
        if os.path.lexists(f"{at}/.git") or os.path.lexists(f"{at}/HEAD"):
            return True
    return "GIT_DIR" in environ


async def on_disk(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Runs file operations in a thread, and turns their errors into ClewErrors."""
    try:
        return await asyncio.to_thread(work, *args, **named)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full() from error
        raise UsageError(f"{error.filename}: {error.strerror}.", hint=INSTEAD) from error


def failure(args: tuple[str, ...], done: Done, instead: str = INSTEAD) -> ClewError:
    if any(words in done.err for words in ("No space left on device", "Disk quota exceeded")):
        return _full(instead)
    why = error_text(done.err) or (f"signal {-done.status}" if done.status < 0 else f"exit status {done.status}")
    return UsageError(f"git {_verb(args)} failed: {why}", hint=instead or None)


def error_text(err: str) -> str:
    """The lines that say what is wrong, without git's advice and without passwords in addresses."""
    lines = [line.strip() for line in err.splitlines()]
    named = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    text = " ".join(dict.fromkeys(line.split(": ", 1)[1] for line in named)) or " ".join(lines[-1:])
    from clew.core.secrets.redaction import blank, find_secrets

    return blank(text, find_secrets(text))[0]


def _full(instead: str = INSTEAD) -> StoreError:
    return StoreError("The disk is full.", kind="full", hint=f"Free some space. {instead}".strip())


def _verb(args: tuple[str, ...]) -> str:
    """The git command: the first word that is not an option."""
    words = iter(args)
    for word in words:
        if word == "-c":
            next(words, None)
        elif not word.startswith("-"):
            return word
    return "?"


async def agent_environment(environ: Mapping[str, str], work_dir: str) -> dict[str, str]:
    """The environment, changed so that no command runs that the git settings of the work directory's repository name.

    The settings are read for every attempt: an agent may have changed them. Raises UsageError when the commands cannot
    be switched off.
    """
    if on_path("git", environ) is None:
        return dict(environ)  # without git, no command runs that its settings name
    git = Git(environ, needed_for="Agents need", instead="", keeps=True)
    return {**environ, **await git.guarded(work_dir, {}, nested=True)}
