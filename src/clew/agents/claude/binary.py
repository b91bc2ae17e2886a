"""Finding the Claude CLI, and reading its abilities from its help and version."""

from __future__ import annotations

import re
from functools import partial

from clew.agents import programs
from clew.core.decision import Abilities

REWIND_SINCE_VERSION = (2, 1, 197)  # known by version, because the help does not list --resume-session-at
REWIND_PRODUCT = "Claude Code"

NAMES = ("claude", "openclaude")  # the second is a fork with the same command line

# `re` compiles this when a binary is probed. That is rare, because the result is stored.
_VERSION = r"(\d+\.\d+\.\d+\S*)\s*(?:\((.+)\))?"

INSTALL_HINT = (
    "Install it (npm install -g @anthropic-ai/claude-code, or pip install claude-agent-sdk), or set agents.claude.path."
)
find = partial(programs.find, "claude", NAMES, "claude_agent_sdk/_bundled/claude", "claude-agent-sdk", INSTALL_HINT)


def abilities(help_text: str, version_text: str) -> Abilities:
    flags = programs.options_in(help_text)
    match = re.search(_VERSION, version_text)
    can_fork = {"--fork-session", "--session-id"} <= flags
    return Abilities(
        resume="--resume" in flags,
        choose_id="--session-id" in flags,
        fork=can_fork,
        rewind=can_fork and match is not None and match.group(2) == REWIND_PRODUCT and _has_rewind(match.group(1)),
        is_agent={"--print", "--output-format", "--input-format"} <= flags,
        images="--input-format" in flags,  # a line of its input may hold image blocks
        flags=flags,
        version=match.group(1) if match else "",
        product=(match.group(2) or "") if match else version_text.strip().partition("\n")[0][:80],
    )


def _has_rewind(version: str) -> bool:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3]) >= REWIND_SINCE_VERSION
