"""A pair that any process runs: its events are followed from the store, and it is asked to stop through the store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from clew.core.pairs.cursor import BEGINNING, FollowedEvent, PairCursor
from clew.core.pairs.pair import PairPart, PairRunEvent, PairStatus
from clew.core.runs.events import RunEnded
from clew.errors import NotFound, UsageError
from clew.testing.model.scripts import Hang
from clew.testing.stage import Stage
from pairs.couple import CONTINUE, TASK, Couple, begun, carried_out, finished, order, resumed, start, turns

WAIT_S = 60


async def all_of(events: AsyncIterator[FollowedEvent]) -> list[FollowedEvent]:
    return [each async for each in events]


def told(events: list[FollowedEvent]) -> list[tuple[int, str]]:
    """Round and kind of each event; of runs only their ends."""
    return [
        (each.event.round, each.event.kind)
        for each in events
        if not isinstance(each.event, PairRunEvent) or isinstance(each.event.event, RunEnded)
    ]


WORKED = ["opened", "asked", "heard", "ordered", "asked", "heard", "worked", "ended"]
FINISHED = ["opened", "asked", "heard", "ordered", "ended"]


async def test_a_pair_that_another_process_runs_is_followed_to_its_end(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=2)
    couple.busy[2] = Hang("text", "I am at it.")
    with begun(scripted, TASK, "--name", "p") as process:
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, WAIT_S)
        async with scripted.open() as client:
            pair_id = await client.pairs.resolve("p")
            seen: list[FollowedEvent] = []
            async for each in client.pairs.follow(pair_id):
                seen.append(each)
                if each.event.kind == "asked" and each.cursor[:2] == (2, 3):
                    scripted.api.release()
            state = await client.pairs.find(pair_id)
            assert state.status is PairStatus.FINISHED
            last = state.pair.number
            wanted = [(number, kind) for number in range(1, last) for kind in WORKED]
            assert told(seen) == wanted + [(last, kind) for kind in FINISHED]
            assert all(a.cursor < b.cursor for a, b in pairwise(seen)), "each has a place of its own, in order"
            for place in (0, len(seen) // 3, len(seen) // 2, len(seen) - 2, len(seen) - 1):
                after = PairCursor.parse(str(seen[place].cursor))
                assert await all_of(client.pairs.follow(pair_id, after)) == seen[place + 1 :], "nothing twice or lost"
        process.wait(WAIT_S)


@pytest.mark.rest
async def test_runs_that_were_repeated_belong_to_their_round(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.orders += ["no JSON at all", order("order-1")]
    async with scripted.open() as client:
        state = await carried_out(client, scripted)
        events = await all_of(client.pairs.follow(state.pair.id))
        first = ["opened", "asked", "heard", "asked", "heard", "ordered", "asked", "heard", "worked", "ended"]
        assert told(events) == [(1, kind) for kind in first] + [(2, kind) for kind in FINISHED]
        with pytest.raises(NotFound):
            await all_of(client.pairs.follow("nothing"))


@pytest.mark.rest
async def test_following_a_pair_of_a_dead_process_ends(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.busy[1] = Hang("text", "I am at it.")
    with begun(scripted, TASK, "--name", "p") as process:
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, WAIT_S)
        async with scripted.open(recover=False) as client:
            pair_id = await client.pairs.resolve("p")
            following = asyncio.create_task(all_of(client.pairs.follow(pair_id)))
            process.kill()
            process.wait(WAIT_S)
            events = await asyncio.wait_for(following, WAIT_S)
            assert told(events) == [(1, kind) for kind in ("opened", "asked", "heard", "ordered", "asked")]
            assert not await client.pairs.stop(pair_id), "nobody runs it"
    async with scripted.open():  # ends the agent that the dead process left
        assert not scripted.processes()


def test_a_cursor_is_read_back_and_a_wrong_one_refused() -> None:
    assert PairCursor.parse("3.1.2.17") == (3, 1, 2, 17) > BEGINNING
    for wrong in ("", "1.2.3", "1.2.3.4.5", "a.b.c.d", "-1.0.0.0", "1.2.3.99999999999999999999", "٣.1.2.3"):
        with pytest.raises(UsageError):
            PairCursor.parse(wrong)


async def test_a_pair_of_another_process_is_stopped_and_continues(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=2)
    couple.busy[1] = Hang("text", "I am at it.")
    with begun(scripted, TASK, "--name", "p", "--json") as process:
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, WAIT_S)
        async with scripted.open() as client:
            pair_id = await client.pairs.resolve("p")
            assert await client.pairs.stop(pair_id)
            out, err = await asyncio.to_thread(process.communicate, timeout=WAIT_S)
            assert process.returncode == 7, err.decode()
            assert json.loads(out.splitlines()[-1])["status"] == "stopped"
            left = await client.pairs.find(pair_id)
            assert (left.status, left.pair.number, left.pair.phase) == (PairStatus.STOPPED, 1, "working")
            assert not await client.pairs.stop(pair_id)
            state = await resumed(client, left.pair)
            assert (state.status, state.pair.stop_requested) == (PairStatus.FINISHED, False)
            assert CONTINUE in await turns(client, state.pair, PairPart.WORKER)


async def test_a_stop_between_two_runs_is_heard_before_the_next_one(scripted: Stage) -> None:
    Couple(scripted, rounds=3)
    async with scripted.open() as client:
        live = await start(client, scripted)
        async for event in live.events():
            if event.kind == "ordered":
                assert await client.pairs.stop(live.pair.id)
        state = await finished(client, live)
        assert live.error is not None and live.error.code == "cancelled"
        assert (state.status, state.pair.number) == (PairStatus.STOPPED, 1)


async def test_both_parts_start_fresh_once_when_that_is_asked(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=3)
    async with scripted.open() as client:
        first = await carried_out(client, scripted, max_rounds=1)
        before = first.sessions
        state = await resumed(client, first.pair, more_rounds=3, fresh_session=True)
        assert (state.status, state.pair.fresh_parts) == (PairStatus.FINISHED, ())
        reasons = {}
        for part in PairPart:
            runs = (await client.runs(thread=await client.find(state.pair.thread_of(part))))[::-1]
            reasons[part] = [run.reason for run in runs]
            assert state.sessions[part].keys() == before[part].keys() and state.sessions[part] != before[part]
        assert reasons[PairPart.WORKER] == ["first_turn", "forced_fresh", None]
        assert reasons[PairPart.INSTRUCTOR] == ["first_turn", "forced_fresh", None, None]
        await couple.check_shown(client, state.pair)
