"""Forks of pairs: both threads up to a round, as a pair that continues independently."""

from __future__ import annotations

import json

import pytest

from clew.core.pairs.pair import PairPart, PairStatus
from clew.errors import Conflict, UsageError
from clew.hosts.branching.fork import fork
from clew.testing.stage import Stage
from pairs.couple import Couple, carried_out, resumed, turns
from transfer.machines import clew

pytestmark = pytest.mark.rest


class TestPair:
    async def test_a_pair_forked_at_a_round_is_another_pair(self, stage: Stage) -> None:
        couple = Couple(stage, rounds=2)
        async with stage.open() as client:
            old = await carried_out(client, stage, name="maze", max_rounds=7)
            assert old.status is PairStatus.FINISHED and len(old.rounds) == 3
            before = {path: path.read_bytes() for path in stage.session_files()}
            made = await fork(client.engine, "maze", at_round=1)
            assert (made.pair, made.rounds, made.of) == ("maze-fork", 1, "maze")
            assert [thread.name for thread in made.threads] == ["pair-maze-fork-instructor", "pair-maze-fork-worker"]
            assert {thread.kind for thread in made.threads} == {"pair"}
            new = await client.pairs.find(await client.pairs.resolve("maze-fork"))
            assert [round_.result for round_ in new.rounds] == [round_.result for round_ in old.rounds[:1]]
            assert (new.pair.number, new.pair.last_round, new.pair.task) == (1, 7, old.pair.task)
            for part in PairPart:
                whole = await turns(client, old.pair, part)
                assert await turns(client, new.pair, part) == whole[:2]
            launched = len(stage.launches)
            went_on = await resumed(client, new.pair, "u90z Another way.")
            assert went_on.status is PairStatus.FINISHED and len(went_on.rounds) == 3
            assert all(launch.resumes for launch in stage.launches[launched:]), "nobody was told it all again"
            await couple.check_shown(client, went_on.pair)
            assert {path: path.read_bytes() for path in before} == before
            assert went_on.cost_usd < old.cost_usd
            assert (await client.pairs.find(old.pair.id)).pair == old.pair

    async def test_a_fork_of_a_forked_pair(self, scripted: Stage) -> None:
        couple = Couple(scripted, rounds=3)
        async with scripted.open() as client:
            await carried_out(client, scripted, name="maze")
            await fork(client.engine, "maze", at_round=2)
            again = await fork(client.engine, "pair-maze-fork-worker", "third", at_round=1)
            assert again.pair == "third", "by one of its threads, and by the words of a round that has no run here"
            third = await resumed(client, (await client.pairs.find(await client.pairs.resolve("third"))).pair)
            assert third.status is PairStatus.FINISHED and len(third.rounds) == 4
            await couple.check_shown(client, third.pair)

    async def test_a_pair_is_forked_at_a_completed_round_or_refused(self, scripted: Stage) -> None:
        Couple(scripted, rounds=9)
        async with scripted.open() as client:
            old = await carried_out(client, scripted, name="maze", max_rounds=2)
            whole = await fork(client.engine, "maze", "whole")
            assert (whole.rounds, whole.notes) == (2, ())
            with pytest.raises(UsageError, match="no round 3") as beyond:
                await fork(client.engine, "maze", at_round=3)
            assert beyond.value.hint == "The last one is 2."
            with pytest.raises(UsageError, match="at a round"):
                await fork(client.engine, "maze", at_turn="x")
            with pytest.raises(Conflict):
                await fork(client.engine, "maze", "whole")
            kept = await client.engine.store.call(lambda store: store.pairs.recent())
            assert [pair.name for pair in kept] == ["whole", "maze"] and old.pair in kept
        done = clew(scripted, "pair", "--resume", "--fork-at-round", "1", "--name", "short", "-r", "1", "--json")
        assert done.code == 1, done.err  # its rounds are used up
        assert json.loads(done.out.splitlines()[-1])["name"] == "short"
        assert "does not restore those" in done.err
        assert clew(scripted, "pair", "TASK", "--fork-at-round", "1").code == 2

    async def test_a_fork_that_has_rounds_left_is_not_out_of_them(self, scripted: Stage) -> None:
        Couple(scripted, rounds=9)
        async with scripted.open() as client:
            old = await carried_out(client, scripted, name="maze", max_rounds=2)
            assert old.status is PairStatus.OUT_OF_ROUNDS
            for name, at, status in (("early", 1, PairStatus.STOPPED), ("late", 2, PairStatus.OUT_OF_ROUNDS)):
                await fork(client.engine, "maze", name, at_round=at)
                made = await client.pairs.find(await client.pairs.resolve(name))
                assert (made.status, made.pair.rounds_left) == (status, 2 - at)
                origin = (await client.find(made.pair.worker_thread_id)).record.origin
                assert origin is not None and origin.round == at, "as it was given, the last one too"

    async def test_no_fork_is_made_of_a_pair_that_could_not_continue(self, scripted: Stage) -> None:
        Couple(scripted, rounds=1)
        async with scripted.open() as client:
            done = await carried_out(client, scripted, name="maze")
            assert done.status is PairStatus.FINISHED and len(done.rounds) == 2
        at_end = ("pair", "--session", "maze", "--fork-at-round", "2", "--name", "new")
        missing = clew(scripted, *at_end, "What else?", CLEW_CLAUDE_PATH="/nowhere")
        assert missing.code == 3
        refused = [
            clew(scripted, *at_end),
            clew(scripted, *at_end, "What else?", "--cwd", "/nowhere"),
            clew(scripted, *at_end, "What else?", "--worker-model=--flag"),
            clew(scripted, "pair", "--session", "maze", "--fork-at-round", "9", "--name", "new"),
        ]
        assert [each.code for each in refused] == [2, 2, 2, 2]
        assert "Say what is next" in refused[0].err
        async with scripted.open() as client:
            assert [state.pair.name for state in await client.pairs.list()] == ["maze"]
        told = clew(scripted, "threads", "fork", "maze")
        assert 'clew pair --session maze-fork "and now …" continues it' in told.err
