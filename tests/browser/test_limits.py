"""The account's usage limit on the page: when it resets, and a button that waits for that."""

from __future__ import annotations

import time
from collections.abc import Callable

from playwright.sync_api import expect

from browser.daemon import Daemon
from browser.visitor import Visitor, answers


def test_a_limited_run_says_until_when_and_a_button_continues_it(daemon: Daemon, visit: Callable[..., Visitor]) -> None:
    resets_at = int(time.time()) + 3600
    thread = daemon.thread(
        "limited", "!say hello", f"!fail 429 rate_limit_error Claude AI usage limit reached|{resets_at}"
    )
    page = visit(daemon).open(thread)
    ending = page.get_by_test_id("run-error")
    expect(ending).to_contain_text("The limit resets at")
    ending.get_by_test_id("wait-for-limit").click()
    queued = page.get_by_test_id("queued-item")
    expect(queued).to_contain_text("waits until")
    expect(page.get_by_test_id("wait-for-limit")).to_have_count(0)
    page.reload()
    expect(queued).to_contain_text("waits until")
    queued.get_by_test_id("queued-now").click()
    expect(answers(page).last).to_contain_text("ack: ")
    expect(answers(page).last).to_contain_text("resumed")
    expect(queued).to_have_count(0)
