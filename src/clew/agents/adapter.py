"""What an adapter is: all that Clew knows about one agent CLI, and nothing that runs.

An adapter finds its binary, words commands and input lines, reads output lines and session files, and names errors. It
never spawns, waits or writes: the engine does. So every method is quick and none needs cancelling; those that touch the
disk only read, and say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from clew.core.decision import Abilities
from clew.core.events import Event, QuestionAsked
from clew.core.history import Role
from clew.core.outcome import Diagnosis
from clew.core.permissions import Answer
from clew.core.record import Record
from clew.core.thread import Permissions, Trust
from clew.core.usage import NO_USAGE, Requests, Usage

if TYPE_CHECKING:
    from clew.core.edits import FileEdit


class Binary(Record):
    """An agent's executable, and how it was found."""

    path: str  # as found, links not followed
    source: str  # "setting", "PATH", "claude-agent-sdk", …


class Hiding(StrEnum):
    """How folders are kept from an agent's tools."""

    SANDBOX = "sandbox"  # by its own sandbox, which needs namespaces of the system
    RULES = "rules"  # by its own rules, for the tools that read; it asks before it runs a command
    NOT = "not"  # it runs commands as the user, and nothing holds them


class Launch(Record):
    """One turn's launch profile: the same on every turn of a thread but for the session."""

    session_id: str  # ours for a new session, the pin's for a resumed one
    resume: bool
    model: str | None  # None only on an agent's very first run, which then names its default
    permissions: Permissions
    trust: Trust
    work_dir: str = "."
    config_dir: str = ""  # where the agent keeps its own settings
    hidden: tuple[str, ...] = ()  # absolute paths that its tools must not read, where the adapter `hides`
    fork_of: str | None = None  # a resume that goes on in a copy: of this session, under `session_id` if we may choose
    rewind_to: str | None = None  # a copy that ends with this message of it; only where the abilities say `rewind`


class Entry(Record):
    """One message in a session's active chain."""

    id: str
    role: Role
    text: str
    is_prompt: bool  # a prompt of a person or a host: not a tool's result, not the agent's own note
    complete: bool = True  # for an answer: the model had come to its end
    at: int | None = None  # where its line begins in the file, if its id alone does not tell it from an earlier one


class SessionView(Record):
    """What a session's file holds: the messages on its active chain, oldest first."""

    entries: Sequence[Entry]
    last_entry: str | None  # id of the newest line on the chain, message or not
    size_bytes: int
    model: str = ""  # the newest turn's, where the file tells
    tool_called: bool = False  # in what was read
    is_whole: bool = True  # False: a copy, whose beginning stands in another session's file


class SessionHead(Record):
    """What the beginning of a session's file tells."""

    id: str
    work_dir: str  # where it was begun; "" when the file does not say
    first_words: str  # of its first prompt, as far as it was read; "" when that stands further down


class Ending(Record):
    """What the end of a stream tells."""

    diagnosis: Diagnosis
    usage: Usage  # this run's own, when the agent says
    usage_total: Usage | None = None  # the session's running total, when it says that instead
    cost_usd: float | None = None  # this run's own, when the agent says
    cost_total_usd: float | None = None  # the session's running total
    requests: Requests | None = None  # of the run's own, when the agent says
    uncounted: Usage = NO_USAGE  # of the run's own, what no cost includes: a message that was cut off


class StreamReader(Protocol):
    """Reads one process's output lines. Stateful, one per attempt, no I/O."""

    @property
    def finished(self) -> bool:
        """The turn's last word has come: stdin may be closed."""
        ...

    @property
    def tool_ran(self) -> bool:
        """A tool has run, or may have: no fallback from here on."""
        ...

    def feed(self, line: bytes) -> list[Event]:
        """The events of one line. Never raises: a line it cannot read is no event."""
        ...

    def skip(self, head: bytes) -> None:
        """A line was too long to be read; `head` is its beginning. The turn's last word ends the turn all the same."""
        ...

    def ending(self, *, resumed: bool, exit_status: int | None, stderr: str) -> Ending:
        """Called once, when the process has ended and its output is drained."""
        ...


class Adapter(Protocol):
    """One agent CLI."""

    name: ClassVar[str]
    anew_tokens: ClassVar[int] = 0  # of a new session's own beginning, what it pays in full however warm the cache is

    def find(self, configured: str | None, environ: Mapping[str, str]) -> Binary:
        """Where the binary is (reads the disk). Raises AgentMissing with what to do."""
        ...

    def probes(self, binary: Binary) -> tuple[list[str], list[str]]:
        """Two commands whose output `abilities` reads: help, version."""
        ...

    def abilities(self, help_text: str, version_text: str) -> Abilities: ...

    def config_dir(self, environ: Mapping[str, str]) -> str:
        """Where the agent keeps its sessions: part of the runtime's identity."""
        ...

    def command(self, binary: Binary, abilities: Abilities, launch: Launch) -> list[str]: ...

    def hides(self, abilities: Abilities, permissions: Permissions) -> Hiding:
        """How `Launch.hidden` is kept from its tools under these permissions."""
        return Hiding.NOT

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment that the agent runs in."""
        ...

    def prompt_line(self, text: str, uuid: str) -> bytes:
        """The prompt as it goes to stdin. An agent that does not ask (see Abilities) gets its end too."""
        ...

    def prompt_id(self, text: str, uuid: str) -> str:
        """The id under which `read_session` will show this prompt."""
        return uuid

    def answer_line(self, question: QuestionAsked, answer: Answer) -> bytes: ...

    def interrupt_line(self) -> bytes | None:
        """Asks the agent to stop by itself, keeping what it said. None: it cannot."""
        ...

    def reader(self, launch: Launch) -> StreamReader: ...

    def session_file(self, config_dir: str, work_dir: str, session_id: str) -> Path | None:
        """The session's file (reads the disk), or None when there is none, or there can be none of that id."""
        ...

    def read_session(self, path: Path, since: int = 0) -> SessionView:
        """The file's active chain, or the part of it beyond byte `since` (reads the disk). Raises OSError."""
        ...

    def leans_on(self, path: Path) -> Sequence[tuple[Path, int]]:
        """Files of other sessions that this one's beginning stands in, oldest first, each up to which byte.

        Reads the disk. Raises OSError.
        """
        return ()

    def only_notes(self, path: Path, since: int, last_entry: str | None) -> bool:
        """All that stands beyond byte `since` is the agent's own book-keeping: a closed list of lines, none of which is
        shown to the model or moves the session's end away from `last_entry`. Reads the disk. Raises OSError.
        """
        return False

    def session_usage(self, path: Path) -> Usage | None:
        """The running total that the agent will go on from (reads the disk). None: it tells each run's own usage."""
        return None

    def session_place(self, config_dir: str, work_dir: str, session_id: str) -> Path | None:
        """Where the agent will look for a session that was made elsewhere. None: nowhere that we know.

        The engine writes it, and never over another one.
        """
        return None

    def portable(self, content: bytes) -> bytes | None:
        """Of a session's file, what may go to another machine or come from one: what a thread shows.

        That is prompts and answers. Uses of tools stay behind, and so do the agent's own notes, instructions and
        settings; it writes those anew. The same content gives the same bytes, and so does what it gave. A file that
        has grown gives what it gave before, and more. None: the conversation cannot be told apart from the rest.
        """
        return None

    def continued(self, content: bytes, more: bytes) -> bytes:
        """More lines of the portable form, worded so that they can follow this content of a session's file."""
        return more

    def session_paths(self, config_dir: str) -> Iterator[Path]:
        """Every session's file (reads the disk, folders alone). What subagents keep is not a session."""
        return iter(())

    def session_head(self, path: Path) -> SessionHead | None:
        """Reads the beginning of the file, however long it is. None: it is no session. Raises OSError."""
        return None

    def project_rules(self, config_dir: str, work_dir: str) -> Iterator[Path]:
        """Files and folders that the plain CLI would show the model in that directory, and Clew only with trust
        `project`. Looks at names alone: reads no file, follows no link. May raise OSError."""
        return iter(())

    def edits(self, tool: str, given: Mapping[str, Any]) -> tuple[FileEdit, ...]:
        """Which files that use of a tool writes to, and what, as far as its input tells. It may have any shape."""
        return ()
