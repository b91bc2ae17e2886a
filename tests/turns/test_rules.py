"""A project's rules (CLAUDE.md, AGENTS.md) are not loaded without trust, and the first run in a directory says so."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.agents.claude import Claude
from clew.api.client import Reply, Thread
from clew.core.ids import ThreadId
from clew.core.runs.events import Warned
from clew.system.work_trees import in_main_tree, project_of
from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage
from conftest import make_stage
from transfer.machines import clew

RULE = "marker-of-the-rules"
FILES = {"claude": "CLAUDE.md", "codex": "AGENTS.md"}


async def ask(thread: Thread, prompt: str = "hello") -> tuple[Reply, list[str]]:
    """The answer, and the codes of its warnings about rules."""
    run = await thread.ask(prompt)
    codes = [event.code async for event in run if isinstance(event, Warned)]
    return await run, [code for code in codes if code == "rules_not_loaded"]


def git(folder: Path, *args: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True)


@pytest.mark.real
async def test_rules_load_only_with_trust_and_the_warning_says_how(tmp_path: Path, api: ModelApi) -> None:
    def is_shown() -> bool:
        return RULE in json.dumps(api.main_requests[-1].body)

    with make_stage("real", tmp_path, api, codex=True) as stage:
        work = stage.work / "repo" / "sub"
        work.mkdir(parents=True)
        git(work.parent, "init", "-q")
        for name in FILES.values():
            (work.parent / name).write_text(f"{RULE}\n")
        for agent, name in FILES.items():
            async with stage.open(agent=agent) as client:
                thread = await client.thread(agent, cwd=work)
                reply, codes = await ask(thread)
                assert (reply.status, codes, is_shown()) == ("answered", ["rules_not_loaded"], False)
                [line] = [warning for warning in reply.warnings if "rules" in warning]
                assert f"(../{name}) are not loaded" in line and "hooks and MCP servers" in line
                assert f"`clew threads set {agent} --trust project`" in line
                command = clew(stage, "threads", "set", agent, "--trust", "project")
                assert command.code == 0, "as the line says"
                reply, codes = await ask(await client.find(agent), "again")
                assert (reply.session_resumed, codes, is_shown()) == (True, [], True)
                reply, codes = await ask(await client.new_thread("new", cwd=work, trust="project"))
                assert (reply.status, codes, is_shown()) == ("answered", [], True)
                await (await client.find("new")).delete()
    assert not api.refused_hosts


async def test_the_warning_comes_once_for_each_directory_agent_and_kind(scripted: Stage) -> None:
    async with scripted.open() as client:
        bare = await client.thread("bare", cwd=scripted.work)
        assert (await ask(bare))[1] == [], "there are none yet"
        (scripted.work / "CLAUDE.md").write_text(RULE)
        (scripted.work / "sub").mkdir()
        assert (await ask(bare))[1] == ["rules_not_loaded"]
        assert (await ask(bare))[1] == []
        assert (await ask(await client.thread("other", cwd=scripted.work)))[1] == []
        assert (await ask(await client.thread("sub", cwd=scripted.work / "sub")))[1] == ["rules_not_loaded"]
        for kind, said in {"job": ["rules_not_loaded"], "review": []}.items():
            record = bare.record.replace(id=ThreadId(kind), name=kind, kind=kind)
            await client.engine.store.call(lambda store, record=record: store.threads.create(record))
            assert (await ask(await client.find(kind)))[1] == said, "a job's log is read by others; a review loads none"


def test_the_command_line_shows_the_warning_in_one_line_and_its_json_stays_clean(scripted: Stage) -> None:
    (scripted.work / "CLAUDE.md").write_text(RULE)
    rules = scripted.work / ".claude" / "rules"
    rules.mkdir(parents=True)
    (rules / "style.md").write_text(RULE)
    done = clew(scripted, "ask", "-t", "t", "--json", "hello")
    [line] = [line for line in done.err.splitlines() if "rules" in line]
    assert line.startswith("warning: The project's rules (CLAUDE.md, .claude/rules) are not loaded")
    assert line.endswith("may run code."), "all of it"
    assert done.json["warnings"] == [line.removeprefix("warning: ")]
    assert "rules" not in clew(scripted, "ask", "-t", "t", "hello again").err


class Denied(Claude):
    def project_rules(self, config_dir: str, work_dir: str) -> Iterator[Path]:
        yield Path(work_dir, "CLAUDE.md")
        raise PermissionError(13, "denied")


async def test_unreadable_folders_fail_no_run(scripted: Stage) -> None:
    async with scripted.open(adapters=[Denied()]) as client:
        reply, codes = await ask(await client.thread("t", cwd=scripted.work))
    assert (reply.status, codes) == ("answered", ["rules_not_loaded"]), "and what was seen before is said"


@pytest.mark.process
def test_work_trees_of_a_repository_are_one_in_main_tree(tmp_path: Path) -> None:
    repo, tree = tmp_path / "repo", tmp_path / "trees" / "issue-7"
    (repo / "sub").mkdir(parents=True)
    assert in_main_tree(repo / "sub") == str(repo / "sub"), "not a repository yet"
    (repo / "sub" / "file").touch()
    git(repo, "init", "-q")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "first")
    git(repo, "worktree", "add", "-q", str(tree))
    assert in_main_tree(tree / "sub") == in_main_tree(repo / "sub") == str(repo / "sub")
    assert project_of(tree / "sub") == project_of(repo / "sub") == project_of(repo) == str(repo)
    assert project_of(repo / "gone" / "folder") == str(repo) and project_of(tmp_path / "x") == str(tmp_path / "x")
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "trees" / "issue-8"))
    assert in_main_tree(tmp_path / "trees" / "issue-8") == str(tmp_path / "bare.git")
    assert project_of(tmp_path / "trees" / "issue-8") == str(tmp_path / "bare.git")
    submodule = tmp_path / "module"
    submodule.mkdir()
    (submodule / ".git").write_text("gitdir: ../repo/.git/modules/module\n")
    assert in_main_tree(submodule) == str(submodule)
    (submodule / ".git").write_bytes(b"\xff\0 no git")
    assert in_main_tree(submodule) == str(submodule)
