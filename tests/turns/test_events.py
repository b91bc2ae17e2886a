"""Events: durable as they stream, at most 50 ms late; numbered without a gap; one last word."""

from __future__ import annotations

from clew.core.events import AttemptStarted, RunEnded, TextStreamed
from clew.engine.journal import BATCH_S
from clew.testing.stage import Stage

SLACK_S = 0.25  # for a machine that is busy with something else


async def test_state_changes_are_stored_before_anybody_hears_of_them(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("!slow 3 0.05")
        async for event in run:
            if isinstance(event, AttemptStarted | RunEnded):
                stored = await client.engine.database.call(lambda store: store.events(run.id))
                assert event in [each.event for each in stored]


async def test_text_is_stored_at_most_a_moment_after_it_came(scripted: Stage) -> None:
    """The reader of another process sees the answer grow while it streams."""
    import asyncio

    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("!slow 10 0.1")
        late = 0
        async for event in run:
            if isinstance(event, TextStreamed):
                await asyncio.sleep(BATCH_S + SLACK_S)
                stored = await client.engine.database.call(lambda store: store.events(run.id))
                late += event not in [each.event for each in stored]
        assert late == 0


async def test_stored_events_are_what_was_heard_numbered_without_a_gap(stage: Stage) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        run = await thread.ask('!tool Bash {"command": "ls"}')
        heard = [event async for event in run]
        stored = await client.engine.database.call(lambda store: store.events(run.id))
        assert [each.seq for each in stored] == list(range(1, len(heard) + 1))
        assert [each.event for each in stored] == heard
        assert [type(event) for event in heard].count(RunEnded) == 1
        assert isinstance(heard[-1], RunEnded)
        late = [event async for event in run]
        assert late == heard, "who listens late hears everything"
