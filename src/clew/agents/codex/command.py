"""The Codex CLI's command line and its input.

One launch profile per thread, the same on the first turn, every resume and every fork: launch flags are not restored by
a resume, and `exec resume` knows fewer of them than `exec` does, so permissions and trust go as `-c key=value`, which
both take. The prompt is all of stdin; nothing can be asked or answered afterwards.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from clew.agents.adapter import Binary, Launch
from clew.agents.codex import sandbox
from clew.agents.codex.location import is_session_id
from clew.core.decision import Abilities
from clew.core.thread import Trust
from clew.errors import UsageError

# Set by a Codex session for the processes it starts. Handed on, our agent would think that it is a part of that one.
FOREIGN = frozenset(
    {
        "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS",
        "CODEX_CI",
        "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
        "CODEX_PERMISSION_PROFILE",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "CODEX_SESSION_ID",
        "CODEX_THREAD_ID",
        "CODEX_TOOL_CALL_ID",
        "CODEX_VERSION",
    }
)


def command(binary: Binary, abilities: Abilities, launch: Launch) -> list[str]:
    goes_on = [launch.fork_of or launch.session_id] if launch.resume else []  # a copy is named by Codex itself
    if not all(map(is_session_id, goes_on)):
        raise UsageError("Codex would begin a new session under this id: it is not a UUID.")
    how = ["fork" if launch.fork_of else "resume"] if launch.resume else []
    argv = [binary.path, "exec", *how, "--json", "--skip-git-repo-check"]
    if launch.model:
        argv += ["--model", launch.model]
    for key, value in sandbox.settings(launch, abilities):
        argv += _setting(key, value)
    argv += _setting("approval_policy", '"never"')
    if sandbox.MODE[launch.permissions] == "read-only" and "--ignore-rules" in abilities.flags:
        argv.append("--ignore-rules")  # the user's own rules may let a command out of the sandbox
    argv += _trust(launch)
    # Without a network it would wait for one for ever; this way it gives up after its usual retries.
    argv += _setting("features.unbounded_connection_retries", "false")
    return [*argv, *goes_on, "-"]


def _trust(launch: Launch) -> list[str]:
    """A repository's own settings run code (hooks, MCP servers), so they load only where the user trusts them.

    It must be said: left to itself, Codex trusts every directory that it may write in, and notes that in the user's
    own settings for good.
    """
    work_dir = Path(os.path.realpath(launch.work_dir))
    if launch.trust is Trust.PROJECT:
        return _setting("projects", _table((folder, "trusted") for folder in repository(work_dir)))
    # The work directory alone is the project then, so a trusted folder above it is not looked into either.
    return [*_setting("project_root_markers", "[]"), *_setting("projects", _table([(work_dir, "untrusted")]))]


def repository(work_dir: Path) -> Iterator[Path]:
    """The work directory, and what is above it up to the repository's root (reads the disk)."""
    above = (work_dir, *work_dir.parents)
    root = next((n for n, folder in enumerate(above) if (folder / ".git").exists()), 0)
    yield from above[: root + 1]


def _table(levels: Iterator[tuple[Path, str]] | list[tuple[Path, str]]) -> str:
    return "{" + ",".join(f'{sandbox.quoted(str(folder))}={{trust_level="{level}"}}' for folder, level in levels) + "}"


def _setting(key: str, value: str) -> list[str]:
    return ["-c", f"{key}={value}"]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's own environment, less what another Codex session left in it."""
    return {key: value for key, value in environ.items() if key not in FOREIGN}


def prompt_line(text: str) -> bytes:
    """All of stdin. It must be UTF-8, and a byte order mark would be taken off."""
    return text.lstrip("\ufeff").encode("utf-8", "replace")


def prompt_id(text: str) -> str:
    """Codex gives a prompt no id that we could know before: the text as its file shows it stands for it."""
    return "text-" + hashlib.blake2b(prompt_line(text), digest_size=16).hexdigest()
