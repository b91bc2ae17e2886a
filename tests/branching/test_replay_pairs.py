"""Replays of pairs: the same task and the same messages of the user, with other models, in a new pair."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.api.client import Client
from clew.core.pairs.pair import PairPart, PairStatus
from clew.core.thread import OriginKind, Permissions
from clew.errors import AgentMissing, Busy, Conflict, NotFound, UsageError
from clew.hosts.branching.pair_replay import PairReplay, PairReplayOptions, replay_pair
from clew.hosts.pairs.pairs import PairState
from clew.testing.model.scripts import Fail, Hang
from clew.testing.stage import MODEL, Stage
from pairs.couple import CONTINUE, Couple, carried_out, finished, order, resumed, start, turns
from transfer.machines import clew

OPUS = "claude-opus-4-1"
WAIT_S = 60


async def replayed(client: Client, old: str, /, **options: Any) -> tuple[PairReplay, PairState]:
    made = await replay_pair(client.engine, client.pairs, old, PairReplayOptions(**options))
    if made.live is not None:
        await made.live.finish()
    return made, await client.pairs.find(made.pair.id)


async def test_messages_of_the_user_come_in_their_rounds_and_nothing_else_is_asked_again(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=2)
    couple.busy[1] = Hang("text", "I am at it.")
    async with scripted.open() as client:
        live = await start(client, scripted, name="maze", thinking=True, permissions=Permissions.ALL)
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, WAIT_S)
        live.cancel()
        await live.finish()
        old = await resumed(client, live.pair, "u7z Leave the old API in.")
        assert CONTINUE in await turns(client, old.pair, PairPart.WORKER)
        old = await resumed(client, old.pair, "u8z And document it.")
        sent = {each.number: each.message for each in old.rounds if each.message}
        assert sorted(sent.values()) == ["u7z Leave the old API in.", "u8z And document it."]
        files = sorted(path.name for path in (scripted.work / ".clew" / "sessions").iterdir())

        couple.requests = {part: [] for part in PairPart}
        made, new = await replayed(client, "maze", model=OPUS)
        assert (new.pair.name, new.status, made.is_continued) == ("maze-claude-opus-4-1", PairStatus.FINISHED, False)
        assert {each.number: each.message for each in new.rounds if each.message} == sent
        assert {request.model for part in PairPart for request in couple.requests[part]} == {OPUS}
        assert new.permissions is Permissions.READ_ONLY, "the same task is not carried out twice in the same files"
        assert (new.pair.task, new.pair.thinking, new.pair.cwd) == (old.pair.task, True, old.pair.cwd)
        for part in PairPart:
            history = await turns(client, new.pair, part)
            assert not any(text.startswith("You were cut off") for text in history)
            origin = (await client.find(new.pair.thread_of(part))).record.origin
            assert origin is not None and origin.how is OriginKind.REPLAY
            assert [source.id for source in origin.of] == [old.pair.thread_of(part)]
        await couple.check_shown(client, new.pair)
        assert (await client.pairs.find(old.pair.id)).pair == old.pair
        assert await client.pairs.latest(str(scripted.work)) == old.pair.id, "--resume continues the user's own pair"
        assert sorted(path.name for path in (scripted.work / ".clew" / "sessions").iterdir()) == files


async def test_a_message_for_a_later_round_comes_when_the_new_instructor_is_done_before(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=2)
    async with scripted.open() as client:
        old = await carried_out(client, scripted, name="maze")
        old = await resumed(client, old.pair, "And document it.")
        assert [each.number for each in old.rounds if each.message] == [4]
        couple.orders.append(order("All of it is done.", go_on=False))
        _, new = await replayed(client, "maze", worker_model=OPUS)
        assert [each.number for each in new.rounds if each.message] == [2], "not lost, and not in round 4 of nothing"
        assert (new.status, new.pair.planned_messages) == (PairStatus.FINISHED, ())
        assert (new.pair.instructor_model, new.pair.worker_model) == (MODEL, OPUS)


@pytest.mark.rest
async def test_a_replay_that_was_stopped_continues_under_its_name(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=2)
    async with scripted.open() as client:
        old = await carried_out(client, scripted, name="maze")
        couple.busy[2] = Hang("text", "I am at it.")
        options = PairReplayOptions(instructor_model=OPUS, name="again")
        made = await replay_pair(client.engine, client.pairs, "maze", options)
        assert made.live is not None
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, WAIT_S)
        with pytest.raises(Busy):
            await replay_pair(client.engine, client.pairs, "maze", options)
        made.live.cancel()
        stopped = await finished(client, made.live)
        assert (stopped.status, stopped.pair.number) == (PairStatus.STOPPED, 2)
        again, done = await replayed(client, "maze", instructor_model=OPUS, name="again")
        assert again.is_continued and done.status is PairStatus.FINISHED
        over, _ = await replayed(client, "maze", instructor_model=OPUS, name="again")
        assert (over.live, over.pair.id) == (None, done.pair.id), "there is nothing more to ask"
        assert (await client.pairs.find(old.pair.id)).pair == old.pair


@pytest.mark.rest
async def test_rounds_directory_and_permissions_can_be_given_and_wrong_options_are_refused(scripted: Stage) -> None:
    Couple(scripted, rounds=9)
    elsewhere = scripted.work.parent / "elsewhere"
    elsewhere.mkdir()
    async with scripted.open(**{"agents.codex.path": "/nowhere/codex"}) as client:
        await carried_out(client, scripted, name="maze", max_rounds=2)
        await client.thread("t", cwd=scripted.work)
        _, new = await replayed(
            client, "maze", model=OPUS, rounds=1, cwd=str(elsewhere), permissions=Permissions.ALL, name="n"
        )
        assert (new.status, len(new.rounds)) == (PairStatus.OUT_OF_ROUNDS, 1)
        assert (new.pair.cwd, new.permissions) == (str(elsewhere), Permissions.ALL)
        over, _ = await replayed(client, "maze", model=OPUS, name="n")
        assert over.live is None
        _, more = await replayed(client, "maze", model=OPUS, name="n", rounds=2)
        assert len(more.rounds) == 2
        known = len(await client.pairs.list())
        for name, options, error in (
            ("nobody", {"model": OPUS}, NotFound),
            ("maze", {"model": " "}, UsageError),
            ("maze", {"worker_model": "--flag"}, UsageError),
            ("maze", {"model": OPUS, "permissions": Permissions.ASK}, UsageError),
            ("maze", {"model": OPUS, "cwd": "/nowhere/at/all"}, UsageError),
            ("maze", {"model": OPUS, "name": "no name"}, UsageError),
            ("maze", {"model": OPUS, "name": "t"}, Conflict),
            ("maze", {"model": OPUS, "name": "maze"}, Conflict),
            ("maze", {"model": "another", "name": "n"}, Conflict),
            ("maze", {"agent": "nobody"}, UsageError),
            ("maze", {"agent": "codex"}, AgentMissing),
        ):
            with pytest.raises(error):
                await replayed(client, name, **options)
        assert len(await client.pairs.list()) == known


@pytest.mark.rest
async def test_the_command_replays_a_pair_and_part_models_are_for_pairs(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    async with scripted.open() as client:
        await carried_out(client, scripted, name="maze")
        await client.thread("t", cwd=scripted.work)
    done = clew(scripted, "threads", "replay", "maze", "--with-worker-model", OPUS, "--name", "new")
    assert done.code == 0, done.err
    assert "round 1, worker:\n  report-1" in done.out
    assert "new pair: new, with the task of maze, up to 10 rounds" in done.err
    assert "permissions read-only: nothing is changed" in done.err
    assert "pair maze · finished · 2 rounds" in done.err and "pair new · finished · 2 rounds" in done.err
    assert "clew threads diff maze new compares them" in done.err
    assert {request.model for request in couple.requests[PairPart.WORKER][-1:]} == {OPUS}
    told = clew(scripted, "threads", "replay", "maze", "--with-model", OPUS, "--json").json
    assert (told["of"][0]["name"], told["before"]["status"], told["after"]["status"]) == (
        "maze",
        "finished",
        "finished",
    )
    assert (told["instructor_model"], told["worker_model"], told["error"]) == (OPUS, OPUS, None)
    assert clew(scripted, "threads", "diff", "maze", "new", "--json").code == 0
    for refused in (("t", "--with-worker-model", OPUS), ("pair-maze-worker", "--with-instructor-model", OPUS)):
        done = clew(scripted, "threads", "replay", *refused)
        assert (done.code, "not a pair" in done.err) == (2, True)
    assert clew(scripted, "threads", "replay", "nobody", "--with-worker-model", OPUS).code == 2
    assert clew(scripted, "threads", "replay", "maze").code == 2
    couple.orders.append(Fail(401, "authentication_error", "invalid x-api-key"))
    failed = clew(scripted, "threads", "replay", "maze", "--with-worker-model", OPUS, "--rounds", "3")
    assert failed.code == 4
    models = f"--with-instructor-model {MODEL} --with-worker-model {OPUS}"
    assert f"to continue: clew threads replay maze --with-agent claude {models} --rounds 3 --name maze-" in failed.err
