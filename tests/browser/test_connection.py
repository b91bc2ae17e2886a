"""The daemon is killed and restarted; several tabs; a browser without the token."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import WebSocketRoute, expect

import clew
from browser.daemon import Daemon
from browser.visitor import Visitor, answers, expect_idle, prompts, send, words_of

Visit = Callable[..., Visitor]
PAGE = Path(clew.__file__).parent / "web" / "page"
# Disables the timer that removes the notice about a problem.
NOTICE_MS = "12_000"
NOTICES_STAY = f"const later = setTimeout; window.setTimeout = (act, ms) => (ms === {NOTICE_MS} ? 0 : later(act, ms));"


def test_a_killed_daemon_loses_nothing_and_duplicates_nothing(own_daemon: Daemon, visit: Visit) -> None:
    thread = own_daemon.thread("restart", "one")
    page = visit(own_daemon, gone=True).open(thread)
    send(page, "!slow 1000 0.02")
    expect(answers(page).nth(1)).to_contain_text("w20")
    page.get_by_test_id("composer").fill("a draft that must not be lost")
    own_daemon.process.kill()
    expect(page.get_by_test_id("connection")).to_contain_text("Reconnecting")
    seen = words_of(answers(page).nth(1))
    own_daemon.process.restart()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
    expect(page.get_by_test_id("ending")).to_be_visible()
    expect_idle(page)

    words = words_of(answers(page).nth(1))
    assert words == [f"w{n}" for n in range(len(words))], "in order, each once"
    assert len(words) >= len(seen), "what was shown was on disk"
    expect(page.get_by_test_id("composer")).to_have_value("a draft that must not be lost")
    expect(prompts(page)).to_have_count(2)
    assert words_of(answers(page).nth(1)) == own_daemon.turns(thread)[3]["text"].split()

    page.reload()
    expect(page.get_by_test_id("composer")).to_have_value("a draft that must not be lost")
    page.get_by_test_id("composer").fill("and on")
    page.get_by_test_id("send").click()
    expect(answers(page).nth(2)).to_contain_text("ack: and on")
    expect(prompts(page)).to_have_count(3)


def test_a_stream_continues_where_it_was_after_a_reconnect(daemon: Daemon, visit: Visit) -> None:
    visitor = visit(daemon)
    lines: list[WebSocketRoute] = []

    def connect(line: WebSocketRoute) -> None:
        line.connect_to_server()
        lines.append(line)

    visitor.context.route_web_socket(re.compile("/api/live"), connect)
    page = visitor.open(daemon.thread("broken"))
    send(page, "!slow 150 0.02")
    for cut, word in enumerate(("w10", "w40", "w70"), start=1):
        expect(answers(page)).to_contain_text(word)
        assert len(lines) == cut
        lines[-1].close()
    expect(answers(page)).to_contain_text("w149")
    expect_idle(page)
    assert len(lines) == 4
    assert words_of(answers(page)) == [f"w{n}" for n in range(150)]


def test_two_tabs_show_the_same(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("tabs", "one")
    visitor = visit(daemon)
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

    made = daemon.thread("made-elsewhere")
    expect(first.get_by_test_id("thread-item").filter(has_text="made-elsewhere")).to_be_visible()
    assert made


def test_an_answer_in_a_thread_that_is_not_open_is_unread(daemon: Daemon, visit: Visit) -> None:
    here, there = daemon.thread("here", "one"), daemon.thread("there", "one")
    page = visit(daemon).open(there)
    page.goto(f"http://127.0.0.1:{daemon.process.port}/#/t/{here}")
    expect(page.get_by_test_id("thread-name")).to_have_text("here")
    daemon.ask(there, "two")
    item = page.get_by_test_id("thread-item").filter(has_text="there")
    expect(item).to_have_attribute("data-state", "unread")
    item.click()
    expect(answers(page)).to_have_count(2)
    expect(item).to_have_attribute("data-state", "idle")


def test_a_browser_without_the_token_shows_what_to_open(daemon: Daemon, visit: Visit) -> None:
    visitor = visit(daemon)
    page = visitor.context.new_page()
    page.goto(f"http://127.0.0.1:{daemon.process.port}/")
    expect(page.locator("body")).to_contain_text("clew serve")
    visitor.errors.clear()  # the browser logs the 401

    page = visitor.open(daemon.thread("let-in"))
    visitor.context.clear_cookies()
    send(page, "nobody hears this")
    expect(page.get_by_test_id("refused")).to_contain_text("Open the link that clew serve printed")
    visitor.errors.clear()


def test_the_notice_about_a_silent_daemon_disappears_when_it_answers(own_daemon: Daemon, visit: Visit) -> None:
    assert NOTICE_MS in PAGE.joinpath("state", "page.ts").read_text(), "the timer that is disabled"
    visitor = visit(own_daemon, gone=True)
    visitor.context.add_init_script(NOTICES_STAY)
    page = visitor.open(own_daemon.thread("silent", "one"))
    own_daemon.process.kill()
    expect(page.get_by_test_id("connection")).to_contain_text("Nothing is lost")
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
    own_daemon.process.restart()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
    expect(page.get_by_test_id("notice")).to_have_count(0)
    expect(problem).to_have_count(0)


def test_a_disconnect_is_shown_and_the_prompt_stays(own_daemon: Daemon, visit: Visit) -> None:
    page = visit(own_daemon, gone=True).open(own_daemon.thread("gone", "one"))
    page.get_by_test_id("composer").fill("not yet")
    own_daemon.process.kill()
    expect(page.get_by_test_id("connection")).to_contain_text("Nothing is lost")
    expect(page.get_by_test_id("send")).to_be_disabled()
    expect(page.get_by_test_id("composer")).to_have_value("not yet")
