"""Lists, counts and calls say of a session what its key's next event finds, and then the event finds it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clew.core.hooks.hook import session_key
from clew.errors import AgentMissing
from clew.testing.stage import MODEL, Stage
from hooks.project import REPO, SETTINGS, HookProject, event, succeeded

KEY = session_key("boss", REPO, 4)
OTHER_MODEL = "claude-opus-4-5"


def gone(project: HookProject) -> None:
    for file in project.stage.session_files():
        file.unlink()


def too_old(project: HookProject) -> None:
    project.write(SETTINGS.replace("[hooks.agents.boss]", '[hooks.agents.boss]\nmax_age = "0.001s"'))


def another_model(project: HookProject) -> None:
    project.write(SETTINGS.replace('model = "{model}"', f'model = "{OTHER_MODEL}"', 1))


def resume_off(project: HookProject) -> None:
    project.write(f"enable_resume = false\n{SETTINGS}")


def moved(project: HookProject) -> None:
    """The repository is elsewhere, and so is the work tree."""
    elsewhere = project.repo.with_name("elsewhere")
    project.repo.rename(elsewhere)
    project.repo = elsewhere
    project.write(SETTINGS)


def nothing(project: HookProject) -> None:
    pass


@pytest.mark.parametrize(
    ("happens", "state", "reason"),
    [
        (nothing, "resumable", None),
        (gone, "fresh", "session_missing"),
        (too_old, "fresh", "expired"),
        (another_model, "fresh", "no_pin"),
        (resume_off, "fresh", "disabled"),
        (moved, "fresh", "first_turn"),
    ],
)
async def test_the_listed_state_is_what_the_next_event_finds(
    scripted: Stage, happens: Callable[[HookProject], None], state: str, reason: str | None
) -> None:
    project = HookProject(scripted)
    async with project.open() as client:
        first = await succeeded(client, event())
    happens(project)
    async with project.open() as client:
        [session] = await client.hooks.sessions.list()
        expected = first.session_id if state == "resumable" else None
        assert (session.state, session.session_id) == (state, expected)
        assert await client.hooks.sessions.get(KEY) == expected
        assert await client.hooks.sessions.counts() == {(REPO, "boss", state): 1}
        second = await succeeded(client, event("issue.commented", text="And now?"))
        assert second.reason == reason
        assert scripted.launches[-1].resumes == expected


async def test_a_key_that_the_settings_no_longer_have_has_no_next_session(scripted: Stage) -> None:
    project = HookProject(scripted)
    async with project.open() as client:
        await succeeded(client, event())
    project.write("")
    async with project.open() as client:
        [session] = await client.hooks.sessions.list()
        assert (session.state, session.session_id) == ("fresh", None)


async def test_without_its_agent_or_repository_the_stored_session_is_listed(scripted: Stage) -> None:
    """The agent or the repository is missing: it may be back when the event comes."""
    project = HookProject(scripted)
    async with project.open() as client:
        first = await succeeded(client, event())
        away = project.repo.with_name("away")
        project.repo.rename(away)
        [session] = await client.hooks.sessions.list()
        assert (session.state, session.session_id) == ("resumable", first.session_id)
        away.rename(project.repo)
    project.write(f'[agents.claude]\npath = "{{path}}/no-such-program"\n{SETTINGS}')
    async with project.open({"CLEW_CLAUDE_PATH": ""}) as client:
        with pytest.raises(AgentMissing):
            client.engine.find("claude")
        assert await client.hooks.sessions.get(KEY) == first.session_id


async def test_agents_of_several_models_are_each_checked_with_their_settings(scripted: Stage) -> None:
    project = HookProject(
        scripted, SETTINGS.replace('model = "{model}"\npermissions', f'model = "{OTHER_MODEL}"\npermissions')
    )
    async with project.open() as client:
        boss = await succeeded(client, event())
        reviewer = await succeeded(client, event("pull.review_requested"))
        assert (boss.model, reviewer.model) == (MODEL, OTHER_MODEL)
        found = {session.key.agent: session.session_id for session in await client.hooks.sessions.list()}
        assert found == {"boss": boss.session_id, "reviewer": reviewer.session_id}
