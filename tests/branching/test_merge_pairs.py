"""Merges of pairs: instructor with instructor, worker with worker, in a new pair that continues."""

from __future__ import annotations

import asyncio

import pytest

from clew.core.pairs.pair import PairPart, PairStatus
from clew.core.thread import OriginKind, Permissions
from clew.errors import Busy, Conflict, NotFound, UsageError
from clew.hosts.branching.fork import fork
from clew.hosts.branching.merge import MergeOptions, merge
from clew.hosts.branching.pair_merge import merge_pairs
from clew.testing.model.scripts import Hang
from clew.testing.stage import Stage
from clew.testing.truth import tokens
from pairs.couple import Couple, carried_out, resumed, start, turns
from transfer.machines import ask, clew

AS_THEY_ARE = MergeOptions()
WAIT_S = 60


async def test_two_pairs_become_one_that_knows_both_and_continues(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=3)
    async with scripted.open() as client:
        await carried_out(client, scripted, name="a", max_rounds=1, permissions=Permissions.ALL)
        await fork(client.engine, "a", "b")
        one = await resumed(client, (await client.pairs.find(await client.pairs.resolve("a"))).pair, more_rounds=1)
        other = await resumed(client, (await client.pairs.find(await client.pairs.resolve("b"))).pair, more_rounds=3)
        assert (one.status, other.status) == (PairStatus.OUT_OF_ROUNDS, PairStatus.FINISHED)
        made = await merge_pairs(client.engine, "a", "b", AS_THEY_ARE)
        assert (made.pair.name, made.common, made.own) == ("a-b", 1, (1, 3))
        state = await client.pairs.find(made.pair.id)
        assert (state.status, state.pair.number, state.pair.rounds_left) == (PairStatus.STOPPED, 5, 1)
        assert [each.number for each in state.rounds] == [1, 2, 3, 4, 5]
        assert [each.result for each in state.rounds] == [
            *(each.result for each in one.rounds),
            *(each.result for each in other.rounds[1:]),
        ]
        brief = (await turns(client, state.pair, PairPart.INSTRUCTOR))[-1]
        unseen = one.rounds[-1].result
        assert brief.startswith("[brief") and unseen is not None and unseen in brief, "A's last report is not lost"
        for part in PairPart:
            thread = (await client.find(state.pair.thread_of(part))).record
            assert (thread.name, thread.kind) == (f"pair-a-b-{part}", "pair")
            assert thread.origin is not None and thread.origin.how is OriginKind.MERGE
        said = {part: [tokens(text) for text in await turns(client, state.pair, part)] for part in PairPart}
        went_on = await resumed(client, state.pair, "u90z Take the better of the two.")
        assert went_on.status is PairStatus.FINISHED, "the instructor of both was done"
        shown = couple.shown(PairPart.INSTRUCTOR)
        assert [token for each in said[PairPart.INSTRUCTOR] for token in each] == shown[: len(shown) - 1]
        assert shown[-1] == "u90z"
        for before in (one, other):
            assert (await client.pairs.find(before.pair.id)).pair == before.pair
        again = await fork(client.engine, "a-b", "third", at_round=3)
        assert again.rounds == 3, "its rounds are found in the merged threads"


@pytest.mark.rest
async def test_settings_of_a_merged_pair_are_the_narrower_ones_or_as_given(scripted: Stage) -> None:
    Couple(scripted, rounds=9)
    elsewhere = scripted.work.parent / "elsewhere"
    elsewhere.mkdir()
    async with scripted.open() as client:
        await carried_out(client, scripted, name="a", max_rounds=1, permissions=Permissions.ALL, thinking=True)
        await carried_out(client, scripted, name="b", max_rounds=2, task="Another task.", permissions="read-only")
        made = await merge_pairs(
            client.engine, "a", "b", MergeOptions(name="both", model="claude-opus-4-1", cwd=str(elsewhere))
        )
        state = await client.pairs.find("both")
        pair = state.pair
        assert (pair.id, state.permissions, pair.thinking) == (made.pair.id, Permissions.READ_ONLY, True)
        assert (pair.instructor_model, pair.worker_model) == ("claude-opus-4-1", "claude-opus-4-1")
        assert (pair.cwd, pair.max_rounds, pair.last_round) == (str(elsewhere), 2, 3 + 2)
        assert "Another task." in pair.task and pair.task.startswith("u1z")


@pytest.mark.rest
async def test_pairs_that_cannot_be_merged_are_refused_and_nothing_is_stored(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    async with scripted.open() as client:
        await carried_out(client, scripted, name="a")
        await carried_out(client, scripted, name="b")
        thread = await client.thread("t", cwd=scripted.work)
        await ask(thread, "one")
        for names in (("a", "t"), ("t", "a")):
            with pytest.raises(UsageError, match="a is a pair, and t is a thread") as mixed:
                await merge(client.engine, *names, AS_THEY_ARE)
            assert "pair-a-instructor and pair-a-worker" in str(mixed.value.hint)
        for a, b, options, error in (
            ("a", "a", AS_THEY_ARE, UsageError),
            ("a", "nothing", AS_THEY_ARE, NotFound),
            ("a", "b", MergeOptions(name="t"), Conflict),
            ("a", "b", MergeOptions(name="a"), Conflict),
            ("a", "b", MergeOptions(agent="nobody"), UsageError),
            ("a", "b", MergeOptions(cwd="/nowhere"), UsageError),
        ):
            with pytest.raises(error):
                await merge_pairs(client.engine, a, b, options)
        couple.busy[1] = Hang("text", "I am at it.")
        live = await start(client, scripted, name="busy")
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, WAIT_S)
        with pytest.raises(Busy):
            await merge_pairs(client.engine, "a", "busy", AS_THEY_ARE)
        live.kill()
        await live.finish()
        assert {state.pair.name for state in await client.pairs.list()} == {"a", "b", "busy"}


@pytest.mark.rest
async def test_the_command_merges_two_pairs(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    async with scripted.open() as client:
        for name in ("a", "b"):
            await carried_out(client, scripted, name=name)
        await ask(await client.thread("t", cwd=scripted.work), "one")
    done = clew(scripted, "threads", "merge", "a", "b", "--name", "both")
    assert (done.code, done.out) == (0, "both\n"), done.err
    assert "2 of a, 2 of b, and a summary for each part" in done.err
    assert 'continue with clew pair --session both "…"' in done.err
    told = clew(scripted, "threads", "merge", "a", "b", "--json").json
    assert (told["name"], told["own_rounds"], set(told["parts"])) == ("a-b", [2, 2], {"instructor", "worker"})
    mixed = clew(scripted, "threads", "merge", "a", "t")
    assert (mixed.code, "a is a pair, and t is a thread" in mixed.err) == (2, True)
    assert clew(scripted, "pair", "--session", "both", "Which is better?").code == 0
