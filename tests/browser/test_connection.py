"""The daemon goes and comes back; several tabs; a browser without the token."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import WebSocketRoute, expect

import clew
from browser.house import House, Visitor, answers, expect_idle, prompts, send, words_of

Visit = Callable[..., Visitor]
PAGE = Path(clew.__file__).parent / "web" / "page"
# The timer by which a notice about a problem goes by itself never rings.
NOTICE_MS = "12_000"
NOTICES_STAY = f"const later = setTimeout; window.setTimeout = (act, ms) => (ms === {NOTICE_MS} ? 0 : later(act, ms));"


def test_a_killed_daemon_loses_nothing_and_doubles_nothing(own_house: House, visit: Visit) -> None:
    thread = own_house.thread("restart", "one")
    page = visit(own_house, gone=True).open(thread)
    send(page, "!slow 1000 0.02")
    expect(answers(page).nth(1)).to_contain_text("w20")
    page.get_by_test_id("composer").fill("a draft that must not be lost")
    own_house.daemon.kill()
    expect(page.get_by_test_id("connection")).to_contain_text("Reconnecting")
    seen = words_of(answers(page).nth(1))
    own_house.daemon.restart()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
    expect(page.get_by_test_id("ending")).to_be_visible()
    expect_idle(page)

    words = words_of(answers(page).nth(1))
    assert words == [f"w{n}" for n in range(len(words))], "in order, each once"
    assert len(words) >= len(seen), "what was on the screen was on disk"
    expect(page.get_by_test_id("composer")).to_have_value("a draft that must not be lost")
    expect(prompts(page)).to_have_count(2)
    assert words_of(answers(page).nth(1)) == own_house.turns(thread)[3]["text"].split()

    page.reload()
    expect(page.get_by_test_id("composer")).to_have_value("a draft that must not be lost")
    page.get_by_test_id("composer").fill("and on")
    page.get_by_test_id("send").click()
    expect(answers(page).nth(2)).to_contain_text("ack: and on")
    expect(prompts(page)).to_have_count(3)


def test_a_stream_goes_on_where_it_was_after_the_connection_broke(house: House, visit: Visit) -> None:
    visitor = visit(house)
    lines: list[WebSocketRoute] = []

    def connect(line: WebSocketRoute) -> None:
        line.connect_to_server()
        lines.append(line)

    visitor.context.route_web_socket(re.compile("/api/live"), connect)
    page = visitor.open(house.thread("broken"))
    send(page, "!slow 150 0.02")
    for cut, word in enumerate(("w10", "w40", "w70"), start=1):
        expect(answers(page)).to_contain_text(word)
        assert len(lines) == cut
        lines[-1].close()
    expect(answers(page)).to_contain_text("w149")
    expect_idle(page)
    assert len(lines) == 4
    assert words_of(answers(page)) == [f"w{n}" for n in range(150)]


def test_two_tabs_are_in_step(house: House, visit: Visit) -> None:
    thread = house.thread("tabs", "one")
    visitor = visit(house)
    first, second = visitor.open(thread), visitor.open(thread)
    send(first, "!slow 60 0.02")
    expect(answers(second).nth(1)).to_contain_text("w10")
    expect(prompts(second)).to_have_count(2)
    expect(answers(second).nth(1)).to_contain_text("w59")
    expect_idle(second)
    expect(second.get_by_test_id("badge").nth(1)).to_contain_text("resumed")

    prompts(second).first.hover()
    prompts(second).first.get_by_test_id("edit-turn").click()
    second.get_by_label("The text of this turn").fill("changed in the second tab")
    second.get_by_test_id("save-turn").click()
    expect(prompts(first).first).to_contain_text("changed in the second tab")

    made = house.thread("made-elsewhere")
    expect(first.get_by_test_id("thread-item").filter(has_text="made-elsewhere")).to_be_visible()
    assert made


def test_an_answer_that_came_while_nobody_looked_is_unread(house: House, visit: Visit) -> None:
    here, there = house.thread("here", "one"), house.thread("there", "one")
    page = visit(house).open(there)
    page.goto(f"http://127.0.0.1:{house.daemon.port}/#/t/{here}")
    expect(page.get_by_test_id("thread-name")).to_have_text("here")
    house.ask(there, "two")
    item = page.get_by_test_id("thread-item").filter(has_text="there")
    expect(item).to_have_attribute("data-state", "unread")
    item.click()
    expect(answers(page)).to_have_count(2)
    expect(item).to_have_attribute("data-state", "idle")


def test_a_browser_without_the_token_is_told_what_to_open(house: House, visit: Visit) -> None:
    visitor = visit(house)
    page = visitor.context.new_page()
    page.goto(f"http://127.0.0.1:{house.daemon.port}/")
    expect(page.locator("body")).to_contain_text("clew serve")
    visitor.complaints.clear()  # the browser logs the 401 itself

    page = visitor.open(house.thread("let-in"))
    visitor.context.clear_cookies()
    send(page, "nobody hears this")
    expect(page.get_by_test_id("refused")).to_contain_text("Open the link that clew serve printed")
    visitor.complaints.clear()


def test_that_it_does_not_answer_is_said_only_until_it_does(own_house: House, visit: Visit) -> None:
    assert NOTICE_MS in PAGE.joinpath("sync.ts").read_text(), "the timer that is kept from ringing"
    visitor = visit(own_house, gone=True)
    visitor.context.add_init_script(NOTICES_STAY)
    page = visitor.open(own_house.thread("silent", "one"))
    own_house.daemon.kill()
    expect(page.get_by_test_id("connection")).to_contain_text("nothing is lost")
    answers(page).first.hover()
    for _ in range(2):
        answers(page).first.get_by_test_id("fork-turn").click()
        page.get_by_test_id("confirm-change").click()
        expect(page.get_by_test_id("notice")).to_contain_text("Clew does not answer.")
    expect(page.get_by_test_id("notice")).to_have_count(1)
    page.get_by_test_id("new-thread").click()
    page.get_by_test_id("make-thread").click()
    problem = page.get_by_test_id("dialog-problem")
    expect(problem).to_contain_text("Clew does not answer.")
    own_house.daemon.restart()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
    expect(page.get_by_test_id("notice")).to_have_count(0)
    expect(problem).to_have_count(0)


def test_a_daemon_that_is_gone_is_said_and_the_prompt_stays(own_house: House, visit: Visit) -> None:
    page = visit(own_house, gone=True).open(own_house.thread("gone", "one"))
    page.get_by_test_id("composer").fill("not yet")
    own_house.daemon.kill()
    expect(page.get_by_test_id("connection")).to_contain_text("nothing is lost")
    expect(page.get_by_test_id("send")).to_be_disabled()
    expect(page.get_by_test_id("composer")).to_have_value("not yet")
