"""A slash command as it is typed, and the commands of the plain CLIs that Clew does not carry out.

A command begins the text: `/name`, with arguments after a blank. What has another slash in its first word is a path,
and text; so is what begins with a blank.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from clew.core.record import Record

_INVOCATION = re.compile(r"/([A-Za-z0-9][\w.:-]{0,99})(?:\s+(.*))?\Z", re.DOTALL)
_DOLLAR_INVOCATION = re.compile(r"\$([A-Za-z0-9][\w.-]{0,99})(?:\s+(.*))?\Z", re.DOTALL)

CLEAR, COMPACT = "clear", "compact"
AS_TEXT = "With a blank before the slash it is sent as text."

_SETTINGS = "clew threads set NAME changes the thread's settings: --model, --agent, --permissions, --trust."
_CONFIG = "clew config shows Clew's settings and where they come from."
_COST = "clew stats shows what was used and what it cost; the last line of each turn shows it too."
_LOGIN = "Log in with the agent's own CLI; Clew uses that login."
_HELP = "clew --help lists the commands of Clew."
_SESSIONS = "clew threads list shows the threads, and clew ask -t NAME continues one."
_EDIT = "clew threads truncate and clew threads edit change what was said."
_PROJECT = "Settings, hooks, agents and MCP servers are those of the agent's own CLI: configure them there."
_WORDS = "Ask for it in words."

# By name: what to use instead of a command that the plain CLIs have built in.
BUILT_IN: Mapping[str, str] = {
    **dict.fromkeys(
        ("model", "fast", "effort", "think", "approvals", "permissions", "allowed-tools", "sandbox"), _SETTINGS
    ),
    **dict.fromkeys(("config", "settings", "privacy-settings", "theme", "color", "vim", "keybindings"), _CONFIG),
    **dict.fromkeys(("statusline", "terminal-setup", "output-style", "tui", "focus", "personality"), _CONFIG),
    **dict.fromkeys(("cost", "usage", "stats", "context", "insights", "extra-usage", "passes"), _COST),
    "usage-credits": _COST,
    "fewer-permission-prompts": _SETTINGS,
    "voice": _CONFIG,
    "autocompact": "/compact makes the agent summarise its session; agents do so by themselves when it is full.",
    **dict.fromkeys(("login", "logout", "setup-token", "upgrade", "rate-limit-options"), _LOGIN),
    **dict.fromkeys(("help", "bug", "feedback", "release-notes", "powerup", "version"), _HELP),
    **dict.fromkeys(("resume", "continue", "new", "sessions", "session", "branch", "tag", "name"), _SESSIONS),
    **dict.fromkeys(("teleport", "import"), _SESSIONS),
    **dict.fromkeys(("rewind", "undo", "checkpoint"), _EDIT),
    **dict.fromkeys(
        ("mcp", "hooks", "agents", "plugin", "plugins", "ide", "skills", "reload-plugins", "apps"), _PROJECT
    ),
    **dict.fromkeys(("reload-skills", "update-config", "auto-mode-setup", "cloud-plugins", "skill-doctor"), _PROJECT),
    **dict.fromkeys(("remote-env", "setup-bedrock", "setup-vertex", "team-onboarding", "desktop", "mobile"), _PROJECT),
    **dict.fromkeys(("install-github-app", "install-slack-app", "web-setup", "remote-control", "chrome"), _PROJECT),
    **dict.fromkeys(
        ("init", "memory", "plan", "pr-comments", "pr_comments", "simplify", "batch", "loop", "btw"), _WORDS
    ),
    **dict.fromkeys(
        ("deep-research", "dataviz", "verify", "debug", "run", "claude-api", "goal", "recap", "mention"), _WORDS
    ),
    **dict.fromkeys(
        ("run-skill-generator", "plugin-authoring", "workflow-authoring", "workflow-launch-exec", "workflows"), _WORDS
    ),
    **dict.fromkeys(("ultraplan", "subtask", "brief", "advisor", "loops", "autofix-pr"), _WORDS),
    **dict.fromkeys(("review", "code-review", "ultrareview"), "clew review reviews what has changed."),
    "security-review": 'clew review start --focus "security" reviews what has changed.',
    "diff": "git diff shows what has changed.",
    "rename": "clew threads rename gives the thread another name.",
    "export": "clew threads export writes the thread to a file.",
    "fork": "clew threads fork makes a thread of the turns so far.",
    "status": "clew doctor says what works, and clew threads show shows the thread.",
    "doctor": "clew doctor says what works and what does not.",
    "add-dir": "Start the thread in the directory above, or allow a file when Clew asks for it.",
    "copy": "clew threads show prints the answers.",
    **dict.fromkeys(("tasks", "bashes", "ps", "list-agents"), "clew runs list shows what is running."),
    **dict.fromkeys(("stop", "restart"), "Ctrl-C stops the agent; clew runs cancel stops a run elsewhere."),
    **dict.fromkeys(("background", "daemon"), "clew jobs submit carries out a prompt in the background."),
    **dict.fromkeys(("cd", "project"), "clew threads set NAME --cwd DIR moves the thread."),
    "exit": "Ctrl-D ends a prompt loop, and Ctrl-C stops the agent.",
    "quit": "Ctrl-D ends a prompt loop, and Ctrl-C stops the agent.",
}


class Invocation(Record):
    name: str
    arguments: str


def invocation_in(text: str) -> Invocation | None:
    """The command that the text is; None: it is text."""
    return _called(_INVOCATION.match(text))


def dollar_invocation_in(text: str) -> Invocation | None:
    """What may be a call of a skill as in Codex, `$name`; None: it is text."""
    return _called(_DOLLAR_INVOCATION.match(text))


def _called(match: re.Match[str] | None) -> Invocation | None:
    return None if match is None else Invocation(match[1], (match[2] or "").strip())


def session_command(text: str) -> Invocation | None:
    """`/clear` or `/compact`, which ask the agent nothing and act on the thread; None: it is neither."""
    found = invocation_in(text)
    return found if found is not None and found.name in (CLEAR, COMPACT) else None
