"""`clew work`: a worker in its own process."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from clew.testing.postgres import PostgresServer
from hooks.project import HookProject

START_S = 60


def read_until(process: Any, words: str) -> list[str]:
    """Reads the lines of stderr up to the one that contains these words."""
    lines = []
    while True:
        line = process.stderr.readline().decode()
        assert line, f"{words!r} never came: {lines}"
        lines.append(line.rstrip("\n"))
        if words in line:
            return lines


@pytest.fixture
def worker(cli: Any) -> Callable[..., Any]:
    """Starts a worker, and waits until it says that it has started."""

    def start(*args: str, **environ: str) -> Any:
        process = cli.start("work", *args, **environ)
        [*_, said] = read_until(process, "worker ")
        assert "at once; Ctrl-C ends it" in said
        return process

    return start


def submitted(cli: Any, *args: str) -> str:
    done = cli.run("jobs", "submit", *args)
    assert done.code == 0, done.err
    assert "no worker is alive" not in done.err
    return str(done.out.strip())


def job_of(cli: Any, job: str) -> dict[str, Any]:
    shown = cli.run("jobs", "show", job, "--json").json
    assert isinstance(shown, dict)
    return shown


@pytest.mark.rest
def test_a_worker_logs_which_jobs_it_starts_and_how_they_end(cli: Any, worker: Callable[..., Any]) -> None:
    process = worker("--id", "one", "--concurrency", "2")
    job = submitted(cli, "!say done")

    printed = read_until(process, "succeeded")

    assert printed[0] == f"job {job[:8]} started in {cli.stage.work}"
    assert printed[-1].startswith(f"job {job[:8]} succeeded after ")
    shown = job_of(cli, job)
    assert (shown["status"], shown["result"], shown["worker"]) == ("succeeded", "done", "one")
    assert not any("!say" in line or shown["session_id"] in line for line in printed), "a log holds no prompts"


@pytest.mark.rest
def test_with_a_worker_alive_wait_only_watches(cli: Any, worker: Callable[..., Any]) -> None:
    worker("--id", "one")

    done = cli.run("jobs", "submit", "--wait", "--json", "!say done")

    assert (done.code, done.json["result"], done.json["worker"]) == (0, "done", "one")
    assert "no worker" not in done.err


@pytest.mark.rest
def test_until_idle_exits_when_every_job_is_done(cli: Any) -> None:
    for number in range(3):
        cli.run("jobs", "submit", f"!say {number}")

    process = cli.start("work", "--until-idle")
    _, err = process.communicate(timeout=START_S)

    assert process.returncode == 0, err.decode()
    assert b"worker ended; 3 jobs done here" in err
    assert [job["result"] for job in cli.run("jobs", "list", "--json").json] == ["2", "1", "0"]


@pytest.mark.rest
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_returns_the_job_to_the_queue_and_the_next_worker_continues_it(
    cli: Any, worker: Callable[..., Any], number: signal.Signals
) -> None:
    first = worker("--id", "one")
    job = submitted(cli, "!hang text so far")
    cli.api.wait_for_hanging(1)

    first.send_signal(number)
    _, err = first.communicate(timeout=START_S)

    assert first.returncode == 0, err.decode()
    assert f"job {job[:8]} returned to the queue" in err.decode()
    assert job_of(cli, job)["status"] == "queued"
    assert not cli.stage.processes()
    cli.api.release()
    worker("--id", "two")
    watched = cli.run("jobs", "watch", job)
    assert watched.code == 0, watched.err
    shown = job_of(cli, job)
    assert (shown["worker"], shown["runs"], shown["resume_count"]) == ("two", 2, 1)


@pytest.mark.rest
def test_a_second_signal_does_not_wait(cli: Any, worker: Callable[..., Any]) -> None:
    process = worker("--id", "one")
    cli.stage.fault({"do": "hang_after_init", "ignore_term": True})
    submitted(cli, "x")
    read_until(process, "started")

    process.send_signal(signal.SIGTERM)
    read_until(process, "return to the queue (a second signal stops at once)")
    process.send_signal(signal.SIGTERM)

    assert process.wait(START_S) in (0, 7)
    cli.stage.fault()
    cli.run("ask", "-t", "other", "hello")  # the next ask ends the run that the worker left
    assert not cli.stage.processes()


def test_a_dead_worker_is_not_counted_as_alive(cli: Any, worker: Callable[..., Any]) -> None:
    process = worker("--id", "one")
    process.kill()
    process.wait(START_S)

    assert "no worker is alive" in cli.run("jobs", "submit", "x").err


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A PostgreSQL server that the test may stop."""
    with PostgresServer(tmp_path_factory.mktemp("own") / "data") as server:
        yield server


@pytest.mark.rest
@pytest.mark.timeout(180)  # the server starts twice
@pytest.mark.parametrize("idle", [[], ["--until-idle"]])
def test_a_worker_survives_a_database_outage(
    cli: Any, worker: Callable[..., Any], server: PostgresServer, idle: list[str]
) -> None:
    """While a job runs, the database goes away: other commands report it, and the worker waits."""
    where = {"CLEW_STORE": server.new_store()}
    job = cli.run("jobs", "submit", "!hang text so far", **where).out.strip()
    process = worker("--id", "one", *idle, **where)
    cli.api.wait_for_hanging(1)

    server.stop()
    read_until(process, "cannot be reached")
    read_until(process, "cannot be reached")
    assert cli.run("jobs", "list", **where).code == 9
    server.start()
    cli.api.release()

    read_until(process, f"job {job[:8]} succeeded")
    if idle:
        assert process.wait(START_S) == 0
    else:
        assert process.poll() is None


@pytest.mark.parametrize("args", [["--concurrency", "0"], ["--concurrency", "many"]])
def test_nonsense_is_refused(cli: Any, args: list[str]) -> None:
    assert cli.run("work", *args).code == 2


def test_a_missing_skill_is_reported_at_the_start(cli: Any) -> None:
    HookProject(cli.stage)
    (cli.stage.clew_home / "skills" / "boss" / "default.delta.md").unlink()
    done = cli.run("work", "--until-idle")
    assert done.code == 2
    assert "boss has no delta text for issue.opened" in done.err and "clew hooks check" in done.err


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name_is_refused(cli: Any, name: str) -> None:
    assert "name is empty" in cli.run("work", "--id", name).err
