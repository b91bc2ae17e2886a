"""Resuming a pair: messages, more rounds, other models, files that somebody changed, and invalid answers."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from clew.api import pairs as surface
from clew.api.client import Client
from clew.core.pairs.pair import PairPart, PairRound, PairStatus, PairWarned, Phase
from clew.core.record import replace
from clew.core.thread import Permissions
from clew.errors import AuthFailed, NotFound, UsageError
from clew.hosts.pairs.live import LivePair
from clew.hosts.pairs.rows import ResumeOptions
from clew.store.store import Store
from clew.testing.model.scripts import FINAL, Fail, Hang, Text
from clew.testing.stage import MODEL, Stage
from clew.testing.store_contract.pairs import a_pair
from clew.testing.store_contract.samples import a_thread
from pairs.couple import CONTINUE, Couple, carried_out, finished, order, resumed, start, turns


async def warnings(live: LivePair) -> dict[str, str]:
    return {event.code: event.message async for event in live.events() if isinstance(event, PairWarned)}


@pytest.mark.rest
async def test_used_up_rounds_are_renewed_or_set_by_the_option(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=9)
    async with scripted.open() as client:
        first = await carried_out(client, scripted, max_rounds=2)
        assert (first.status, len(first.rounds), first.pair.rounds_left) == (PairStatus.OUT_OF_ROUNDS, 2, 0)
        again = await resumed(client, first.pair)
        assert (again.status, len(again.rounds), again.pair.last_round) == (PairStatus.OUT_OF_ROUNDS, 4, 4)
        more = await resumed(client, first.pair, more_rounds=1)
        assert (more.status, len(more.rounds), more.pair.max_rounds) == (PairStatus.OUT_OF_ROUNDS, 5, 2)
        await couple.check_shown(client, more.pair)


@pytest.mark.rest
async def test_a_finished_pair_continues_only_with_a_message(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    async with scripted.open() as client:
        first = await carried_out(client, scripted)
        assert first.status is PairStatus.FINISHED
        assert [each.worker_model for each in first.rounds] == [MODEL, None], "in the last one nobody worked"
        with pytest.raises(UsageError, match="has finished"):
            await client.pairs.resume(first.pair.id, ResumeOptions())
        assert (await client.pairs.find(first.pair.id)).status is PairStatus.FINISHED, "and it is nobody's"
        couple.orders.append(order("order-2 u8z"))
        second = await resumed(client, first.pair, "u7z Now the second part.")
        assert (second.status, second.rounds[2].message) == (PairStatus.FINISHED, "u7z Now the second part.")
        prompts = [text for text in await turns(client, second.pair, PairPart.INSTRUCTOR) if text.startswith("Round 3")]
        assert len(prompts) == 1 and "u7z Now the second part." in prompts[0]
        await couple.check_shown(client, second.pair)


@pytest.mark.rest
async def test_a_message_reaches_an_interrupted_instructor_with_the_prompt_to_continue(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.orders.append(Fail(401, "authentication_error", "invalid x-api-key", FINAL))
    async with scripted.open() as client:
        live = await start(client, scripted)
        state = await finished(client, live)
        assert isinstance(live.error, AuthFailed)
        assert (state.status, state.pair.phase, state.pair.error_code) == (
            PairStatus.STOPPED,
            Phase.INSTRUCTING,
            "auth",
        )
        done = await resumed(client, state.pair, "u5z Mind the gap.")
        assert (done.status, done.rounds[0].message) == (PairStatus.FINISHED, "u5z Mind the gap.")
        assert done.pair.error_code is None
        history = await turns(client, done.pair, PairPart.INSTRUCTOR)
        [went_on] = [text for text in history if text.startswith(CONTINUE)]
        assert "u5z Mind the gap." in went_on
        await couple.check_shown(client, done.pair)


@pytest.mark.rest
async def test_thinking_is_in_the_instructors_rubric_until_it_is_switched_off(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=0)

    async def told(client: Client, text: str, pair_id: str | None = None, thinking: bool | None = None) -> str:
        """The newest rubric that the instructor was shown."""
        wanted = surface.PairOptions(text=text, cwd=str(scripted.work), thinking=thinking)
        which = surface.PairSelection(session=pair_id)
        live = (await surface.resume(client, which, wanted))[0] if pair_id else await surface.start(client, wanted)
        await live.finish()
        shown = [
            text for _, text in couple.requests[PairPart.INSTRUCTOR][-1].shown_texts() if "You lead the work" in text
        ]
        return shown[-1]

    async with scripted.open() as client:
        assert "think hard, step by step" in await told(client, "Build it.", thinking=True)
        [state] = await client.pairs.list()
        assert "think hard, step by step" in await told(client, "And on.", state.pair.id)
        assert (await client.pairs.find(state.pair.id)).pair.thinking
        assert "two or three sentences" in await told(client, "And on.", state.pair.id, thinking=False)
        assert not (await client.pairs.find(state.pair.id)).pair.thinking


async def test_another_model_is_a_warning_and_the_pair_continues_with_it(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=3)
    other = "claude-opus-4-1"
    async with scripted.open() as client:
        first = await carried_out(client, scripted, max_rounds=1)
        live = await client.pairs.resume(first.pair.id, ResumeOptions(worker_model=other, more_rounds=1))
        said = await warnings(live)
        assert list(said) == ["another_model"] and MODEL in said["another_model"] and other in said["another_model"]
        state = await finished(client, live)
        assert [each.worker_model for each in state.rounds] == [MODEL, other]
        assert couple.requests[PairPart.WORKER][-1].model == other
        assert f'"{other}"' in couple.requests[PairPart.INSTRUCTOR][-1].shown_texts()[-1][1], "the rubric names it"


async def test_another_agent_takes_the_model_of_the_settings_with_a_warning(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    async with scripted.open() as client:

        def make(store: Store) -> None:
            for number in (1, 2):
                thread = a_thread(f"thread-{number}", f"part-{number}", kind="pair", agent="codex", model="gpt-5")
                thread = replace(thread, permissions=Permissions.EDITS)
                store.threads.create(thread)
            asked = {"phase": Phase.INSTRUCTING, "asking": "u1z Round 1 of 3. Build it."}
            store.pairs.create(a_pair(cwd=str(scripted.work), agent="codex", worker_model="gpt-5", **asked))
            store.pairs.add_round(PairRound("pair-1", 1))

        await client.engine.store.call(make)
        live, _ = await surface.resume(client, surface.PairSelection("build"), surface.PairOptions(agent="claude"))
        told = [event.message async for event in live.events() if isinstance(event, PairWarned)]
        state = await finished(client, live)
    assert (state.status, state.pair.agent, state.pair.worker_model) == (PairStatus.FINISHED, "claude", MODEL)
    assert told == [
        "the agent was codex; the pair continues with claude",
        f"the instructor's model was the default; the pair continues with {MODEL}",
        f"the worker's model was gpt-5; the pair continues with {MODEL}",
    ]


async def test_another_model_continues_the_order_at_which_the_first_was_stopped(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.busy[1] = Hang("text", "I am at it.")
    other = "claude-opus-4-1"
    async with scripted.open() as client:
        live = await start(client, scripted)
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, 60)
        live.cancel()
        await live.finish()
        state = await resumed(client, live.pair, worker_model=other)
        assert (state.status, state.rounds[0].worker_model) == (PairStatus.FINISHED, other)
        assert couple.requests[PairPart.WORKER][-1].model == other
        await couple.check_shown(client, state.pair)


async def test_the_instructor_may_choose_a_given_model_for_a_step_and_no_other(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=0)
    other = "claude-opus-4-1"
    couple.orders += [order("order-1", worker_model=other), order("order-2", worker_model="gpt-9")]
    async with scripted.open() as client:
        live = await start(client, scripted, instructor_model=other)
        said = await warnings(live)
        state = await finished(client, live)
        assert state.status is PairStatus.FINISHED
        assert [each.worker_model for each in state.rounds[:2]] == [other, MODEL]
        assert list(said) == ["unknown_model"] and "gpt-9" in said["unknown_model"]


async def test_an_answer_that_does_not_fit_is_asked_for_once_more_in_the_session(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=0)
    couple.orders += ["Let us begin!", f"Sorry.\n```json\n{order('order-1')}\n```\n"]
    couple.orders += ["no", order(" ", go_on=True)]
    async with scripted.open() as client:
        live = await start(client, scripted)
        told = await warnings(live)
        assert list(told) == ["asked_again"] and "asked for once more" in told["asked_again"]
        state = await finished(client, live)
        assert live.error is not None and live.error.code == "failed"
        assert "does not fit, and neither did the one before" in live.error.message
        assert (state.status, state.pair.number, state.rounds[0].result) == (PairStatus.STOPPED, 2, "report-1 a1z")
        done = await resumed(client, state.pair)
        assert done.status is PairStatus.FINISHED, "a resume is another chance"
        prompts = (await turns(client, done.pair, PairPart.INSTRUCTOR))[::2]
        assert [text.startswith("Your answer does not fit") for text in prompts] == [False, True, False, True, True]
    assert len({each.resumes or each.session_id for each in scripted.launches}) == 2


@pytest.mark.rest
async def test_files_that_somebody_else_changed_are_reported_and_not_undone(scripted: Stage) -> None:
    def git(*args: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=T", "-c", "user.email=t@localhost", *args],
            cwd=scripted.work,
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    Path(scripted.work, "mine.txt").write_text("1\n")
    git("add", "-A")
    git("commit", "-qm", "first")
    couple = Couple(scripted, rounds=5)
    async with scripted.open() as client:
        first = await carried_out(client, scripted, max_rounds=1)
        quiet = await client.pairs.resume(first.pair.id, ResumeOptions(more_rounds=1))
        assert await warnings(quiet) == {}, "nobody has changed anything, and the state file does not count"
        await quiet.finish()
        Path(scripted.work, "mine.txt").write_text("2\n")
        git("commit", "-qam", "second")
        Path(scripted.work, "new.txt").write_text("new\n")
        live = await client.pairs.resume(first.pair.id, ResumeOptions(more_rounds=1))
        said = await warnings(live)
        assert "mine.txt" in said["files_changed"] and "new.txt" in said["files_changed"]
        state = await finished(client, live)
        assert state.rounds[2].changed_files == ("mine.txt", "new.txt")
        assert "somebody else has changed these files" in (await turns(client, state.pair, PairPart.INSTRUCTOR))[-2]
        await couple.check_shown(client, state.pair)
    assert Path(scripted.work, "mine.txt").read_text() == "2\n"


async def test_a_session_that_is_lost_starts_fresh_with_all_that_was_said(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=3)
    async with scripted.open() as client:
        first = await carried_out(client, scripted, max_rounds=1)
        for path in scripted.session_files():
            path.unlink()
        state = await resumed(client, first.pair, more_rounds=1)
        assert state.status is PairStatus.OUT_OF_ROUNDS
        await couple.check_shown(client, state.pair)
        runs = await client.runs(limit=2)
        assert {run.reason for run in runs} == {"session_missing"}


async def test_the_instructor_may_read_and_the_worker_may_edit(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.reports.append(Text("report-1"))
    async with scripted.open() as client:
        state = await carried_out(client, scripted)
        records = [(await client.find(state.pair.thread_of(part))).record for part in PairPart]
    assert [record.kind for record in records] == ["pair", "pair"]
    assert [record.trust.value for record in records] == ["user", "user"]
    assert [record.permissions.value for record in records] == ["read-only", "edits"]


async def test_a_pair_is_found_by_its_name_its_id_and_the_beginning_of_it(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    async with scripted.open() as client:
        with pytest.raises(NotFound, match="no pair of this directory"):
            await client.pairs.latest(str(scripted.work))
        state = await carried_out(client, scripted, name="build")
        pair_id = state.pair.id
        assert [await client.pairs.resolve(each) for each in ("build", pair_id, pair_id[:21])] == [pair_id] * 3
        assert await client.pairs.latest(str(scripted.work)) == pair_id
        with pytest.raises(NotFound, match="is not a pair"):
            await client.pairs.resolve("nothing")
        assert (await client.find("pair-build-worker")).record.id == state.pair.worker_thread_id
