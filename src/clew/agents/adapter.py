"""The interface of an adapter: everything that Clew knows about one agent CLI.

An adapter finds its binary, builds command lines and input lines, reads output lines and session files, and classifies
errors. It never spawns, waits or writes: the engine does that. So every method returns quickly and none has to be
cancelled; those that touch the disk only read, and their docstrings say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from clew.core.costs.usage import NO_USAGE, RequestUsage, Usage
from clew.core.decision import Abilities
from clew.core.expansion.file_syntax import FileSyntax
from clew.core.outcome import Diagnosis
from clew.core.record import Record
from clew.core.rules.rules import RuleLayout
from clew.core.runs.events import Event, QuestionAsked
from clew.core.runs.permissions import Answer
from clew.core.session import SessionCall as SessionCall
from clew.core.session import SessionEntry as SessionEntry
from clew.core.session import SessionView as SessionView
from clew.core.session import SubAgent as SubAgent
from clew.core.thread import Permissions, Trust

if TYPE_CHECKING:
    from clew.core.branching.edits import FileEdit

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")  # the form of session ids
OUTPUT_CHARS = 2_000  # how much of a tool's output an event keeps; all of it is in the session's file


class Binary(Record):
    """An agent's executable, and how it was found."""

    path: str  # as found, links not followed
    source: str  # "setting", "PATH", "claude-agent-sdk", …


class PathProtection(StrEnum):
    """How an agent keeps its tools from reading certain paths."""

    SANDBOX = "sandbox"  # by its own sandbox, which needs the system's namespaces
    RULES = "rules"  # by its own rules for the tools that read; it asks before it runs a command
    NONE = "not"  # it runs commands as the user, without restriction


class ImageFile(Record):
    """An image that is sent with a prompt."""

    path: str
    media_type: str


class RulesDelivery(StrEnum):
    """How an agent is shown a project's rules without trusting the project."""

    FOLDER = "folder"  # it reads copies of them in `LaunchProfile.rules_dir`
    PROMPT = "prompt"  # they are a part of the standing text
    NONE = "none"


class LaunchProfile(Record):
    """How the agent is started for one turn: the same on every turn of a thread, except for the session."""

    session_id: str  # ours for a new session, the pin's for a resumed one
    resume: bool
    model: str | None  # None only on an agent's very first run, which then reports its default
    permissions: Permissions
    trust: Trust
    work_dir: str = "."
    config_dir: str = ""  # where the agent keeps its own settings
    hidden_paths: tuple[str, ...] = ()  # absolute paths that its tools must not read; see `Adapter.path_protection`
    rules_dir: str = ""  # a private folder with copies of the project's rules; "": there is none
    fork_of: str | None = None  # resume a copy of this session; the copy's id is `session_id` if we may choose it
    rewind_to: str | None = None  # the copy ends here (an `end_id`); only if the abilities say `rewind`
    images: tuple[ImageFile, ...] = ()  # of this turn's prompt; only if the abilities say `images`
    prompt: str = ""  # of this turn; it is not passed on the command line
    home: str = ""  # the user's


class SessionHead(Record):
    """What the beginning of a session's file says."""

    id: str
    work_dir: str  # where it was started; "" when the file does not say
    first_words: str  # the first prompt, as far as it was read; "" when it is further down in the file


class CommandFolder(Record):
    """A folder with slash commands or skills of the plain CLI."""

    path: Path
    of_project: bool = False  # it belongs to the repository, and not to the user
    skills: bool = False  # each command is a folder with a SKILL.md; else a Markdown file, in folders that prefix it
    syntax: FileSyntax = FileSyntax.CLAUDE
    prefix: str = ""  # of the names
    dollar: bool = False  # of skills: `$name` calls them too, in a conversation with that agent


class StreamResult(Record):
    """How a process's output ended, and what the run used."""

    diagnosis: Diagnosis
    usage: Usage  # this run's own, if the agent reports it
    usage_total: Usage | None = None  # the session's running total, if the agent reports that instead
    cost_usd: float | None = None  # this run's own, if the agent reports it
    cost_total_usd: float | None = None  # the session's running total
    requests: RequestUsage | None = None  # this run's requests, if the agent reports them
    uncounted: Usage = NO_USAGE  # the part of `usage` that no cost includes: a message that was cut off


class StreamReader(Protocol):
    """Reads one process's output lines. Stateful, one per attempt, no I/O."""

    @property
    def finished(self) -> bool:
        """Whether the turn's result has arrived, so that stdin may be closed."""
        ...

    @property
    def heard(self) -> bool:
        """Whether the agent has said that it works on the prompt. False for an agent that never says so."""
        ...

    @property
    def can_stay(self) -> bool:
        """Whether, as far as is known, the process can answer another prompt after this turn: the agent is one that
        can, and nothing of the turn goes on in the background."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether it can stay, and waits for its next prompt: the turn's last line has arrived."""
        ...

    @property
    def tool_ran(self) -> bool:
        """Whether a tool has run, or may have run, so that no fallback may follow."""
        ...

    def feed(self, line: bytes) -> list[Event]:
        """The events of one line. Never raises: a line that it cannot read gives no event."""
        ...

    def skip(self, head: bytes) -> None:
        """A line was too long to be read; `head` is its beginning. If it is the turn's last line, it ends the turn."""
        ...

    def result(self, *, resumed: bool, exit_status: int | None, stderr: str) -> StreamResult:
        """Called once, when the process has ended and all its output was read."""
        ...


class CopyDialog(Protocol):
    """How a process of the agent is asked to copy a session: lines to send, lines to read. Stateful, no I/O.

    It is over when `session_id` or `error` is set. The copy can be resumed after the process has ended.
    """

    argv: Sequence[str]
    session_id: str | None  # the copy's, which the agent chose
    error: str  # why there is no copy; "" as long as none is known

    def begin(self) -> list[bytes]:
        """The lines to send first."""
        ...

    def feed(self, line: bytes) -> list[bytes]:
        """The lines to send next. Never raises: a line that it cannot read is ignored."""
        ...


class Adapter(Protocol):
    """One agent CLI."""

    name: ClassVar[str]
    start_tokens: ClassVar[int] = 0  # a new session's beginning: system prompt, tools, notes; 0: not known
    uncached_start_tokens: ClassVar[int] = 0  # the part of a new session's beginning that is never read from the cache
    rule_layout: ClassVar[RuleLayout | None] = None  # where a project keeps its rules for it; None: Clew reads none

    def find(self, configured: str | None, environ: Mapping[str, str]) -> Binary:
        """Where the binary is (reads the disk). Raises AgentMissing with a hint."""
        ...

    def probe_commands(self, binary: Binary) -> tuple[list[str], list[str]]:
        """Two commands whose output `abilities` reads: the help and the version."""
        ...

    def abilities(self, help_text: str, version_text: str) -> Abilities: ...

    def config_dir(self, environ: Mapping[str, str]) -> str:
        """Where the agent keeps its sessions: part of the runtime's identity."""
        ...

    def command(self, binary: Binary, abilities: Abilities, launch: LaunchProfile) -> list[str]: ...

    def copy_dialog(self, binary: Binary, abilities: Abilities, launch: LaunchProfile) -> CopyDialog | None:
        """How the copy that this launch profile describes (`fork_of`, `rewind_to`) is made before its turn (may read
        the disk). The turn then resumes the copy by its id. None: `command` makes the copy.
        """
        return None

    def terminal_command(
        self, binary: Binary, session_id: str, model: str | None, *, new: bool = False
    ) -> list[str] | None:
        """The command that opens a session in the agent's own terminal interface, as its users start it.

        `new`: the session does not exist yet, and gets this id. None: there is no such command.
        """
        return None

    def path_protection(self, abilities: Abilities, permissions: Permissions) -> PathProtection:
        """How `LaunchProfile.hidden_paths` are kept from its tools under these permissions."""
        return PathProtection.NONE

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment that the agent runs in."""
        ...

    def terminal_environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment of its terminal interface, in which a person types."""
        return self.environment(environ)

    def sent_text(self, text: str) -> str:
        """The prompt as the agent reads it: `prompt_line` sends this text."""
        return text

    def prompt_line(self, text: str, uuid: str, images: Sequence[ImageFile] = ()) -> bytes:
        """The prompt as it is written to stdin, which is then closed if the agent does not ask (see Abilities).

        `images` (may read the disk) are given only if the abilities say `images`, and if `command` does not send them.
        """
        ...

    def compaction_line(self, focus: str, uuid: str) -> bytes | None:
        """What to write to stdin so that the agent summarises its session. `focus`: what to keep above all. None: it
        cannot be asked."""
        return None

    def prompt_id(self, text: str, uuid: str) -> str:
        """The id under which `read_session` will show this prompt."""
        return uuid

    def answer_line(self, question: QuestionAsked, answer: Answer) -> bytes: ...

    def interrupt_line(self) -> bytes | None:
        """The line that asks the agent to stop by itself and to keep what it said. None: the agent cannot be asked."""
        ...

    def reader(self, launch: LaunchProfile, prompt_id: str = "", *, warm: bool = False) -> StreamReader:
        """The reader of one turn. The rest is given only for an agent that may be kept (`startup_files`).

        `prompt_id` is the uuid that `prompt_line` was given. `warm`: the process has run before, so what it writes
        until it takes up this prompt does not belong to the turn.
        """
        ...

    def startup_files(self, launch: LaunchProfile, environ: Mapping[str, str]) -> Sequence[str] | None:
        """What a process reads only when it starts, as texts that change when it does (reads the disk).

        A process that was kept is not used again if they have changed. None: its processes are not kept.
        """
        return None

    def session_file(self, config_dir: str, work_dir: str, session_id: str) -> Path | None:
        """The session's file (reads the disk), or None when there is none or the id cannot be one."""
        ...

    def read_session(self, path: Path, since: int = 0) -> SessionView:
        """The file's active chain, or the part of it beyond byte `since` (reads the disk). Raises OSError.

        Of a part, `SessionView.parent` is the line before `since` that its chain follows.
        """
        ...

    def origin_files(self, path: Path) -> Sequence[tuple[Path, int]]:
        """The files of other sessions that hold the beginning of this one, oldest first, each with its end byte.

        Reads the disk. Raises OSError.
        """
        return ()

    def earlier_files(self, path: Path) -> Sequence[Path]:
        """The session's other files, in which it was before somebody went back in it and the agent began this one.

        Reads the disk. Raises OSError.
        """
        return ()

    def session_usage(self, path: Path) -> Usage | None:
        """The running total from which the agent will continue (reads the disk). None: it reports each run's usage."""
        return None

    def expected_session_path(self, config_dir: str, work_dir: str, session_id: str) -> Path | None:
        """Where the agent will look for a session that was made elsewhere. None: not known.

        The engine writes the file, and never overwrites another one.
        """
        return None

    def portable_form(self, content: bytes) -> bytes | None:
        """The part of a session's file that may be sent to or taken from another machine: what a thread shows.

        That is prompts and answers. Tool calls are left out, and so are the agent's own notes, instructions and
        settings; the agent writes those again. The function is deterministic and idempotent. A file that has grown
        gives the earlier result with more lines after it. None: the conversation cannot be told apart from the rest.
        """
        return None

    def appendable_lines(self, content: bytes, more: bytes) -> bytes:
        """More lines of the portable form, changed so that they can be appended to this content of a session's file."""
        return more

    def session_paths(self, config_dir: str) -> Iterator[Path]:
        """Every session's file (reads only directories). A subagent's file is not a session."""
        return iter(())

    def session_head(self, path: Path) -> SessionHead | None:
        """Reads only the beginning of the file. None: it is not a session. Raises OSError."""
        return None

    def rules_delivery(self, abilities: Abilities) -> RulesDelivery:
        """How Clew shows it the rules that `rule_layout` names, where it does not trust the project."""
        return RulesDelivery.NONE

    def project_rules(self, config_dir: str, work_dir: str) -> Iterator[Path]:
        """Files and folders that the plain CLI would show to the model in that directory, and Clew only with trust
        `project`. It looks only at names: it reads no file and follows no link. May raise OSError."""
        return iter(())

    def command_folders(self, environ: Mapping[str, str], work_dir: str) -> Iterator[CommandFolder]:
        """Where slash commands and skills may be, in the order in which the plain CLI looks. May read directories."""
        return iter(())

    def edits(self, tool: str, tool_input: Mapping[str, Any]) -> tuple[FileEdit, ...]:
        """The files that this tool call writes to, and what it writes, as far as its input shows. The input is not
        validated."""
        return ()
