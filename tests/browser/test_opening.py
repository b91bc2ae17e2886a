"""A thread opens at its end and stays there while it is rendered; a reader who scrolled up is not moved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.daemon import Daemon
from browser.visitor import Visitor, answers

Visit = Callable[..., Visitor]

# The distance to the end once nothing has moved for eight frames: what is rendered late is rendered within a few.
AT_REST = """box => new Promise(resolve => {
    let still = 0, last = "";
    const look = () => {
        const now = [box.scrollHeight, box.clientHeight, box.scrollTop].join();
        still = now === last ? still + 1 : 0;
        last = now;
        if (still < 8) requestAnimationFrame(look);
        else resolve(box.scrollHeight - box.clientHeight - box.scrollTop);
    };
    look();
})"""
CODE = "```py\n" + "value = compute(value)\n" * 12 + "```"
TABLE = "| a | b |\n| - | - |\n" + "| one | two |\n" * 9
WORDS = "a sentence of some words that goes on for a while, and then a little further. " * 12
LENGTHS = (1, 3, 8, 40)
TIMES = 3


@pytest.fixture(scope="module")
def threads(daemon: Daemon) -> list[str]:
    """Threads of different lengths, some shorter than the screen, with turns higher or lower than estimated."""
    made = []
    for length in LENGTHS:
        for kind, texts in (("tall", (CODE, TABLE, WORDS)), ("flat", ("yes", "no", "- a\n- b"))):
            thread = daemon.thread(f"{kind}-{length}")
            daemon.say(thread, *(f"{texts[n % 3]}\n\nanswer {n} of {length}" for n in range(length)))
            made.append(thread)
    tool = '!tool Bash {"command": "seq 40"}'
    made.append(daemon.thread("steps", *[tool] * 4, "!say " + WORDS, permissions="all"))
    return made


def distance(page: Page) -> float:
    found = page.locator(".scroll").evaluate(AT_REST)
    assert isinstance(found, int | float)
    return found


@pytest.mark.parametrize("width", [1280, 390])
def test_every_thread_opens_at_its_end_every_time(daemon: Daemon, visit: Visit, threads: list[str], width: int) -> None:
    page = visit(daemon, viewport={"width": width, "height": 800}).open()
    short = {}
    for time in range(TIMES):
        for thread in threads:
            page.evaluate("hash => { location.hash = hash }", f"#/t/{thread}")
            expect(page.locator(f"[data-thread='{thread}'] .turn").first).to_be_attached()
            if (left := distance(page)) > 1:
                short[page.get_by_test_id("thread-name").inner_text(), time] = left
    assert not short, f"pixels to the end: {short}"


def test_a_reader_who_scrolled_up_stays_there(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("read-up")
    daemon.say(thread, *(f"{WORDS}\n\nanswer {n}" for n in range(20)))
    page = visit(daemon).open(thread)
    box = page.locator(".scroll")
    assert distance(page) <= 1
    page.mouse.move(700, 400)
    page.mouse.wheel(0, -30)  # a small distance is enough
    expect(box).to_have_js_property("scrollTop", box.evaluate("box => box.scrollHeight - box.clientHeight - 30"))
    run = daemon.post(f"/api/threads/{thread}/runs", {"prompt": "!slow 40 0.02"})["id"]
    daemon.end_of(run)
    expect(answers(page).last).to_contain_text("w39")
    assert distance(page) > 30, "new text below does not move it"
    page.get_by_label("Scroll to the end").click()
    assert distance(page) <= 1
    daemon.ask(thread, "!say " + WORDS)
    expect(answers(page).last).to_contain_text("a little further")
    assert distance(page) <= 1, "at the end it follows the answer"
    for draft in ("a line\n" * 9, "a line\n" * 8, ""):
        page.get_by_test_id("composer").fill(draft)
        assert distance(page) <= 1, "however high the composer is"
