"""Finding the Codex CLI, and reading its abilities."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from clew.agents.codex import Codex
from clew.agents.codex.binary import abilities
from clew.errors import AgentMissing
from clew.testing.stage import real_codex

codex = Codex()

HELP = "Commands:\n  resume  Resume a previous session\n\nOptions:\n      --json\n      --skip-git-repo-check\n"


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


class TestFind:
    def test_setting_comes_before_path(self, tmp_path: Path) -> None:
        set_one, on_path = program(tmp_path / "set" / "cx"), program(tmp_path / "bin" / "codex")
        environ = {"PATH": str(on_path.parent)}
        assert codex.find(str(set_one), environ).path == str(set_one)
        found = codex.find(None, environ)
        assert (found.path, found.source) == (str(on_path), "PATH")

    def test_the_wheels_binary_comes_last(self, tmp_path: Path) -> None:
        found = codex.find(None, {"PATH": str(tmp_path)})
        assert (found.path, found.source) == (str(real_codex()), "openai-codex-cli-bin")

    def test_the_error_for_a_missing_binary_has_a_hint(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.path", [str(tmp_path)])
        for configured in (None, str(tmp_path / "nowhere")):
            with pytest.raises(AgentMissing) as missing:
                codex.find(configured, {"PATH": str(tmp_path)})
            assert "agents.codex.path" in (missing.value.hint or "")


class TestAbilities:
    @pytest.mark.process
    def test_real_binary(self, tmp_path: Path) -> None:
        binary = codex.find(str(real_codex()), {})
        help_text, version_text = (
            subprocess.run(argv, capture_output=True, text=True, check=True, env={"HOME": str(tmp_path)}).stdout
            for argv in codex.probe_commands(binary)
        )
        can = codex.abilities(help_text, version_text)
        assert (can.is_agent, can.resume, can.choose_id, can.asks, can.streams) == (True, True, False, False, False)
        assert (can.product, can.version, can.fork, can.rewind) == ("codex-cli", "0.163.0", True, True)
        assert {"--json", "--model", "--ignore-rules"} <= can.flags

    def test_a_binary_without_resume(self) -> None:
        can = abilities(HELP.replace("resume", "fork"), "codex-cli 0.1.0")
        assert (can.resume, can.fork) == (False, True)
        assert (abilities(HELP, "codex-cli 0.1.0").resume, abilities(HELP, "codex-cli 0.1.0").fork) == (True, False)

    @pytest.mark.parametrize(
        ("version", "can_rewind"),
        [
            ("codex-cli 0.163.0", True),
            ("codex-cli 0.163.0-alpha.1", True),
            ("codex-cli 1.0.0", True),
            ("codex-cli 0.162.9", False),
            ("other-cli 0.163.0", False),
            ("", False),
        ],
    )
    def test_rewind_is_known_by_version(self, version: str, can_rewind: bool) -> None:
        assert abilities(HELP.replace("resume", "fork"), version).rewind is can_rewind
        assert not abilities(HELP, version).rewind

    def test_another_program_is_not_accepted_as_codex(self) -> None:
        can = abilities("usage: ls [OPTION]\n  --all\n", "ls (GNU coreutils) 9.1\n")
        assert not can.is_agent
        assert abilities(HELP, "codex-cli 0.163.0").is_agent
