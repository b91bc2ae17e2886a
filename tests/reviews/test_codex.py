"""The real Codex CLI as a reviewer, in a review that the real Claude CLI began."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.core.reviews.review import FindingState, RoundStatus, findings_of
from clew.hosts.reviews.reviews import ReviewSpec
from clew.testing.model.api import ModelApi
from clew.testing.stage import CODEX_MODEL, MODEL, Stage
from conftest import make_stage
from reviews.reviewer import Reviewer, answer, finding, follow, repository, start
from reviews.test_hostile import EVIL, ORDER, everything

pytestmark = pytest.mark.real


@pytest.fixture
def both(tmp_path: Path, api: ModelApi) -> Iterator[Stage]:
    with make_stage("real", tmp_path, api, codex=True) as stage:
        yield stage
    assert not api.refused_hosts, "it called the world"


async def test_a_second_reviewer_gets_the_earlier_rounds_and_the_first_keeps_its_session(both: Stage) -> None:
    repo = repository(both.work / "repo")
    (repo / "a.py").write_text("def a():\n    return 3\n")
    both.api.reply = reviewer = Reviewer(
        answer([finding()]),
        answer([finding("It has no name", file="b/b.py", line=1)]),
        "That will do.",
        answer(earlier=[{"id": "F2", "state": "fixed"}]),
        answer(earlier=[{"id": "F1", "state": "fixed"}]),
    )
    async with both.open() as client:
        first = await start(client, repo)
        (repo / "b.py").write_text("b = 3\n")
        second = await follow(client, first.review_id, "What do you say?", agent="codex")
        assert (second.status, second.agent, second.model) == (RoundStatus.DONE, "codex", CODEX_MODEL)
        assert (second.session_resumed, second.reason) == (False, "no_pin")
        for text in (
            "You review changes",
            "+    return 3",
            "It returns the wrong number",
            "+b = 3",
            "What do you say?",
        ):
            assert text in both.prompt, "a fresh reviewer is told of all"
        (repo / "b.py").write_text("b = 4\n")
        third = await follow(client, first.review_id, agent="codex")
        assert (third.status, third.runs, third.session_resumed) == (RoundStatus.DONE, 2, True)
        assert "-b = 3\n+b = 4" in reviewer.asked[2] and "return 3" not in reviewer.asked[2]
        (repo / "a.py").write_text("def a():\n    return 2\n")
        back = await follow(client, first.review_id, "Mended.")
        assert (back.agent, back.model, back.session_resumed) == ("claude", MODEL, True)
        assert "-    return 3\n+    return 2" in both.prompt and "-    return 1" not in both.prompt
        assert "It has no name" in both.prompt, "it is told what the other one found"
        state = await client.reviews.find(first.review_id)
        assert {each.id: (each.state, each.file) for each in findings_of(state.rounds)} == {
            "F1": (FindingState.FIXED, "a.py"),
            "F2": (FindingState.FIXED, "b.py"),
        }
        sessions = await client.reviews.sessions(state)
    launches = [(launch.agent, launch.resumes) for launch in both.launches]
    codex = ("codex", sessions[CODEX_MODEL])
    assert launches == [("claude", None), ("codex", None), codex, codex, ("claude", sessions[MODEL])]


async def test_codex_reads_the_rules_loads_no_settings_of_the_repository_and_writes_nothing_there(both: Stage) -> None:
    ran = both.folder / "ran"
    settings = f'[mcp_servers.evil]\ncommand = "touch"\nargs = ["{ran}"]\n'
    repo = repository(both.work / "repo", {"a.py": "a = 1\n", "AGENTS.md": ORDER, ".codex/config.toml": settings})
    (repo / "a.py").write_text("a = 2\n")
    both.api.reply = Reviewer()
    noted = everything(repo)
    async with both.open(agent="codex") as client:
        live = await client.reviews.start(ReviewSpec(str(repo), "codex", CODEX_MODEL))
        done = await live.finish()
        assert (done.status, done.agent) == (RoundStatus.DONE, "codex")
        assert (await follow(client, done.review_id, "Are you sure?")).session_resumed
    for request in both.api.requests:
        assert sum(text.count(EVIL) for _, text in request.shown_texts()) == 1, "the rules, as text, and once"
    assert everything(repo) == noted
    assert not ran.exists()
