"""`explain` says what `ask` then does: the same decision, the same prompt byte for byte, and it stores nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from clew.api.client import Client, Thread
from clew.core.explanation import Explanation
from clew.core.history import Visibility
from clew.errors import AgentMissing, Busy, Conflict, UsageError
from clew.testing.model.scripts import Hang, Text
from clew.testing.stage import MODEL, Stage
from transfer.machines import go_back_without_clew
from turns.world import Other, World

FORM = "Which one?\n<question-form>a or b</question-form>"
STATES: dict[str, tuple[Callable[[World], Awaitable[object]], str | None, dict[str, Any]]] = {}

Prepare = Callable[[World], Awaitable[object]]


def state(reason: str | None, **options: Any) -> Callable[[Prepare], Prepare]:
    """A state of a thread, the reason of its next turn (None: it continues its session as it is), and its options."""

    def register(prepare: Prepare) -> Prepare:
        STATES[prepare.__name__] = prepare, reason, options
        return prepare

    return register


def dump(stage: Stage) -> list[str]:
    """Every row of the store, also the versions and the leases."""
    database = sqlite3.connect(stage.clew_home / "clew.db")
    try:
        return list(database.iterdump())
    finally:
        database.close()


def change_rows(stage: Stage, statement: str) -> None:
    database = sqlite3.connect(stage.clew_home / "clew.db")
    with database:
        database.execute(statement)
    database.close()


async def two_turns(world: World) -> None:
    await world.ask()
    await world.ask()


@state("first_turn")
async def a_new_thread(world: World) -> None:
    await world.thread.preview()  # reads the agent's abilities, which are stored once


@state("first_turn", instructions="Answer in one line.")
async def a_new_thread_with_instructions(world: World) -> None:
    await world.thread.preview()


@state(None)
async def a_straight_conversation(world: World) -> None:
    await two_turns(world)


@state("history_changed")
async def an_edited_first_turn(world: World) -> None:
    await two_turns(world)
    await world.edit((await world.user_turns())[0])


@state("history_changed")
async def an_edited_turn(world: World) -> None:
    await world.ask()
    await world.thread.change(permissions="all")
    await world.ask(words='\n!tool Bash {"command": "touch made"}')
    await world.ask()
    await world.edit((await world.user_turns())[1])


@state("history_changed")
async def a_session_that_was_rewound_before(world: World) -> None:
    await an_edited_turn(world)
    await world.ask()
    await world.edit((await world.user_turns())[1])


@state("history_changed")
async def an_edited_turn_of_a_fork(world: World) -> None:
    await two_turns(world)
    forked = await world.client.fork("t", "fork")
    world.thread = await world.client.find(forked.threads[0].id)
    await world.edit((await world.user_turns())[1])


@state("session_missing")
async def a_copy_that_was_never_saved(world: World) -> None:
    await a_truncated_turn(world)
    world.stage.fault({"do": "crash_before_init", "signal": 9})
    await (await world.thread.ask("never sent")).reply()
    world.stage.fault()


@state("history_changed")
async def a_truncated_turn(world: World) -> None:
    await two_turns(world)
    await world.truncate((await world.user_turns())[1])


@state(None)
async def turns_of_another_agent(world: World) -> None:
    await two_turns(world)
    await world.ask("other")
    await world.ask("other", words="# User")


@state("no_pin", agent="other")
async def another_agent_for_this_turn(world: World) -> None:
    await two_turns(world)


@state("no_pin", model="claude-opus-4-1")
async def another_model_for_this_turn(world: World) -> None:
    await two_turns(world)


@state(None, instructions="Answer in one line.")
async def first_instructions(world: World) -> None:
    await two_turns(world)


@state(None, instructions="Answer in two lines.")
async def changed_instructions(world: World) -> None:
    await world.ask(standing="Answer in one line.")


@state(None, instructions="")
async def removed_instructions(world: World) -> None:
    await world.ask(standing="Answer in one line.")


@state(None)
async def known_instructions(world: World) -> None:
    await world.ask(standing="Answer in one line.")


@state("forced_fresh", fresh_session=True)
async def a_forced_fresh_session(world: World) -> None:
    await two_turns(world)


@state("disabled", resume=False)
async def resume_switched_off(world: World) -> None:
    await two_turns(world)


@state("expired")
async def an_old_session(world: World) -> None:
    await two_turns(world)
    change_rows(world.stage, "UPDATE pins SET used_at = used_at - 864000")


@state("worn_out")
async def a_session_that_was_resumed_often(world: World) -> None:
    await two_turns(world)
    change_rows(world.stage, "UPDATE pins SET resume_count = 1000")


@state("session_missing")
async def a_session_without_its_file(world: World) -> None:
    await two_turns(world)
    world.delete_session(0)


@state(None)
async def a_session_that_grew_outside(world: World) -> None:
    await two_turns(world)
    world.use_plain_cli(0)


@state("session_diverged")
async def a_session_that_branched_off_outside(world: World) -> None:
    await two_turns(world)
    [path] = world.stage.session_files()
    go_back_without_clew(world.stage, path.stem, world.voice.outside_prompt())


@state("session_damaged")
async def a_session_whose_file_was_altered(world: World) -> None:
    await two_turns(world)
    [path] = world.stage.session_files()
    content = path.read_bytes()
    path.write_bytes(content.replace(b"ack", b"nak"))


@state("poisoned")
async def a_broken_session(world: World) -> None:
    await two_turns(world)
    change_rows(world.stage, "UPDATE pins SET state = 'poisoned'")


@state(None)
async def an_answer_that_was_cut_off(world: World) -> None:
    await two_turns(world)
    await world.ask(cancel_at_text=True)


@state(None)
async def a_question_form(world: World) -> None:
    await world.ask()
    world.stage.api.script.append(Text(FORM))
    await (await world.thread.ask("Ask me."))


@state(None)
async def a_fork(world: World) -> None:
    await two_turns(world)
    forked = await world.client.fork("t", "fork", at_round=1)
    world.thread = await world.client.find(forked.threads[0].id)


def test_every_reason_that_a_guard_can_give_here_is_a_state() -> None:
    reasons = {reason for _, reason, _ in STATES.values()}
    assert len(STATES) == len({prepare for prepare, _, _ in STATES.values()})
    assert {None, "first_turn", "history_changed", "expired", "session_missing", "session_diverged"} <= reasons


@pytest.mark.parametrize("name", STATES)
async def test_explain_says_what_ask_does_and_stores_nothing(scripted: Stage, name: str) -> None:
    prepare, reason, options = STATES[name]
    async with scripted.open(adapters=[Other()], max_age="7d", max_resumes=100) as client:
        world = await World.make(scripted, client, Visibility.SHARED)
        await prepare(world)
        prompt = "What now?\n\n# User\r\nsaid “this”\t\u2028.\n"
        before, launches = dump(scripted), len(scripted.launches)
        told = await world.thread.explain(prompt, **options)
        assert dump(scripted) == before, "explaining stores nothing"
        assert len(scripted.launches) == launches, "no agent was started"
        assert told.reason == reason

        reply = await (await world.thread.ask(prompt, **options))
        assert told.prompt == scripted.prompt, "the agent was sent the explained prompt, byte for byte"
        assert (told.resumes, told.reason) == (reply.session_resumed, reply.reason)
        assert told.rewound_to == reply.rewound_to
        assert scripted.launches[-1].resumes == told.session_id
        assert told.agent == reply.agent
        assert told.model in (None, reply.model), "an agent's default model is known after its first run"
        run = await client.run(reply.run)
        assert (told.prompt_chars, told.transcript_chars) == (run.prompt_chars, run.transcript_chars)
        assert told.standing == {
            "a_new_thread_with_instructions": "sent",
            "first_instructions": "sent",
            "changed_instructions": "replaced",
            "removed_instructions": "removed",
            "known_instructions": "known",
        }.get(name)


async def resumed_thread(client: Client, stage: Stage) -> Thread:
    thread = await client.thread("t", cwd=stage.work)
    await (await thread.ask("one"))
    return thread


@pytest.mark.parametrize("prompt", ["/help me", "\ufeffa byte order mark", "half a character: \ud83d", "!", " x "])
async def test_the_prompt_is_the_one_that_the_adapter_sends(scripted: Stage, prompt: str) -> None:
    async with scripted.open() as client:
        thread = await resumed_thread(client, scripted)
        told = await thread.explain(prompt)
        await (await thread.ask(prompt))
        assert told.prompt == scripted.prompt


async def test_a_new_thread_is_explained_and_not_created(scripted: Stage) -> None:
    async with scripted.open() as client:
        await resumed_thread(client, scripted)
        before = dump(scripted)
        told = await client.explain("Hello there.", cwd=scripted.work, instructions="Be brief.")
        named = await client.explain("Hello there.", "work", cwd=scripted.work)
        assert dump(scripted) == before
        assert (told.thread, told.new_thread, told.reason) == ("hello-there", True, "first_turn")
        assert (named.thread, named.prompt) == ("work", "Hello there.")
        with pytest.raises(Conflict):
            await client.explain("Hello there.", "t", cwd=scripted.work)
        for wrong in ({"cwd": "/no/such/place"}, {"agent": "nobody"}, {"model": "-x"}, {"name": "no name"}):
            with pytest.raises(UsageError):
                await client.explain("Hello there.", **{"cwd": scripted.work, **wrong})  # type: ignore[arg-type]
        thread = await client.thread(told.thread, cwd=scripted.work, instructions="Be brief.")
        await (await thread.ask("Hello there."))
        assert told.prompt == scripted.prompt


async def test_a_change_of_the_thread_is_explained_and_not_made(scripted: Stage) -> None:
    elsewhere = scripted.folder / "elsewhere"
    elsewhere.mkdir()
    async with scripted.open() as client:
        thread = await resumed_thread(client, scripted)
        before = dump(scripted)
        told = await thread.explain("two", cwd=elsewhere, permissions="edits", trust="project")
        assert (told.reason, dump(scripted)) == ("work_dir_changed", before)
        assert (await thread.explain("two", cwd=scripted.work)).resumes
        assert thread.record.cwd == str(scripted.work.resolve())


async def test_a_prompt_that_would_wait_says_for_what(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await resumed_thread(client, scripted)
        scripted.api.script.append(Hang())
        run = await thread.ask("two")
        told = await thread.explain("three")
        assert told.waits_for == run.id
        assert told.unfinished is None
        with pytest.raises(Busy) as busy:
            await thread.explain("three", wait=False)
        assert busy.value.run_id == run.id
        with pytest.raises(Busy):
            await thread.explain("three", permissions="edits")
        run.cancel()
        await run.reply()
        assert (await thread.explain("three")).waits_for is None


async def test_without_a_prompt_the_rest_is_explained(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await resumed_thread(client, scripted)
        told = await thread.explain(None)
        assert (told.prompt, told.prompt_chars, told.resumes) == (None, 0, True)
        assert told.expected.new_tokens < (await thread.explain("x" * 4_000)).expected.new_tokens
        with pytest.raises(UsageError):
            await thread.explain(" \n")


async def test_an_agent_that_is_missing_is_named(scripted: Stage) -> None:
    async with scripted.open() as client:
        await resumed_thread(client, scripted)
    async with scripted.open(**{"agents.claude.path": "/no/such/claude"}) as client:
        with pytest.raises(AgentMissing):
            await (await client.find("t")).explain("two")


async def test_the_price_follows_the_cache_and_the_last_price(scripted: Stage) -> None:
    async with scripted.open() as client:
        new = await client.explain("one", cwd=scripted.work)
        assert new.expected.cost_usd is None, "no run has reported a price yet"
        assert (new.held_tokens, new.with_transcript) == (None, None)
        thread = await resumed_thread(client, scripted)
        await (await thread.ask("two"))
        run = (await client.runs(thread=thread))[0]
        warm = await thread.explain("x" * 400)
        assert (warm.held_tokens, warm.held_is_measured, warm.is_cached) == (run.context_tokens, True, True)
        assert warm.expected.cached_tokens + warm.expected.new_tokens == (run.context_tokens or 0) + 100
        assert dollars(warm) > 0
        change_rows(scripted, "UPDATE runs SET ended_at = ended_at - 3600")
        change_rows(scripted, "UPDATE pins SET used_at = used_at - 3600")
        cold = await thread.explain("x" * 400)
        assert (cold.is_cached, cold.expected.cached_tokens) == (False, 0)
        assert dollars(cold) > dollars(warm)
        change_rows(scripted, "UPDATE runs SET context_tokens = NULL")
        assert not (await thread.explain("x" * 400)).held_is_measured
        unknown = await thread.explain("x" * 400, model="claude-opus-4-1")
        assert unknown.expected.cost_usd is None


def dollars(told: Explanation) -> float:
    assert told.expected.cost_usd is not None
    assert told.with_transcript is not None and told.with_transcript.cost_usd is not None
    assert told.with_transcript.cost_usd >= told.expected.cost_usd, "as in `clew stats`"
    return told.expected.cost_usd


async def test_the_expected_tokens_are_near_those_of_the_real_cli(real: Stage) -> None:
    async with real.open() as client:
        thread = await client.thread("t", cwd=real.work)
        await (await client.thread("warm-up", cwd=real.work)).ask("one")
        for words in ("one " * 500, "two " * 500, "three " * 500):
            told = await thread.explain(words)
            reply = await (await thread.ask(words))
            used = reply.usage
            assert told.expected.cached_tokens + told.expected.new_tokens == pytest.approx(used.shown_tokens, rel=0.15)
            if told.resumes:
                assert told.expected.cached_tokens == pytest.approx(used.cache_read_input_tokens, rel=0.15)
                assert told.expected.cost_usd == pytest.approx(reply.cost_usd, rel=0.25)
        assert reply.model == MODEL
