"""An issue wakes its agent in its own work tree; the next event finds the session again, and is told only the news."""

from __future__ import annotations

import logging

import pytest

from clew.core.hook import session_key
from clew.errors import UsageError
from clew.testing.stage import Stage
from hooks.house import REPO, House, event, handled, succeeded, trees
from reviews.house import git

KEY = session_key("boss", REPO, 4)


async def test_a_session_is_told_the_skill_once_and_then_the_news(stage: Stage) -> None:
    house = House(stage)
    async with house.open() as client:
        first = await succeeded(client, event())
        assert (first.reason, first.key) == ("first_turn", KEY)
        assert "SKILL: you are boss of charles/peon." in stage.prompt and "Badly." in stage.prompt
        assert "DELTA" not in stage.prompt
        [tree] = trees(house)
        assert first.cwd == str(tree) and git(tree, "status", "--porcelain") == ""
        assert await client.hooks.get_session(KEY) == stage.launches[-1].session_id

        second = await succeeded(client, event("pull.changes_requested", text="Please mend the port."))
        assert second.resume_count == 1 and second.thread_id == first.thread_id
        assert stage.prompt.startswith("DELTA pull.changes_requested #4:")
        assert "Please mend the port." in stage.prompt
        assert "SKILL" not in stage.prompt, "nothing of the template is sent again"
        assert sum("SKILL" in text for _, text in stage.shown) == 1
        assert trees(house) == [tree]


async def test_a_session_that_is_gone_is_replaced_once_with_the_whole_skill_and_a_warning(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(stage)
    async with house.open() as client:
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
async def test_a_reset_or_a_closed_issue_starts_afresh(stage: Stage) -> None:
    house = House(stage)
    async with house.open() as client:
        await succeeded(client, event())
        assert await client.hooks.drop_session(KEY) is True
        assert await client.hooks.drop_session(KEY) is False
        assert await client.hooks.get_session(KEY) is None
        again = await succeeded(client, event("issue.commented", text="And now?"))
        assert again.reason == "first_turn"
        assert "SKILL" in stage.prompt and stage.launches[-1].resumes is None
        await succeeded(client, event("pull.review_requested", number=4))
        assert len(await client.hooks.sessions()) == 2
        assert len(trees(house)) == 2
        assert await handled(client, event("issue.closed")) == []
        assert await client.hooks.sessions() == []
        assert trees(house) == []
        assert (await client.hooks.events())[0].why == "The work tree is removed.", "said once, of both"
        assert {job.key for job in await client.jobs.list()} == {KEY, session_key("reviewer", REPO, 4)}


async def test_whoever_may_not_write_wakes_nobody(scripted: Stage) -> None:
    house = House(scripted)
    async with house.open() as client:
        for told, why in [
            (event(actor="mallory"), "not known to have write access"),
            (event(actor="alice", repo="charles/other"), "is no repository"),
            (event("issue.labeled", label="x"), "no rule applies"),
            (event("issue.commented", text="Done.\n\n<!-- clew -->"), "own comment"),
            (event("branch.pushed", number=None, branch="of-nobody"), "nobody works on the branch of-nobody"),
            (event("issue.closed", number=77), "no session"),
        ]:
            assert await handled(client, told) == []
            stored = (await client.hooks.events())[0]
            assert (stored.state, why in (stored.why or "")) == ("ignored", True), stored
        assert scripted.launches == []


async def test_what_is_told_twice_is_kept_once(scripted: Stage) -> None:
    house = House(scripted)
    async with house.open() as client:
        assert (await client.hooks.receive(event(delivery="same"))).is_new
        assert not (await client.hooks.receive(event(delivery="same"))).is_new
        assert len(await client.hooks.events()) == 1


async def test_a_push_finds_the_agents_that_work_on_its_branch(scripted: Stage) -> None:
    house = House(scripted)
    async with house.open() as client:
        opened = await succeeded(client, event("pull.opened", number=7, branch="feature"))
        pushed = await succeeded(client, event("branch.pushed", number=None, branch="feature"))
        assert pushed.key == opened.key == session_key("boss", REPO, 7)
        assert await handled(client, event("branch.deleted", number=None, branch="feature")) == []
        assert await client.hooks.sessions() == []


async def test_only_real_keys_are_keys(scripted: Stage) -> None:
    house = House(scripted)
    async with house.open() as client:
        for key in ("boss", "boss:peon:4", "boss:charles/peon:0", "boss:charles/peon:x", "boss:../..:4", ":a/b:1", ""):
            with pytest.raises(UsageError):
                await client.hooks.drop_session(key)
