"""The Codex CLI's command line and its input.

One launch profile per thread, the same on the first turn, every resume and every fork. A resume does not restore launch
flags, and `exec resume` accepts fewer of them than `exec` does, so permissions and trust are passed as `-c key=value`,
which both accept. The prompt is all of stdin; nothing can be asked or answered afterwards.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from clew.agents.adapter import Binary, ImageFile, LaunchProfile
from clew.agents.codex import sandbox, skills
from clew.agents.codex.location import is_session_id
from clew.core.decision import Abilities
from clew.core.thread import Trust
from clew.errors import UsageError
from clew.system.work_trees import repository

# Set by a Codex session for the processes that it starts. If our agent inherited them, it would take itself for a part
# of that session.
INHERITED_VARIABLES = frozenset(
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


def command(binary: Binary, abilities: Abilities, launch: LaunchProfile) -> list[str]:
    resumed = [launch.fork_of or launch.session_id] if launch.resume else []  # Codex chooses the id of a copy itself
    if not all(map(is_session_id, resumed)):
        raise UsageError("Codex would start a new session for this id, because it is not a UUID.")
    if launch.fork_of and launch.rewind_to:
        raise UsageError("codex exec fork copies a whole session. A copy that ends earlier is made before the turn.")
    how = ["fork" if launch.fork_of else "resume"] if launch.resume else []
    # Options follow the images, because `exec` takes every word after --image as one more file.
    argv = [binary.path, "exec", *how, *map(_image, launch.images), "--json", "--skip-git-repo-check"]
    if launch.model:
        argv += ["--model", launch.model]
    for key, value in sandbox.settings(launch, abilities):
        argv += setting(key, value)
    argv += setting("approval_policy", '"never"')
    if sandbox.MODE[launch.permissions] == "read-only" and "--ignore-rules" in abilities.flags:
        argv.append("--ignore-rules")  # the user's own rules may allow a command to run outside the sandbox
    argv += trust(launch)
    for key, value in skills.settings(launch):
        argv += setting(key, value)
    # Without a network, Codex would retry forever; with this setting it gives up after its usual retries.
    argv += setting("features.unbounded_connection_retries", "false")
    return [*argv, *resumed, "-"]


def _image(image: ImageFile) -> str:
    if "," in image.path:
        raise UsageError(
            "Codex cannot be given an image, because a folder of Clew's home has a comma in its name.",
            hint="Move Clew's home with CLEW_HOME.",
        )
    return f"--image={image.path}"


def terminal_command(binary: Binary, session_id: str, model: str | None, *, new: bool) -> list[str] | None:
    """With the user's own settings. The server that the terminal interface would start outlives it and keeps the
    session locked."""
    if new or not is_session_id(session_id):  # Codex chooses the id of a session itself
        return None
    no_server = setting("features.daemon_auto_start", "false")
    return [binary.path, "resume", *no_server, *(["--model", model] if model else []), session_id]


def trust(launch: LaunchProfile) -> list[str]:
    """A repository's own settings run code (hooks, MCP servers), so they load only where the user trusts them.

    This must be explicit: by default Codex trusts every directory that it may write to, and records that permanently in
    the user's own settings.
    """
    work_dir = Path(os.path.realpath(launch.work_dir))
    if launch.trust is Trust.PROJECT:
        return setting("projects", _table((folder, "trusted") for folder in repository(work_dir)))
    # With no root markers, only the work directory is the project, so a trusted folder above it is not read either.
    return [*setting("project_root_markers", "[]"), *setting("projects", _table([(work_dir, "untrusted")]))]


def _table(levels: Iterator[tuple[Path, str]] | list[tuple[Path, str]]) -> str:
    return "{" + ",".join(f'{sandbox.quoted(str(folder))}={{trust_level="{level}"}}' for folder, level in levels) + "}"


def setting(key: str, value: str) -> list[str]:
    return ["-c", f"{key}={value}"]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The user's own environment, without what another Codex session set in it."""
    return {key: value for key, value in environ.items() if key not in INHERITED_VARIABLES}


def prompt_line(text: str) -> bytes:
    """All of stdin. It must be UTF-8."""
    return sent_text(text).encode()


def sent_text(text: str) -> str:
    """The text as UTF-8 can write it. A byte order mark is removed, because Codex would remove it too."""
    return text.lstrip("\ufeff").encode("utf-8", "replace").decode()


def prompt_id(text: str) -> str:
    """Codex gives a prompt no id that we could know in advance, so the id is made from the text in the file."""
    return "text-" + hashlib.blake2b(prompt_line(text), digest_size=16).hexdigest()
