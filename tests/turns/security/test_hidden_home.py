"""An agent's tools cannot read Clew's own folder: the database, the daemon's token, the user's settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage
from conftest import make_stage

pytestmark = pytest.mark.real

SECRET = "unique-words-of-the-token"


@pytest.fixture
def both(tmp_path: Path, api: ModelApi) -> Iterator[Stage]:
    """The real Claude and the real Codex, and a daemon's token."""
    with make_stage("real", tmp_path, api, codex=True) as stage:
        stage.clew_home.mkdir(mode=0o700)
        (stage.clew_home / "token").write_text(SECRET)
        yield stage
    assert not api.refused_hosts, "it called the world"


def heard(stage: Stage) -> str:
    """Everything that the model was shown."""
    return json.dumps([request.messages for request in stage.api.main_requests])


async def test_codex_reads_and_writes_what_it_may_but_not_clews_folder(both: Stage) -> None:
    home = both.clew_home
    tries = f"cat {home}/token; ls {home}; touch made && echo WROTE; ls {both.home} && echo LISTED"
    prompt = "!tool exec_command " + json.dumps({"cmd": tries})
    async with both.open() as client:
        for permissions, wrote in (("ask", False), ("read-only", False), ("edits", True)):
            thread = await client.thread(f"t-{permissions}", cwd=both.work, agent="codex", permissions=permissions)
            for _ in range(2):  # the second turn is in a resumed session
                assert (await (await thread.ask(prompt))).status == "answered"
                told = json.dumps(both.api.main_requests[-1].messages)
                assert f"cat: {home}/token: Permission denied" in told and "LISTED" in told
                assert ("WROTE" in told.replace("echo WROTE", "")) == wrote == (both.work / "made").exists()
    assert SECRET not in heard(both)


async def test_claude_cannot_read_clews_folder_inside_the_work_directory(both: Stage) -> None:
    home = both.clew_home
    tools = [("Read", {"file_path": f"{home}/token"}), ("Grep", {"pattern": "unique", "path": str(home)})]
    async with both.open() as client:
        for permissions in ("ask", "read-only", "edits"):
            thread = await client.thread(f"t-{permissions}", cwd=both.folder, permissions=permissions)
            for tool, given in tools:
                assert (await (await thread.ask(f"!tool {tool} {json.dumps(given)}"))).status == "answered"
            for before, last in zip(both.api.main_requests[-4:], both.api.main_requests[-3:], strict=False):
                assert last.cache.read_tokens == before.cache.prompt_tokens, "the cached prefix is kept"
    assert SECRET not in heard(both)


async def test_hiding_can_be_switched_off(both: Stage) -> None:
    """This also proves that the tests above can fail: without hiding, both agents read the token."""
    async with both.open(hide_home=False) as client:
        for agent, tool in (
            ("claude", ("Read", {"file_path": f"{both.clew_home}/token"})),
            ("codex", ("exec_command", {"cmd": f"cat {both.clew_home}/token"})),
        ):
            thread = await client.thread(agent, cwd=both.folder, agent=agent)
            await (await thread.ask(f"!tool {tool[0]} {json.dumps(tool[1])}"))
            assert SECRET in json.dumps(both.api.main_requests[-1].messages), agent
