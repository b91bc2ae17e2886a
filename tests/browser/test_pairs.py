"""The pairs view: a pair is started on the page, watched round by round, stopped, resumed, renamed and forked."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.daemon import Daemon
from browser.test_use import PHONE, violations
from browser.visitor import Visitor, overflowing
from clew.testing.model.scripts import Hang
from clew.testing.stage import MODEL
from pairs.couple import Couple, order

Visit = Callable[..., Visitor]
HOSTILE = "<img src=x onerror=alert(1)>"


def start(page: Page, daemon: Daemon, name: str, rounds: int = 3) -> None:
    """Starts a pair by the form, and waits until it is shown."""
    page.get_by_test_id("new-pair").click()
    form = page.get_by_test_id("pair-form")
    form.get_by_test_id("pair-task").fill("Build the thing.\nAll of it.")
    form.get_by_label("Directory").fill(str(daemon.stage.work))
    form.get_by_label("Model of the instructor").fill(MODEL)
    form.get_by_label("Model of the worker").fill(MODEL)
    form.get_by_text("More settings").click()
    form.get_by_test_id("pair-rounds").fill(str(rounds))
    form.get_by_test_id("pair-name").fill(name)
    form.get_by_test_id("start-pair").click()
    expect(page.get_by_test_id("new-pair-dialog")).to_have_count(0)
    expect(page.get_by_test_id("pair-view")).to_be_visible()


def status(page: Page, words: str) -> None:
    expect(page.get_by_test_id("pair-view").get_by_test_id("pair-status")).to_have_text(words)


def test_a_pair_is_watched_live_stopped_and_resumed_with_a_message(own_daemon: Daemon, visit: Visit) -> None:
    couple = Couple(own_daemon.stage, rounds=2)
    couple.busy[2] = Hang("text", "half a report")
    page = visit(own_daemon).open(view="pairs")
    expect(page.get_by_test_id("pairs-view")).to_contain_text("No pairs yet")
    start(page, own_daemon, "maze")
    expect(page).to_have_title("Pair maze · Clew")
    expect(page.get_by_test_id("report")).to_contain_text("report-1")
    expect(page.get_by_test_id("order")).to_have_count(2)
    live = page.get_by_test_id("pair-live")
    expect(live).to_have_attribute("data-part", "worker")
    expect(live).to_contain_text("half a report")
    status(page, "running")
    page.get_by_test_id("stop-pair").click()
    status(page, "stopped")
    own_daemon.stage.api.release()
    expect(live).to_have_count(0)

    page.get_by_test_id("resume-message").fill("Leave the old walls in.")
    page.get_by_test_id("resume-pair").click()
    status(page, "finished")
    expect(page.get_by_test_id("pair-round-item").last).to_contain_text("All of it is done")
    expect(page.get_by_test_id("pair-view")).to_contain_text("Leave the old walls in.")
    expect(page.get_by_test_id("report").last).to_contain_text("report-2")
    page.get_by_test_id("pairs-open").click()
    expect(page.get_by_test_id("pair-item")).to_have_attribute("data-state", "finished")


def test_a_pair_is_renamed_and_forked_and_is_out_of_rounds(own_daemon: Daemon, visit: Visit) -> None:
    couple = Couple(own_daemon.stage, rounds=5)
    couple.orders = [order(f"order-1 {HOSTILE}", needs_correction=True)]
    page = visit(own_daemon).open(view="pairs")
    start(page, own_daemon, "short", rounds=2)
    status(page, "out of rounds")
    expect(page.get_by_test_id("pair-round")).to_have_text("round 2 of 2")
    expect(page.get_by_test_id("order").first).to_contain_text(HOSTILE)
    assert page.locator("main img").count() == 0

    page.get_by_test_id("rename-pair").click()
    page.get_by_test_id("rename-pair-field").fill("shorter")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("pair-name-shown")).to_have_text("shorter")

    page.get_by_test_id("fork-pair").first.click()
    expect(page.get_by_test_id("consequence")).to_contain_text("rounds 1 to 1")
    page.get_by_test_id("confirm-change").click()
    expect(page.get_by_test_id("pair-name-shown")).not_to_have_text("shorter")
    expect(page.get_by_test_id("pair-round-item")).to_have_count(1)
    page.get_by_test_id("resume-rounds").fill("1")
    page.get_by_test_id("resume-pair").click()
    expect(page.get_by_test_id("report")).to_have_count(2)


def test_a_pair_is_replayed_compared_and_merged(own_daemon: Daemon, visit: Visit) -> None:
    Couple(own_daemon.stage, rounds=1)
    page = visit(own_daemon, refused=True, bypass_csp=True).open(view="pairs")  # so that axe may run
    start(page, own_daemon, "first")
    status(page, "finished")
    page.get_by_test_id("pair-menu").click()
    page.get_by_test_id("menu-replay_pair").click()
    dialog = page.get_by_test_id("replay-dialog")
    dialog.get_by_label("Model of the instructor").fill(MODEL)
    dialog.get_by_label("Model of the worker").fill(MODEL)
    assert violations(page) == []
    dialog.get_by_test_id("start-replay").click()
    expect(dialog.get_by_test_id("replayed")).to_contain_text("finished")
    replay = dialog.get_by_test_id("replayed").locator("strong").inner_text()
    dialog.get_by_test_id("compare-replay").click()
    view = page.get_by_test_id("compare-view")
    expect(view.get_by_role("heading", name="Instructors")).to_be_visible()
    expect(view.get_by_role("heading", name="Workers")).to_be_visible()
    expect(view).to_contain_text("report-1")

    page.get_by_test_id("pairs-open").click()
    expect(page.get_by_test_id("pair-item")).to_have_count(2)
    page.get_by_test_id("pair-item").last.click()
    expect(page.get_by_test_id("pair-name-shown")).to_have_text("first")
    page.get_by_test_id("pair-menu").click()
    page.get_by_test_id("menu-merge_pairs").click()
    dialog = page.get_by_test_id("merge-dialog")
    dialog.get_by_test_id("other-pair").fill("no-such-pair")
    dialog.get_by_test_id("start-merge").click()
    expect(dialog.get_by_role("alert")).to_contain_text("no-such-pair")
    dialog.get_by_test_id("other-pair").fill(replay)
    dialog.get_by_label("Name").fill("both")
    dialog.get_by_test_id("start-merge").click()
    expect(page.get_by_test_id("pair-name-shown")).to_have_text("both")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_pairs(own_daemon: Daemon, visit: Visit, scheme: str) -> None:
    couple = Couple(own_daemon.stage, rounds=2)
    couple.busy[2] = Hang("text", "half a report")
    page = visit(own_daemon, color_scheme=scheme, bypass_csp=True).open(view="pairs")  # so that axe may run
    page.get_by_test_id("new-pair").click()
    expect(page.get_by_test_id("pair-form")).to_be_visible()
    found = {"form": violations(page)}
    page.keyboard.press("Escape")
    start(page, own_daemon, "axe")
    expect(page.get_by_test_id("pair-live")).to_contain_text("half a report")
    found["running"] = violations(page)
    page.get_by_test_id("stop-pair").click()
    status(page, "stopped")
    own_daemon.stage.api.release()
    page.get_by_test_id("rename-pair").click()
    found["stopped"] = violations(page)
    page.get_by_test_id("pairs-open").click()
    expect(page.get_by_test_id("pair-item")).to_be_visible()
    found["list"] = violations(page)
    assert not {name: each for name, each in found.items() if each}


def test_a_pair_fits_a_phone(own_daemon: Daemon, visit: Visit) -> None:
    couple = Couple(own_daemon.stage, rounds=1)
    couple.reports = ["a-report-" * 40]
    page = visit(own_daemon, **PHONE).open(view="pairs")
    start(page, own_daemon, "a-pair-with-quite-a-long-name")
    status(page, "finished")
    assert overflowing(page.locator("body"), ".head button, .pair-round, .said, form .row > *") == []
    page.get_by_role("button", name="All pairs").click()
    expect(page.get_by_test_id("pair-item")).to_be_visible()
    assert overflowing(page.locator("body"), ".job, .job > *") == []
