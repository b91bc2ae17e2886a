"""The account's usage limit: the session is kept, and a run that waits continues in it when the limit has reset."""

from __future__ import annotations

import time

import pytest

from clew.api.client import Client, Reply
from clew.api.client import Thread as Conversation
from clew.core.continuation import CONTINUE
from clew.core.decision import Policy
from clew.core.ids import ThreadId
from clew.core.runs.events import RunQueued
from clew.core.runs.run import RunStatus
from clew.core.thread import Thread
from clew.engine.request import TurnRequest, policy_of
from clew.engine.settings import EngineSettings
from clew.errors import Conflict, UsageLimit
from clew.testing.stage import CODEX_MODEL, SUBSCRIPTION, Stage

pytestmark = pytest.mark.rest

SOON_S = 3.0  # the wait for a limit that resets this soon takes a little longer


@pytest.fixture
def subscribed(stage: Stage) -> Stage:
    stage.account = SUBSCRIPTION
    return stage


async def limited(thread: Conversation, resets_at: float | None) -> Reply:
    told = "" if resets_at is None else f" {int(resets_at)}"
    reply = await (await thread.ask(f"this one thing\n!limit{told}")).reply()
    assert isinstance(reply.error, UsageLimit)
    return reply


async def test_a_run_that_waits_for_the_reset_continues_in_the_same_session(subscribed: Stage) -> None:
    """Neither the wait nor the run that met the limit counts as a use of the session, which may be resumed once."""
    async with subscribed.open(max_resumes=1) as client:
        thread = await client.thread("t", cwd=subscribed.work)
        first = await (await thread.ask("first"))
        resets_at = int(time.time() + SOON_S)
        failed = await limited(thread, resets_at)
        assert isinstance(failed.error, UsageLimit) and failed.error.resets_at == resets_at
        assert (await client.run(failed.run)).resets_at == resets_at
        [pin] = await client.engine.store.call(lambda store: store.pins.of_thread(thread.record.id))
        assert pin.resume_count == 0
        assert pin.used_at >= resets_at, "the session does not age before the reset"
        run = await thread.continue_after_limit(failed.run)
        with pytest.raises(Conflict, match="Something else was asked"):
            await thread.continue_after_limit(failed.run)
        waited = [event async for event in run if isinstance(event, RunQueued)]
        reply = await run
        record = await client.run(reply.run)
    assert [event.waiting_for for event in waited] == ["limit"]
    assert record.asked.not_before == waited[0].until is not None
    assert (record.started_at or 0) >= record.asked.not_before >= resets_at
    assert (reply.session_resumed, reply.session_id, reply.reason) == (True, first.session_id, None)
    assert subscribed.prompt.endswith(CONTINUE)
    assert [role for role, _ in subscribed.shown].count("assistant") == 1
    assert sum("this one thing" in text for _, text in subscribed.shown) == 1, "the prompt is in the session already"


async def test_a_cancelled_wait_sends_nothing_to_the_model(scripted: Stage) -> None:
    scripted.account = SUBSCRIPTION
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        failed = await limited(thread, time.time() + 3600)
        asked = len(scripted.api.main_requests)
        run = await thread.continue_after_limit(failed.run)
        async for event in run:
            if isinstance(event, RunQueued):
                run.cancel()
        reply = await run.reply()
        assert reply.status == RunStatus.CANCELLED and reply.error is not None
        assert reply.error.hint.startswith("The prompt that met the limit is still the thread's last turn;")
        assert [turn.text for turn in (await thread.turns())][-1].startswith("this one thing")
        assert len(scripted.api.main_requests) == asked
        with pytest.raises(Conflict, match="no usage limit"):
            await thread.continue_after_limit(run.id)


async def test_a_wait_outlives_the_daemon_that_started_it(scripted: Stage) -> None:
    scripted.account = SUBSCRIPTION
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        failed = await limited(thread, time.time() + SOON_S)
        run = await thread.continue_after_limit(failed.run, lasting=True)
    async with scripted.open() as client:
        assert (await client.run(run.id)).status is RunStatus.QUEUED
        await client.take_up()
        reply = await answered(client, run.id)
    assert (reply.status, reply.session_resumed) == (RunStatus.ANSWERED, True)
    assert reply.asked.not_before is not None and (reply.started_at or 0) >= reply.asked.not_before


async def test_a_wait_is_given_up_when_another_prompt_came_since(scripted: Stage) -> None:
    """No daemon was running, so the thread was free: "the task that you were given last" would mean another prompt."""
    scripted.account = SUBSCRIPTION
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        failed = await limited(thread, time.time() + SOON_S)
        run = await thread.continue_after_limit(failed.run, lasting=True)
    async with scripted.open() as client:
        await (await (await client.find("t")).ask("something else"))
        asked = len(scripted.api.main_requests)
        await client.take_up()
        assert (await answered(client, run.id)).status is RunStatus.CANCELLED
        assert len(scripted.api.main_requests) == asked


@pytest.mark.parametrize("how", ["cancelled", "removed"])
async def test_prompts_behind_a_wait_are_held_when_it_is_stopped_but_not_when_it_is_cancelled(
    scripted: Stage, how: str
) -> None:
    scripted.account = SUBSCRIPTION
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        failed = await limited(thread, time.time() + 3600)
        run = await thread.continue_after_limit(failed.run, lasting=True)
        behind = await thread.ask("behind it", lasting=True)
        async for event in behind:
            if isinstance(event, RunQueued):
                assert (event.waiting_for, event.held_by) == ("thread", run.id)
                assert event.until == (await client.run(run.id)).asked.not_before, "and how long that may take"
                break
        if how == "removed":
            await client.remove_queued(run.id)
            assert (await behind).text == "ack: behind it"
        else:
            run.cancel()
            await run.reply()
            assert (await client.run(behind.id)).asked.held


async def answered(client: Client, run_id: str):  # type: ignore[no-untyped-def]
    async for _ in client.views.follow(run_id):
        pass
    return await client.run(run_id)


def test_the_time_that_a_run_waited_does_not_age_the_session() -> None:
    thread = Thread(ThreadId("t"), "t", "/", "claude", None)
    settings = EngineSettings(policy=Policy(max_age_s=60))
    assert policy_of(TurnRequest(thread, "x"), settings).max_age_s == 60
    assert policy_of(TurnRequest(thread, "x", not_before=1.0), settings).max_age_s is None


@pytest.mark.real
async def test_codex_reports_the_minute_in_which_its_limit_resets(codex: Stage) -> None:
    resets_at = time.time() + 7200
    async with codex.open(agent="codex") as client:
        thread = await client.thread("t", cwd=codex.work, model=CODEX_MODEL)
        await (await thread.ask("first"))
        failed = await limited(thread, resets_at)
        again = await (await thread.ask("and now"))
    assert isinstance(failed.error, UsageLimit)
    assert failed.error.resets_at is not None and 0 <= failed.error.resets_at - resets_at <= 60
    assert again.session_resumed
