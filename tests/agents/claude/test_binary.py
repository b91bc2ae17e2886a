"""Finding the Claude CLI, reading its abilities, and finding its session files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.agents.adapter import Binary
from clew.agents.claude import Claude
from clew.errors import AgentMissing

claude = Claude()
Programs = Callable[..., Path]


@pytest.fixture
def program(tmp_path: Path) -> Programs:
    def make(*parts: str, mode: int = 0o755) -> Path:
        path = tmp_path.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
        return path

    return make


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path / "empty")])


class TestFind:
    def test_the_configured_path_comes_first(self, program: Programs) -> None:
        chosen, on_path = program("mine", "my-claude"), program("bin", "claude")
        assert claude.find(str(chosen), {"PATH": str(on_path.parent)}) == Binary(str(chosen), "setting")

    def test_the_configured_path_may_start_at_home(self, program: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
        chosen = program("home", "claude")
        monkeypatch.setenv("HOME", str(chosen.parent))
        assert claude.find("~/claude", {"PATH": ""}).path == str(chosen)

    def test_a_configured_path_that_is_not_a_program_is_an_error(self, program: Programs, tmp_path: Path) -> None:
        on_path = program("bin", "claude")
        for bad in (program("flat", "claude", mode=0o644), tmp_path / "missing", tmp_path):
            with pytest.raises(AgentMissing) as missing:
                claude.find(str(bad), {"PATH": str(on_path.parent)})
            assert str(bad) in missing.value.message
            assert "agents.claude.path" in (missing.value.hint or "")

    def test_claude_on_the_path_comes_before_openclaude(self, program: Programs) -> None:
        fork, real = program("first", "openclaude"), program("second", "claude")
        environ = {"PATH": f"{fork.parent}{os.pathsep}{real.parent}"}
        assert claude.find(None, environ) == Binary(str(real), "PATH")

    def test_openclaude_is_the_fallback_name(self, program: Programs) -> None:
        fork = program("bin", "openclaude")
        assert claude.find(None, {"PATH": str(fork.parent)}) == Binary(str(fork), "PATH")

    def test_a_file_that_is_not_executable_is_skipped(self, program: Programs) -> None:
        flat, real = program("first", "claude", mode=0o644), program("second", "claude")
        environ = {"PATH": f"{flat.parent}{os.pathsep}{real.parent}"}
        assert claude.find(None, environ).path == str(real)

    def test_links_are_not_followed(self, program: Programs, tmp_path: Path) -> None:
        real = program("versions", "2.1.325")
        link = tmp_path / "bin" / "claude"
        link.parent.mkdir()
        link.symlink_to(real)
        assert claude.find(None, {"PATH": str(link.parent)}).path == str(link)
        assert claude.find(str(link), {"PATH": ""}).path == str(link)

    def test_the_binary_in_the_sdks_package_comes_last(
        self, program: Programs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        bundled = program("site-packages", "claude_agent_sdk", "_bundled", "claude")
        monkeypatch.setattr(sys, "path", [str(tmp_path / "empty"), str(tmp_path / "site-packages")])
        assert claude.find(None, {"PATH": ""}) == Binary(str(bundled), "claude-agent-sdk")
        on_path = program("bin", "openclaude")
        assert claude.find(None, {"PATH": str(on_path.parent)}).path == str(on_path)

    def test_a_binary_in_the_work_directory_is_not_used(
        self, program: Programs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        program("work", "claude_agent_sdk", "_bundled", "claude")
        monkeypatch.chdir(tmp_path / "work")
        monkeypatch.setattr(sys, "path", ["", str(tmp_path / "work")])
        with pytest.raises(AgentMissing):
            claude.find(None, {"PATH": ""})

    def test_looking_inside_the_sdk_does_not_import_it(
        self, program: Programs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        program("site-packages", "claude_agent_sdk", "_bundled", "claude")
        monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
        monkeypatch.delitem(sys.modules, "claude_agent_sdk", raising=False)
        claude.find(None, {"PATH": ""})
        assert "claude_agent_sdk" not in sys.modules

    def test_the_error_for_a_missing_binary_has_a_hint(self) -> None:
        with pytest.raises(AgentMissing) as missing:
            claude.find(None, {"PATH": "/nonexistent"})
        assert "claude-agent-sdk" in (missing.value.hint or "")
        assert "\n" not in missing.value.message
        assert missing.value.exit_code == 3


HELP = """Usage: claude [options]
  -p, --print                       Print response and exit
  -r, --resume [sessionId]          Resume a conversation
  --session-id <uuid>               Use a specific session ID
  --include-partial-messages        Include partial chunks (only works with --print and --output-format=stream-json)
"""


class TestAbilities:
    def test_abilities_are_read_from_the_help(self) -> None:
        able = claude.abilities(HELP, "2.1.325 (Claude Code)\n")
        assert (able.resume, able.choose_id) == (True, True)
        assert (able.version, able.product) == ("2.1.325", "Claude Code")
        assert {"--print", "--include-partial-messages", "--output-format"} <= able.flags

    def test_a_fork_whose_help_lists_no_resume_cannot_resume(self) -> None:
        able = claude.abilities("--session-identity --resume-all --no-resume", "openclaude 0.9.1-beta.2")
        assert (able.resume, able.choose_id) == (False, False)
        assert (able.version, able.product) == ("0.9.1-beta.2", "")

    def test_a_text_without_a_version_is_kept_as_the_product(self) -> None:
        able = claude.abilities("", "something else")
        assert (able.resume, able.version, able.product) == (False, "", "something else")


class TestSessionFile:
    @pytest.fixture
    def keep(self, tmp_path: Path) -> Callable[[str, str], Path]:
        def make(folder: str, session_id: str = "s-1") -> Path:
            path = tmp_path / "config" / "projects" / folder / f"{session_id}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
            return path

        return make

    def find(self, tmp_path: Path, work_dir: str, session_id: str = "s-1") -> Path | None:
        return claude.session_file(str(tmp_path / "config"), work_dir, session_id)

    def test_it_is_in_the_folder_named_after_the_work_dir(self, tmp_path: Path, keep: Callable[[str], Path]) -> None:
        keep("-elsewhere")
        ours = keep("-srv-my-app-v1-2--x--t")
        keep("-zzz")
        assert self.find(tmp_path, "/srv/my_app/v1.2 (x)été"[:-1]) == ours

    def test_links_of_the_work_dir_are_resolved(self, tmp_path: Path, keep: Callable[[str], Path]) -> None:
        real = tmp_path / "real"
        real.mkdir()
        (tmp_path / "link").symlink_to(real)
        slug = "".join(each if each.isascii() and each.isalnum() else "-" for each in str(real.resolve()))
        keep("-other")
        ours = keep(slug)
        assert self.find(tmp_path, str(tmp_path / "link")) == ours

    def test_a_cut_name_of_a_long_path_is_found_anyway(self, tmp_path: Path, keep: Callable[[str], Path]) -> None:
        ours = keep("-srv-" + "x" * 195 + "-1a2b3c")
        assert self.find(tmp_path, "/srv/" + "/".join(["x" * 50] * 8)) == ours

    def test_a_missing_file_is_none(self, tmp_path: Path, keep: Callable[[str, str], Path]) -> None:
        assert self.find(tmp_path, "/srv") is None
        keep("-srv", "another")
        assert self.find(tmp_path, "/srv") is None

    def test_a_folder_of_that_name_is_not_a_session(self, tmp_path: Path) -> None:
        (tmp_path / "config" / "projects" / "-srv" / "s-1").mkdir(parents=True)
        assert self.find(tmp_path, "/srv") is None

    @pytest.mark.parametrize(
        "trick", ["../x", "..", "", "*", "a/b", "s-1\n", "[s]-1", "s-1.jsonl", "/etc/passwd", "\0"]
    )
    def test_an_id_that_would_change_the_path_finds_nothing(
        self, tmp_path: Path, keep: Callable[[str, str], Path], trick: str
    ) -> None:
        keep("-srv", "s-1")
        keep("", "x")
        assert self.find(tmp_path, "/srv", trick) is None
