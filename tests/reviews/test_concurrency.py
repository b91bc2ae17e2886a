"""Concurrent and dying processes: ids are unique, a second follow-up is refused, and a dead round is concluded."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clew.core.ids import ThreadId
from clew.core.record import replace
from clew.core.reviews.review import ReviewRound, RoundStatus
from clew.core.runs.run import Owner
from clew.core.thread import Thread
from clew.errors import Busy
from clew.hosts.reviews.reviews import ReviewSpec, RoundOptions
from clew.store import open_store
from clew.testing.model.scripts import Hang
from clew.testing.stage import MODEL, Stage
from reviews.reviewer import Reviewer, answer, finding, follow, repository, start

STARTS = """
import asyncio, json, sys
import clew
from clew.hosts.reviews.reviews import ReviewSpec

async def main(folder, model, number):
    async with clew.open() as client:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        async def one():
            live = await client.reviews.start(ReviewSpec(folder, "claude", model))
            return (await live.finish())
        done = await asyncio.gather(*(one() for _ in range(number)))
        print(json.dumps([[each.review_id, each.status] for each in done]))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""

# All that `create_review` does, as fast as possible.
CREATES = """
import sys
from pathlib import Path
from clew.core.ids import ThreadId
from clew.core.reviews.review import Review
from clew.store import open_store
where = sys.argv[1]
with open_store(where if "://" in where else Path(where)) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[2])):
        print(store.reviews.create(Review("", ThreadId("thread-1"), "/project"), "2026-01-02").id)
"""


def all_at_once(code: str, words: list[str], environ: dict[str, str] | None, count: int) -> list[str]:
    """Starts this many processes, releases them when all are ready, and returns their output."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-W", "error", "-c", code, *words]
    started = [subprocess.Popen(command, env=environ, **pipes) for _ in range(count)]  # type: ignore[call-overload]
    try:
        for process in started:
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        for process in started:
            process.stdin.write("\n")
            process.stdin.flush()
        said = [process.communicate(timeout=100) for process in started]
        assert [(process.returncode, err) for process, (_, err) in zip(started, said, strict=True)] == [
            (0, "") for _ in started
        ]
        return [out for out, _ in said]
    finally:
        for process in started:
            process.kill()
            process.communicate()


@pytest.mark.rest
async def test_twenty_starts_at_once_from_four_processes(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    scripted.api.reply = Reviewer()
    said = await asyncio.to_thread(all_at_once, STARTS, [str(repo), MODEL, "5"], scripted.environ, 4)
    done = [each for out in said for each in json.loads(out)]
    assert [status for _, status in done] == ["done"] * 20
    days = {id[:10] for id, _ in done}
    assert len(days) in (1, 2), "at midnight it may be two"
    async with scripted.open() as client:
        states = await client.reviews.list(limit=100)
        assert sorted(state.review.id for state in states) == sorted(id for id, _ in done)
        assert len({id for id, _ in done}) == 20
        for day in days:
            numbers = sorted(int(id[11:]) for id, _ in done if id.startswith(day))
            assert numbers == list(range(1, len(numbers) + 1)) and all(len(id) == 14 for id, _ in done)
        assert {state.thread.name for state in states} == {f"review-{id}" for id, _ in done}


@pytest.mark.rest
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_two_hundred_ids_from_eight_processes(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    file = tmp_path / "clew.db"
    where = file if kind == "sqlite" else request.getfixturevalue("postgres").new_store()
    with open_store(where) as store:
        store.threads.create(Thread(ThreadId("thread-1"), "t", "/project", "claude", None))
        said = all_at_once(CREATES, [str(where), "25"], None, 8)
        ids = [id for out in said for id in out.split()]
        assert sorted(ids) == [f"2026-01-02-{number:03d}" for number in range(1, 201)]
        assert store.reviews.count() == 200


async def test_of_two_follow_ups_at_once_one_is_refused_and_leaves_no_round(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    scripted.api.reply = Reviewer()
    async with scripted.open() as client, scripted.open() as other:
        first = await start(client, repo)
        (repo / "a.py").write_text("a = 3\n")
        scripted.api.script.append(Hang("request"))
        both = await asyncio.gather(
            client.reviews.follow(first.review_id, RoundOptions("one")),
            other.reviews.follow(first.review_id, RoundOptions("two")),
            return_exceptions=True,
        )
        [lost] = [each for each in both if isinstance(each, Busy)]
        [live] = [each for each in both if not isinstance(each, BaseException)]
        assert "Round 2" in lost.message
        for late in (client, other):
            with pytest.raises(Busy, match="Round 2"):
                await late.reviews.follow(first.review_id, RoundOptions("late"))
        assert len((await other.reviews.find(first.review_id)).rounds) == 2
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
        scripted.api.release()
        second = await live.finish()
        assert (second.number, second.message) == (2, live.round.message)
        third = await follow(other, first.review_id, "three")
        assert (third.number, third.status) == (3, RoundStatus.DONE)
        said = [each.message for each in (await client.reviews.find(first.review_id)).rounds]
        assert said == ["", live.round.message, "three"]


FOLLOWS = """
import asyncio, sys
import clew
from clew.hosts.reviews.reviews import RoundOptions

async def main(id, message):
    async with clew.open() as client:
        await (await client.reviews.follow(id, RoundOptions(message))).finish()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "point", ["prompt_stored", "decided", "prompt_sent", "text_streamed", "outcome_known", "outcome_stored"]
)
async def test_a_round_whose_process_was_killed_is_concluded_and_the_next_continues(
    scripted: Stage, point: str
) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    scripted.api.reply = (reviewer := Reviewer(answer([finding()])))
    async with scripted.open() as client:
        first = await start(client, repo)
    (repo / "a.py").write_text("a = 3\n")
    reviewer.answers = [answer([finding("Found as it died")])]
    environ = {**scripted.environ, "CLEW_FAULT": point, "CLEW_MODEL": MODEL}
    words = [sys.executable, "-c", FOLLOWS, first.review_id, "Mended."]
    died = await asyncio.to_thread(subprocess.run, words, env=environ, capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    reviewer.answers = []
    async with scripted.open() as client:
        dead = (await client.reviews.find(first.review_id)).rounds[1]
        assert dead.ended_at is not None
        if dead.status is RoundStatus.DONE:
            assert dead.answer is not None and dead.answer.findings[0].id == "F2", "the answer was on disk"
        else:
            assert dead.status is RoundStatus.FAILED and dead.error
        assert dead.status is RoundStatus.DONE or point != "outcome_stored"
        assert dead.status is RoundStatus.FAILED or point not in ("prompt_stored", "decided")
        assert (await client.reviews.find(first.review_id)).rounds[1] == dead, "it is concluded once"
        (repo / "b.py").write_text("b = 3\n")
        third = await follow(client, first.review_id, "Once more.")
        assert (third.number, third.status) == (3, RoundStatus.DONE)
        whole = "\n".join(text for _, text in scripted.shown)
        assert whole.count("+a = 3") == 1 and whole.count("+b = 3") == 1, "what the dead round may have shown, once"
        assert whole.count("Mended.") <= 1
        assert not scripted.processes()


async def test_after_a_round_that_died_before_its_run_the_next_shows_what_it_would_have_shown(
    scripted: Stage,
) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    scripted.api.reply = Reviewer()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    async with scripted.open() as client:
        first = await start(client, repo)
        (repo / "a.py").write_text("a = 3\n")
        here = client.engine.context.owner
        dead = replace(
            first, number=2, status=RoundStatus.RUNNING, owner=Owner(here.host, gone.pid, 1.0), run_id=None,
                first_run_id=None, runs=0,
            answer=None, ended_at=None,
        )  # fmt: skip
        await client.engine.store.call(lambda store: store.reviews.add_round(dead, diff="", files={"a.py": b"a = 3\n"}))
        second = await follow(client, first.review_id)
        assert (second.number, second.changed_since, second.session_resumed) == (3, ("a.py",), True)
        assert "-a = 2\n+a = 3" in scripted.prompt
        rounds = (await client.reviews.find(first.review_id)).rounds
        assert rounds[1].status is RoundStatus.FAILED and rounds[1].error


async def test_a_round_of_another_machine_is_not_concluded_until_that_machine_is_silent(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    scripted.api.reply = Reviewer()
    async with scripted.open() as client:
        first = await start(client, repo)
        now = client.engine.context.clock()
        other = ReviewRound(
            first.review_id, 2, RoundStatus.RUNNING, "claude", MODEL, Owner("elsewhere", 1, 1.0), started_at=now
        )
        await client.engine.store.call(lambda store: store.reviews.add_round(other, diff="", files={}))
        with pytest.raises(Busy):
            await follow(client, first.review_id, "So?")
        client.engine.context = replace(client.engine.context, clock=lambda: now + 61)
        assert (await follow(client, first.review_id, "So?")).number == 3


async def test_closing_the_client_during_a_round_concludes_it(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    scripted.api.script.append(Hang("request"))
    async with scripted.open() as client:
        live = await client.reviews.start(ReviewSpec(str(repo), "claude", MODEL))
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
    assert live.task.done()
    scripted.api.reply = Reviewer()
    async with scripted.open() as client:
        state = await client.reviews.find(live.review.id)
        assert [each.status for each in state.rounds] == [RoundStatus.FAILED]
        assert (await follow(client, live.review.id, "Again.")).status is RoundStatus.DONE
