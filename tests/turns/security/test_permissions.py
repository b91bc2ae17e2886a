"""What an agent may do, per thread; whose settings load; and who may read what Clew writes (law 8)."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from clew.api.client import Reply, Thread
from clew.core.runs.events import QuestionAnswered, QuestionAsked
from clew.core.runs.permissions import Answer
from clew.errors import ConfigError, UsageError
from clew.testing.stage import Stage

TOUCH = '!tool Bash {"command": "touch made"}'


def write(path: Path) -> str:
    return "!tool Write " + json.dumps({"file_path": str(path), "content": "x"})


async def ask(thread: Thread, prompt: str, **options: object) -> Reply:
    return await (await thread.ask(prompt, **options))  # type: ignore[arg-type]


async def test_ask_without_a_person_declines_with_a_sentence_to_act_on(stage: Stage) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        reply = await ask(thread, TOUCH)
        assert "Nobody is there to allow Bash" in reply.text
        assert reply.warnings == ("Bash was declined: nobody was there to allow it (see --permissions).",)
        assert not (stage.work / "made").exists()


@pytest.mark.parametrize("allow", [True, False])
async def test_ask_puts_the_request_to_the_person(stage: Stage, allow: bool) -> None:
    asked: list[QuestionAsked] = []

    async def person(question: QuestionAsked) -> Answer:
        asked.append(question)
        return Answer(allow=allow, message="Leave it.")

    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        run = await thread.ask(TOUCH, person=person)
        events = [event async for event in run]
        assert [question.tool for question in asked] == ["Bash"]
        assert asked[0].input["command"] == "touch made"
        assert (stage.work / "made").exists() is allow
        [answered] = [event for event in events if isinstance(event, QuestionAnswered)]
        assert (answered.allowed, answered.by) == (allow, "user")


async def test_edits_accepts_files_in_the_work_directory_only(stage: Stage) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work, permissions="edits")
        await ask(thread, write(stage.work / "inside.txt"))
        await ask(thread, write(stage.folder / "outside.txt"))
        assert (stage.work / "inside.txt").exists()
        assert not (stage.folder / "outside.txt").exists()


async def test_an_existing_thread_gets_the_permissions_that_it_is_opened_with(scripted: Stage) -> None:
    async with scripted.open() as client:
        await client.thread("t", cwd=scripted.work, permissions="all")
        narrowed = await client.thread("t", permissions="read-only")
        assert narrowed.record.permissions == "read-only"
        with pytest.raises(UsageError, match="'bogus' is not one of ask, edits, read-only, all"):
            await client.thread("t", permissions="bogus")
        with pytest.raises(ConfigError, match="there is no setting 'tiemout'"):
            async with scripted.open(tiemout="3s"):
                pass


async def test_read_only_reads_and_does_nothing_else(stage: Stage) -> None:
    (stage.work / "here.txt").write_text("what is written")
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work, permissions="read-only")
        read = await ask(thread, "!tool Read " + json.dumps({"file_path": str(stage.work / "here.txt")}))
        assert "what is written" in read.text
        await ask(thread, write(stage.work / "made"))
        await ask(thread, TOUCH)
        assert not (stage.work / "made").exists()


async def test_all_allows_everything(stage: Stage) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work, permissions="all")
        await ask(thread, TOUCH)
        assert (stage.work / "made").exists()


async def test_profile_is_the_same_on_every_turn(stage: Stage) -> None:
    """Any difference would invalidate the agent's cached prefix."""
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work, permissions="edits")
        for number in range(3):
            await ask(thread, f"question {number}")
        profiles = {
            tuple(word for word in launch.argv if word not in ("--session-id", launch.session_id))
            if launch.session_id
            else tuple(word for word in launch.argv if not word.startswith("--resume="))
            for launch in stage.launches
        }
        assert len(profiles) == 1
        [profile] = profiles
        assert "--model" in profile
        assert profile[profile.index("--permission-prompt-tool") : profile.index("--permission-prompt-tool") + 2] == (
            "--permission-prompt-tool",
            "stdio",
        )


def plant_hooks(stage: Stage) -> Path:
    """A repository whose own settings run code at the start of a session."""
    ran = stage.folder / "hook-ran"
    settings = stage.work / ".claude"
    settings.mkdir()
    hook = {"type": "command", "command": f"touch {ran}"}
    (settings / "settings.json").write_text(json.dumps({"hooks": {"SessionStart": [{"hooks": [hook]}]}}))
    server = {"command": "sh", "args": ["-c", f"touch {ran}-mcp; sleep 1"]}
    (stage.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"planted": server}}))
    (settings / "settings.local.json").write_text(json.dumps({"enableAllProjectMcpServers": True}))
    return ran


@pytest.mark.real
@pytest.mark.parametrize("trust", ["user", "project"])
async def test_a_repositorys_own_hooks_run_only_where_it_is_trusted(real: Stage, trust: str) -> None:
    ran = plant_hooks(real)
    async with real.open() as client:
        thread = await client.thread("t", cwd=real.work, trust=trust)
        await ask(thread, "hello")
        assert ran.exists() is (trust == "project")
        if trust == "user":
            assert not Path(f"{ran}-mcp").exists(), "nor do its MCP servers"


@pytest.mark.real
async def test_resumed_turns_extend_the_cached_prefix_exactly(real: Stage) -> None:
    async with real.open() as client:
        thread = await client.thread("t", cwd=real.work)
        for number in range(4):
            await ask(thread, f"question {number}")
        first, *resumed = [request.cache for request in real.api.main_requests]
        before = first
        for account in resumed:
            assert account.read_tokens == before.prompt_tokens, "all of the last request is read from the cache"
            before = account


async def test_only_the_owner_can_read_and_no_secret_is_stored(scripted: Stage) -> None:
    secret = "sk-ant-planted-0123456789"
    old = os.umask(0)
    try:
        async with scripted.open(environ={"ANTHROPIC_API_KEY": secret, "SOME_TOKEN": secret}) as client:
            thread = await client.thread("t", cwd=scripted.work)
            await ask(thread, "hello")
            deleted = await thread.delete()
            assert deleted.archive is not None
            await ask(await client.thread("u", cwd=scripted.work), "hello")
    finally:
        os.umask(old)
    found = [scripted.clew_home, *scripted.clew_home.rglob("*")]
    assert len(found) > 2
    for path in found:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path.name} is {mode:o}"
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), f"{path.name} holds a key"


async def test_nothing_is_logged(scripted: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """Session ids and prompts are logged only at level DEBUG."""
    caplog.set_level("INFO")
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        reply = await ask(thread, "a private question")
    assert "a private question" not in caplog.text
    assert reply.session_id is not None
    assert reply.session_id not in caplog.text
