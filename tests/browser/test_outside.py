"""Turns that were made outside Clew: the bar, the button and the mark; and the words about a rewind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from browser.daemon import Daemon
from browser.visitor import Visitor, answers, expect_idle, overflowing, prompts, send
from clew.testing.model.scripts import Slow
from plain_cli import continue_outside

Visit = Callable[..., Visitor]


def outside(daemon: Daemon, thread: str, prompt: str) -> None:
    [run, *_] = daemon.get(f"/api/runs?thread={thread}")["items"]
    stage = daemon.stage
    continue_outside(stage.binary, run["session_id"], prompt, environ=stage.environ, cwd=stage.work)


@pytest.mark.always
def test_a_bar_offers_to_bring_in_what_was_done_in_a_terminal(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("outside", "one")
    page = visit(daemon).open(thread)
    expect(answers(page)).to_have_count(1)
    expect(page.get_by_test_id("outside-bar")).to_have_count(0)

    outside(daemon, thread, '!tool Bash {"command": "echo hi", "description": "greets"}')
    page.evaluate("window.dispatchEvent(new Event('focus'))")  # back from the terminal
    bar = page.get_by_test_id("outside-bar")
    expect(bar).to_contain_text("2 turns were made outside Clew. The next prompt brings them in, too.")
    expect(page.get_by_test_id("session-line")).to_contain_text("Resumes the session")
    assert len(daemon.turns(thread)) == 2, "looking at it changes nothing"

    page.get_by_test_id("bring-in").click()
    expect(answers(page)).to_have_count(2)
    expect(bar).to_have_count(0)
    expect(prompts(page).nth(1).get_by_test_id("outside-chip")).to_have_text("outside Clew")
    expect(answers(page).nth(1).get_by_test_id("outside-chip")).to_have_text("outside Clew")
    expect(answers(page).nth(1)).to_contain_text("echo hi")
    expect(page.get_by_test_id("outside-chip")).to_have_count(2)
    page.reload()
    expect(page.get_by_test_id("outside-chip")).to_have_count(2)

    send(page, "two")
    expect(answers(page).nth(2)).to_contain_text("ack: two")
    expect_idle(page)
    expect(page.get_by_test_id("badge").nth(2)).to_contain_text("resumed")
    assert daemon.stage.prompt == "two"


def test_a_prompt_brings_them_in_as_well_and_says_so(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("outside-asked", "one")
    outside(daemon, thread, "from a terminal")
    page = visit(daemon, viewport={"width": 390, "height": 800}).open(thread)
    bar = page.get_by_test_id("outside-bar")
    expect(bar).to_be_visible()
    assert overflowing(page.locator("body"), "[data-testid=outside-bar] *") == []

    send(page, "two")
    expect(answers(page)).to_have_count(3)
    expect_idle(page)
    expect(prompts(page)).to_contain_text(["one", "from a terminal", "two"])
    expect(bar).to_have_count(0)
    warning = "2 turns were made outside Clew in this thread's session, and are in the thread now."
    expect(answers(page).nth(2)).to_contain_text(warning)
    page.reload()
    expect(answers(page).nth(2)).to_contain_text(warning)


@pytest.mark.always
def test_a_change_says_to_which_turn_it_rewinds_and_the_badge_says_it_too(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("rewind", "one", "two", "three"))
    prompts(page).nth(2).hover()
    expect(prompts(page).nth(2)).to_contain_text("turn 5")
    prompts(page).nth(2).get_by_test_id("truncate-turn").click()
    expect(page.get_by_test_id("consequence")).to_contain_text("Archives 2 turns. The session rewinds to turn 4")
    page.keyboard.press("Escape")
    prompts(page).nth(2).get_by_test_id("retry-turn").click()
    expect(page.get_by_test_id("consequence")).to_contain_text(
        "Asks this again. A copy of the session continues from turn 4. The 1 turn after this prompt is archived. "
        "Files that these turns changed stay as they are."
    )
    page.keyboard.press("Escape")
    prompts(page).nth(1).hover()
    prompts(page).nth(1).get_by_test_id("edit-turn").click()
    expect(page.get_by_test_id("consequence")).to_contain_text("The session rewinds to turn 2")
    page.get_by_label("The text of this turn").fill("due")
    page.get_by_test_id("save-turn").click()
    expect(page.get_by_test_id("session-line")).to_contain_text("Rewinds to turn 2: continues there in a copy")
    page.get_by_test_id("explain").click()
    expect(page.get_by_test_id("explained-decision")).to_have_text("rewinds to turn 2: history changed")
    page.keyboard.press("Escape")

    send(page, "four")
    badge = page.get_by_test_id("badge").nth(3)
    expect(badge).to_contain_text("resumed, rewound to turn 2: history changed")
    expect_idle(page)
    badge.get_by_role("button").click()
    expect(answers(page).first).to_be_in_viewport()
    page.reload()
    expect(badge).to_contain_text("resumed, rewound to turn 2: history changed")


def test_asking_again_in_a_fresh_session_does_not_rewind(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("again-fresh", "one"))
    daemon.stage.api.script.append(Slow(" ".join(f"w{n}" for n in range(2000)), 50))
    send(page, "stop me")
    expect(answers(page).nth(1)).to_contain_text("w0")
    page.get_by_test_id("stop").click()
    expect(page.get_by_test_id("ending")).to_contain_text("Stopped")
    expect_idle(page)

    page.get_by_test_id("retry-run").click()

    expect(answers(page).nth(1)).to_contain_text("ack: stop me")
    expect(page.get_by_test_id("badge").nth(1)).to_contain_text("fresh: you asked for it")
