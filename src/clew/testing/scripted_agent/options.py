"""The command line of the scripted agent: the options that it accepts and refuses, and its help."""

from __future__ import annotations

VERSION = "2.1.325"
PRODUCT = "Claude Code"

# Every accepted option: how many values it takes (0, 1, "?" for at most one, "*" for any number), and its help.
# The real CLI does not list the options without help either.
OPTIONS: dict[str, tuple[int | str, str]] = {
    "--add-dir": ("*", "Additional directories to allow tool access to"),
    "--allowedTools": ("*", "Comma or space-separated list of tool names to allow"),
    "--append-system-prompt": (1, "Append a system prompt to the default system prompt"),
    "--disallowedTools": ("*", "Comma or space-separated list of tool names to deny"),
    "--effort": (1, "Effort level for the current session"),
    "--fork-session": (0, "When resuming, create a new session ID instead of reusing the original"),
    "--help": (0, "Display help for command"),
    "--include-partial-messages": (0, "Include partial message chunks as they arrive"),
    "--input-format": (1, 'Input format (only works with --print): "text" (default), or "stream-json"'),
    "--max-budget-usd": (1, "Maximum dollar amount to spend on API calls"),
    "--max-turns": (1, ""),
    "--mcp-config": ("*", "Load MCP servers from JSON files or strings"),
    "--model": (1, "Model for the current session"),
    "--output-format": (1, 'Output format (only works with --print): "text", "json" or "stream-json"'),
    "--permission-mode": (1, "Permission mode to use for the session"),
    "--permission-prompt-tool": (1, ""),
    "--print": (0, "Print response and exit (useful for pipes)"),
    "--replay-user-messages": (0, "Re-emit user messages from stdin back on stdout for acknowledgment"),
    "--resume": ("?", "Resume a conversation by session ID or name"),
    "--resume-session-at": (1, ""),
    "--session-id": (1, "Use a specific session ID for the conversation (must be a valid UUID)"),
    "--setting-sources": (1, "Comma-separated list of setting sources to load (user, project, local)"),
    "--settings": (1, "Path to a settings JSON file or a JSON string"),
    "--strict-mcp-config": (0, "Only use MCP servers from --mcp-config"),
    "--system-prompt": (1, "System prompt to use for the session"),
    "--tools": ("*", "Specify the list of available tools from the built-in set"),
    "--verbose": (0, "Override verbose mode setting from config"),
    "--version": (0, "Output the version number"),
}
SHORT = {"-h": "--help", "-p": "--print", "-r": "--resume", "-v": "--version"}
SHORT.update({"--allowed-tools": "--allowedTools", "--disallowed-tools": "--disallowedTools"})


class Refused(Exception):
    """The process ends at once, with this text on stderr."""


class Options(dict[str, "list[str]"]):
    """The given options, by long name."""

    def one(self, name: str, default: str = "") -> str:
        return (self.get(name) or [default])[-1]

    def words(self, name: str) -> list[str]:
        return [word for value in self.get(name, []) for word in value.replace(",", " ").split()]


def read_argv(argv: list[str]) -> Options:
    options, rest = Options(), list(argv)
    while rest:
        given = rest.pop(0)
        if not given.startswith("-"):
            options.setdefault("prompt", []).append(given)
            continue
        name, equals, value = given.partition("=")
        name = SHORT.get(name, name)
        if name not in OPTIONS:
            raise Refused(f"error: unknown option '{given}'")
        takes, values = OPTIONS[name][0], options.setdefault(name, [])
        if equals:
            values.append(value)
        elif takes == 1 and not rest:
            raise Refused(f"error: option '{name} <value>' argument missing")
        elif takes == 1 or (takes == "?" and rest and not rest[0].startswith("-")):
            values.append(rest.pop(0))
        elif takes == "*":
            while rest and not rest[0].startswith("-"):
                values.append(rest.pop(0))
    return options


def help_text(name: str, product: str, resume: bool) -> str:
    short = {long: f"{brief}, {long}" for brief, long in SHORT.items() if len(brief) == 2}
    shown = [
        f"  {short.get(option, option):<36}  {text}"
        for option, (_, text) in OPTIONS.items()
        if text and (resume or "resum" not in text.lower())
    ]
    return f"Usage: {name} [options] [command] [prompt]\n\n{product} - scripted\n\nOptions:\n" + "\n".join(shown)
