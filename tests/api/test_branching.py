"""Fork, compare, merge and replay through the API: what they return, and that a replay can be stopped and continued."""

from __future__ import annotations

import asyncio

import pytest

import clew
from clew.api import branching, operations
from clew.api.branching import MergeOptions, ReplayOptions
from clew.api.operations import OperationStatus
from clew.errors import AuthFailed, Busy, Cancelled, NotFound, UsageError
from clew.testing.model.scripts import Fail, Hang, Reply, Request, Text, newest_user_text
from clew.testing.stage import MODEL, Stage
from transfer.machines import ask

OPUS = "claude-opus-4-1"


async def talk(client: clew.Client, stage: Stage, name: str, *prompts: str) -> None:
    thread = await client.thread(name, cwd=stage.work)
    for prompt in prompts:
        await ask(thread, prompt)


def differs(stage: Stage, trouble: Reply | None = None) -> None:
    """Each model answers in its own words; at the prompt `two` the other model is in trouble, once."""
    left = [trouble] if trouble is not None else []

    def reply(request: Request) -> Reply | None:
        if not request.is_main:
            return None
        said = newest_user_text(request.messages).splitlines()[-1]
        if request.model != MODEL and said == "two" and left:
            return left.pop()
        return Text(f"{request.model} on {said}")

    stage.api.reply = reply


async def test_a_fork_says_what_its_next_turn_will_do(scripted: Stage) -> None:
    async with scripted.open() as client:
        await talk(client, scripted, "t", "one", "two")
        made = await branching.fork(client, "t", "f", at_round=1)
        shape = (await branching.fork_shape(client, made)).to_json()
        record = (await client.find("t")).record
        assert {key: shape[key] for key in ("name", "pair", "turns", "rounds", "notes")} == {
            "name": "f", "pair": None, "turns": 2, "rounds": 1, "notes": [],
        }  # fmt: skip
        assert shape["of"] == [{"id": record.id, "name": "t"}]
        [thread] = shape["threads"]
        assert thread["next_turn"]["resumes"] is True and "copy of the session" in thread["next_turn"]["words"]
        assert thread["origin"] == {"how": "fork", "of": shape["of"], "round": 1}
        with pytest.raises(NotFound):
            await branching.fork(client, "nobody")


async def test_two_threads_are_compared_and_merged(scripted: Stage) -> None:
    async with scripted.open() as client:
        await talk(client, scripted, "a", "one", "two")
        await client.fork("a", "b", at_round=1)
        await talk(client, scripted, "b", "another two")
        compared = branching.comparison_shape(await branching.compare(client, "a", "b")).to_json()
        assert list(compared) == ["same", "a", "b", "turns", "files"]
        assert (compared["same"], compared["a"]["name"], compared["b"]["name"]) == (False, "a", "b")
        assert [turn["step"] for turn in compared["turns"]][:2] == ["same", "same"]
        made = branching.merge_shape(await branching.merge(client, "a", "b", MergeOptions(name="m"))).to_json()
        assert (made["name"], made["common_turns"], made["own_turns"]) == ("m", 2, [2, 2])
        assert len(await (await client.find("m")).turns()) == 7, "and a summary"
        with pytest.raises(UsageError):
            await branching.merge(client, "a", "a", MergeOptions())


async def test_a_replay_reports_each_round_with_its_run_and_returns_both_answers(scripted: Stage) -> None:
    differs(scripted)
    async with scripted.open() as client:
        await talk(client, scripted, "t", "one", "two")
        operation = await branching.replay(client, "t", ReplayOptions(model=OPUS, timeout_s=90.0))
        events = [event async for event in operation]
        assert [(event.message, event.done, event.total) for event in events] == [
            ("asking round 1 of 2", 0, 2),
            ("round 1 of 2 is answered", 1, 2),
            ("asking round 2 of 2", 1, 2),
            ("round 2 of 2 is answered", 2, 2),
            ("", None, None),
        ]
        runs = [event.data["run_id"] for event in events[:-1] if event.data is not None]
        assert runs[0] == runs[1] != runs[2] == runs[3]
        done = await operation
        for run in {*runs}:
            assert (await client.run(run)).thread_id == done.thread.id
            assert (await client.run(run)).asked.timeout_s == 90.0
        shape = done.to_shape().to_json()
        assert [(each["before"]["text"], each["after"]["text"]) for each in shape["rounds"]] == [
            (f"{MODEL} on one", f"{OPUS} on one"),
            (f"{MODEL} on two", f"{OPUS} on two"),
        ]
        assert (shape["prompts"], shape["after"]["answers"], shape["error"]) == (2, 2, None)
        assert operation.to_shape().result == shape


async def test_a_cancel_in_the_middle_stops_the_run_and_the_replay_can_be_continued(scripted: Stage) -> None:
    differs(scripted, Hang("text", "half an ans"))
    async with scripted.open() as client:
        await talk(client, scripted, "t", "one", "two", "three")
        operation = await branching.replay(client, "t", ReplayOptions(model=OPUS, name="n"))
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, timeout_s=60)
        assert operation.cancel()
        with pytest.raises(Cancelled):
            await operation
        scripted.api.release()
        assert operation.status is OperationStatus.CANCELLED
        shape = operation.to_shape()
        assert shape.result is not None
        assert [each["after"]["partial"] for each in shape.result["rounds"]] == [False, True]
        assert shape.error is not None and "can be continued" in str(shape.error.hint)
        [last] = await client.runs(thread=await client.find("n"), limit=1)
        assert last.status == "cancelled"
        again = await branching.replay(client, "t", ReplayOptions(model=OPUS, name="n"))
        done = await again
        assert [each.after and each.after.text for each in done.rounds] == [
            f"{OPUS} on {prompt}" for prompt in ("one", "two", "three")
        ]
        assert again.events[0].message == "asking round 2 of 3", "complete answers are kept"


async def test_a_replay_that_fails_has_its_answers_as_its_result(scripted: Stage) -> None:
    differs(scripted, Fail(401, "authentication_error", "invalid x-api-key"))
    async with scripted.open() as client:
        await talk(client, scripted, "t", "one", "two")
        operation = await branching.replay(client, "t", ReplayOptions(model=OPUS))
        with pytest.raises(AuthFailed):
            await operation
        assert operation.status is OperationStatus.FAILED
        result = operation.to_shape().result
        assert result is not None
        assert [each["after"] and each["after"]["text"] for each in result["rounds"]] == [f"{OPUS} on one", None]
        assert result["error"]["code"] == "auth"


async def test_a_replay_that_cannot_start_creates_nothing(scripted: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted.open() as client:
        await talk(client, scripted, "t", "one")
        monkeypatch.setattr(operations, "MAX_RUNNING", 0)
        with pytest.raises(Busy):
            await branching.replay(client, "t", ReplayOptions(model=OPUS))
        with pytest.raises(NotFound):
            await branching.prepare_replay(client, "nobody", ReplayOptions(model=OPUS))
        assert [each.name for each in await client.threads()] == ["t"]


async def test_a_replay_that_is_killed_ends_its_agent(scripted: Stage) -> None:
    differs(scripted, Hang("text", "half an ans"))
    async with scripted.open() as client:
        await talk(client, scripted, "t", "two")
        operation = await branching.replay(client, "t", ReplayOptions(model=OPUS, name="n"))
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, timeout_s=60)
        operation.kill()
        with pytest.raises(Cancelled):
            await operation
        [run] = await client.runs(thread=await client.find("n"), limit=1)
        [*_, last] = [event async for event in client.views.follow(run.id)]
        assert last.kind == "run_ended"
        scripted.api.release()


async def test_closing_the_client_stops_a_replay_gracefully(scripted: Stage) -> None:
    differs(scripted, Hang("text", "half an ans"))
    async with scripted.open() as client:
        await talk(client, scripted, "t", "two")
        operation = await branching.replay(client, "t", ReplayOptions(model=OPUS, name="n"))
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, timeout_s=60)
    scripted.api.release()
    assert operation.status is OperationStatus.CANCELLED
    async with scripted.open() as client:
        [_, answer] = await (await client.find("n")).turns()
        assert (answer.partial, answer.text) == (True, "half an ans")


async def test_a_second_replay_in_the_same_thread_is_refused(scripted: Stage) -> None:
    differs(scripted)
    options = ReplayOptions(model=OPUS, name="n")
    async with scripted.open() as client:
        await talk(client, scripted, "t", "one", "two")
        first, second = [await branching.prepare_replay(client, "t", options) for _ in range(2)]
        operation = branching.start_replay(client, first)
        with pytest.raises(Busy, match="Another replay asks in n"):
            branching.start_replay(client, second)
        await operation
        assert [turn.text for turn in await (await client.find("n")).turns()] == [
            *("one", f"{OPUS} on one", "two", f"{OPUS} on two"),
        ]
        assert (await branching.replay(client, "t", options)).is_running, "it has ended, so it can be called again"
