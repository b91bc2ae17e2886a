"""The database becomes unavailable during a turn: no prompt, no answer and no question is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.api.client import Client
from clew.core.record import replace
from clew.core.runs.permissions import Answer
from clew.core.runs.run import RunStatus
from clew.engine import faults
from clew.errors import StoreError
from clew.store import open_store
from clew.testing.postgres import PostgresServer
from clew.testing.stage import Stage
from jobs.processes import a_job
from turns.crashes.cuts import Between, cut

ON_THE_WAY = [point for point in faults.POINTS if point not in ("question_asked", "tool_started")]


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_store()


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server of its own, which a test may stop."""
    with PostgresServer(tmp_path_factory.mktemp("own") / "data") as server:
        yield server


@pytest.fixture
def hook() -> Iterator[None]:
    yield
    faults.install(None)


async def until(client: Client, run_id: str, status: RunStatus) -> None:
    async with asyncio.timeout(60):
        while (await client.run(run_id)).status is not status:
            await asyncio.sleep(0.05)


async def cut_again(url: str) -> None:
    """Breaks the connections as soon as there are some."""
    async with asyncio.timeout(60):
        while not cut(url):
            await asyncio.sleep(0.05)


async def speaking(client: Client, run_id: str) -> None:
    """Waits until a part of the run's answer is in the store."""
    async with asyncio.timeout(60):
        async for event in client.views.follow(run_id):
            if event.kind == "text_streamed":
                return


@pytest.mark.parametrize("point", ON_THE_WAY)
async def test_a_connection_that_breaks_at_any_point_is_not_noticed(
    scripted: Stage, url: str, hook: None, point: str
) -> None:
    cuts: list[int] = []

    def at(name: str) -> None:
        if name == point and not cuts:
            cuts.append(cut(url))

    async with scripted.open(environ={"CLEW_STORE": url}) as client:
        thread = await client.thread("t", cwd=scripted.work)
        faults.install(at)
        reply = await (await thread.ask("!say one two three"))
        assert cuts and cuts[0] > 0
        assert (reply.status, reply.text) == ("answered", "one two three")
        assert reply.usage.shown_tokens > 0
        assert [turn.text for turn in await thread.turns()] == ["!say one two three", "one two three"]
        assert (await (await thread.ask("go on"))).session_resumed
        assert [text for role, text in scripted.shown if role == "user"].count("!say one two three") == 1


@pytest.mark.rest
async def test_queued_prompts_outlive_broken_connections(scripted: Stage, url: str) -> None:
    async with scripted.open(environ={"CLEW_STORE": url}) as client:
        thread = await client.thread("t", cwd=scripted.work)
        runs = [await thread.ask("!hang text so far", lasting=True)]
        runs += [await thread.ask(f"!say {number}", lasting=True) for number in range(3)]
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
        for _ in range(4):
            await cut_again(url)
        scripted.api.release()
        replies = [await run.reply() for run in runs]
        assert [reply.text for reply in replies[1:]] == ["0", "1", "2"]
        assert [reply.status for reply in replies] == ["answered"] * 4


@pytest.mark.rest
@pytest.mark.parametrize("times", [1, 4])
async def test_a_question_that_waits_for_a_person_stays_open(scripted: Stage, url: str, times: int) -> None:
    async with scripted.open(environ={"CLEW_STORE": url}) as client:
        thread = await client.thread("t", cwd=scripted.work, permissions="ask")
        run = await thread.ask('!tool Bash {"command": "touch made"}', lasting=True)
        await until(client, run.id, RunStatus.WAITING)
        for _ in range(times):
            await cut_again(url)
        [question] = await client.engine.store.call(lambda store: store.questions.of_run(run.id))
        assert (question.state, question.allowed) == ("open", None)
        await client.answer(run.id, question.id, Answer(allow=True))
        assert (await run.reply()).status == "answered"
        assert (scripted.work / "made").exists()


@pytest.mark.rest
async def test_a_turn_continues_when_the_server_is_available_again_in_time(
    scripted: Stage, own: PostgresServer
) -> None:
    async with scripted.open(environ={"CLEW_STORE": own.new_store()}) as client:
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("!slow 30 0.1")
        await speaking(client, run.id)
        await asyncio.to_thread(own.stop)
        await asyncio.to_thread(own.start)
        reply = await run.reply()
        assert reply.text == " ".join(f"w{number}" for number in range(30))
        events = [event async for event in client.views.follow(run.id)]
        assert [event.seq for event in events] == list(range(1, len(events) + 1)), "none is lost, none is doubled"


@pytest.mark.rest
async def test_what_was_said_is_kept_when_the_server_stays_unavailable(scripted: Stage, own: PostgresServer) -> None:
    environ = {"CLEW_STORE": own.new_store()}
    async with scripted.open(environ=environ) as client:
        client.engine.settings = replace(client.engine.settings, store_retry_s=0.5)
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("!slow 600 0.1")
        await speaking(client, run.id)
        await asyncio.to_thread(own.stop)
        error = (await run.reply()).error
        assert isinstance(error, StoreError) and "cannot be reached" in error.message
        assert not scripted.processes()
        await asyncio.to_thread(own.start)
        await until(client, run.id, RunStatus.INTERRUPTED)  # this process recovers the run itself, as after a crash
        [asked, said] = await thread.turns()
        assert (asked.text, said.partial) == ("!slow 600 0.1", True)
        assert said.text.startswith("w0")
        assert (await (await thread.ask("go on"))).status == "answered"


@pytest.mark.rest
async def test_the_next_turn_waits_until_recovery_has_cleaned_up(scripted: Stage, own: PostgresServer) -> None:
    async with scripted.open(environ={"CLEW_STORE": own.new_store()}) as client:
        client.engine.settings = replace(client.engine.settings, store_retry_s=0.5)
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("!slow 600 0.1")
        await speaking(client, run.id)
        await asyncio.to_thread(own.stop)
        assert isinstance((await run.reply()).error, StoreError)
        await asyncio.to_thread(own.start)
        assert (await (await thread.ask("!say on"))).text == "on", "without a recovery before it"
        assert [turn.text[:2] for turn in await thread.turns()] == ["!s", "w0", "!s", "on"]


async def test_a_run_that_was_left_to_recovery_does_not_block_others_for_long(scripted: Stage) -> None:
    """The store fails once, during the commit of the answer; this process stays alive, and others wait for the run."""
    failing = [True]

    def full(point: str) -> None:
        if point == "outcome_known" and failing:
            failing.clear()
            raise StoreError("full", kind="full")

    faults.install(full)
    try:
        async with scripted.open() as client, scripted.open() as other:
            thread = await client.thread("t", cwd=scripted.work)
            reply = await (await thread.ask("!say one")).reply()
            assert isinstance(reply.error, StoreError)
            assert (await (await thread.ask("!say two", wait=False))).text == "two", "not Busy"
            assert (await (await (await other.find("t")).ask("!say three"))).text == "three"
            said = [turn.text for turn in await thread.turns()]
            assert said == ["!say one", "one", "!say two", "two", "!say three", "three"]
    finally:
        faults.install(None)


@pytest.mark.rest
async def test_a_commit_whose_result_is_lost_is_not_made_twice(scripted: Stage, url: str, tmp_path: Path) -> None:
    """For each commit of a job in turn: the job is asked, answered and charged once."""
    lost = 0
    with Between(url, tmp_path / "s").open() as between:
        async with scripted.open(environ={"CLEW_STORE": between.url}) as client:
            while True:
                between.lose, lost = between.commits + lost + 1, lost + 1
                prompt = f"!say number {lost}"
                try:
                    job = await client.jobs.submit(a_job(scripted, prompt))
                except StoreError:
                    continue  # the caller gets an error which says that the job may or may not be stored
                await _carry_out(client, job.id)
                if between.commits < between.lose:
                    break
                done = await client.jobs.find(job.id)
                assert (done.status, done.result) == ("succeeded", f"number {lost}")
                thread = await client.find(done.thread_id)
                runs = await client.runs(thread=thread)
                answered = [run for run in runs if run.status is RunStatus.ANSWERED]
                assert len(answered) == 1, [(run.status, run.error) for run in runs]
                assert [text for role, text in scripted.shown if role == "user"].count(prompt) == 1
    assert lost > 6, "a job has six commits at least"


async def _carry_out(client: Client, job_id: str) -> None:
    """Carries the job out as a worker does: after an error of the store it continues."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await client.carry_out(job_id)
            except StoreError:
                await asyncio.sleep(0.1)


class TestTheStoreItself:
    def test_an_idle_connection_that_broke_is_replaced(self, url: str) -> None:
        with open_store(url) as store:
            assert cut(url)
            assert store.threads.recent() == []
            assert cut(url)
            with store.transaction():
                assert store.threads.recent() == []
            assert cut(url)
            with store.reading():
                assert store.threads.recent() == []

    def test_a_break_inside_a_transaction_raises_and_writes_nothing(self, url: str) -> None:
        with open_store(url) as store:
            with pytest.raises(StoreError) as raised, store.transaction():
                store.key_values.set("f", "1")
                cut(url)
                store.key_values.set("g", "1")
            assert (raised.value.passing, raised.value.in_doubt) == (True, False)
            assert (store.key_values.get("f"), store.key_values.get("g")) == (None, None)

    def test_a_commit_whose_result_is_lost_is_in_doubt(self, url: str, tmp_path: Path) -> None:
        with Between(url, tmp_path / "s").open() as between, open_store(between.url) as store:
            between.lose = between.commits + 1
            with pytest.raises(StoreError) as raised:
                store.key_values.set("f", "1")
            assert (raised.value.passing, raised.value.in_doubt) == (False, True)
            assert store.key_values.get("f") == "1", "this time it was made"
