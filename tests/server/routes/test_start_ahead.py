"""An agent is started over HTTP while somebody opens a thread or types."""

from __future__ import annotations

import asyncio

from clew.testing.stage import Stage
from server.daemons import LocalDaemon, local_daemon

KEEPS = {"warm.keys": True}  # the stage's agents have an API key in their environment
COLD = {"warm.max": 0}  # an agent ends with its turn


async def asked_in(scripted: Stage) -> None:
    """A thread with one turn, whose agent has ended."""
    async with local_daemon(scripted, flags=COLD) as cold:
        await cold.thread("t")
        await cold.ask("t", "one")


async def waits(daemon: LocalDaemon) -> bool:
    answer = await daemon.http.post("/api/threads/t/start-ahead")
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"waiting"}
    return bool(answer.json()["waiting"])


async def test_it_waits_for_the_prompt_and_nothing_is_sent(scripted: Stage) -> None:
    await asked_in(scripted)
    requests = len(scripted.api.requests)
    async with local_daemon(scripted, flags=KEEPS) as daemon:
        assert await asyncio.gather(*[waits(daemon) for _ in range(10)]) == [True] * 10
        assert daemon.shared is not None
        [kept] = await daemon.shared.client.kept_agents()
        assert len(scripted.api.requests) == requests
        run = await daemon.ask("t", "two")
        [attempt] = await daemon.shared.client.attempts(run["id"])
        assert attempt.pid == kept.pid, "the turn has taken it"
        assert len(scripted.launches) == 2, "however often it was called"
    assert not scripted.processes()


async def test_a_thread_without_turns_has_none(scripted: Stage) -> None:
    async with local_daemon(scripted, flags=KEEPS) as daemon:
        await daemon.thread("t")
        assert not await waits(daemon)
        assert (await daemon.http.post("/api/threads/none/start-ahead")).status_code == 404


async def test_it_can_be_switched_off(scripted: Stage) -> None:
    await asked_in(scripted)
    async with local_daemon(scripted, flags={**KEEPS, "warm.ahead": False}) as daemon:
        assert not await waits(daemon)
    assert len(scripted.launches) == 1


async def test_none_is_started_outside_the_roots(scripted: Stage) -> None:
    await asked_in(scripted)
    inside = scripted.work / "inside"
    inside.mkdir()
    async with local_daemon(scripted, flags=KEEPS, roots=[inside]) as daemon:
        assert (await daemon.http.post("/api/threads/t/start-ahead")).status_code == 403
    assert len(scripted.launches) == 1


async def test_an_agent_that_is_not_there_is_a_problem_with_a_hint(scripted: Stage) -> None:
    await asked_in(scripted)
    async with local_daemon(scripted, flags={**KEEPS, "agents.claude.path": "/nowhere/claude"}) as daemon:
        answer = await daemon.http.post("/api/threads/t/start-ahead")
        assert answer.status_code == 503
        assert answer.json()["hint"]
