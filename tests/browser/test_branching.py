"""Threads that are made from others: replay and comparison, merge; and sessions of the agent's own CLI."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from browser.daemon import Daemon
from browser.test_transfer import act, listed
from browser.test_use import PHONE, violations
from browser.visitor import Visitor, answers, overflowing, prompts
from clew.testing.model.scripts import Hang
from clew.testing.stage import MODEL
from transfer.session_files import planted

Visit = Callable[..., Visitor]
HOSTILE = "<img src=x onerror=alert(1)>"


def test_a_thread_is_replayed_and_both_are_compared(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("replay-me", "!say One.", "!say Two.")
    page = visit(daemon).open(thread)
    dialog = act(page, "replay")
    dialog.get_by_label("Model").fill(MODEL)
    dialog.get_by_test_id("start-replay").click()
    expect(dialog.get_by_test_id("replayed")).to_contain_text("2 of 2 prompts answered")
    dialog.get_by_test_id("compare-replay").click()

    expect(page.get_by_test_id("compare-view")).to_be_visible()
    expect(page.get_by_test_id("compare-summary")).to_have_text("no known difference")
    page.get_by_test_id("same-turns").locator("summary").click()
    expect(page.get_by_test_id("same-turns").locator("article")).to_have_count(4)


def test_a_replay_that_is_stopped_keeps_its_answers(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("replay-stop", "!say One.", "!say Two.")
    daemon.stage.api.script.append(Hang("headers"))
    page = visit(daemon).open(thread)
    dialog = act(page, "replay")
    dialog.get_by_label("Model").fill(MODEL)
    dialog.get_by_test_id("start-replay").click()
    dialog.get_by_test_id("operation-cancel").click()
    expect(dialog.get_by_test_id("operation")).to_have_attribute("data-state", "cancelled")
    daemon.stage.api.release()
    expect(dialog.get_by_role("button", name="Continue…")).to_be_visible()


def test_two_threads_are_compared_side_by_side_and_merged(daemon: Daemon, visit: Visit) -> None:
    path = daemon.stage.work / "compared.txt"
    write = '!tool Write {{"file_path": "{}", "content": "{}"}}'
    first = daemon.thread("side-a", "!say Same.", write.format(path, "a\\nb\\n"), permissions="all")
    second = daemon.thread("side-b", "!say Same.", permissions="all")
    path.unlink()
    for prompt in (write.format(path, "a\\nc\\n"), f"!say {HOSTILE}"):
        daemon.ask(second, prompt)
    page = visit(daemon).open(first)
    dialog = act(page, "compare")
    dialog.get_by_test_id("other-thread").fill("side-b")
    dialog.get_by_test_id("start-compare").click()

    view = page.get_by_test_id("compare-view")
    expect(view.locator(".sides.names a")).to_have_text(["side-b", "side-a"])
    expect(view.get_by_test_id("same-turns").first).to_contain_text("2 turns the same")
    expect(view.locator("[data-step=only_a]")).to_have_count(2)
    expect(view).to_contain_text(HOSTILE)
    assert view.locator("article img").count() == 0
    expect(view.get_by_test_id("compared-file")).to_contain_text("compared.txt")
    expect(view.locator(".diff-lines .added, .diff-lines .removed")).to_have_text(["-c", "+b"])

    view.locator(".sides.names a").first.click()
    expect(page.get_by_test_id("thread-name")).to_have_text("side-b")
    merge = act(page, "merge")
    merge.get_by_test_id("other-thread").fill("side-a")
    merge.get_by_label("Name").fill("side-both")
    merge.get_by_test_id("start-merge").click()
    expect(page.get_by_test_id("thread-name")).to_have_text("side-both")
    expect(page.get_by_test_id("origin")).to_contain_text("merged from side-b and side-a")


def test_a_session_of_the_plain_cli_is_checked_adopted_and_opened(own_daemon: Daemon, visit: Visit) -> None:
    planted(own_daemon.stage, own_daemon.stage.work, own_daemon.stage.work / "other")
    page = visit(own_daemon).open()
    page.get_by_test_id("sidebar-menu").click()
    page.get_by_test_id("menu-sessions").click()
    rows = page.get_by_test_id("session-item")
    expect(rows).to_have_count(2)
    page.get_by_test_id("session-filter").fill("question 0")
    expect(rows).to_have_count(1)
    rows.get_by_role("checkbox").check()
    page.get_by_test_id("check-adopt").click()
    expect(page.get_by_test_id("adopted")).to_contain_text("Would be adopted")
    expect(page.get_by_test_id("thread-item")).to_have_count(0)
    rows.get_by_role("checkbox").check()
    page.get_by_test_id("adopt").click()
    expect(page.get_by_test_id("adopted")).to_contain_text("Adopted: ")
    page.get_by_test_id("open-adopted").click()
    expect(prompts(page)).to_contain_text("question 0")
    expect(answers(page)).to_contain_text("an answer")
    name = page.get_by_test_id("thread-name").inner_text()
    expect(listed(page, name)).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_comparisons_and_sessions(own_daemon: Daemon, visit: Visit, scheme: str) -> None:
    planted(own_daemon.stage, own_daemon.stage.work)
    a = own_daemon.thread("axe-a", "!say Same.", "!say Left.")
    b = own_daemon.thread("axe-b", "!say Same.", "!say Right.", "!say More.")
    page = visit(own_daemon, color_scheme=scheme, bypass_csp=True).open(view=f"compare/{a}/{b}")  # so that axe may run
    expect(page.get_by_test_id("differing-turn").first).to_be_visible()
    found = {"comparison": violations(page)}
    page.goto(page.url.split("#")[0] + "#/sessions")
    expect(page.get_by_test_id("session-item").first).to_be_visible()
    page.get_by_test_id("session-item").get_by_role("checkbox").first.check()
    page.get_by_test_id("check-adopt").click()
    expect(page.get_by_test_id("adopted")).to_be_visible()
    found["sessions"] = violations(page)
    assert not {name: each for name, each in found.items() if each}


def test_a_comparison_and_sessions_fit_a_phone(own_daemon: Daemon, visit: Visit) -> None:
    planted(own_daemon.stage, own_daemon.stage.work)
    a = own_daemon.thread("phone-a", "!say Left " + "and-more-" * 30)
    b = own_daemon.thread("phone-b", "!say Right " + "and-more-" * 30)
    page = visit(own_daemon, **PHONE).open(view=f"compare/{a}/{b}")
    expect(page.get_by_test_id("differing-turn").first).to_be_visible()
    assert overflowing(page.locator("body"), ".sides, .said, .head button") == []
    page.goto(page.url.split("#")[0] + "#/sessions")
    expect(page.get_by_test_id("session-item").first).to_be_visible()
    assert overflowing(page.locator("body"), ".session, .head button, .filters *:not(option)") == []
