"""`clew jobs`: jobs are submitted, watched, retried, cancelled and run in place from the command line."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from clew.cli.jobs.jobs import span
from clew.cli.ui.formatting import local_time
from clew.core.jobs.job import JobStatus
from clew.system.timestamps import stamp
from clew.testing.model.api import ModelApi
from clew.testing.model.scripts import Hang, ToolUse
from clew.testing.stage import CODEX_MODEL, Stage
from cli.conftest import TIMEOUT_S
from conftest import make_stage

ODD_TIMES = (1e18, 1e300, float("inf"), 253402300800.0, 253402300799.9999, -1e18, float("-inf"), float("nan"))

KEYS = {"id", "status", "runs", "resume_count", "session_id", "reason", "result", "error"}  # the keys of every --json


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


def test_a_submitted_job_is_queued_and_says_that_no_worker_is_alive(cli: Any) -> None:
    done = cli.run("jobs", "submit", "!say done")

    assert done.code == 0
    assert "no worker is alive to run it: start `clew work`, or `clew serve --work`" in done.err
    job = job_of(cli, "latest")
    assert job["id"] == done.out.strip()
    assert job["no_worker"] == "No worker is alive to run the job: start `clew work`, or `clew serve --work`."
    assert job["no_worker"] in cli.run("jobs", "list").err
    assert job.keys() >= KEYS
    assert (job["status"], job["runs"], job["permissions"], job["key"]) == ("queued", 0, "edits", None)
    assert not cli.stage.launches


def test_a_priority_is_shown_and_kept_by_a_retry_and_a_bad_one_is_refused(cli: Any) -> None:
    job = submitted(cli, "--priority", "7", "!say done")
    assert job_of(cli, job)["priority"] == 7
    assert re.search(r"^priority +7$", cli.run("jobs", "show", job).out, re.MULTILINE)
    heading, row = cli.run("jobs", "list").out.splitlines()
    assert row[heading.index("PRIORITY") :].split()[0] == "7"
    assert cli.run("jobs", "cancel", job).code == 0
    assert cli.run("jobs", "retry", job).code == 0
    assert job_of(cli, job)["priority"] == 7
    for bad in ("0", "101", "high"):
        done = cli.run("jobs", "submit", "--priority", bad, "!say done")
        assert done.code == 2 and "--priority" in done.err and not done.out


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


@pytest.mark.rest
def test_a_time_out_is_followed_by_a_resumed_run_and_both_are_shown(both: Any) -> None:
    done = both.run("jobs", "submit", "--wait", "--json", "--timeout", "20s", "!slow 1000 0.05")

    assert done.code == 0, done.err
    job = done.json
    assert (job["status"], job["runs"], job["resume_count"]) == ("succeeded", 2, 1)
    assert job["session_id"] == both.stage.launches[-1].resumes
    printed = done.err.splitlines()
    assert any(line.startswith("run 1: timed out after ") for line in printed)
    assert "run 2: resumed" in printed
    logs = both.run("jobs", "logs", job["id"])
    assert logs.out.count("── run ") == 2
    assert "w0 w1 w2" in logs.out
    assert "w0 w1 w2" not in both.run("jobs", "logs", job["id"], "--run", "2").out


@pytest.mark.rest
def test_show_lists_the_last_markers_and_json_all_of_them(both: Any) -> None:
    looks = [ToolUse("Bash", {"command": "true"}, text=f"Step {number}.") for number in range(1, 12)]
    both.api.script.extend(looks)
    assert both.run("jobs", "submit", "--wait", "--permissions", "all", "do it").code == 0
    shown = both.run("jobs", "show", "latest", "--json").json
    assert [each["text"] for each in shown["markers"]][:11] == [f"Step {number}." for number in range(1, 12)]
    assert {each["run_id"] for each in shown["markers"]} == {shown["run_id"]}
    assert len(shown["markers"]) == 12, "the answer is the last"
    printed = both.run("jobs", "show", "latest").out
    assert "markers    2 earlier" in printed
    assert re.search(r"^marker 3 +run 1 · .* · Step 3\.$", printed, re.MULTILINE), printed
    assert "marker 2 " not in printed
    watched = both.run("jobs", "watch", "latest")
    assert (watched.code, watched.out) == (0, f"{shown['result']}\n")


@pytest.mark.rest
@pytest.mark.parametrize(
    ("prompt", "options", "code", "status", "error"),
    [
        ("!fail 401 authentication_error invalid x-api-key", [], 4, "blocked", "auth"),
        ("!fail 529 overloaded_error Overloaded", ["--retries", "0"], 1, "failed", "failed"),
        ("!fail 429 rate_limit_error Slow down", ["--deadline", "1m"], 5, "failed", "usage_limit"),
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
    assert f"clew jobs retry {done.json['id'][:8]} continues where it stopped" in done.json["error"]["hint"]
    assert watched.err.count("clew jobs retry") == 1
    assert "sk again" not in watched.err, "nobody asks a job"


@pytest.mark.parametrize("missing", ["claude", "codex"])
def test_without_the_agent_no_job_is_submitted_to_run_in_place(cli: Any, missing: str) -> None:
    nowhere = {f"CLEW_{missing.upper()}_PATH": "/nowhere"}
    done = cli.run("jobs", "submit", "--wait", "--json", "--agent", missing, "x", **nowhere)

    assert (done.code, done.json["error"]["code"]) == (3, "agent_missing")
    assert cli.run("jobs", "list", "--json").json == []
    queued = submitted(cli, "--agent", missing, "x")
    cli.run("jobs", "cancel", queued)
    again = cli.run("jobs", "retry", queued, "--wait", "--json", **nowhere)
    assert (again.code, job_of(cli, queued)["status"]) == (3, "cancelled"), "it is left as it was"


@pytest.mark.rest
def test_every_json_is_the_job(cli: Any) -> None:
    asked = cli.run("jobs", "submit", "--json", "!say done").json
    job = asked["id"]
    cancelled = cli.run("jobs", "cancel", job, "--json").json
    retried = cli.run("jobs", "retry", job, "--json").json
    waited = cli.run("jobs", "submit", "--wait", "--json", "--key", "k", "!say done").json
    cli.run("work", "--until-idle")
    *events, watched = [json.loads(line) for line in cli.run("jobs", "watch", job, "--json").out.splitlines()]
    logs = cli.run("jobs", "logs", job, "--json").json
    [listed] = cli.run("jobs", "list", "--key", "k", "--json").json

    for each in (asked, cancelled, retried, waited, watched, logs, listed, job_of(cli, job)):
        assert each.keys() >= KEYS
    assert [each["status"] for each in (asked, cancelled, retried, waited)] == [
        "queued",
        "cancelled",
        "queued",
        "succeeded",
    ]
    assert (watched["result"], watched["error"], listed["id"]) == ("done", None, waited["id"])
    assert logs["events"] == events
    assert cancelled["error"]["hint"] == f"clew jobs retry {job[:8]} continues where it stopped."


@pytest.fixture
def codex(tmp_path: Path, api: ModelApi, cli_on: Callable[[Stage], Any]) -> Iterator[Any]:
    """The command line with the real Codex."""
    with make_stage("scripted", tmp_path, api, codex=True) as stage:
        yield cli_on(stage)


@pytest.mark.real
def test_tokens_without_a_price_are_not_called_free(codex: Any) -> None:
    done = codex.run("jobs", "submit", "--wait", "--agent", "codex", "--model", CODEX_MODEL, "!say done")

    assert (done.code, done.out) == (0, "done\n"), done.err
    shown = codex.run("jobs", "show", "latest").out
    assert re.search(r"^marker 1 +run 1 · .* · done$", shown, re.MULTILINE), "also of an agent without message ids"
    for words in (done.err, shown, codex.run("jobs", "list").out):
        assert "no price" in words
        assert "$" not in words


def test_a_blocked_job_is_retried_in_its_session(cli: Any) -> None:
    blocked = cli.run("jobs", "submit", "--wait", "--json", "!fail 401 authentication_error invalid x-api-key").json
    assert "Log in" in blocked["error"]["hint"]

    done = cli.run("jobs", "retry", blocked["id"][:10], "--resume", "--wait", "--json")

    assert done.code == 0, done.err
    assert (done.json["status"], done.json["tries"], done.json["resume_count"]) == ("succeeded", 2, 1)
    again = cli.run("jobs", "retry", blocked["id"])
    assert again.code == 2
    assert "there is nothing to retry" in again.err


@pytest.mark.rest
def test_a_fresh_retry_starts_with_the_prompt(cli: Any) -> None:
    failed = cli.run("jobs", "submit", "--wait", "--json", "--deadline", "2s", "!hang text so far").json
    cli.api.release()

    retried = cli.run("jobs", "retry", failed["id"], "--fresh", "--json").json

    assert (retried["status"], retried["tries"]) == ("queued", 2)


@pytest.mark.rest
def test_jobs_of_one_key_run_one_after_the_other_even_in_place(cli: Any) -> None:
    first = submitted(cli, "--key", "k", "!say one")

    done = cli.run("jobs", "submit", "--key", "k", "--wait", "!say two")

    assert (done.code, done.out) == (0, "two\n")
    assert f"waits for job {first[:8]}" in done.err
    later, earlier = cli.run("jobs", "list", "--key", "k", "--json").json
    assert (earlier["id"], earlier["result"]) == (first, "one")
    assert earlier["ended_at"] <= later["started_at"]
    assert len(cli.run("jobs", "list", "--status", "succeeded", "--json").json) == 2
    assert cli.run("jobs", "list", "--key", "other", "--json").json == []


@pytest.mark.rest
def test_watch_follows_another_process_over_all_runs(cli: Any) -> None:
    carrying = cli.start("jobs", "submit", "--wait", "--timeout", "10s", "!slow 1000 0.05")
    cli.api.wait_for_requests(1)
    [job] = cli.run("jobs", "list", "--json").json

    watching = cli.start("jobs", "watch", job["id"], "--json")
    out, _ = watching.communicate(timeout=TIMEOUT_S)

    assert watching.returncode == 0
    *events, last = [json.loads(line) for line in out.splitlines()]
    assert (last["id"], last["status"], last["runs"]) == (job["id"], "succeeded", 2)
    places = [(event["run"], event["seq"]) for event in events]
    assert places == sorted(set(places)), "each once, in order"
    assert [event["run"] for event in events if event["kind"] == "run_ended"] == [1, 2]
    assert carrying.wait(TIMEOUT_S) == 0


@pytest.mark.rest
def test_ctrl_c_stops_watching_and_not_the_job(cli: Any) -> None:
    carrying = cli.start("jobs", "submit", "--wait", "!hang text so far")
    cli.api.wait_for_hanging(1)
    [job] = cli.run("jobs", "list", "--json").json
    watching = cli.start("jobs", "watch", job["id"])
    while b"run 1:" not in watching.stderr.readline():
        pass

    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=TIMEOUT_S)

    assert watching.returncode == 7
    assert f"no longer watched; job {job['id'][:8]} continues" in err.decode()
    assert job_of(cli, job["id"])["status"] == "running"
    cli.api.release()
    assert carrying.wait(TIMEOUT_S) == 0


def test_ctrl_c_returns_a_job_that_ran_in_place_to_the_queue(cli: Any) -> None:
    carrying = cli.start("jobs", "submit", "--wait", "!hang text so far")
    cli.api.wait_for_hanging(1)

    carrying.send_signal(signal.SIGINT)
    _, err = carrying.communicate(timeout=TIMEOUT_S)

    assert carrying.returncode == 7
    assert b"is queued again, for a worker" in err
    [job] = cli.run("jobs", "list", "--json").json
    assert job["status"] == "queued"
    assert not cli.stage.processes()


def test_a_running_job_is_cancelled_with_its_processes(cli: Any) -> None:
    prompt = '!tool Bash {"command": "sleep 600"}'
    carrying = cli.start("jobs", "submit", "--wait", "--permissions", "all", prompt)
    cli.api.wait_for_requests(1)
    [job] = cli.run("jobs", "list", "--json").json

    done = cli.run("jobs", "cancel", job["id"], "--json")

    assert (done.code, done.json["status"]) == (0, "cancelled")
    assert carrying.wait(TIMEOUT_S) == 7
    assert not cli.stage.processes()
    over = cli.run("jobs", "cancel", job["id"])
    assert (over.code, "The job is over" in over.err) == (2, True)


@pytest.mark.rest
def test_changed_files_are_a_conflict_that_restore_or_keep_resolves(cli: Any) -> None:
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


@pytest.mark.rest
def test_restore_restores_the_checkpoint(cli: Any) -> None:
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


def test_a_delayed_job_starts_later_and_a_deadline_may_be_a_time(cli: Any) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    job = job_of(cli, submitted(cli, "--delay", "1h", "--deadline", tomorrow.isoformat(timespec="seconds"), "x"))

    begins = datetime.fromisoformat(job["not_before"]) - datetime.fromisoformat(job["created_at"])
    assert timedelta(minutes=59) < begins < timedelta(minutes=61)
    assert datetime.fromisoformat(job["limits"]["deadline_at"]) == tomorrow.replace(microsecond=0)
    clock = job_of(cli, submitted(cli, "--deadline", "00:00", "x"))["limits"]["deadline_at"]
    assert datetime.now(UTC) < datetime.fromisoformat(clock) <= datetime.now(UTC) + timedelta(days=1)


def test_the_list_says_when_a_delayed_job_starts(cli: Any) -> None:
    submitted(cli, "--delay", "1h", "x")
    assert re.search(r"queued until (\d{4}-\d\d-\d\d )?\d\d:\d\d", cli.run("jobs", "list").out)


@pytest.mark.parametrize(
    ("args", "setting", "age"),
    [
        ([], None, 3600.0),
        ([], "7d", 7 * 86_400.0),
        ([], "none", None),
        (["--max-age", "90m"], "7d", 5400.0),
        (["--max-age", "none"], "7d", None),
    ],
)
def test_max_age_comes_from_the_option_or_the_settings(
    cli: Any, args: list[str], setting: str | None, age: float | None
) -> None:
    environ = {} if setting is None else {"CLEW_MAX_AGE": setting}
    done = cli.run("jobs", "submit", "--json", "--max-runs", "7", *args, "x", **environ)
    assert (done.json["limits"]["max_age_s"], done.json["limits"]["max_runs"]) == (age, 7)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["submit", "--delay", "1h", "--deadline", "30m", "x"], "The job would begin only after its deadline."),
        (["submit", "--max-age", "old", "x"], "--max-age old is not a duration"),
        (["submit", "--max-runs", "0", "x"], "--max-runs"),
        (["submit", "--deadline", "soon", "x"], "--deadline soon is neither a duration nor a time."),
        (["submit", "--deadline", "2001-01-01T00:00", "x"], "--deadline 2001-01-01T00:00 has already passed."),
        (["submit", "--timeout", "long", "x"], "--timeout long is not a duration"),
        (["submit", "--cwd", "/nowhere", "x"], "/nowhere is not a directory."),
        (["submit", "--agent", "nobody", "x"], "nobody"),
        (["submit", "--checkpoint", "x"], "git"),
        (["submit", "--key", "a\x01b", "x"], "The key 'a\\x01b' is blank, or cannot be printed."),
        (["submit", "--key", "a\nb", "x"], "The key 'a\\nb' is blank, or cannot be printed."),
        (["submit", "--key", "\udcff", "x"], "cannot be printed."),
        (["submit", "--key", " ", "x"], "is blank"),
        (["submit", "--key", "", "x"], "is blank"),
        (["submit", "--key", "k" * 201, "x"], "The key has 201 characters; the limit is 200."),
        (["submit", "--model", "a\nb", "x"], "The model 'a\\nb' cannot be printed."),
        (["submit", "--deadline", "9999-12-31T23:59", "x"], "The deadline is more than ten years away."),
        (["submit", "--deadline", "0001-01-01T00:00", "x"], "--deadline 0001-01-01T00:00 is"),
        (["submit", "--delay", "11000d", "x"], "The delay is longer than ten years."),
        (["submit", "--id", "a", "x"], "--id"),
        (["show", "nonsense"], "'nonsense' is not a job."),
        (["retry", "nonsense", "--restore", "--keep"], "--restore and --keep cannot be given together."),
        (["logs", "nonsense"], "'nonsense' is not a job."),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(cli: Any, args: list[str], words: str) -> None:
    done = cli.run("jobs", *args, "--json") if args[0] != "logs" else cli.run("jobs", *args)

    assert done.code == 2
    assert words in done.err.splitlines()[0]
    assert cli.run("jobs", "list", "--json").json == []


@pytest.mark.rest
def test_a_terminal_shows_a_status_line_with_the_progress(cli: Any) -> None:
    cli.api.script.extend([ToolUse("Bash", {"command": "touch made"}), Hang("text", "the tests pass now")])
    terminal = cli.terminal("jobs", "submit", "--wait", "--permissions", "all", "x")
    terminal.read_until(r"\ds .*run 1 · thinking · 1 tool · [1-9][\d,]+ tokens · “the tests pass now”")
    [job] = cli.run("jobs", "list", "--json").json
    other = cli.terminal("jobs", "watch", job["id"])
    other.read_until(r"\ds .*run 1 · thinking · 1 tool · [1-9][\d,]+ tokens · “the tests pass now”")
    cli.api.release()
    for each in (terminal, other):
        code, shown = each.end()
        assert code == 0
        assert re.search(r"job \w{8}: succeeded after .*\d tokens · \$0\.\d+", shown)
    assert (cli.stage.work / "made").exists()


def test_without_a_terminal_only_plain_lines_are_printed(cli: Any) -> None:
    done = cli.run("jobs", "submit", "--wait", "--permissions", "all", '!tool Bash {"command": "touch made"}')
    watched = cli.run("jobs", "watch", cli.run("jobs", "list", "--json").json[0]["id"])

    for each in (done, watched):
        assert each.code == 0
        assert "\x1b" not in each.err + each.out
        assert "\r" not in each.err
        assert [line for line in each.err.splitlines() if line.startswith("run 1: fresh")]
    assert watched.out == done.out


def test_a_time_outside_the_calendar_is_still_shown(cli: Any) -> None:
    job = submitted(cli, "x")

    async def put_off() -> None:
        async with cli.stage.open() as client:
            for status in (JobStatus.RUNNING, JobStatus.WAITING):
                await client.engine.store.call(
                    lambda store, status=status: store.jobs.update(job, status=status, wake_at=1e18)  # type: ignore[misc]
                )

    asyncio.run(put_off())
    assert job_of(cli, job)["wake_at"] == "9999-12-31T23:59:59.999Z"
    assert "waiting until never" in cli.run("jobs", "list").out
    assert "waiting until never" in cli.run("jobs", "show", job).out


@pytest.mark.parametrize("at", ODD_TIMES)
def test_every_number_can_be_written_as_a_time(at: float) -> None:
    assert local_time(at)
    written = stamp(at)
    assert written is None or datetime.fromisoformat(written).year in (1, 9999)


def test_a_span_is_written_in_its_largest_unit() -> None:
    printed = {1800: "30 min", 7200: "2 h", 86_400: "1 d", 90: "90 s", 5400: "90 min", 0.5: "0.5 s"}
    assert {each: span(each) for each in printed} == printed
