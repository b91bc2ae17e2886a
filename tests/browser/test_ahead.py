"""The agent of a thread is started while somebody opens the thread or types, and nothing is sent to a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, Response, expect

from browser.daemon import Daemon
from browser.visitor import Visitor, answers, expect_idle, send

Visit = Callable[..., Visitor]


def is_call(response: Response) -> bool:
    return response.url.endswith("/start-ahead")


def cold_thread(daemon: Daemon, name: str) -> str:
    """A thread of a daemon that keeps agents, but has none of this thread: another daemon has run its turn."""
    thread = daemon.thread(name, "one")
    daemon.process.restart(CLEW_WARM_KEYS="true")
    return thread


def calls_of(page: Page) -> list[Any]:
    calls: list[Any] = []
    page.on("response", lambda response: calls.append(response) if is_call(response) else None)
    return calls


def test_opening_a_thread_starts_its_agent_which_answers_the_prompt(own_daemon: Daemon, visit: Visit) -> None:
    thread = cold_thread(own_daemon, "opened")
    stage = own_daemon.stage
    requests = len(stage.api.requests)
    page = visit(own_daemon).open()
    calls = calls_of(page)
    with page.expect_response(is_call) as called:
        page.goto(f"http://127.0.0.1:{own_daemon.process.port}/#/t/{thread}")
    assert called.value.json() == {"waiting": True}
    assert len(stage.api.requests) == requests, "nothing was sent to a model"

    send(page, "two")
    expect(answers(page).nth(1)).to_contain_text("ack: two")
    expect_idle(page)
    assert len(stage.launches) == 2, "the agent that waited has answered"
    assert len(calls) == 1, "one call is enough for what was typed at once, too"


def test_typing_starts_the_agent_of_a_thread_that_was_only_stepped_to(own_daemon: Daemon, visit: Visit) -> None:
    cold_thread(own_daemon, "typed")
    stage = own_daemon.stage
    page = visit(own_daemon).open()
    calls = calls_of(page)
    page.keyboard.press("j")  # steps through the threads
    expect(page.get_by_test_id("session-line")).to_contain_text("Resumes")
    assert (len(calls), len(stage.launches)) == (0, 1)

    with page.expect_response(is_call) as called:
        page.get_by_test_id("composer").press_sequentially("tw")
    assert called.value.json() == {"waiting": True}
    send(page, "two")
    expect(answers(page).nth(1)).to_contain_text("ack: two")
    assert len(stage.launches) == 2, "the agent that waited has answered"
