"""How often an ordinary turn writes to the store, and how often it waits for the store's thread.

A commit waits for the disk, and on PostgreSQL for the server too; so a turn that commits more often answers later.
"""

from __future__ import annotations

from typing import Any

import pytest

from clew.api.client import Client, Thread
from clew.testing.stage import Stage

# The prompt, with the thread's lease and a slot; the plan; the agent's process; the end with all events of the agent.
COMMITS = 4
CALLS = 5  # into the store's thread: those four, and one that reads whose rules the agent is shown


async def counts(client: Client) -> tuple[int, int]:
    """How many transactions have written, and how many calls into the store have ended."""
    commits = await client.engine.store.call(lambda store: store.database.commits)
    return commits, client.engine.store.answered - 1


async def counted(client: Client, thread: Thread, prompt: str) -> tuple[int, int]:
    """The commits and calls of one turn."""
    commits, calls = await counts(client)
    reply = await (await thread.ask(prompt)).reply()
    assert reply.text == f"ack: {prompt}" and reply.session_resumed
    commits_then, calls_then = await counts(client)
    return commits_then - commits, calls_then - calls - 1


@pytest.mark.parametrize("kind", ["cold", "warm"])
async def test_a_follow_up_commits_four_times(scripted: Stage, kind: str) -> None:
    settings: dict[str, Any] = {"warm.keys": True, "warm.max": 0 if kind == "cold" else 1}
    async with scripted.open(**settings) as client:
        # Without pauses that end by the clock: no batch of events is stored and no cancel is looked for in between.
        client.engine.settings = client.engine.settings.replace(batch_s=60.0, poll_s=60.0)
        thread = await client.thread("t", cwd=scripted.work)
        await (await thread.ask("first")).reply()
        commits, calls = await counted(client, thread, "second")
        assert len(await client.kept_agents()) == (kind == "warm")
        assert (commits, calls) == (COMMITS, CALLS)
