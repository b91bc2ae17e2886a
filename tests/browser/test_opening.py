"""A thread opens at its end, and stays there while it is drawn; a reader who went up is left alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.house import House, Visitor, answers

Visit = Callable[..., Visitor]

# The distance to the end once nothing has moved for so many frames: what is drawn late, is drawn within a few.
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
def threads(house: House) -> list[str]:
    """Of all lengths: some shorter than the screen, some with turns much higher than they are taken for, or lower."""
    made = []
    for length in LENGTHS:
        for kind, texts in (("tall", (CODE, TABLE, WORDS)), ("flat", ("yes", "no", "- a\n- b"))):
            thread = house.thread(f"{kind}-{length}")
            house.say(thread, *(f"{texts[n % 3]}\n\nanswer {n} of {length}" for n in range(length)))
            made.append(thread)
    tool = '!tool Bash {"command": "seq 40"}'
    made.append(house.thread("steps", *[tool] * 4, "!say " + WORDS, permissions="all"))
    return made


def distance(page: Page) -> float:
    found = page.locator(".scroll").evaluate(AT_REST)
    assert isinstance(found, int | float)
    return found


@pytest.mark.parametrize("width", [1280, 390])
def test_every_thread_opens_at_its_end_every_time(house: House, visit: Visit, threads: list[str], width: int) -> None:
    page = visit(house, viewport={"width": width, "height": 800}).open()
    short = {}
    for time in range(TIMES):
        for thread in threads:
            page.evaluate("hash => { location.hash = hash }", f"#/t/{thread}")
            expect(page.locator(f"[data-thread='{thread}'] .turn").first).to_be_attached()
            if (left := distance(page)) > 1:
                short[page.get_by_test_id("thread-name").inner_text(), time] = left
    assert not short, f"so many pixels are missing: {short}"


def test_a_reader_who_went_up_is_not_taken_back_to_the_end(house: House, visit: Visit) -> None:
    thread = house.thread("read-up")
    house.say(thread, *(f"{WORDS}\n\nanswer {n}" for n in range(20)))
    page = visit(house).open(thread)
    box = page.locator(".scroll")
    assert distance(page) <= 1
    page.mouse.move(700, 400)
    page.mouse.wheel(0, -30)  # a little is enough: whoever reads does not always go far
    expect(box).to_have_js_property("scrollTop", box.evaluate("box => box.scrollHeight - box.clientHeight - 30"))
    run = house.post(f"/api/threads/{thread}/runs", {"prompt": "!slow 40 0.02"})["id"]
    house.end_of(run)
    expect(answers(page).last).to_contain_text("w39")
    assert distance(page) > 30, "what comes below does not move it"
    page.get_by_label("To the end").click()
    assert distance(page) <= 1
    house.ask(thread, "!say " + WORDS)
    expect(answers(page).last).to_contain_text("a little further")
    assert distance(page) <= 1, "at the end it follows"
    for draft in ("a line\n" * 9, "a line\n" * 8, ""):
        page.get_by_test_id("composer").fill(draft)
        assert distance(page) <= 1, "however high the composer is"
