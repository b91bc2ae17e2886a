"""Finding the Codex CLI, and reading its abilities from its help and version."""

from __future__ import annotations

import re
from functools import partial

from clew.agents import programs
from clew.core.decision import Abilities

REWIND_SINCE_VERSION = (0, 163, 0)  # known by version, because no help lists what the app server can do
REWIND_PRODUCT = "codex-cli"

NAMES = ("codex",)

_RESUME = re.compile(r"^\s+resume\b", re.MULTILINE)  # in the list of `codex exec`'s own commands
_FORK = re.compile(r"^\s+fork\b", re.MULTILINE)
_VERSION = re.compile(r"(\S+)\s+(\d+\.\d+\.\d+\S*)")

INSTALL_HINT = (
    "Install it (npm install -g @openai/codex, or pip install openai-codex-cli-bin), or set agents.codex.path."
)
find = partial(programs.find, "codex", NAMES, "codex_cli_bin/bin/codex", "openai-codex-cli-bin", INSTALL_HINT)


def abilities(help_text: str, version_text: str) -> Abilities:
    """From `codex exec --help` and `codex --version`."""
    flags = programs.options_in(help_text)
    match = _VERSION.search(version_text)
    can_fork = bool(_FORK.search(help_text))
    return Abilities(
        resume=bool(_RESUME.search(help_text)),
        choose_id=False,  # it chooses the ids of its sessions itself
        is_agent={"--json", "--skip-git-repo-check"} <= flags,
        flags=flags,
        version=match.group(2) if match else "",
        product=match.group(1) if match else version_text.strip().partition("\n")[0][:80],
        asks=False,
        images="--image" in flags,
        streams=False,
        fork=can_fork,
        rewind=can_fork and match is not None and match.group(1) == REWIND_PRODUCT and _has_rewind(match.group(2)),
    )


def _has_rewind(version: str) -> bool:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3]) >= REWIND_SINCE_VERSION
