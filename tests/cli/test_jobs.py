"""`clew jobs`: submitted, watched, retried and cancelled from the command line; carried out in place."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

KEYS = {
    "id",
    "status",
    "runs",
    "resume_count",
    "session_id",
    "reason",
    "result",
    "error",
    "thread",
    "key",
    "created_at",
}


def job_of(cli: Any, job: str) -> dict[str, Any]:
    shown = cli.run("jobs", "show", job, "--json").json
    assert isinstance(shown, dict)
    return shown


def submitted(cli: Any, *args: str) -> str:
    done = cli.run("jobs", "submit", *args)
    assert done.code == 0, done.err
    return str(done.out.strip())


def until(cli: Any, job: str, status: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while (shown := job_of(cli, job))["status"] != status:
        assert time.monotonic() < deadline, shown
    return shown


def test_a_submitted_job_is_queued_and_says_that_nobody_is_there(cli: Any) -> None:
    done = cli.run("jobs", "submit", "!say done")

    assert done.code == 0
    assert "no worker is alive to take it up: start one with clew work" in done.err
    job = job_of(cli, done.out.strip())
    assert job.keys() >= KEYS
    assert (job["status"], job["runs"], job["permissions"], job["key"]) == ("queued", 0, "edits", None)
    assert not cli.stage.launches


def test_wait_runs_it_in_place_and_prints_the_result(cli: Any) -> None:
    done = cli.run("jobs", "submit", "--wait", "!say all done")

    assert (done.code, done.out) == (0, "all done\n")
    assert "runs here: no worker is alive" in done.err
    assert "run 1: fresh: first turn of the thread" in done.err
    [job] = cli.run("jobs", "list", "--json").json
    assert (job["status"], job["result"], job["error"]) == ("succeeded", "all done", None)


def test_the_prompt_may_come_from_stdin(cli: Any) -> None:
    assert cli.run("jobs", "submit", "--wait", "-", stdin="!say from stdin").out == "from stdin\n"
    empty = cli.run("jobs", "submit", "-", stdin="  \n")
    assert (empty.code, empty.err.splitlines()[0]) == (2, "clew: The prompt is empty.")


def test_a_time_out_is_followed_by_a_resumed_run_and_both_are_told(both: Any) -> None:
    done = both.run("jobs", "submit", "--wait", "--json", "--timeout", "4s", "!slow 1000 0.05")

    assert done.code == 0, done.err
    job = done.json
    assert (job["status"], job["runs"], job["resume_count"]) == ("succeeded", 2, 1)
    assert job["session_id"] == both.stage.launches[-1].resumes
    told = done.err.splitlines()
    assert any(line.startswith("run 1: timed out after ") for line in told)
    assert "run 2: resumed" in told
    logs = both.run("jobs", "logs", job["id"])
    assert logs.out.count("── run ") == 2
    assert "w0 w1 w2" in logs.out
    assert "w0 w1 w2" not in both.run("jobs", "logs", job["id"], "--run", "2").out


@pytest.mark.parametrize(
    ("prompt", "options", "code", "status", "error"),
    [
        ("!fail 401 authentication_error invalid x-api-key", [], 4, "blocked", "auth"),
        ("!fail 529 overloaded_error Overloaded", ["--retries", "0"], 1, "failed", "failed"),
        ("!fail 400 invalid_request_error Nonsense", [], 1, "failed", "failed"),
        ("!hang text so far", ["--timeout", "30s", "--deadline", "3s"], 6, "failed", "timed_out"),
    ],
)
def test_the_exit_code_says_what_ended_the_job(
    cli: Any, prompt: str, options: list[str], code: int, status: str, error: str
) -> None:
    done = cli.run("jobs", "submit", "--wait", "--json", *options, prompt)

    assert (done.code, done.json["status"], done.json["error"]["code"]) == (code, status, error), done.err
    watched = cli.run("jobs", "watch", done.json["id"])
    assert (watched.code, watched.out) == (code, "")
    assert f"clew jobs retry {done.json['id'][:8]} goes on where it stopped" in watched.err


def test_a_blocked_job_is_retried_in_its_session(cli: Any) -> None:
    blocked = cli.run("jobs", "submit", "--wait", "--json", "!fail 401 authentication_error invalid x-api-key").json
    assert "Log in" in blocked["error"]["hint"]

    done = cli.run("jobs", "retry", blocked["id"][:10], "--resume", "--wait", "--json")

    assert done.code == 0, done.err
    assert (done.json["status"], done.json["tries"], done.json["resume_count"]) == ("succeeded", 2, 1)
    again = cli.run("jobs", "retry", blocked["id"])
    assert again.code == 2
    assert "there is nothing to retry" in again.err


def test_a_fresh_retry_begins_with_the_prompt(cli: Any) -> None:
    failed = cli.run("jobs", "submit", "--wait", "--json", "--deadline", "2s", "!hang text so far").json
    cli.api.release()

    retried = cli.run("jobs", "retry", failed["id"], "--fresh", "--json").json

    assert (retried["status"], retried["tries"]) == ("queued", 2)


def test_jobs_of_one_key_run_one_after_the_other_also_in_place(cli: Any) -> None:
    first = submitted(cli, "--key", "k", "!say one")

    done = cli.run("jobs", "submit", "--key", "k", "--wait", "!say two")

    assert (done.code, done.out) == (0, "two\n")
    assert f"waits for job {first[:8]}" in done.err
    later, earlier = cli.run("jobs", "list", "--key", "k", "--json").json
    assert (earlier["id"], earlier["result"]) == (first, "one")
    assert earlier["ended_at"] <= later["started_at"]
    assert len(cli.run("jobs", "list", "--status", "succeeded", "--json").json) == 2
    assert cli.run("jobs", "list", "--key", "other", "--json").json == []


def test_watch_follows_another_process_over_all_runs(cli: Any) -> None:
    carrying = cli.start("jobs", "submit", "--wait", "--timeout", "4s", "!slow 1000 0.05")
    cli.api.wait_for_requests(1)
    [job] = cli.run("jobs", "list", "--json").json

    watching = cli.start("jobs", "watch", job["id"], "--json")
    out, _ = watching.communicate(timeout=60)

    assert watching.returncode == 0
    *events, last = [json.loads(line) for line in out.splitlines()]
    assert (last["id"], last["status"], last["runs"]) == (job["id"], "succeeded", 2)
    places = [(event["run"], event["seq"]) for event in events]
    assert places == sorted(set(places)), "each once, in order"
    assert [event["run"] for event in events if event["kind"] == "run_ended"] == [1, 2]
    assert carrying.wait(30) == 0


def test_ctrl_c_stops_the_watching_and_not_the_job(cli: Any) -> None:
    carrying = cli.start("jobs", "submit", "--wait", "!hang text so far")
    cli.api.wait_for_hanging(1)
    [job] = cli.run("jobs", "list", "--json").json
    watching = cli.start("jobs", "watch", job["id"])
    while b"run 1:" not in watching.stderr.readline():
        pass

    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=30)

    assert watching.returncode == 7
    assert f"no longer watched; job {job['id'][:8]} goes on" in err.decode()
    assert job_of(cli, job["id"])["status"] == "running"
    cli.api.release()
    assert carrying.wait(30) == 0


def test_ctrl_c_hands_a_job_back_that_ran_in_place(cli: Any) -> None:
    carrying = cli.start("jobs", "submit", "--wait", "!hang text so far")
    cli.api.wait_for_hanging(1)

    carrying.send_signal(signal.SIGINT)
    _, err = carrying.communicate(timeout=30)

    assert carrying.returncode == 7
    assert b"is queued again, for a worker" in err
    [job] = cli.run("jobs", "list", "--json").json
    assert job["status"] == "queued"
    assert not cli.stage.processes()


def test_a_running_job_is_cancelled_with_all_that_it_started(cli: Any) -> None:
    prompt = '!tool Bash {"command": "sleep 600"}'
    carrying = cli.start("jobs", "submit", "--wait", "--permissions", "all", prompt)
    cli.api.wait_for_requests(1)
    [job] = cli.run("jobs", "list", "--json").json

    done = cli.run("jobs", "cancel", job["id"], "--json")

    assert (done.code, done.json["status"]) == (0, "cancelled")
    assert carrying.wait(30) == 7
    assert not cli.stage.processes()
    over = cli.run("jobs", "cancel", job["id"])
    assert (over.code, "The job is over" in over.err) == (2, True)


def test_files_that_somebody_changed_are_a_conflict_with_two_ways_out(cli: Any) -> None:
    work = cli.stage.work
    for command in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", *command], cwd=work, check=True, env={**cli.environ(), "GIT_CONFIG_GLOBAL": "/dev/null"})
    blocked = cli.run(
        "jobs", "submit", "--wait", "--json", "--checkpoint", "!fail 401 authentication_error invalid x-api-key"
    ).json
    (work / "theirs.txt").write_text("foreign")

    conflict = cli.run("jobs", "retry", blocked["id"], "--wait", "--json")

    assert (conflict.code, conflict.json["status"], conflict.json["conflicts"]) == (2, "conflict", ["theirs.txt"])
    refused = cli.run("jobs", "retry", blocked["id"])
    assert (refused.code, "--restore" in refused.err, "--keep" in refused.err) == (2, True, True)
    kept = cli.run("jobs", "retry", blocked["id"], "--keep", "--wait", "--json")
    assert (kept.code, kept.json["status"]) == (0, "succeeded"), kept.err
    assert (work / "theirs.txt").read_text() == "foreign"


def test_restore_puts_the_checkpoint_back(cli: Any) -> None:
    work = cli.stage.work
    for command in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", *command], cwd=work, check=True, env={**cli.environ(), "GIT_CONFIG_GLOBAL": "/dev/null"})
    (work / "mine.txt").write_text("before")
    blocked = cli.run(
        "jobs", "submit", "--wait", "--json", "--checkpoint", "!fail 401 authentication_error invalid x-api-key"
    ).json
    (work / "mine.txt").write_text("changed")

    done = cli.run("jobs", "retry", blocked["id"], "--restore", "--wait", "--json")

    assert (done.code, done.json["status"]) == (0, "succeeded"), done.err
    assert (work / "mine.txt").read_text() == "before"


def test_a_delayed_job_begins_later_and_a_deadline_may_be_a_time(cli: Any) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    job = job_of(cli, submitted(cli, "--delay", "1h", "--deadline", tomorrow.isoformat(timespec="seconds"), "x"))

    begins = datetime.fromisoformat(job["not_before"]) - datetime.fromisoformat(job["created_at"])
    assert timedelta(minutes=59) < begins < timedelta(minutes=61)
    assert datetime.fromisoformat(job["limits"]["deadline_at"]) == tomorrow.replace(microsecond=0)
    clock = job_of(cli, submitted(cli, "--deadline", "00:00", "x"))["limits"]["deadline_at"]
    assert datetime.now(UTC) < datetime.fromisoformat(clock) <= datetime.now(UTC) + timedelta(days=1)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["submit", "--deadline", "soon", "x"], "--deadline soon is neither a duration nor a time."),
        (["submit", "--deadline", "2001-01-01T00:00", "x"], "--deadline 2001-01-01T00:00 is over already."),
        (["submit", "--timeout", "long", "x"], "--timeout long is not a duration"),
        (["submit", "--cwd", "/nowhere", "x"], "/nowhere is not a directory."),
        (["submit", "--agent", "nobody", "x"], "nobody"),
        (["submit", "--checkpoint", "x"], "git"),
        (["show", "nonsense"], "'nonsense' is not a job."),
        (["retry", "nonsense", "--restore", "--keep"], "Files are put back or kept, not both."),
        (["logs", "nonsense"], "'nonsense' is not a job."),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(cli: Any, args: list[str], words: str) -> None:
    done = cli.run("jobs", *args, "--json") if args[0] != "logs" else cli.run("jobs", *args)

    assert done.code == 2
    assert words in done.err.splitlines()[0]
    assert cli.run("jobs", "list", "--json").json == []


def test_on_a_terminal_a_line_says_how_far_it_has_come(cli: Any) -> None:
    terminal = cli.terminal("jobs", "submit", "--wait", "--permissions", "all", '!tool Bash {"command": "touch made"}')
    terminal.read_until(r"run 1 · .*1 tool")
    code, shown = terminal.end()

    assert code == 0
    assert "succeeded after" in shown
    assert (cli.stage.work / "made").exists()
