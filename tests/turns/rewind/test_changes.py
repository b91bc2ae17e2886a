"""A turn is edited, removed or asked again: a copy of the session continues from the last turn before it (law 3)."""

from __future__ import annotations

import pytest

from clew.core import prompts
from clew.core.history import Turn
from clew.testing.stage import Stage
from clew.testing.truth import tokens
from transfer.machines import continue_without_clew
from turns.rewind.scene import Scene, begins_with, scene

Cast = tuple[Stage, str]


async def four_rounds(it: Scene) -> tuple[Turn, ...]:
    """Rounds with tools that run at once, in the part that is kept and in the part that is dropped."""
    await it.ask(it.writes("kept-1.txt", "kept-2.txt"))
    await it.ask(it.runs("touch kept-3.txt", "touch kept-4.txt"))
    await it.ask(it.writes("dropped-1.txt", "dropped-2.txt"))
    await it.ask(it.runs("touch dropped-3.txt", "touch dropped-4.txt"))
    it.keep()
    turns = await it.thread.turns()
    assert len(turns) == 8
    return turns


def assert_told_what_was_dropped(it: Scene) -> None:
    told = it.told
    assert prompts.DROPPED_NOTE in told
    for name in ("dropped-1.txt", "dropped-2.txt"):
        assert f"{name}` was written" in told
    for number in (3, 4):
        assert f"touch dropped-{number}.txt" in told
    assert "kept" not in told, "the session remembers that itself"
    assert len(told.strip().splitlines()) == 2 + 4, "the note, an empty line and one line for each effect"


@pytest.mark.parametrize("what", ["prompt", "answer"])
async def test_an_edit_rewinds_to_before_the_turn_and_the_later_turns_come_as_catch_up(cast: Cast, what: str) -> None:
    async with scene(*cast) as it:
        turns = await four_rounds(it)
        changed = turns[4] if what == "prompt" else turns[5]
        await it.thread.edit(changed.id, it.voice.prompt("put better"))
        last_kept = next(request for request in reversed(it.stage.api.main_requests) if _is_about(request, turns[2]))
        reply = await it.ask()
        await it.assert_rewound(reply, turns[3])
        assert_told_what_was_dropped(it)
        now = await it.thread.turns()
        assert tokens(it.caught_up) == [token for turn in now[4:8] for token in tokens(turn.text)]
        request = it.stage.api.main_requests[-1]
        assert begins_with(request, last_kept), "what comes before the change is sent as it was"
        if it.agent == "claude":
            assert request.cache.read_tokens == last_kept.cache.prompt_tokens, "and read from the cache"
        assert reply.usage.shown_tokens == request.cache.prompt_tokens, "what the original used is not counted again"
        again = await it.ask()
        assert (again.session_resumed, again.reason, again.session_id) == (True, None, reply.session_id)
        assert it.stage.prompt == (await it.prompts())[-1].text, "the copy is continued like any session"


def _is_about(request: object, turn: Turn) -> bool:
    shown = [text for role, text in request.shown_texts() if role == "user"]  # type: ignore[attr-defined]
    return tokens(shown[-1])[-1:] == tokens(turn.text)


async def test_a_truncation_rewinds_to_before_the_turn(cast: Cast) -> None:
    async with scene(*cast) as it:
        turns = await four_rounds(it)
        assert await it.thread.truncate(turns[4].id) == 4
        reply = await it.ask()
        await it.assert_rewound(reply, turns[3])
        assert_told_what_was_dropped(it)
        assert not it.caught_up
        assert (await it.ask()).session_id == reply.session_id


async def test_a_truncated_answer_is_asked_about_again_with_its_prompt_as_catch_up(cast: Cast) -> None:
    async with scene(*cast) as it:
        turns = await four_rounds(it)
        await it.thread.truncate(turns[5].id)
        await it.assert_rewound(await it.ask(), turns[3])
        assert tokens(it.caught_up) == tokens(turns[4].text)
        assert_told_what_was_dropped(it)


async def test_a_retry_rewinds_to_before_the_turn_that_is_asked_again(cast: Cast) -> None:
    async with scene(*cast) as it:
        turns = await four_rounds(it)
        for name in ("dropped-1.txt", "dropped-2.txt"):
            (it.stage.work / name).unlink()  # else the patch of Codex could not add them again
        reply = await it.retry(turns[4])
        await it.assert_rewound(reply, turns[3])
        assert (it.stage.work / "dropped-1.txt").exists(), "it was done again"
        assert [turn.id for turn in (await it.thread.turns())[:5]] == [turn.id for turn in turns[:5]]
        first = next(
            request for request in reversed(it.stage.api.main_requests) if prompts.WORK_DONE in str(request.body)
        )
        assert "touch dropped-4.txt" in str(first.body)
        assert (await it.ask()).session_id == reply.session_id


async def test_the_last_prompt_can_be_asked_again_several_times(cast: Cast) -> None:
    async with scene(*cast) as it:
        for _ in range(3):
            await it.ask()
        [_, kept, _] = await it.answers()
        sessions = set()
        for _ in range(3):
            it.keep()
            reply = await it.retry((await it.prompts())[-1])
            await it.assert_rewound(reply, kept)
            sessions.add(reply.session_id)
        assert len(sessions) == 3


async def test_the_first_turn_has_nothing_before_it(cast: Cast) -> None:
    async with scene(*cast) as it:
        await it.ask()
        await it.ask()
        it.keep()
        await it.thread.edit((await it.prompts())[0].id, it.voice.prompt("put better"))
        await it.assert_fresh(await it.ask(), "history_changed")
        it.keep()
        await it.assert_fresh(await it.retry((await it.prompts())[0]), "first_turn")
        it.keep()
        await it.thread.truncate((await it.prompts())[0].id)
        await it.assert_fresh(await it.ask(), "first_turn")


async def test_a_retry_after_a_failed_run_is_fresh(cast: Cast) -> None:
    async with scene(*cast) as it:
        for _ in range(2):
            await it.ask()
        failed = await (
            await it.thread.ask(f"{it.voice.prompt()}\n!fail 400 invalid_request_error Unknown parameter")
        ).reply()
        assert failed.status == "failed"
        it.keep()
        [_, second, _] = await it.prompts()
        await it.assert_fresh(await it.retry(second), "forced_fresh")


@pytest.mark.parametrize("how", ["edit", "truncate", "retry"])
async def test_without_rewinds_a_changed_turn_starts_a_fresh_session(cast: Cast, how: str) -> None:
    async with scene(*cast, rewind=False) as it:
        for _ in range(3):
            await it.ask()
        it.keep()
        [_, second, _] = await it.prompts()
        match how:
            case "edit":
                await it.thread.edit(second.id, it.voice.prompt("put better"))
            case "truncate":
                await it.thread.truncate(second.id)
        reply = await (it.retry(second) if how == "retry" else it.ask())
        await it.assert_fresh(reply, "forced_fresh" if how == "retry" else "history_changed")
        assert it.sections[prompts.TRANSCRIPT], "with everything that stands"
        assert (await it.ask()).session_id == reply.session_id


async def test_outside_turns_that_a_retry_archives_are_said_to_be_archived(stage: Stage) -> None:
    async with scene(stage) as it:
        await it.ask()
        await it.ask()
        [path] = it.files()
        continue_without_clew(it.stage, path.stem, it.voice.outside_prompt())
        reply = await (await it.thread.retry((await it.prompts())[1].id)).reply()
        assert reply.warnings == (
            "2 turns were made outside Clew in this thread's session, and are archived, with all that followed the "
            "prompt.",
        )
        assert not any(turn.outside for turn in await it.thread.turns())
