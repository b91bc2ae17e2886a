"""An issue wakes its agent in its own work tree; the next event resumes the session and sends only what is new."""

from __future__ import annotations

import logging

import pytest

from clew.core.hooks.hook import session_key
from clew.errors import UsageError
from clew.testing.stage import Stage
from hooks.project import REPO, HookProject, event, handled, succeeded, trees
from reviews.reviewer import git

KEY = session_key("boss", REPO, 4)


async def test_a_session_gets_the_skill_once_and_then_only_what_is_new(stage: Stage) -> None:
    project = HookProject(stage)
    async with project.open() as client:
        first = await succeeded(client, event())
        assert (first.reason, first.key) == ("first_turn", KEY)
        assert "SKILL: you are boss of charles/peon." in stage.prompt and "Badly." in stage.prompt
        assert "DELTA" not in stage.prompt
        [tree] = trees(project)
        assert first.cwd == str(tree) and git(tree, "status", "--porcelain") == ""
        assert await client.hooks.sessions.get(KEY) == stage.launches[-1].session_id

        second = await succeeded(client, event("pull.changes_requested", text="Please mend the port."))
        assert second.resume_count == 1 and second.thread_id == first.thread_id
        assert stage.prompt.startswith("DELTA pull.changes_requested #4:")
        assert "Please mend the port." in stage.prompt
        assert "SKILL" not in stage.prompt, "nothing of the template is sent again"
        assert sum("SKILL" in text for _, text in stage.shown) == 1
        assert trees(project) == [tree]


async def test_a_session_that_is_gone_is_replaced_once_with_the_whole_skill_and_a_warning(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    project = HookProject(stage)
    async with project.open() as client:
        await succeeded(client, event())
        for file in stage.session_files():
            file.unlink()
        with caplog.at_level(logging.WARNING):
            job = await succeeded(client, event("issue.commented", text="Any news?"))
        assert job.reason == "session_missing"
        assert job.runs == 1
        assert stage.prompt.count("SKILL: you are boss") == 1
        assert any("session_missing" in record.getMessage() for record in caplog.records)


@pytest.mark.rest
async def test_after_a_reset_or_a_closed_issue_the_next_event_starts_a_fresh_session(stage: Stage) -> None:
    project = HookProject(stage)
    async with project.open() as client:
        await succeeded(client, event())
        assert await client.hooks.sessions.drop(KEY) is True
        assert await client.hooks.sessions.drop(KEY) is False
        assert await client.hooks.sessions.get(KEY) is None
        again = await succeeded(client, event("issue.commented", text="And now?"))
        assert again.reason == "first_turn"
        assert "SKILL" in stage.prompt and stage.launches[-1].resumes is None
        await succeeded(client, event("pull.review_requested", number=4))
        assert len(await client.hooks.sessions.list()) == 2
        assert len(trees(project)) == 2
        assert await handled(client, event("issue.closed")) == []
        assert await client.hooks.sessions.list() == []
        assert trees(project) == []
        assert (await client.hooks.events())[0].why == "The work tree is removed.", "one note for both trees"
        assert {job.key for job in await client.jobs.list()} == {KEY, session_key("reviewer", REPO, 4)}


async def test_events_that_wake_no_agent_are_ignored_with_a_reason(scripted: Stage) -> None:
    project = HookProject(scripted)
    async with project.open() as client:
        for told, why in [
            (event(actor="mallory"), "not known to have write access"),
            (event(actor="alice", repo="charles/other"), "have no repository"),
            (event("issue.labeled", label="x"), "no rule applies"),
            (event("issue.commented", text="Done.\n\n<!-- clew -->"), "own comment"),
            (event("branch.pushed", number=None, branch="of-nobody"), "no session works on the branch of-nobody"),
            (event("issue.closed", number=77), "no session"),
        ]:
            assert await handled(client, told) == []
            stored = (await client.hooks.events())[0]
            assert (stored.state, why in (stored.why or "")) == ("ignored", True), stored
        assert scripted.launches == []


async def test_an_event_that_is_sent_twice_is_stored_once(scripted: Stage) -> None:
    project = HookProject(scripted)
    async with project.open() as client:
        assert (await client.hooks.receive(event(delivery="same"))).is_new
        assert not (await client.hooks.receive(event(delivery="same"))).is_new
        assert len(await client.hooks.events()) == 1


async def test_a_push_finds_the_agents_that_work_on_its_branch(scripted: Stage) -> None:
    project = HookProject(scripted)
    async with project.open() as client:
        opened = await succeeded(client, event("pull.opened", number=7, branch="feature"))
        pushed = await succeeded(client, event("branch.pushed", number=None, branch="feature"))
        assert pushed.key == opened.key == session_key("boss", REPO, 7)
        assert await handled(client, event("branch.deleted", number=None, branch="feature")) == []
        assert await client.hooks.sessions.list() == []


async def test_a_malformed_key_is_refused(scripted: Stage) -> None:
    project = HookProject(scripted)
    async with project.open() as client:
        for key in ("boss", "boss:peon:4", "boss:charles/peon:0", "boss:charles/peon:x", "boss:../..:4", ":a/b:1", ""):
            with pytest.raises(UsageError):
                await client.hooks.sessions.drop(key)
