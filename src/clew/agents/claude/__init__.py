"""Claude Code, the first-class agent. What the CLI really does stands in docs/agents.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from clew.agents.adapter import Adapter, Binary, Hiding, Launch, SessionHead, SessionView, StreamReader
from clew.agents.claude import binary, command, location, rules
from clew.core.decision import Abilities
from clew.core.events import QuestionAsked
from clew.core.permissions import Answer
from clew.core.thread import Permissions

if TYPE_CHECKING:
    from clew.core.edits import FileEdit


class Claude(Adapter):
    """The parts of this package as one adapter. Parsing is imported when the first process is already starting."""

    name: ClassVar[str] = "claude"
    anew_tokens: ClassVar[int] = 2_700  # its notes in the first message, measured: tools and system prompt are shared

    def find(self, configured: str | None, environ: Mapping[str, str]) -> Binary:
        return binary.find(configured, environ)

    def probes(self, binary: Binary) -> tuple[list[str], list[str]]:
        return [binary.path, "--help"], [binary.path, "--version"]

    def abilities(self, help_text: str, version_text: str) -> Abilities:
        return binary.abilities(help_text, version_text)

    def config_dir(self, environ: Mapping[str, str]) -> str:
        return location.config_dir(environ)

    def command(self, binary: Binary, abilities: Abilities, launch: Launch) -> list[str]:
        return command.command(binary, abilities, launch)

    def hides(self, abilities: Abilities, permissions: Permissions) -> Hiding:
        can = "--settings" in abilities.flags and permissions is not Permissions.ALL
        return Hiding.RULES if can else Hiding.NOT

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        return command.environment(environ)

    def prompt_line(self, text: str, uuid: str) -> bytes:
        return command.prompt_line(text, uuid)

    def answer_line(self, question: QuestionAsked, answer: Answer) -> bytes:
        return command.answer_line(question, answer)

    def interrupt_line(self) -> bytes | None:
        return command.interrupt_line()

    def reader(self, launch: Launch) -> StreamReader:
        from clew.agents.claude.stream import ClaudeReader

        return ClaudeReader()

    def session_file(self, config_dir: str, work_dir: str, session_id: str) -> Path | None:
        return location.session_file(config_dir, work_dir, session_id)

    def read_session(self, path: Path, since: int = 0) -> SessionView:
        from clew.agents.claude import session

        return session.read_session(path, since)

    def only_notes(self, path: Path, since: int, last_entry: str | None) -> bool:
        from clew.agents.claude import session
        from clew.agents.notes import only_notes

        return only_notes(path, since, lambda line: session.is_note(line, last_entry))

    def session_place(self, config_dir: str, work_dir: str, session_id: str) -> Path | None:
        return location.session_place(config_dir, work_dir, session_id)

    def portable(self, content: bytes) -> bytes | None:
        from clew.agents.claude import portable

        return portable.portable(content)

    def continued(self, content: bytes, more: bytes) -> bytes:
        from clew.agents.claude import portable

        return portable.continued(content, more)

    def session_paths(self, config_dir: str) -> Iterator[Path]:
        return location.session_paths(config_dir)

    def session_head(self, path: Path) -> SessionHead | None:
        from clew.agents.claude import session

        return session.session_head(path)

    def project_rules(self, config_dir: str, work_dir: str) -> Iterator[Path]:
        return rules.project_rules(config_dir, work_dir)

    def edits(self, tool: str, given: Mapping[str, Any]) -> tuple[FileEdit, ...]:
        from clew.agents.claude import edits

        return edits.edits(tool, given)
