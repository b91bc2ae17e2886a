"""Events are stored while they stream, numbered without a gap, and end with one last event."""

from __future__ import annotations

import asyncio

from clew.core.runs.events import AttemptStarted, RunEnded, TextStreamed
from clew.core.runs.run import RunStatus
from clew.testing.stage import Stage


async def test_state_changes_are_stored_before_a_listener_gets_them(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("!slow 3 0.05")
        async for event in run:
            if isinstance(event, AttemptStarted | RunEnded):
                stored = await client.engine.store.call(lambda store: store.events.of_run(run.id))
                assert event in [each.event for each in stored]


async def test_text_is_stored_while_no_other_event_comes(scripted: Stage) -> None:
    """A reader in another process sees the answer grow while it streams. The bench `delivery` measures how soon."""
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("!hang text so far")
        async for event in run:
            if isinstance(event, TextStreamed):
                break
        async with asyncio.timeout(60):
            while event not in [
                each.event for each in await client.engine.store.call(lambda store: store.events.of_run(run.id))
            ]:
                await asyncio.sleep(0.02)
        assert (await client.run(run.id)).status is RunStatus.RUNNING, "the model holds it until it is let go"
        scripted.api.release()
        assert (await run.reply()).status == "answered"


async def test_stored_events_are_those_that_were_sent_numbered_without_a_gap(stage: Stage) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        run = await thread.ask('!tool Bash {"command": "ls"}')
        heard = [event async for event in run]
        stored = await client.engine.store.call(lambda store: store.events.of_run(run.id))
        assert [each.seq for each in stored] == list(range(1, len(heard) + 1))
        assert [each.event for each in stored] == heard
        assert [type(event) for event in heard].count(RunEnded) == 1
        assert isinstance(heard[-1], RunEnded)
        late = [event async for event in run]
        assert late == heard, "who listens late hears everything"
