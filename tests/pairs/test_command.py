"""The command `clew pair`: what it prints, lists, cleans up and refuses."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
from pathlib import Path

import pytest

import forkserver
from clew.cli.pairs.pair_display import PairDisplay
from clew.core.ids import RunId
from clew.core.pairs.pair import PairAsked, PairPart, PairRunEvent, PairWarned
from clew.core.runs.events import AttemptStarted
from clew.testing.model.scripts import FINAL, Fail, Hang
from clew.testing.stage import MODEL, Stage
from pairs.couple import DRIVER, TASK, Couple, begun, order, run


def test_orders_and_reports_go_to_stdout_and_the_rest_to_stderr(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.orders.append(order("order-1\nand \x1b[31mthen some", needs_correction=True))
    done = run(scripted, TASK, "--name", "build")
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().splitlines()[:5] == [
        "round 1, instructor, correct:",
        "  order-1",
        "  and ␛[31mthen some",
        "round 1, worker:",
        "  report-1 a1z",
    ]
    said = done.stderr.decode()
    assert f"round 1 of 10: instructor ({MODEL})" in said and f"round 1 of 10: worker ({MODEL})" in said
    assert re.search(r"pair build · finished · 2 rounds · [\d,]+ tokens \([\d,]+ cached\) · \$", said)
    refused = run(scripted, "--session", "build")
    assert (refused.returncode, b'clew pair --session build "and now' in refused.stderr) == (2, True)


def test_the_task_may_come_from_stdin(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=0)
    done = run(scripted, "--name", "build", given=TASK.encode())
    assert done.returncode == 0, done.stderr.decode()
    assert TASK in couple.prompt(PairPart.INSTRUCTOR)
    assert run(scripted, "--session", "build", "-", given=b"u5z One thing more.").returncode == 0
    assert "u5z One thing more." in couple.prompt(PairPart.INSTRUCTOR)


def test_events_are_one_per_line_and_the_pair_is_the_last(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    done = run(scripted, TASK, "--json", "-r", "1", "--permissions", "read-only", "--thinking")
    assert done.returncode == 1, "the rounds are used up, and nobody said that the task is done"
    assert b", up to 1 round\n" in done.stderr
    assert done.stderr.count(b"--session") == 1, "one hint"
    lines = [json.loads(line) for line in done.stdout.decode().splitlines()]
    kinds = [line["type"] for line in lines if line["type"] != "heard"]
    assert kinds == ["asked", "ordered", "asked", "worked", "saved", "pair"]
    heard = [(line["part"], line["event"]["kind"]) for line in lines if line["type"] == "heard"]
    runs = {line["run_id"] for line in lines if line["type"] == "asked"}
    assert {line["run_id"] for line in lines if line["type"] == "heard"} == runs
    assert ("instructor", "session_started") in heard and ("worker", "run_ended") in heard
    shown = lines[-1]
    assert (shown["status"], shown["round"], shown["rounds_left"]) == ("out_of_rounds", 1, 0)
    assert (shown["permissions"], shown["thinking"], shown["task"]) == ("read-only", True, TASK)
    assert shown["error"]["code"] == "failed" and "used up" in shown["error"]["message"]
    assert shown["rounds"][0]["order"]["instruction"].startswith("order-1")
    assert shown["usage"]["output_tokens"] > 0 and Path(shown["file"]).is_file()


@pytest.mark.rest
def test_an_error_that_stops_a_pair_has_its_exit_code_and_the_pair_continues_afterwards(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.busy[1] = Fail(429, "rate_limit_error", "Claude AI usage limit reached", FINAL)
    stopped = run(scripted, TASK, "--name", "build", "--no-wait-for-limit")
    assert stopped.returncode == 5, stopped.stderr.decode()
    assert stopped.stderr.count(b"clew pair --session build continues it") == 1
    assert b"Ask again" not in stopped.stderr
    listed = run(scripted, "--list-sessions")
    assert re.search(r"^build +stopped +1 +10 ", listed.stdout.decode(), re.MULTILINE)
    assert run(scripted, "--session", "build").returncode == 0
    [shown] = json.loads(run(scripted, "--list-sessions", "--json").stdout)
    assert (shown["name"], shown["status"], shown["error"]) == ("build", "finished", None)


@pytest.mark.rest
def test_old_pairs_are_archived_and_removed(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    assert run(scripted, TASK, "--name", "build").returncode == 0
    assert b"older than 7d" in run(scripted, "--clean-sessions", "--older-than", "7d").stderr
    assert b"older than 30d" in run(scripted, "--clean-sessions").stderr
    planned = run(scripted, "--clean-sessions", "--older-than", "0.001s", "--dry-run")
    assert b"would remove build" in planned.stderr
    assert len(list((scripted.work / ".clew" / "sessions").glob("session-*.json"))) == 1
    cleaned = run(scripted, "--clean-sessions", "--older-than", "0.001s", "--json")
    assert b"clew threads restore build restores it" in cleaned.stderr
    [removed] = json.loads(cleaned.stdout)
    kept = json.loads(Path(removed["archive"]).read_text())
    assert [row["name"] for row in kept["pairs"]] == ["build"] and len(kept["pair_rounds"]) == 2
    assert [turn["text"].split()[0] for turn in kept["companions"][0]["turns"]] == ["order-1", "report-1"]
    assert {path.name for path in (scripted.work / ".clew" / "sessions").iterdir()} == {".gitignore"}
    assert json.loads(run(scripted, "--list-sessions", "--json").stdout) == []


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "There is no task"),
        (["--resume"], "no pair of this directory"),
        (["--session", "x", "--session-file", "y"], "cannot be given together"),
        (["--session-file", "nothing.json"], "nothing.json: No such file"),
        (["--session", "nope"], "clew threads list --kind pair"),
        (["--clean-sessions", "--older-than", "soon"], "is not a duration"),
        (["--list-sessions", "task"], "cannot be combined with a task"),
        (["task", "--dry-run"], "need --clean-sessions"),
        (["task", "--permissions", "ask"], "is not one of"),
        (["task", "-r", "0"], "is not in the range"),
        (["task", "-r", "x"], "'x' is not a valid whole number"),
        (["--session"], "Try clew pair --help"),
        (["task", "--name", "a b"], "cannot be a thread's name"),
        (["--resume", "--name", "x"], "is for a new pair"),
        (["task", "--cwd", "nowhere"], "is not a directory"),
    ],
)
def test_invalid_commands_are_refused(scripted: Stage, args: list[str], words: str) -> None:
    done = run(scripted, *args)
    assert done.returncode == 2
    assert words in done.stderr.decode()
    assert not scripted.launches


@pytest.mark.rest
def test_a_file_that_came_with_the_directory_is_continued_only_when_named(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    assert run(scripted, TASK).returncode == 0
    done = run(scripted, "--resume", "go on", CLEW_HOME=str(scripted.folder / "other"))
    assert done.returncode == 2
    assert b"--session-file" in done.stderr
    listed = run(scripted, "--list-sessions", CLEW_HOME=str(scripted.folder / "other"))
    assert b"from another store: " in listed.stderr and b"session-20" in listed.stderr
    launched = len(scripted.launches)
    path = str(scripted.work / ".clew" / "sessions" / "current.json")
    again = run(scripted, "--session-file", path, "Is it done?", CLEW_HOME=str(scripted.folder / "other"))
    assert again.returncode == 0, again.stderr.decode()
    assert len(scripted.launches) > launched


@pytest.mark.rest
def test_without_a_pair_in_the_directory_the_hint_says_how_to_move_one(scripted: Stage, tmp_path: Path) -> None:
    Couple(scripted, rounds=1)
    done = run(scripted, TASK, "--name", "build")
    assert f"saved in {scripted.work}/.clew/sessions/session-" in done.stderr.decode()
    other = tmp_path / "elsewhere"
    other.mkdir()
    refused = run(scripted, "--resume", "--cwd", str(other))
    assert (refused.returncode, f"--session NAME --cwd {other}" in refused.stderr.decode()) == (2, True)
    assert run(scripted, "--session", "build", "go on", "--cwd", str(other)).returncode == 0
    assert run(scripted, "--resume", "and on", "--cwd", str(other)).returncode == 0


def test_earlier_usage_counts_in_the_summary_of_a_continued_pair(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    assert run(scripted, TASK, "--name", "build").returncode == 0
    display = PairDisplay(as_json=False)

    async def count() -> int:
        async with scripted.open() as client:
            state = await client.pairs.find("build")
            display.count_from(state)
            return state.usage.shown_tokens + state.usage.output_tokens

    assert f"{asyncio.run(count()):,} tokens" in display.line()


@pytest.mark.rest
def test_a_file_of_a_moved_pair_is_not_listed_as_from_another_store(scripted: Stage, tmp_path: Path) -> None:
    Couple(scripted, rounds=0)
    assert run(scripted, TASK, "--name", "build").returncode == 0
    moved = run(scripted, "--session", "build", "--cwd", str(tmp_path), "Go on.")
    assert moved.returncode == 0 and b"from now on it is in" in moved.stderr
    listed = run(scripted, "--list-sessions")
    assert b"another store" not in listed.stderr
    assert f"of build, which has moved to {tmp_path}:".encode() in listed.stderr


def test_a_file_where_the_folder_should_be_is_named(scripted: Stage) -> None:
    Couple(scripted, rounds=0)
    (scripted.work / ".clew").touch()
    done = run(scripted, TASK)
    assert done.returncode == 0
    assert f"{scripted.work / '.clew'} is not a folder".encode() in done.stderr


def test_the_status_line_does_not_name_the_part_twice() -> None:
    display = PairDisplay(as_json=False)
    display.show_pair_event(PairAsked(2, 10, PairPart.WORKER, RunId("r"), None, "order-2"))
    display.show_pair_event(PairRunEvent(2, PairPart.WORKER, RunId("r"), AttemptStarted(1, True, None)))
    assert display.line() == "round 2 of 10 · worker · resuming its session"


def test_a_warning_is_one_line_for_any_model_name(capsys: pytest.CaptureFixture[str]) -> None:
    PairDisplay(as_json=False).show_pair_event(PairWarned(1, "unknown_model", "named a\nmodel \x1b[2J"))
    assert capsys.readouterr().err == "warning: named a model ␛[2J\n"


def test_on_a_terminal_a_status_line_says_who_is_working(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    master, slave = pty.openpty()
    environ = {**scripted.environ, "CLEW_MODEL": MODEL, "TERM": "xterm-256color", "COLUMNS": "120"}
    on_it = {"stdin": slave, "stdout": slave, "stderr": slave}
    with forkserver.start(["pair", TASK], script=DRIVER, env=environ, cwd=scripted.work, **on_it) as process:
        os.close(slave)
        seen = b""
        try:
            while piece := os.read(master, 65_536):
                seen += piece
        except OSError:
            pass  # Linux reports so that the other end is closed
        finally:
            os.close(master)
    assert process.returncode == 0
    shown = seen.decode("utf-8", "replace")
    assert "round 1 of 10 · worker" in shown and "round 1, worker:" in shown
    assert re.search(r"round 2 of 10 · instructor · .* tokens · \$0\.", shown)


def test_settings_are_the_defaults_of_a_pair_and_options_override_them(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    (scripted.work / "clew.toml").write_text(
        '[pair]\nrounds = 3\ninstructor_model = "claude-opus-4-1"\nthinking = true\nauto_save = false\n'
    )
    done = run(scripted, TASK, "--json")
    assert done.returncode == 0, done.stderr.decode()
    made = json.loads(done.stdout.splitlines()[-1])
    assert (made["max_rounds"], made["thinking"], made["file"]) == (3, True, None)
    assert (made["instructor_model"], made["worker_model"]) == ("claude-opus-4-1", MODEL), "the setting model is left"
    assert {request.model for request in couple.requests[PairPart.INSTRUCTOR]} == {"claude-opus-4-1"}
    given = ("-r", "2", "--instructor-model", MODEL, "--worker-model", "w", "--no-thinking", "--auto-save")
    done = run(scripted, TASK, *given, "--json")
    made = json.loads(done.stdout.splitlines()[-1])
    assert (made["max_rounds"], made["thinking"], made["file"] is not None) == (2, False, True)
    assert (made["instructor_model"], made["worker_model"]) == (MODEL, "w")
    wrong = run(scripted, TASK, CLEW_PAIR_ROUNDS="0")
    assert wrong.returncode == 2 and b"pair.rounds = '0' (environment CLEW_PAIR_ROUNDS)" in wrong.stderr


def test_fresh_sessions_are_for_a_pair_that_continues(scripted: Stage) -> None:
    Couple(scripted, rounds=2)
    assert run(scripted, TASK, "--fresh-session").returncode == 2
    assert run(scripted, TASK, "--name", "p", "-r", "1").returncode == 1
    done = run(scripted, "--session", "p", "--fresh-session", "-r", "2", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    begun = [line["event"] for line in lines if line.get("event", {}).get("kind") == "attempt_started"]
    assert [each.get("reason") for each in begun] == ["forced_fresh", "forced_fresh", None]


async def test_a_running_pair_is_stopped_from_another_terminal(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.busy[1] = Hang("text", "I am at it.")
    with begun(scripted, TASK, "--name", "p") as process:
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, 60)
        stopped = run(scripted, "--stop", "--json")
        assert stopped.returncode == 0 and b"pair p is stopped" in stopped.stderr, stopped.stderr.decode()
        assert json.loads(stopped.stdout)["status"] == "stopped"
        _, err = process.communicate(timeout=60)
        assert process.returncode == 7, err.decode()
    again = run(scripted, "--stop", "--session", "p")
    assert (again.returncode, b"pair p is not running: stopped" in again.stderr) == (0, True)
    assert run(scripted, "--stop", "--session", "nothing").returncode == 2
    assert run(scripted, "--stop", TASK).returncode == 2
    assert run(scripted, "--stop", "--list-sessions").returncode == 2
