"""A browser with the page open, which records what went wrong in it, and helpers that find parts of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request, expect

from browser.daemon import Daemon

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT_MS = 60_000  # for an expectation, because the machine may be busy
REFUSED = "the server responded with a status of 4"
UNREACHABLE = "net::ERR_"  # what a browser logs about a daemon that is down

expect.set_options(timeout=WAIT_MS)


class Visitor:
    """One browser with its cookie. It records the errors of its pages, and the host of every request."""

    def __init__(self, daemon: Daemon, context: BrowserContext) -> None:
        self.daemon = daemon
        self.context = context
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        context.on("console", self._logged)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        context.on("request", self._requested)

    def open(self, thread: str | None = None, *, view: str = "") -> Page:
        """Opens the page by the link that the daemon printed, and then a thread or another view."""
        page = self.context.new_page()
        page.goto(self.daemon.process.address)
        expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
        if thread or view:
            page.goto(f"http://127.0.0.1:{self.daemon.process.port}/#/{view or f't/{thread}'}")
        if thread and not view:
            expect(page.get_by_test_id("composer")).to_be_visible()
        return page

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _requested(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme != "data":
            self.hosts.add(address.netloc)

    def check(self, *, gone: bool, refused: bool) -> None:
        """`gone`: the daemon was down for a while. `refused`: it refused a request. A browser logs both as errors."""
        left = [each for each in self.errors if not (gone and (UNREACHABLE in each or "WebSocket" in each))]
        left = [each for each in left if not (refused and REFUSED in each)]
        assert not left, f"the browser logged errors: {left}"
        assert self.hosts <= {f"127.0.0.1:{self.daemon.process.port}"}, f"requests left the machine: {self.hosts}"


@contextmanager
def visiting(
    daemon: Daemon, browser: Browser, *, gone: bool = False, refused: bool = False, **options: Any
) -> Iterator[Visitor]:
    options.setdefault("viewport", {"width": 1280, "height": 800})
    context = browser.new_context(**options)
    visitor = Visitor(daemon, context)
    try:
        yield visitor
        visitor.check(gone=gone, refused=refused)
    finally:
        context.close()


def send(page: Page, text: str) -> None:
    page.get_by_test_id("composer").fill(text)
    page.get_by_test_id("send").click()


def answers(page: Page) -> Locator:
    return page.get_by_test_id("turn-assistant")


def prompts(page: Page) -> Locator:
    return page.get_by_test_id("turn-user")


def expect_idle(page: Page) -> None:
    expect(page.get_by_test_id("stop")).to_have_count(0)
    expect(page.get_by_test_id("activity")).to_have_count(0)


def words_of(locator: Locator) -> list[str]:
    """The numbered words (`w0 w1 …`) that the scripted model sends one by one."""
    return re.findall(r"\bw\d+\b", locator.inner_text())


def overflowing(container: Locator, parts: str) -> list[str]:
    """The parts that are wider than the container, or whose text is cut off without an ellipsis."""
    out = container.evaluate(
        """(box, parts) => {
            const sides = box.getBoundingClientRect();
            const isCut = (each) => {
                const style = getComputedStyle(each);
                const isHidden = style.overflowX !== "visible" && style.textOverflow !== "ellipsis";
                return isHidden && each.scrollWidth > each.clientWidth + 1;
            };
            return [...box.querySelectorAll(parts)].filter((each) => {
                const own = each.getBoundingClientRect();
                return own.left < sides.left - 1 || own.right > sides.right + 1 || isCut(each);
            }).map((each) => each.textContent);
        }""",
        parts,
    )
    assert isinstance(out, list)
    return out
