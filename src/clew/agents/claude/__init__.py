"""Claude Code. docs/agents.md describes how the CLI behaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from clew.agents.adapter import (
    Adapter,
    Binary,
    CommandFolder,
    ImageFile,
    LaunchProfile,
    PathProtection,
    RulesDelivery,
    SessionHead,
    SessionView,
    StreamReader,
)
from clew.agents.claude import binary, command, location, rules
from clew.core.decision import Abilities
from clew.core.rules.rules import RuleLayout
from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import Answer
from clew.core.thread import Permissions

if TYPE_CHECKING:
    from clew.core.branching.edits import FileEdit


class Claude(Adapter):
    """The modules of this package as one adapter. The parsers are imported late, while the first process starts."""

    name: ClassVar[str] = "claude"
    start_tokens: ClassVar[int] = 22_100  # measured, as the next number is
    uncached_start_tokens: ClassVar[int] = 2_700  # its notes in the first message (measured); the rest is shared
    rule_layout: ClassVar[RuleLayout] = rules.LAYOUT

    def find(self, configured: str | None, environ: Mapping[str, str]) -> Binary:
        return binary.find(configured=configured, environ=environ)

    def probe_commands(self, binary: Binary) -> tuple[list[str], list[str]]:
        return [binary.path, "--help"], [binary.path, "--version"]

    def abilities(self, help_text: str, version_text: str) -> Abilities:
        return binary.abilities(help_text, version_text)

    def config_dir(self, environ: Mapping[str, str]) -> str:
        return location.config_dir(environ)

    def command(self, binary: Binary, abilities: Abilities, launch: LaunchProfile) -> list[str]:
        return command.command(binary, abilities, launch)

    def terminal_command(
        self, binary: Binary, session_id: str, model: str | None, *, new: bool = False
    ) -> list[str] | None:
        return command.terminal_command(binary, session_id, model, new=new)

    def path_protection(self, abilities: Abilities, permissions: Permissions) -> PathProtection:
        can = "--settings" in abilities.flags and permissions is not Permissions.ALL
        return PathProtection.RULES if can else PathProtection.NONE

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        return command.environment(environ)

    def terminal_environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        return command.terminal_environment(environ)

    def sent_text(self, text: str) -> str:
        return command.sent_text(text)

    def prompt_line(self, text: str, uuid: str, images: Sequence[ImageFile] = ()) -> bytes:
        return command.prompt_line(text, uuid, images)

    def compaction_line(self, focus: str, uuid: str) -> bytes | None:
        return command.compaction_line(focus, uuid)

    def answer_line(self, question: QuestionAsked, answer: Answer) -> bytes:
        return command.answer_line(question, answer)

    def interrupt_line(self) -> bytes | None:
        return command.interrupt_line()

    def reader(self, launch: LaunchProfile, prompt_id: str = "", *, warm: bool = False) -> StreamReader:
        from clew.agents.claude import session  # noqa: F401 - needed after the turn: it loads while the agent starts
        from clew.agents.claude.stream import ClaudeReader

        return ClaudeReader(prompt_id, warm=warm)

    def startup_files(self, launch: LaunchProfile, environ: Mapping[str, str]) -> Sequence[str] | None:
        from clew.agents.claude import startup_files

        return startup_files.startup_files(launch, environ)

    def session_file(self, config_dir: str, work_dir: str, session_id: str) -> Path | None:
        return location.session_file(config_dir, work_dir, session_id)

    def read_session(self, path: Path, since: int = 0) -> SessionView:
        from clew.agents.claude import session

        return session.read_session(path, since)

    def expected_session_path(self, config_dir: str, work_dir: str, session_id: str) -> Path | None:
        return location.expected_session_path(config_dir, work_dir, session_id)

    def portable_form(self, content: bytes) -> bytes | None:
        from clew.agents.claude import portable_form

        return portable_form.portable_form(content)

    def appendable_lines(self, content: bytes, more: bytes) -> bytes:
        from clew.agents.claude import portable_form

        return portable_form.appendable_lines(content, more)

    def session_paths(self, config_dir: str) -> Iterator[Path]:
        return location.session_paths(config_dir)

    def session_head(self, path: Path) -> SessionHead | None:
        from clew.agents.claude import session

        return session.session_head(path)

    def rules_delivery(self, abilities: Abilities) -> RulesDelivery:
        return RulesDelivery.FOLDER if {"--add-dir", "--settings"} <= abilities.flags else RulesDelivery.NONE

    def project_rules(self, config_dir: str, work_dir: str) -> Iterator[Path]:
        return rules.project_rules(config_dir, work_dir)

    def command_folders(self, environ: Mapping[str, str], work_dir: str) -> Iterator[CommandFolder]:
        from clew.agents.claude import commands

        return commands.command_folders(self.config_dir(environ), work_dir)

    def edits(self, tool: str, tool_input: Mapping[str, Any]) -> tuple[FileEdit, ...]:
        from clew.agents.claude import edits

        return edits.edits(tool, tool_input)
