"""The jobs view: a job is submitted on the page, run by a real `clew work`, watched, stopped, and continued."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Page, expect

import forkserver
from browser.daemon import Daemon
from browser.test_use import PHONE, violations
from browser.visitor import Visitor, answers, overflowing, prompts
from clew.testing.model.scripts import Hang, ToolUse
from clew.testing.stage import MODEL

Visit = Callable[..., Visitor]
LOGIN = "!fail 401 authentication_error invalid x-api-key"
END_S = 60


@contextmanager
def working(daemon: Daemon) -> Iterator[None]:
    """A worker on the daemon's store."""
    process = forkserver.start(
        ["work", "--id", "w"],
        env={**daemon.stage.environ, "CLEW_MODEL": MODEL},
        cwd=daemon.stage.work,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert any(line.startswith("worker w: ") for line in process.stderr), "the worker says when it is ready"
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_S)
        finally:
            process.kill()
            process.communicate()


def submitted(daemon: Daemon, prompt: str, **more: Any) -> Any:
    return daemon.post("/api/jobs", {"prompt": prompt, "cwd": str(daemon.stage.work), "model": MODEL, **more})


def status(page: Page, words: str) -> None:
    expect(page.get_by_test_id("job-view").get_by_test_id("job-status")).to_have_text(words)


def test_a_job_is_submitted_on_the_page_and_its_result_is_shown(own_daemon: Daemon, visit: Visit) -> None:
    page = visit(own_daemon).open(view="jobs")
    expect(page.get_by_test_id("jobs-view")).to_contain_text("No jobs yet")
    page.get_by_test_id("new-job").click()
    form = page.get_by_test_id("job-form")
    form.get_by_test_id("job-prompt").fill("!say It is **done**.")
    form.get_by_label("Directory").fill(str(own_daemon.stage.work))
    form.get_by_text("More settings").click()
    form.get_by_test_id("job-key").fill("nightly")
    form.get_by_test_id("job-priority").fill("7")
    form.get_by_test_id("submit-job").click()

    expect(page.get_by_test_id("new-job-dialog")).to_have_count(0)
    status(page, "queued")
    expect(page.get_by_test_id("no-worker").locator("code")).to_have_text(["clew work", "clew serve --work"])
    expect(page.get_by_test_id("job-markers")).to_have_count(0)
    page.get_by_text("About this job").click()
    expect(page.locator("dl.facts div", has_text="priority").locator("dd")).to_have_text("7")
    with working(own_daemon):
        status(page, "succeeded")
        expect(page.get_by_test_id("job-result").locator("strong")).to_have_text("done")
        expect(page.get_by_test_id("no-worker")).to_have_count(0)
        page.get_by_test_id("job-markers").locator("summary").click()
        expect(page.get_by_test_id("job-markers").locator("li")).to_contain_text(["run 1 · It is **done**."])
        expect(answers(page)).to_have_count(1)
        expect(page.get_by_test_id("composer")).to_have_count(0)
        expect(page.get_by_test_id("edit-turn")).to_have_count(0)
        page.get_by_test_id("jobs-open").click()
        expect(page.get_by_test_id("workers")).to_have_text("1 worker running")
        row = page.get_by_test_id("job-item")
        expect(row).to_have_attribute("data-state", "succeeded")
        expect(row).to_contain_text("nightly")
        expect(page.get_by_test_id("thread-item")).to_have_count(0)
    [job] = own_daemon.get("/api/jobs")["items"]
    assert (job["key"], job["permissions"], job["result"]) == ("nightly", "edits", "It is **done**.")


def test_a_running_job_is_watched_live_cancelled_and_continued(own_daemon: Daemon, visit: Visit) -> None:
    with working(own_daemon):
        page = visit(own_daemon).open(view="jobs")
        job = submitted(own_daemon, "!hang text so far")
        page.get_by_test_id("job-item").click()
        expect(answers(page)).to_contain_text("so far")
        status(page, "running")
        page.get_by_test_id("job-cancel").click()
        status(page, "cancelled")
        own_daemon.stage.api.release()
        expect(page.get_by_test_id("job-error")).to_contain_text("cancelled")

        page.get_by_test_id("job-resume").click()

        status(page, "succeeded")
        expect(page.get_by_test_id("job-error")).to_have_count(0)
        expect(page.get_by_test_id("badge").last).to_contain_text("resumed")
    done = own_daemon.get(f"/api/jobs/{job['id']}")
    assert (done["runs"], done["resume_count"], done["tries"]) == (2, 1, 2)


def test_a_cancelled_job_shows_what_its_run_did(own_daemon: Daemon, visit: Visit) -> None:
    own_daemon.stage.api.script.extend([ToolUse("Bash", {"command": "echo half"}), Hang("headers")])
    with working(own_daemon):
        job = submitted(own_daemon, "Do it.\nAll of it.", permissions="all", timeout_s=1800, max_resumes=1)
        page = visit(own_daemon).open(view=f"jobs/{job['id']}")
        expect(page).to_have_title("Do it. · Clew")
        expect(page.get_by_test_id("tool").and_(page.locator(".done"))).to_be_visible()
        page.get_by_test_id("job-cancel").click()
        status(page, "cancelled")
        own_daemon.stage.api.release()
        page.get_by_test_id("job-resume").click()
        status(page, "succeeded")
        page.reload()

        first = prompts(page).first
        expect(first.get_by_test_id("ending")).to_contain_text("before the agent answered")
        expect(first.get_by_test_id("tool")).to_contain_text("echo half")
        expect(first.get_by_test_id("badge")).to_contain_text("written")
        page.get_by_text("About this job").click()
        facts = page.locator(".job-facts")
        expect(facts).to_contain_text("resumed once")
        expect(facts).to_contain_text("30 min per run · 1 resume")
        page.get_by_role("button", name="All jobs").click()
        expect(page).to_have_title("Jobs · Clew")


def test_a_blocked_job_says_what_to_do_and_may_start_over(own_daemon: Daemon, visit: Visit) -> None:
    with working(own_daemon):
        job = submitted(own_daemon, LOGIN)
        page = visit(own_daemon).open(view=f"jobs/{job['id']}")
        status(page, "blocked: log in")
        expect(page.get_by_test_id("job-error")).to_contain_text("Log in")
        expect(page.get_by_test_id("job-view").get_by_text("is not logged in, or its key is refused")).to_have_count(1)
        expect(page.get_by_test_id("run-error")).to_have_count(0)
        expect(page.get_by_test_id("jobs-open")).to_contain_text("1")

        page.get_by_test_id("job-fresh").click()

        expect(page.get_by_test_id("job-view")).to_contain_text("2 runs")
        status(page, "blocked: log in")
    assert own_daemon.get(f"/api/jobs/{job['id']}")["reason"] == "forced_fresh"


def test_files_in_conflict_are_named_and_kept_or_restored(own_daemon: Daemon, visit: Visit) -> None:
    work = own_daemon.stage.work
    quiet = {**own_daemon.stage.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), (*who, "commit", "-q", "--allow-empty", "-m", "x")):
        subprocess.run(["git", *command], cwd=work, check=True, env=quiet)
    with working(own_daemon):
        page = visit(own_daemon).open(view="jobs")
        for action, left in (("job-keep", "theirs"), ("job-restore", "mine")):
            (work / "file.txt").write_text("mine")
            job = submitted(own_daemon, LOGIN, checkpoint=True)
            page.goto(page.url.split("#")[0] + f"#/jobs/{job['id']}")
            status(page, "blocked: log in")
            (work / "file.txt").write_text("theirs")
            page.get_by_test_id("job-resume").click()
            status(page, "conflict")
            expect(page.get_by_test_id("job-conflicts")).to_have_text("file.txt")
            page.get_by_test_id(action).click()
            status(page, "succeeded")
            assert (work / "file.txt").read_text() == left


def test_jobs_are_filtered_and_axe_finds_nothing(own_daemon: Daemon, visit: Visit) -> None:
    with working(own_daemon):
        for prompt in ("!say done", LOGIN):
            submitted(own_daemon, prompt)
        visitor = visit(own_daemon, bypass_csp=True)  # so that axe may run
        page = visitor.open(view="jobs")
        expect(page.locator("[data-testid=job-item][data-state=succeeded]")).to_have_count(1)
        expect(page.locator("[data-testid=job-item][data-state=blocked]")).to_have_count(1)
        assert violations(page) == []
        page.get_by_label("Which jobs").select_option("need attention")
        expect(page.get_by_test_id("job-item")).to_have_count(1)
        page.get_by_test_id("job-item").click()
        status(page, "blocked: log in")
        assert violations(page) == []
        page.keyboard.press("b")
        page.get_by_test_id("new-job").click()
        expect(page.get_by_test_id("new-job-dialog")).to_be_visible()
        assert violations(page) == []


def test_the_list_says_when_a_delayed_job_starts(own_daemon: Daemon, visit: Visit) -> None:
    submitted(own_daemon, "now")
    submitted(own_daemon, "later", delay_s=7200)
    page = visit(own_daemon).open(view="jobs")
    expect(page.get_by_test_id("job-item")).to_have_count(2)
    later, now = page.get_by_test_id("job-item").all()
    expect(later.get_by_test_id("job-starts")).to_have_text(re.compile(r"starts \w+ \d+, \d{4}, \d+:\d\d"))
    expect(now.get_by_test_id("job-starts")).to_have_count(0)


def test_the_jobs_fit_a_phone_and_wider_windows(own_daemon: Daemon, visit: Visit) -> None:
    submitted(
        own_daemon, "Bring all the tests of this repository to pass, one after the other, and say which were broken."
    )
    far = own_daemon.stage.work / "reviewer-charles-peon-7-1006afb7f4829067-and-more-of-the-same"
    far.mkdir()
    submitted(own_daemon, "Look at it.", cwd=str(far), key="reviewer:charles/peon:7", delay_s=7200)
    page = visit(own_daemon, **PHONE).open(view="jobs")
    rows = page.get_by_test_id("job-item")
    expect(rows).to_have_count(2)
    for width in (PHONE["viewport"]["width"], 800, 960, 1280):  # type: ignore[index]
        page.set_viewport_size({"width": width, "height": 780})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for row in rows.all():
            assert overflowing(row, ".chip, .job-prompt, .job-note, .job-note > *") == []
