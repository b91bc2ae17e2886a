"""How far back a session is rewound: to the last completed turn before the change, whatever happened around it."""

from __future__ import annotations

import pytest

from branching.forks import forked
from clew.api.client import Reply
from clew.testing.stage import Stage
from clew.testing.truth import tokens
from transfer.machines import continue_without_clew
from turns.rewind.scene import Scene, begins_with, scene

Cast = tuple[Stage, str]


async def rounds(it: Scene, count: int) -> None:
    for _ in range(count):
        await it.ask()


async def edit_prompt(it: Scene, number: int) -> None:
    """`number` counts the thread's prompts from 0."""
    await it.thread.edit((await it.prompts())[number].id, it.voice.prompt("put better"))


async def test_two_rewinds_in_a_row_and_a_third_one_before_both(cast: Cast) -> None:
    async with scene(*cast) as it:
        await rounds(it, 5)
        for number in (3, 2, 1):
            answers = await it.answers()
            it.keep()
            await edit_prompt(it, number)
            await it.assert_rewound(await it.ask(), answers[number - 1])
        assert len(it.files()) == 4
        assert (await it.ask()).reason is None


async def test_a_rewind_after_a_rewind_that_goes_less_far_back(cast: Cast) -> None:
    async with scene(*cast) as it:
        await rounds(it, 3)
        await edit_prompt(it, 1)
        first = await it.ask()
        await rounds(it, 2)
        it.keep()
        [*_, kept, _] = await it.answers()
        await edit_prompt(it, -1)
        reply = await it.ask()
        await it.assert_rewound(reply, kept)
        if it.agent == "claude":
            assert it.stage.launches[-1].resumes == first.session_id, "a copy of the copy"


class TestInterrupted:
    async def test_a_stopped_answer_is_no_place_to_end_and_comes_as_catch_up(self, cast: Cast) -> None:
        async with scene(*cast) as it:
            await rounds(it, 2)
            [_, kept] = await it.answers()
            await it.stopped()
            await rounds(it, 1)
            it.keep()
            await edit_prompt(it, -1)
            await it.assert_rewound(await it.ask(), kept)
            asked = (await it.prompts())[2]
            assert tokens(it.caught_up)[:1] == tokens(asked.text)

    async def test_a_change_after_a_stopped_answer_that_the_session_was_continued_from(self, cast: Cast) -> None:
        async with scene(*cast) as it:
            await rounds(it, 1)
            await it.stopped()
            await rounds(it, 2)
            it.keep()
            [*_, kept, _] = await it.answers()
            await edit_prompt(it, -1)
            await it.assert_rewound(await it.ask(), kept)

    @pytest.mark.parametrize("change", ["edited", "removed", "asked again"])
    async def test_the_prompt_of_a_stopped_run_is_changed(self, cast: Cast, change: str) -> None:
        async with scene(*cast) as it:
            await rounds(it, 2)
            [_, kept] = await it.answers()
            await it.stopped()
            it.keep()
            reply = await self.changed(it, change)
            # The session has the beginning of an answer that was removed from the thread.
            is_unknown = change == "removed" and it.agent == "claude"
            await it.assert_rewound(reply, kept, reason="unconfirmed" if is_unknown else "history_changed")
            if it.agent == "codex":
                assert "touch begun" in it.told, "what the stopped run did is told too"

    @pytest.mark.parametrize("change", ["edited", "removed"])
    async def test_the_prompt_of_a_killed_run_is_changed(self, cast: Cast, change: str) -> None:
        async with scene(*cast) as it:
            await rounds(it, 2)
            [_, kept] = await it.answers()
            await it.stopped(kill=True)
            it.keep()
            await it.assert_rewound(await self.changed(it, change), kept)

    async def test_the_prompt_of_a_killed_run_is_asked_again_in_a_fresh_session(self, cast: Cast) -> None:
        async with scene(*cast) as it:
            await rounds(it, 2)
            await it.stopped(kill=True)
            it.keep()
            await it.assert_fresh(await self.changed(it, "asked again"), "forced_fresh")

    async def changed(self, it: Scene, change: str) -> Reply:
        [*_, last] = await it.prompts()
        if change == "removed":
            await it.thread.truncate(last.id)
            return await it.ask()
        await it.thread.edit(last.id, it.voice.prompt("put better"))
        return await (it.retry((await it.prompts())[-1]) if change == "asked again" else it.ask())

    async def test_an_interrupted_answer_that_the_file_tells_otherwise(self, stage: Stage) -> None:
        """The file holds the beginning of an answer that has another text in the thread now."""
        async with scene(stage) as it:
            await rounds(it, 2)
            [_, kept] = await it.answers()
            await it.stopped()
            it.keep()
            [*_, partial] = await it.answers()
            assert partial.partial
            await it.thread.edit(partial.id, it.voice.prompt("said otherwise"))
            await it.assert_rewound(await it.ask(), kept, reason="unconfirmed")
            assert (await it.ask()).reason is None


class TestForks:
    async def test_a_fork_is_rewound_before_the_fork_and_after_it(self, cast: Cast) -> None:
        async with scene(*cast) as it:
            await rounds(it, 3)
            old = it.thread
            it.thread, _ = await forked(it.client, at_round=3)
            it.keep()
            [first, _, _] = await it.answers()
            await edit_prompt(it, 1)
            await it.assert_rewound(await it.ask(), first)
            await rounds(it, 1)
            it.keep()
            [*_, kept, _] = await it.answers()
            await edit_prompt(it, -1)
            await it.assert_rewound(await it.ask(), kept)
            it.thread = old
            reply = await it.ask()
            assert (reply.session_resumed, reply.reason) == (True, None), "the old thread has not changed"

    async def test_a_fork_of_a_fork_and_its_origin_are_rewound_independently(self, cast: Cast) -> None:
        async with scene(*cast) as it:
            await rounds(it, 2)
            old = it.thread
            child, _ = await forked(it.client, new="child")
            it.thread = child
            await rounds(it, 2)
            it.thread, _ = await forked(it.client, "child", "grandchild")
            it.keep()
            [_, _, kept, _] = await it.answers()
            await edit_prompt(it, 3)
            await it.assert_rewound(await it.ask(), kept)
            it.keep()
            [first, *_] = await it.answers()
            await edit_prompt(it, 1)
            await it.assert_rewound(await it.ask(), first)
            for thread in (child, old):
                it.thread = thread
                it.keep()
                [first, *_] = await it.answers()
                await edit_prompt(it, 1)
                await it.assert_rewound(await it.ask(), first)


class TestCompaction:
    async def compacted(self, it: Scene) -> None:
        """Two rounds, a summary of them, and two more rounds."""
        await rounds(it, 2)
        [path] = it.files()
        continue_without_clew(it.stage, path.stem, "/compact")
        for _ in range(2):
            reply = await (await it.thread.ask(it.voice.prompt()))
            assert reply.session_resumed
        it.keep()

    async def test_turns_after_it_can_be_rewound_to(self, stage: Stage) -> None:
        async with scene(stage) as it:
            await self.compacted(it)
            [_, _, kept, _] = await it.answers()
            before = it.stage.api.main_requests[-2]
            await edit_prompt(it, 3)
            prompt = it.voice.prompt()
            reply = await (await it.thread.ask(prompt))
            await it.assert_rewound(reply, kept)
            shown = it.voice.shown
            changed = (await it.prompts())[3]
            assert shown[-3:] == [*tokens(changed.text), *tokens((await it.answers())[3].text), *tokens(prompt)]
            assert len(shown) == len(set(shown))
            assert begins_with(it.stage.api.main_requests[-1], before)

    @pytest.mark.parametrize("number", [1, 2])
    async def test_before_it_the_session_cannot_be_used(self, stage: Stage, number: int) -> None:
        """The third prompt is the first after the summary: only the summary comes before it."""
        async with scene(stage) as it:
            await self.compacted(it)
            await edit_prompt(it, number)
            await it.assert_fresh(await it.ask(), "history_changed")

    async def test_before_codexs_own_summary_the_session_cannot_be_used(self, codex: Stage) -> None:
        settings = codex.home / ".codex" / "config.toml"
        settings.write_text("model_auto_compact_token_limit = 10000\n" + settings.read_text())
        async with scene(codex, "codex") as it:
            for _ in range(3):
                reply = await (await it.thread.ask(it.voice.prompt("and more " * 200)))
            assert reply.session_resumed
            summaries = [request for request in codex.api.requests if request.is_compaction]
            assert len(summaries) == 1 and it.voice.tokens_of(summaries[0])[:3] == ["u1z", "a2z", "u3z"]
            it.keep()
            await it.thread.truncate((await it.prompts())[1].id)
            await it.assert_fresh(await it.ask(), "history_changed")


async def test_a_standing_text_that_was_changed_after_the_place_is_sent_again(cast: Cast) -> None:
    async with scene(*cast) as it:
        await it.ask(instructions="Be brief.")
        await rounds(it, 1)
        await it.ask(instructions="Be long.")
        await rounds(it, 1)
        it.keep()
        [_, second, third, _] = await it.answers()
        await edit_prompt(it, 3)
        await it.assert_rewound(await it.ask(), third)
        assert "Be long." not in it.stage.prompt, "the copy knows it"
        it.keep()
        await edit_prompt(it, 2)
        await it.assert_rewound(await it.ask(), second)
        assert "Be long." in it.sections["# Standing instructions"]
        assert "replace the standing instructions" in it.stage.prompt
        await rounds(it, 1)
        assert it.stage.prompt == (await it.prompts())[-1].text, "it was told once"


async def test_a_standing_text_that_was_removed_after_the_place_is_taken_back_again(cast: Cast) -> None:
    async with scene(*cast) as it:
        await it.ask(instructions="Be brief.")
        await it.ask(instructions="")
        await rounds(it, 1)
        it.keep()
        [first, *_] = await it.answers()
        await edit_prompt(it, 1)
        await it.assert_rewound(await it.ask(), first)
        assert "no longer apply" in it.sections["# Standing instructions"]
