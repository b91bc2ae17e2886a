"""What is said of a session is what its key's next event finds: lists, counts and calls, and then the event itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clew.core.hook import session_key
from clew.errors import AgentMissing
from clew.testing.stage import MODEL, Stage
from hooks.house import REPO, SETTINGS, House, event, succeeded

KEY = session_key("boss", REPO, 4)
OTHER_MODEL = "claude-opus-4-5"


def gone(house: House) -> None:
    for file in house.stage.session_files():
        file.unlink()


def too_old(house: House) -> None:
    house.write(SETTINGS.replace("[hooks.agents.boss]", '[hooks.agents.boss]\nmax_age = "0.001s"'))


def another_model(house: House) -> None:
    house.write(SETTINGS.replace('model = "{model}"', f'model = "{OTHER_MODEL}"', 1))


def resume_off(house: House) -> None:
    house.write(f"enable_resume = false\n{SETTINGS}")


def moved(house: House) -> None:
    """The repository stands elsewhere, and so does the work tree."""
    elsewhere = house.repo.with_name("elsewhere")
    house.repo.rename(elsewhere)
    house.repo = elsewhere
    house.write(SETTINGS)


def nothing(house: House) -> None:
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
async def test_what_is_said_is_what_the_next_event_finds(
    scripted: Stage, happens: Callable[[House], None], state: str, reason: str | None
) -> None:
    house = House(scripted)
    async with house.open() as client:
        first = await succeeded(client, event())
    happens(house)
    async with house.open() as client:
        [session] = await client.hooks.sessions()
        expected = first.session_id if state == "resumable" else None
        assert (session.state, session.session_id) == (state, expected)
        assert await client.hooks.get_session(KEY) == expected
        assert await client.hooks.counts() == {(REPO, "boss", state): 1}
        second = await succeeded(client, event("issue.commented", text="And now?"))
        assert second.reason == reason
        assert scripted.launches[-1].resumes == expected


async def test_a_key_that_the_settings_do_not_have_any_more_has_no_next_event(scripted: Stage) -> None:
    house = House(scripted)
    async with house.open() as client:
        await succeeded(client, event())
    house.write("")
    async with house.open() as client:
        [session] = await client.hooks.sessions()
        assert (session.state, session.session_id) == ("fresh", None)


async def test_where_nobody_can_be_asked_what_is_noted_counts(scripted: Stage) -> None:
    """The agent is away, or the repository: both may be back when the event comes."""
    house = House(scripted)
    async with house.open() as client:
        first = await succeeded(client, event())
        away = house.repo.with_name("away")
        house.repo.rename(away)
        [session] = await client.hooks.sessions()
        assert (session.state, session.session_id) == ("resumable", first.session_id)
        away.rename(house.repo)
    house.write(f'[agents.claude]\npath = "{{path}}/no-such-program"\n{SETTINGS}')
    async with house.open({"CLEW_CLAUDE_PATH": ""}) as client:
        with pytest.raises(AgentMissing):
            client.engine.find("claude")
        assert await client.hooks.get_session(KEY) == first.session_id


async def test_agents_of_several_models_are_each_looked_at_as_they_are_set_up(scripted: Stage) -> None:
    house = House(scripted, SETTINGS.replace('model = "{model}"\npermissions', f'model = "{OTHER_MODEL}"\npermissions'))
    async with house.open() as client:
        boss = await succeeded(client, event())
        reviewer = await succeeded(client, event("pull.review_requested"))
        assert (boss.model, reviewer.model) == (MODEL, OTHER_MODEL)
        found = {session.key.agent: session.session_id for session in await client.hooks.sessions()}
        assert found == {"boss": boss.session_id, "reviewer": reviewer.session_id}
