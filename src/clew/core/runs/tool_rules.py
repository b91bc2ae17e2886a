"""What "always in this thread" allows: a rule about one tool, as narrow as the request that it was given for.

tool                                kind of its rule
Bash                                `command`: the same text, whole. It is no pattern: nothing can follow it
Edit, MultiEdit, Write, NotebookEdit   `folder`: files in the work directory; elsewhere `file`: this one
Read                                `folder`: files in the folder of the file; `file` if it is a home folder or wider
WebFetch                            `host`: every address of this host
WebSearch, and tools of MCP servers `tool`: whatever the input is
any other                           `input`: exactly the same input

The rule of a request is made when the agent asks, and it is what the person is shown. A later request is allowed when
its own rule is one that the thread has, or lies within one. So a request is read in one way only, and a link that is
laid between the question and the answer changes nothing. Hidden files (`.git/hooks`, `.claude/settings.json`, `.env`)
are in no folder: many of them run code or hold secrets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from clew.core.record import Record

MAX_VALUE_CHARS = 10_000  # of a command or an input; a longer one can be allowed once
MAX_RULES = 200  # of a thread; a new one replaces the oldest
NAME_CHARS = 100  # of a tool
SHOWN_CHARS = 200  # a longer command is not shown with its rule

EDIT_PATHS = {"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "NotebookEdit": "notebook_path"}
COMMAND_FIELDS = frozenset({"command", "description", "timeout", "run_in_background"})  # another changes what is run
ANY_INPUT = frozenset({"WebSearch"})
HOMES = ("home", "Users")
# Stricter than what a browser accepts: an address that two readers may read differently names no host.
ADDRESS = r"https?://([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?)(?:[/?#][!-\[\]-~]*)?"

Resolve = Callable[[str], str]  # the real path of a file, from the work directory; may raise OSError and ValueError


class RuleKind(StrEnum):
    COMMAND = "command"
    FOLDER = "folder"
    FILE = "file"
    HOST = "host"
    TOOL = "tool"
    INPUT = "input"


class ToolRule(Record):
    """What later runs of a thread may do without asking."""

    tool: str
    kind: RuleKind
    value: str  # a command, a folder, a file, a host, or an input as JSON; "" of `tool`
    cwd: str  # the work directory for which it was given: in another one it allows nothing

    @property
    def words(self) -> str:
        """All that it allows, on one line. A command that does not fit there must be shown beside it."""
        match self.kind:
            case RuleKind.COMMAND if self.value.isprintable() and len(self.value) <= SHOWN_CHARS:
                return f"{self.tool}({self.value})"
            case RuleKind.COMMAND:
                return f"{self.tool} with exactly this command"
            case RuleKind.FOLDER:
                return f"{self.tool} in {self.value}, except hidden files"
            case RuleKind.FILE:
                return f"{self.tool} of {self.value}"
            case RuleKind.HOST:
                return f"{self.tool} from {self.value}"
            case RuleKind.TOOL:
                return f"{self.tool}, whatever its input is"
            case RuleKind.INPUT:
                return f"{self.tool} with exactly this input"


def covers(rule: ToolRule, wanted: ToolRule) -> bool:
    """Whether everything that `wanted` would allow is allowed by the rule."""
    if (rule.tool, rule.kind, rule.cwd) != (wanted.tool, wanted.kind, wanted.cwd):
        return False
    return rule.value == wanted.value or (rule.kind is RuleKind.FOLDER and _is_below(wanted.value, rule.value))


def with_rule(rules: tuple[ToolRule, ...], rule: ToolRule) -> tuple[ToolRule, ...]:
    if any(covers(known, rule) for known in rules):
        return rules
    return (*(known for known in rules if not covers(rule, known)), rule)[-MAX_RULES:]


def rule_for(tool: str, given: Mapping[str, Any], cwd: str, resolve: Resolve) -> ToolRule | None:
    """The rule of this request. None: it cannot be allowed for a whole thread. `cwd` is a real path."""
    if not tool or len(tool) > NAME_CHARS or not tool.isprintable():
        return None
    found = _found(tool, given, cwd, resolve)
    if found is None or len(found[1]) > MAX_VALUE_CHARS:
        return None
    return ToolRule(tool, *found, cwd)


def _found(tool: str, given: Mapping[str, Any], cwd: str, resolve: Resolve) -> tuple[RuleKind, str] | None:
    if tool in EDIT_PATHS:
        return _file(given.get(EDIT_PATHS[tool]), cwd, resolve, is_edit=True)
    match tool:
        case "Read":
            return _file(given.get("file_path"), cwd, resolve, is_edit=False)
        case "Bash" if _text(given.get("command")) and given.keys() <= COMMAND_FIELDS:
            return RuleKind.COMMAND, given["command"]
        case "WebFetch":
            address = re.fullmatch(ADDRESS, _text(given.get("url")), re.IGNORECASE)
            return (RuleKind.HOST, address.group(1).lower()) if address else None
    if tool in ANY_INPUT or tool.startswith("mcp__"):
        return RuleKind.TOOL, ""
    return RuleKind.INPUT, json.dumps(dict(given), ensure_ascii=False, sort_keys=True)


def _file(path: object, cwd: str, resolve: Resolve, *, is_edit: bool) -> tuple[RuleKind, str] | None:
    # An agent may take these for a home folder, or for the path without its blanks; the measured one does so before it
    # asks.
    if not isinstance(path, str) or not path or path.startswith("~") or path != path.strip():
        return None
    try:
        real = resolve(path)
    except (OSError, ValueError):
        return None
    if not real.isprintable():
        return None
    folder = cwd if _is_below(real, cwd) else real.rpartition("/")[0]
    if _is_wide(folder) or _is_below(cwd, folder) or _is_hidden(real, cwd if folder == cwd else ""):
        return RuleKind.FILE, real
    return (RuleKind.FOLDER, folder) if folder == cwd or not is_edit else (RuleKind.FILE, real)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _is_hidden(path: str, folder: str) -> bool:
    """Whether the file, or a folder between it and `folder`, is hidden."""
    return any(part.startswith(".") for part in path[len(folder) :].split("/"))


def _is_wide(folder: str) -> bool:
    """Whether a folder is too wide for a rule: /, a folder directly below it, or somebody's home."""
    parts = [part for part in folder.split("/") if part]
    return len(parts) < 2 or (len(parts) == 2 and parts[0] in HOMES)  # /home/NAME


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
