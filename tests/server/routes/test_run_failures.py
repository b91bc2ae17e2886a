"""The error of a run over HTTP has a code, a message and a hint that fit a page, also with its turn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clew.api.wire.run_failures import failure_of
from clew.core.ids import RunId, ThreadId, TurnId
from clew.core.outcome import Outcome
from clew.core.runs.run import Run, RunStatus, status_after
from clew.testing.stage import Stage
from server.daemons import LocalDaemon, ServeProcess


def ended(status: RunStatus, outcome: Outcome | None = None, error: str | None = "Words.") -> Run:
    return Run(RunId("r"), ThreadId("t"), TurnId("u"), "p", "claude", None, status, outcome=outcome, error=error)


@pytest.mark.parametrize("outcome", [each for each in Outcome if each is not Outcome.SUCCESS])
def test_every_error_has_a_message_and_a_hint_without_the_command_line(outcome: Outcome) -> None:
    error = failure_of(ended(status_after(outcome), outcome, error=None))
    assert error is not None
    assert error.message
    assert error.hint is not None
    assert "--" not in error.hint
    assert "clew " not in error.hint


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
    assert getattr(failure_of(ended(status_after(outcome), outcome)), "code", None) == code


def test_an_answered_or_live_run_has_no_error() -> None:
    assert failure_of(ended(RunStatus.ANSWERED, Outcome.SUCCESS, None)) is None
    assert failure_of(ended(RunStatus.RUNNING, None, None)) is None


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_an_interrupted_run_failed_and_nobody_cancelled_it(
    scripted: Stage, start_daemon: Callable[..., ServeProcess], how: str
) -> None:
    daemon = start_daemon(scripted)
    await daemon.thread("t")
    made = await daemon.post("/api/threads/t/runs", {"prompt": "!hang text so far"})
    await daemon.until(made["id"], "text_streamed")
    if how == "killed":
        daemon.kill()
    daemon.restart()
    run = await daemon.ended(made["id"])
    assert run["status"] == "interrupted"
    assert run["error"]["code"] == "failed"
    assert run["error"]["message"].startswith("Clew ")
    assert run["error"]["hint"] == "What was said so far is kept; ask to continue."


async def test_a_prompt_without_an_answer_has_its_run(daemon: LocalDaemon, scripted: Stage) -> None:
    await daemon.thread("t")
    scripted.fault({"do": "crash_after_init", "rc": 3, "stderr": "something broke\n"})
    failed = await daemon.ask("t", "hello")
    scripted.fault()
    await daemon.ask("t", "again")
    asked, *later = await daemon.turns("t")
    assert (asked["text"], asked["run"]["id"], asked["run"]["status"]) == ("hello", failed["id"], "failed")
    assert asked["run"]["error"] == failed["error"]
    assert asked["run"]["error"]["code"] == "failed"
    assert "something broke" in asked["run"]["stderr_tail"]
    assert later[0]["run"] is None, "that one was answered"
    assert (later[1]["run"]["error"], later[1]["run"]["stderr_tail"]) == (None, "")


async def test_a_deleted_threads_turns_are_the_visible_ones(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    await daemon.ask("t", "one")
    await daemon.ask("t", "two")
    await daemon.post("/api/threads/t/truncate", {"turn": (await daemon.turns("t"))[2]["id"]}, 200)
    standing = (await daemon.get("/api/threads/t"))["turns"]
    tried = (await daemon.http.delete("/api/threads/t", params={"dry_run": True})).json()
    assert (standing, tried["turns"], tried["archived_turns"]) == (2, 2, 2)
    gone = (await daemon.http.delete("/api/threads/t")).json()
    assert (gone["turns"], gone["archived_turns"]) == (2, 2)
    assert Path(gone["archive"]).read_text().count('"two"') >= 1
