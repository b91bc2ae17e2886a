"""The hooks view: shown when hooks are set up; sessions and events live; a session can be forgotten."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from browser.daemon import Daemon, started
from browser.test_jobs import LOGIN, submitted
from browser.test_use import PHONE, violations
from browser.visitor import Visitor, answers, overflowing
from hooks.forge.test_events import payload_of
from server.forge import SECRETS, message, repository

Visit = Callable[..., Visitor]


@pytest.fixture
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with rules, a repository and secrets."""
    folder = tmp_path_factory.mktemp("hooked")
    with started(folder, prepare=repository, CLEW_SERVE_WORKER="true", **SECRETS) as daemon:
        yield daemon


def tell(daemon: Daemon, **changes: Any) -> None:
    payload = payload_of("gitea.issues.opened")
    payload["issue"]["title"] = changes.get("title", "It breaks")
    payload["issue"]["number"] = changes.get("number", 4)
    payload["sender"]["login"] = changes.get("actor", "bob")
    path, body, headers = message("gitea.issues.opened", payload)
    answer = httpx.post(f"http://127.0.0.1:{daemon.process.port}{path}", content=body, headers=headers, timeout=60)
    assert (answer.status_code, answer.json()["state"]) == (202, "received"), answer.text


def test_a_session_appears_links_to_its_thread_and_is_forgotten(hooked: Daemon, visit: Visit) -> None:
    page = visit(hooked).open()
    page.get_by_test_id("hooks-open").click()
    expect(page.get_by_test_id("hooks-view")).to_contain_text("No events received yet")
    tell(hooked)
    session = page.get_by_test_id("hook-session")
    expect(session).to_have_attribute("data-state", "resumable")
    expect(session).to_contain_text("boss:alice/maze:4")
    expect(session).to_contain_text("issue opened by bob: It breaks")
    expect(page.get_by_test_id("hook-counts")).to_have_text("1 session: 1 resumable")
    expect(page.get_by_test_id("hook-table").locator("tbody")).to_have_text(
        re.compile(r"alice/maze\s*boss\s*–\s*1\s*–")
    )
    event = page.get_by_test_id("hook-event")
    expect(event).to_have_attribute("data-state", "dispatched")
    event.get_by_role("link", name="job").click()
    expect(page.get_by_test_id("job-view").get_by_test_id("job-status")).to_have_text("succeeded")
    page.keyboard.press("h")
    session.get_by_role("link").click()
    expect(answers(page)).to_have_count(1)
    page.get_by_test_id("hooks-open").click()

    page.get_by_test_id("hook-reset").click()
    page.get_by_test_id("reset-dialog").get_by_text("Cancel").click()
    expect(session).to_have_count(1)
    page.get_by_test_id("hook-reset").click()
    page.get_by_test_id("confirm-reset").click()

    expect(page.get_by_test_id("reset-dialog")).to_have_count(0)
    expect(session).to_have_count(0)
    expect(event).to_have_count(1)
    assert hooked.get("/api/hooks/sessions")["items"] == []


def test_sessions_are_counted_by_repository_agent_and_state(hooked: Daemon, visit: Visit) -> None:
    for number in (4, 5, 6):
        tell(hooked, number=number)
    page = visit(hooked).open(view="hooks")
    sessions = page.get_by_test_id("hook-session")
    expect(sessions).to_have_count(3)
    for place in range(3):
        expect(sessions.nth(place)).to_have_attribute("data-state", "resumable")
    rows = page.get_by_test_id("hook-table").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.locator("th, td")).to_have_text(["alice/maze", "boss", "–", "3", "–"])

    hooked.stage.session_files()[0].unlink()

    expect(rows.locator("th, td")).to_have_text(["alice/maze", "boss", "–", "2", "1"])
    expect(page.get_by_test_id("hook-counts")).to_have_text("3 sessions: 2 resumable, 1 fresh")


def test_an_ignored_event_says_why_and_its_title_is_plain_text(hooked: Daemon, visit: Visit) -> None:
    visitor = visit(hooked, bypass_csp=True)  # so that axe may run
    page = visitor.open(view="hooks")
    tell(hooked, actor="mallory", title="<img src=x onerror=alert(1)>\u202e **bold**")
    event = page.get_by_test_id("hook-event")
    expect(event).to_have_attribute("data-state", "ignored")
    expect(event).to_contain_text("not known to have write access")
    expect(event).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator("main img")).to_have_count(0)
    tell(hooked)
    expect(page.get_by_test_id("hook-session")).to_have_attribute("data-state", "resumable")
    assert violations(page) == []
    page.get_by_test_id("hook-reset").click()
    expect(page.get_by_test_id("reset-dialog")).to_be_visible()
    assert violations(page) == []


def test_the_hooks_fit_a_phone(hooked: Daemon, visit: Visit) -> None:
    tell(hooked, title="A title that goes on and on and on, as the titles of some issues do, and then some more of it")
    page = visit(hooked, **PHONE).open(view="hooks")
    expect(page.get_by_test_id("hook-session")).to_have_attribute("data-state", "resumable")
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["viewport"]["width"]  # type: ignore[index]
    assert overflowing(page.get_by_role("region", name="Sessions by repository and agent"), "th, td") == []
    assert overflowing(page.get_by_test_id("hook-session"), ".chip, .job-prompt, .job-note > *") == []

    page.goto(page.url.split("#")[0] + "#/jobs")
    row = page.get_by_test_id("job-item")
    expect(row).to_contain_text("boss:alice/maze:4")
    assert overflowing(row, ".chip, .job-prompt, .job-note > *") == []


def test_the_buttons_of_all_views_fit_the_sidebar(hooked: Daemon, visit: Visit) -> None:
    page = visit(hooked).open()
    expect(page.locator(".views button")).to_have_count(6)
    assert overflowing(page.locator(".sidebar"), ".views button") == []
    submitted(hooked, LOGIN)

    expect(page.get_by_test_id("jobs-open")).to_contain_text("1")
    assert overflowing(page.locator(".sidebar"), ".views button") == []


def test_without_hooks_there_is_no_hooks_view(own_daemon: Daemon, visit: Visit) -> None:
    page = visit(own_daemon).open()
    expect(page.get_by_test_id("agents-open")).to_be_visible()
    expect(page.get_by_test_id("hooks-open")).to_have_count(0)
    assert own_daemon.get("/api/hooks/settings")["is_used"] is False
