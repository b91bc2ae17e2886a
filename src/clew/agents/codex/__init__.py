"""OpenAI's Codex, run with `codex exec`. docs/agents.md describes how the CLI behaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from clew.agents.adapter import (
    Adapter,
    Binary,
    CommandFolder,
    CopyDialog,
    ImageFile,
    LaunchProfile,
    PathProtection,
    RulesDelivery,
    SessionHead,
    SessionView,
    StreamReader,
)
from clew.agents.codex import binary, command, location, rules, sandbox
from clew.core.costs.usage import Usage
from clew.core.decision import Abilities
from clew.core.rules.rules import RuleLayout
from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import Answer
from clew.core.thread import Permissions

if TYPE_CHECKING:
    from clew.core.branching.edits import FileEdit


class Codex(Adapter):
    """The modules of this package as one adapter. The parsers are imported late, while the first process starts."""

    name: ClassVar[str] = "codex"
    start_tokens: ClassVar[int] = 9_100
    uncached_start_tokens: ClassVar[int] = 9_100  # all of it (measured): every session has its own cache key
    rule_layout: ClassVar[RuleLayout] = rules.LAYOUT

    def find(self, configured: str | None, environ: Mapping[str, str]) -> Binary:
        return binary.find(configured=configured, environ=environ)

    def probe_commands(self, binary: Binary) -> tuple[list[str], list[str]]:
        return [binary.path, "exec", "--help"], [binary.path, "--version"]

    def abilities(self, help_text: str, version_text: str) -> Abilities:
        return binary.abilities(help_text, version_text)

    def config_dir(self, environ: Mapping[str, str]) -> str:
        return location.config_dir(environ)

    def command(self, binary: Binary, abilities: Abilities, launch: LaunchProfile) -> list[str]:
        return command.command(binary, abilities, launch)

    def copy_dialog(self, binary: Binary, abilities: Abilities, launch: LaunchProfile) -> CopyDialog | None:
        if not launch.rewind_to:
            return None
        from clew.agents.codex import copying

        return copying.copy_dialog(binary, launch)

    def terminal_command(
        self, binary: Binary, session_id: str, model: str | None, *, new: bool = False
    ) -> list[str] | None:
        return command.terminal_command(binary, session_id, model, new=new)

    def path_protection(self, abilities: Abilities, permissions: Permissions) -> PathProtection:
        return PathProtection.SANDBOX if sandbox.can_hide(abilities, permissions) else PathProtection.NONE

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        return command.environment(environ)

    def sent_text(self, text: str) -> str:
        return command.sent_text(text)

    def prompt_line(self, text: str, uuid: str, images: Sequence[ImageFile] = ()) -> bytes:
        return command.prompt_line(text)

    def prompt_id(self, text: str, uuid: str) -> str:
        return command.prompt_id(text)

    def answer_line(self, question: QuestionAsked, answer: Answer) -> bytes:
        raise NotImplementedError("codex exec asks nothing")

    def interrupt_line(self) -> bytes | None:
        return None  # its stdin is already closed

    def reader(self, launch: LaunchProfile, prompt_id: str = "", *, warm: bool = False) -> StreamReader:
        from clew.agents.codex.stream import CodexReader

        return CodexReader(launch)

    def session_file(self, config_dir: str, work_dir: str, session_id: str) -> Path | None:
        return location.session_file(config_dir, session_id)

    def read_session(self, path: Path, since: int = 0) -> SessionView:
        from clew.agents.codex import session

        return session.read_session(path, since)

    def origin_files(self, path: Path) -> tuple[tuple[Path, int], ...]:
        with path.open("rb") as file:
            first = file.readline()
        if b'"history_base"' not in first and b'"forked_from_id"' not in first:
            return ()
        from clew.agents.codex import origins

        return origins.origin_files(path)

    def earlier_files(self, path: Path) -> list[Path]:
        return location.earlier_files(path)

    def session_usage(self, path: Path) -> Usage | None:
        from clew.agents.codex import tokens

        return tokens.session_usage(path)

    def expected_session_path(self, config_dir: str, work_dir: str, session_id: str) -> Path | None:
        return location.expected_session_path(config_dir, session_id)

    def portable_form(self, content: bytes) -> bytes | None:
        from clew.agents.codex import portable_form

        return portable_form.portable_form(content)

    def appendable_lines(self, content: bytes, more: bytes) -> bytes:
        from clew.agents.codex import portable_form

        return portable_form.appendable_lines(content, more)

    def session_paths(self, config_dir: str) -> Iterator[Path]:
        return location.session_paths(config_dir)

    def session_head(self, path: Path) -> SessionHead | None:
        from clew.agents.codex import head

        return head.session_head(path)

    def rules_delivery(self, abilities: Abilities) -> RulesDelivery:
        return RulesDelivery.PROMPT

    def project_rules(self, config_dir: str, work_dir: str) -> Iterator[Path]:
        return rules.project_rules(work_dir)

    def command_folders(self, environ: Mapping[str, str], work_dir: str) -> Iterator[CommandFolder]:
        from clew.agents.codex import skills

        return skills.command_folders(environ, work_dir)

    def edits(self, tool: str, tool_input: Mapping[str, Any]) -> tuple[FileEdit, ...]:
        from clew.agents.codex import edits

        return edits.edits(tool, tool_input)
