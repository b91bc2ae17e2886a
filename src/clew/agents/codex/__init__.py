"""OpenAI's Codex, by `codex exec`. What the CLI really does stands in docs/agents.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from clew.agents.adapter import Adapter, Binary, Hiding, Launch, SessionHead, SessionView, StreamReader
from clew.agents.codex import binary, command, location, rules, sandbox
from clew.core.decision import Abilities
from clew.core.events import QuestionAsked
from clew.core.permissions import Answer
from clew.core.thread import Permissions
from clew.core.usage import Usage

if TYPE_CHECKING:
    from clew.core.edits import FileEdit


class Codex(Adapter):
    """The parts of this package as one adapter. Parsing is imported when the first process is already starting."""

    name: ClassVar[str] = "codex"
    anew_tokens: ClassVar[int] = 9_100  # all of it, measured: every session has a cache key of its own

    def find(self, configured: str | None, environ: Mapping[str, str]) -> Binary:
        return binary.find(configured, environ)

    def probes(self, binary: Binary) -> tuple[list[str], list[str]]:
        return [binary.path, "exec", "--help"], [binary.path, "--version"]

    def abilities(self, help_text: str, version_text: str) -> Abilities:
        return binary.abilities(help_text, version_text)

    def config_dir(self, environ: Mapping[str, str]) -> str:
        return location.config_dir(environ)

    def command(self, binary: Binary, abilities: Abilities, launch: Launch) -> list[str]:
        return command.command(binary, abilities, launch)

    def hides(self, abilities: Abilities, permissions: Permissions) -> Hiding:
        return Hiding.SANDBOX if sandbox.can_hide(abilities, permissions) else Hiding.NOT

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        return command.environment(environ)

    def prompt_line(self, text: str, uuid: str) -> bytes:
        return command.prompt_line(text)

    def prompt_id(self, text: str, uuid: str) -> str:
        return command.prompt_id(text)

    def answer_line(self, question: QuestionAsked, answer: Answer) -> bytes:
        raise NotImplementedError("codex exec asks nothing")

    def interrupt_line(self) -> bytes | None:
        return None  # its stdin is closed by then

    def reader(self, launch: Launch) -> StreamReader:
        from clew.agents.codex.stream import CodexReader

        return CodexReader(launch)

    def session_file(self, config_dir: str, work_dir: str, session_id: str) -> Path | None:
        return location.session_file(config_dir, session_id)

    def read_session(self, path: Path, since: int = 0) -> SessionView:
        from clew.agents.codex import session

        return session.read_session(path, since)

    def leans_on(self, path: Path) -> tuple[tuple[Path, int], ...]:
        with path.open("rb") as file:
            if b'"forked_from_id"' not in file.readline():
                return ()
        from clew.agents.codex import session

        return session.leans_on(path)

    def only_notes(self, path: Path, since: int, last_entry: str | None) -> bool:
        from clew.agents.codex import session
        from clew.agents.notes import only_notes

        return only_notes(path, since, session.is_note)

    def session_usage(self, path: Path) -> Usage | None:
        from clew.agents.codex import session

        return session.session_usage(path)

    def session_place(self, config_dir: str, work_dir: str, session_id: str) -> Path | None:
        return location.session_place(config_dir, session_id)

    def portable(self, content: bytes) -> bytes | None:
        from clew.agents.codex import portable

        return portable.portable(content)

    def continued(self, content: bytes, more: bytes) -> bytes:
        from clew.agents.codex import portable

        return portable.continued(content, more)

    def session_paths(self, config_dir: str) -> Iterator[Path]:
        return location.session_paths(config_dir)

    def session_head(self, path: Path) -> SessionHead | None:
        from clew.agents.codex import head

        return head.session_head(path)

    def project_rules(self, config_dir: str, work_dir: str) -> Iterator[Path]:
        return rules.project_rules(work_dir)

    def edits(self, tool: str, given: Mapping[str, Any]) -> tuple[FileEdit, ...]:
        from clew.agents.codex import edits

        return edits.edits(tool, given)
