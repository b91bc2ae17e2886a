"""Settings and the doctor without a surface, and a sweep of hooks as an operation."""

from __future__ import annotations

from pathlib import Path

import pytest

import clew
from clew.api import doctor, files, hooks, settings
from clew.api.operations import OperationStatus
from clew.core.hooks.hook import session_key
from clew.errors import AgentMissing, Cancelled, ConfigError, Conflict, NotFound, UsageError
from clew.testing.stage import Stage
from hooks.project import REPO, SETTINGS, HookProject, event, succeeded

KEY = session_key("boss", REPO, 4)


def environ(folder: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(folder), "PATH": "/nowhere", **more}


def test_settings_are_shown_without_a_password(tmp_path: Path) -> None:
    address = "postgresql://clew:hush@db.example/clew"
    values = settings.load(environ(tmp_path, CLEW_STORE=address, CLEW_MAX_AGE="1h30m"))
    found = {each.name: each for each in settings.shown(values)}
    assert found["store"].value == "postgresql://clew:…@db.example/clew"
    assert (found["max_age"].value, found["max_age"].source) == (5400.0, "environment CLEW_MAX_AGE")
    assert found.keys() == {each.name for each in settings.TABLE}
    assert settings.as_duration(found["max_age"].value) == "1h30m"


def test_the_users_own_file_is_named_before_it_exists(tmp_path: Path) -> None:
    file = settings.user_settings_file(environ(tmp_path))
    assert (file.path, file.exists) == (tmp_path / ".config" / "clew" / "clew.toml", False)
    file.path.parent.mkdir(parents=True)
    file.path.touch()
    assert settings.user_settings_file(environ(tmp_path)).exists
    with pytest.raises(ConfigError):
        settings.user_settings_file(environ(tmp_path, CLEW_CONFIG=str(tmp_path / "nowhere.toml")))


async def test_a_store_that_cannot_be_opened_is_one_problem_among_others(tmp_path: Path) -> None:
    home = tmp_path / "home"
    files.make_private(home)
    (home / "clew.db").write_bytes(b"this is no database " * 400)
    (home / "clew.db").chmod(0o600)
    (home / "clew.toml").write_text("colour = 'red'")
    given = environ(tmp_path, CLEW_HOME=str(home), CLEW_AGENTS_CLAUDE_PATH="/nowhere/claude")

    found = await doctor.diagnose(given, tmp_path)

    assert (found.report.ok, found.report.runs, found.agent_missing) == (False, None, True)
    words = " ".join(each.problem for each in found.report.problems)
    assert "colour" in words and "/nowhere/claude" in words and str(home / "clew.db") in words
    assert (home / "clew.db").read_bytes().startswith(b"this is no database")


async def test_agents_are_checked_before_anything_is_stored(tmp_path: Path) -> None:
    flags = {"agents.claude.path": "/nowhere/claude"}
    async with clew.open(tmp_path / "home", environ=environ(tmp_path), **flags) as client:
        with pytest.raises(AgentMissing):
            client.check_agent()
        client.check_agent("claude", installed=False)
        with pytest.raises(UsageError):
            client.check_agent("nobody", installed=False)


async def test_a_thread_is_renamed_by_its_name_or_id(tmp_path: Path) -> None:
    async with clew.open(tmp_path / "home", environ=environ(tmp_path)) as client:
        thread = await client.thread("old", cwd=tmp_path)
        await client.thread("taken", cwd=tmp_path)
        done = await client.rename(thread.record.id, "new")
        assert (done.id, done.names, done.is_pair) == (thread.record.id, (("old", "new"),), False)
        assert sorted(await client.views.names("threads")) == ["new", "taken"]
        with pytest.raises(Conflict):
            await client.rename("new", "taken")
        with pytest.raises(NotFound):
            await client.rename("old", "newer")


async def test_a_cancelled_sweep_stops_before_the_next_key(scripted: Stage) -> None:
    project = HookProject(
        scripted, SETTINGS.replace("[hooks.agents.boss]", '[hooks]\nsweep_age = "0.01s"\n\n[hooks.agents.boss]')
    )
    async with project.open() as client:
        for number in (4, 5):
            await succeeded(client, event(number=number))
        operation = hooks.sweep(client)
        seen = []
        async for step in operation:
            seen.append((step.kind, step.message, step.done, step.total))
            operation.cancel()
        with pytest.raises(Cancelled):
            await operation
        assert operation.status is OperationStatus.CANCELLED
        assert seen == [("progress", KEY, 0, 2), ("ended", "The sweep was cancelled.", None, None)]
        left = [each.key.key for each in await client.hooks.sessions.list()]
        assert left == [session_key("boss", REPO, 5)], "the first was swept whole"
        [swept] = await hooks.sweep(client)
        assert (swept.key, await client.hooks.sessions.list()) == (session_key("boss", REPO, 5), [])
