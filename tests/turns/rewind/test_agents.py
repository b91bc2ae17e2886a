"""Rewinds in threads with several agents or models: each of their sessions is rewound by what it holds itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.testing.model.api import ModelApi
from clew.testing.stage import CODEX_MODEL, MODEL, Stage
from clew.testing.truth import tokens
from conftest import make_stage
from turns.rewind.scene import Scene, scene
from turns.world import MODELS, Other

OTHER_MODEL = MODELS[1]


@pytest.fixture(params=["scripted", pytest.param("both_real", marks=pytest.mark.real)])
def two(request: pytest.FixtureRequest, tmp_path: Path, api: ModelApi) -> Iterator[tuple[Stage, str]]:
    """A stage, and the name of a second agent: the scripted Claude twice, or the real Claude and the real Codex."""
    if request.param == "scripted":
        with make_stage("scripted", tmp_path, api) as stage:
            yield stage, "other"
    else:
        with make_stage("real", tmp_path, api, codex=True) as stage:
            yield stage, "codex"


async def ask(it: Scene, agent: str, words: str = "") -> None:
    await it.ask(words, agent=agent, model=CODEX_MODEL if agent == "codex" else MODEL)


async def edit_prompt(it: Scene, number: int) -> None:
    await it.thread.edit((await it.prompts())[number].id, it.voice.prompt("put better"))


async def test_after_turns_of_another_model(stage: Stage) -> None:
    async with scene(stage) as it:
        await it.ask()
        await it.ask()
        await it.ask(model=OTHER_MODEL)
        await it.ask(model=OTHER_MODEL)
        it.keep()
        [first, *_] = await it.answers()
        await edit_prompt(it, 1)
        reply = await it.ask()
        await it.assert_rewound(reply, first)
        now = await it.thread.turns()
        assert tokens(it.caught_up) == [token for turn in now[2:8] for token in tokens(turn.text)]
        assert (await it.ask()).session_id == reply.session_id
        back = await it.ask(model=OTHER_MODEL)
        assert (back.session_resumed, back.reason) == (False, "history_changed"), "all of it begins with a transcript"


async def test_a_change_in_the_turns_of_another_model_rewinds_both_sessions(stage: Stage) -> None:
    async with scene(stage) as it:
        await it.ask()
        await it.ask(model=OTHER_MODEL)
        await it.ask(model=OTHER_MODEL)
        await it.ask()
        it.keep()
        [first, second, *_] = await it.answers()
        await edit_prompt(it, 2)
        await it.assert_rewound(await it.ask(), first)
        it.keep()
        await it.assert_rewound(await it.ask(model=OTHER_MODEL), second)


async def test_after_turns_of_another_agent(two: tuple[Stage, str]) -> None:
    stage, other = two
    async with scene(stage, adapters=[Other()]) as it:
        await it.ask(it.writes("kept.txt"))
        await ask(it, other, it.writes("dropped-other.txt", agent=other))
        await it.ask(it.writes("dropped.txt"))
        await ask(it, other)
        it.keep()
        [first, *_] = await it.answers()
        await it.thread.truncate((await it.prompts())[1].id)
        reply = await it.ask()
        await it.assert_rewound(reply, first)
        assert "dropped-other.txt` was written" in it.told, "whoever did it"
        assert "dropped.txt` was written" in it.told and "kept" not in it.told
        assert (await it.ask()).session_id == reply.session_id
        await ask(it, other)
        assert reply.session_id not in it.stage.launches[-1].argv


async def test_turns_of_another_agent_that_the_session_never_saw(two: tuple[Stage, str]) -> None:
    """They were removed together with the session's own: what they did to the files is told as well."""
    stage, other = two
    async with scene(stage, adapters=[Other()]) as it:
        await it.ask()
        await it.ask()
        await ask(it, other, it.writes("dropped-other.txt", agent=other))
        it.keep()
        [first, *_] = await it.answers()
        reply = await it.retry((await it.prompts())[1])
        await it.assert_rewound(reply, first)
        assert "dropped-other.txt` was written" in it.told


async def test_turns_of_another_agent_that_stay_are_not_told_about_as_dropped(two: tuple[Stage, str]) -> None:
    stage, other = two
    async with scene(stage, adapters=[Other()]) as it:
        await it.ask()
        await it.ask(it.writes("dropped.txt"))
        await ask(it, other, it.writes("staying.txt", agent=other))
        it.keep()
        [first, *_] = await it.answers()
        await edit_prompt(it, 1)
        await it.assert_rewound(await it.ask(), first)
        assert "dropped.txt` was written" in it.told and "staying" not in it.told


async def test_of_what_the_agent_may_see_of_the_thread(two: tuple[Stage, str]) -> None:
    stage, other = two
    async with scene(stage, visibility="own", adapters=[Other()]) as it:
        await ask(it, other)
        await it.ask()
        await it.ask()
        await it.ask()
        it.keep()
        [_, first, second, _] = await it.answers()
        await edit_prompt(it, 3)
        await it.assert_rewound(await it.ask(), second)
        it.keep()
        await edit_prompt(it, 2)
        await it.assert_rewound(await it.ask(), first)
        it.keep()
        await edit_prompt(it, 1)
        await it.assert_fresh(await it.ask(), "history_changed")
        it.keep()
        await edit_prompt(it, 0)
        reply = await it.ask()
        assert (reply.session_resumed, reply.reason) == (True, None), "it never saw that turn"


async def test_a_boundary_that_moved_makes_the_whole_own_session_invalid(two: tuple[Stage, str]) -> None:
    stage, other = two
    async with scene(stage, visibility="own", adapters=[Other()]) as it:
        await it.ask()
        await it.ask()
        await ask(it, other)
        it.keep()
        await it.assert_fresh(await it.ask(), "history_changed")
        it.keep()
        await it.thread.truncate((await it.prompts())[2].id)  # the other agent's turn: the boundary is gone
        reply = await it.ask()
        assert reply.session_resumed, "the first session stands again"
        await it.assert_copy_of_older(reply)
