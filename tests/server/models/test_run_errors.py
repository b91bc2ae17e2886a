"""How a run ended, over HTTP: a code by what ended it, words and a hint that fit a page, also beside its turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clew.core.ids import RunId, ThreadId, TurnId
from clew.core.outcome import Outcome
from clew.core.run import Run, RunStatus, status_after
from clew.server.run_errors import error_of
from clew.testing.stage import Stage
from server.house import House, Served


def ended(status: RunStatus, outcome: Outcome | None = None, error: str | None = "Words.") -> Run:
    return Run(RunId("r"), ThreadId("t"), TurnId("u"), "p", "claude", None, status, outcome=outcome, error=error)


@pytest.mark.parametrize("outcome", [each for each in Outcome if each is not Outcome.SUCCESS])
def test_every_end_has_words_and_a_hint_without_the_command_line(outcome: Outcome) -> None:
    error = error_of(ended(status_after(outcome), outcome, error=None))
    assert error is not None
    assert error["message"]
    assert error["hint"]
    assert "--" not in error["hint"]
    assert "clew " not in error["hint"]


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome.AUTH, "auth"),
        (Outcome.USAGE_LIMIT, "usage_limit"),
        (Outcome.TIMED_OUT, "timed_out"),
        (Outcome.CANCELLED, "cancelled"),
        (Outcome.POISONED, "failed"),
    ],
)
def test_the_code_says_what_ended_it(outcome: Outcome, code: str) -> None:
    assert (error_of(ended(status_after(outcome), outcome)) or {})["code"] == code


def test_what_is_answered_or_goes_on_has_no_error() -> None:
    assert error_of(ended(RunStatus.ANSWERED, Outcome.SUCCESS, None)) is None
    assert error_of(ended(RunStatus.RUNNING, None, None)) is None


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_an_interrupted_run_failed_and_nobody_cancelled_it(
    scripted: Stage, serve: Callable[..., Served], how: str
) -> None:
    house = serve(scripted)
    await house.thread("t")
    made = await house.post("/api/threads/t/runs", {"prompt": "!hang text so far"})
    await house.until(made["id"], "text_streamed")
    if how == "killed":
        house.kill()
    house.restart()
    run = await house.ended(made["id"])
    assert run["status"] == "interrupted"
    assert run["error"]["code"] == "failed"
    assert run["error"]["message"].startswith("Clew ")
    assert run["error"]["hint"] == "What was said so far is kept; ask to go on."


async def test_a_prompt_without_an_answer_tells_of_its_run(house: House, scripted: Stage) -> None:
    await house.thread("t")
    scripted.fault({"do": "crash_after_init", "rc": 3, "stderr": "something broke\n"})
    failed = await house.ask("t", "hello")
    scripted.fault()
    await house.ask("t", "again")
    asked, *later = await house.turns("t")
    assert (asked["text"], asked["run"]["id"], asked["run"]["status"]) == ("hello", failed["id"], "failed")
    assert asked["run"]["error"] == failed["error"]
    assert asked["run"]["error"]["code"] == "failed"
    assert "something broke" in asked["run"]["stderr_tail"]
    assert later[0]["run"] is None, "that one was answered"
    assert (later[1]["run"]["error"], later[1]["run"]["stderr_tail"]) == (None, "")


async def test_a_deleted_thread_s_turns_are_those_that_stood(house: House) -> None:
    await house.thread("t")
    await house.ask("t", "one")
    await house.ask("t", "two")
    await house.post("/api/threads/t/truncate", {"turn": (await house.turns("t"))[2]["id"]}, 200)
    standing = (await house.get("/api/threads/t"))["turns"]
    tried = (await house.http.delete("/api/threads/t", params={"dry_run": True})).json()
    assert (standing, tried["turns"], tried["archived_turns"]) == (2, 2, 2)
    gone = (await house.http.delete("/api/threads/t")).json()
    assert (gone["turns"], gone["archived_turns"]) == (2, 2)
    assert Path(gone["archive"]).read_text().count('"two"') >= 1
