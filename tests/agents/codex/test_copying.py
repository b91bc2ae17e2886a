"""The dialog with Codex's app server that copies a session up to an earlier turn."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from clew.agents.adapter import Binary, CopyDialog, LaunchProfile
from clew.agents.codex import Codex
from clew.core.decision import Abilities
from clew.core.record import replace
from clew.core.thread import Permissions, Trust
from clew.engine.process.copying import make_copy
from clew.errors import AgentFailed
from clew.testing.model.api import ModelApi
from clew.testing.stage import CODEX_MODEL, Stage
from conftest import make_stage

codex = Codex()

BINARY = Binary("/bin/codex", "PATH")
CAN = Abilities(resume=True, choose_id=False, fork=True, rewind=True)
SESSION = "01a1deea-df82-76f2-9bd3-794707014e7d"
TURN = "01a1deea-df82-76f2-9bd3-794707010000"
COPY = "01a1deea-e111-7000-8000-794707014e7d"
LAUNCH = LaunchProfile("ours", True, "gpt-x", Permissions.ALL, Trust.PROJECT, "/w", fork_of=SESSION, rewind_to=TURN)


def dialog(launch: LaunchProfile = LAUNCH) -> CopyDialog:
    found = codex.copy_dialog(BINARY, CAN, launch)
    assert found is not None
    return found


def answer(it: CopyDialog, **message: Any) -> list[dict[str, Any]]:
    lines = it.feed(json.dumps(message).encode())
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    return [json.loads(line) for line in lines]


class TestDialog:
    def test_whole_dialog(self) -> None:
        it = dialog()
        [first] = map(json.loads, it.begin())
        assert (first["id"], first["method"]) == (1, "initialize")
        assert "capabilities" not in first["params"], "nothing experimental is asked for"
        assert answer(it, method="configWarning", params={}) == []
        initialized, fork = answer(it, id=1, result={})
        assert (initialized, fork["id"], fork["method"]) == ({"method": "initialized"}, 2, "thread/fork")
        assert fork["params"] == {
            "threadId": SESSION,
            "lastTurnId": TURN,
            "excludeTurns": True,
            "cwd": "/w",
            "model": "gpt-x",
        }
        assert (it.session_id, it.error) == (None, "")
        assert answer(it, id=2, result={"thread": {"id": COPY}}) == []
        assert (it.session_id, it.error) == (COPY, "")

    @pytest.mark.parametrize("number", [1, 2])
    def test_a_refusal_is_the_error(self, number: int) -> None:
        it = dialog()
        answer(it, id=number, error={"code": -32600, "message": "turn not found"})
        assert (it.session_id, it.error) == (None, "turn not found")

    @pytest.mark.parametrize(
        "result", [None, {}, {"thread": {}}, {"thread": {"id": "last"}}, {"thread": {"id": SESSION}}]
    )
    def test_an_answer_without_another_sessions_id_is_no_copy(self, result: Any) -> None:
        it = dialog()
        answer(it, id=2, result=result)
        assert it.session_id is None and it.error

    @pytest.mark.parametrize(
        "line", [b"", b"garbage", b"[]", b"7", b"{}", b'{"id":9,"result":{}}', b'{"id":[]}', b"\xff"]
    )
    def test_other_lines_are_ignored(self, line: bytes) -> None:
        it = dialog()
        assert (it.feed(line), it.session_id, it.error) == ([], None, "")

    def test_its_questions_are_refused(self) -> None:
        [refusal] = answer(dialog(), id=2, method="item/tool/requestUserInput", params={})
        assert (refusal["id"], refusal["error"]["code"]) == (2, -32601)

    def test_only_a_copy_that_ends_earlier_needs_it(self) -> None:
        for launch in (replace(LAUNCH, rewind_to=None), replace(LAUNCH, fork_of=None, rewind_to=None)):
            assert codex.copy_dialog(BINARY, CAN, launch) is None

    def test_nothing_of_the_repository_and_no_mcp_server_is_loaded(self, tmp_path: Path) -> None:
        (tmp_path / "config.toml").write_text('[mcp_servers.a]\ncommand = "x"\n[mcp_servers."b.c"]\nurl = "x"\n')
        argv = dialog(replace(LAUNCH, config_dir=str(tmp_path))).argv
        assert list(argv[:2]) == ["/bin/codex", "app-server"]
        given = [argv[n + 1].partition("=") for n, word in enumerate(argv) if word == "-c"]
        settings = {key: tomllib.loads(f"v = {value}")["v"] for key, _, value in given}
        assert settings == {
            "sandbox_mode": "read-only",
            "approval_policy": "never",
            "features.plugins": False,
            "mcp_servers": {"a": {"enabled": False}, "b.c": {"enabled": False}},
            "project_root_markers": [],
            "projects": {"/w": {"trust_level": "untrusted"}},
        }


@pytest.mark.real
class TestRealBinary:
    """What docs/agents.md says about the app server."""

    def ask(self, stage: Stage, prompt: str, session_id: str | None = None) -> str:
        launch = LaunchProfile(
            session_id or "", session_id is not None, CODEX_MODEL, Permissions.ALL, Trust.USER, str(stage.work)
        )
        done = subprocess.run(
            codex.command(Binary(str(stage.codex), "x"), CAN, launch),
            input=prompt.encode(),
            env=stage.environ,
            cwd=stage.work,
            check=True,
            capture_output=True,
            timeout=60,
        )
        return str(json.loads(done.stdout.splitlines()[0])["thread_id"])

    async def copy(self, stage: Stage, session_id: str, end: str | None, **changes: Any) -> str:
        launch = replace(
            LAUNCH,
            fork_of=session_id,
            rewind_to=end,
            work_dir=str(stage.work),
            config_dir=str(stage.home / ".codex"),
            model=CODEX_MODEL,
            **changes,
        )
        found = codex.copy_dialog(Binary(str(stage.codex), "x"), CAN, launch)
        assert found is not None
        environ = codex.environment(stage.environ)
        return await make_copy(found, cwd=str(stage.work), environ=environ, mark="copy-test", timeout_s=30)

    def ends(self, stage: Stage, session_id: str) -> list[str]:
        path = codex.session_file(str(stage.home / ".codex"), "", session_id)
        assert path is not None
        return [entry.end_id for entry in codex.read_session(path).entries if entry.end_id]

    async def test_a_copy_can_end_after_tools_and_before_a_compaction(self, tmp_path: Path, api: ModelApi) -> None:
        with make_stage("scripted", tmp_path, api, codex=True) as stage:
            session_id = self.ask(stage, '!tool exec_command {"cmd": "echo hi"}')
            settings = stage.home / ".codex" / "config.toml"
            kept = settings.read_text()
            settings.write_text("model_auto_compact_token_limit = 9000\n" + kept)
            self.ask(stage, "!say two", session_id)
            settings.write_text(kept)
            self.ask(stage, "!say three", session_id)
            assert any(request.is_compaction for request in api.requests)
            ends = self.ends(stage, session_id)
            assert len(ends) == 3
            self.ask(stage, "!say on", await self.copy(stage, session_id, ends[0]))
            tools = [text.partition(" ")[0] for _, text in api.main_requests[-1].shown_texts(tools=True)[1:3]]
            assert tools == ["[tool_use", "[tool_result"]
            assert [text for role, text in stage.shown if role == "user"][1:] == ["!say on"]
            self.ask(stage, "!say on", await self.copy(stage, session_id, ends[1]))
            assert [text for _, text in stage.shown][-3:] == ["!say two", "two", "!say on"]
            async with asyncio.timeout(20):  # the launcher reports the end of its process before it exits itself
                while stage.processes():
                    await asyncio.sleep(0.02)
        assert not api.refused_hosts

    async def test_a_message_of_an_older_pin_names_its_turn(self, tmp_path: Path, api: ModelApi) -> None:
        with make_stage("scripted", tmp_path, api, codex=True) as stage:
            session_id = self.ask(stage, "!say one")
            self.ask(stage, "!say two", session_id)
            [path] = stage.codex_files()
            first = next(entry for entry in codex.read_session(path).entries if entry.end_id)
            self.ask(stage, "!say on", await self.copy(stage, session_id, first.id))
            assert [text for _, text in stage.shown] == ["!say one", "one", "!say on"]
            with pytest.raises(AgentFailed, match="turn not found"):
                await self.copy(stage, session_id, COPY)
            with pytest.raises(AgentFailed, match="no rollout found"):
                await self.copy(stage, COPY, first.end_id)

    @pytest.mark.parametrize("trust", list(Trust))
    async def test_it_starts_no_mcp_server_and_changes_no_setting(
        self, tmp_path: Path, api: ModelApi, trust: Trust
    ) -> None:
        with make_stage("scripted", tmp_path, api, codex=True) as stage:
            session_id = self.ask(stage, "!say one")
            started = tmp_path / "started"
            server = f'command = "/bin/sh"\nargs = ["-c", "touch {started}; sleep 9"]\n'
            settings = stage.home / ".codex" / "config.toml"
            settings.write_text(f"{settings.read_text()}\n[mcp_servers.user]\n{server}")
            (stage.work / ".git").mkdir()
            (stage.work / ".codex").mkdir()
            (stage.work / ".codex" / "config.toml").write_text(f"[mcp_servers.repo]\n{server}")
            before = settings.read_bytes(), stage.codex_files()[0].read_bytes()
            await self.copy(stage, session_id, self.ends(stage, session_id)[0], trust=trust)
            assert not started.exists()
            assert (settings.read_bytes(), stage.codex_files()[0].read_bytes()) == before
            assert len(stage.codex_files()) == 2
