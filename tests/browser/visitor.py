"""What a journey needs: a daemon with its page, a browser that tells what went wrong in it, a few words for both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request, expect

from clew.core.history import Role, Turn
from clew.core.ids import TurnId
from clew.store import open_store
from clew.testing.stage import MODEL, Stage
from server.house import Served

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
WAIT_MS = 60_000  # of an expectation: the machine may be busy
REFUSED = "the server responded with a status of 4"
TO_NOBODY = "net::ERR_"  # what a browser logs about a daemon that is gone

expect.set_options(timeout=WAIT_MS)


class House:
    """A served daemon, and calls to it that bring the token along."""

    def __init__(self, stage: Stage, daemon: Served) -> None:
        self.stage = stage
        self.daemon = daemon
        self._http = httpx.Client(
            base_url=f"http://127.0.0.1:{daemon.port}", headers={"Authorization": f"Bearer {daemon.token}"}, timeout=60
        )

    def close(self) -> None:
        self._http.close()

    def get(self, path: str) -> Any:
        response = self._http.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    def post(self, path: str, body: Any = None) -> Any:
        response = self._http.post(path, json={} if body is None else body)
        assert response.is_success, response.text
        return response.json()

    def delete(self, path: str) -> None:
        response = self._http.delete(path)
        assert response.is_success, response.text

    def thread(self, name: str, *prompts: str, **more: Any) -> str:
        """The id of a new thread in which these were asked and answered."""
        made = self.post("/api/threads", {"name": name, "cwd": str(self.stage.work), "model": MODEL, **more})
        for prompt in prompts:
            self.ask(made["id"], prompt)
        return str(made["id"])

    def ask(self, thread: str, prompt: str) -> None:
        """Until the run is over: its events end then."""
        self.end_of(self.post(f"/api/threads/{thread}/runs", {"prompt": prompt})["id"])

    def end_of(self, run: str) -> None:
        with self._http.stream("GET", f"/api/runs/{run}/events") as events:
            assert any(line == "event: run_ended" for line in events.iter_lines())

    def say(self, thread: str, *texts: str) -> None:
        """Puts turns into the store as they are, the user's and the agent's in turn."""
        with open_store(self.stage.clew_home / "clew.db") as store, store.transaction():
            for n, text in enumerate(texts):
                at = 1000.0 + n
                store.add_turn(thread, Turn(TurnId(f"{thread}-{n:05}-u"), Role.USER, f"prompt {n}", created_at=at))
                answer = Turn(TurnId(f"{thread}-{n:05}"), Role.ASSISTANT, text, agent="claude", created_at=at)
                store.add_turn(thread, answer)

    def turns(self, thread: str) -> list[Any]:
        turns = self.get(f"/api/threads/{thread}/view")["turns"]
        assert isinstance(turns, list)
        return turns


class Visitor:
    """One browser with its cookie. What its pages complain about, and every address they asked for, is noted."""

    def __init__(self, house: House, context: BrowserContext) -> None:
        self.house = house
        self.context = context
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        context.on("console", self._heard)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        context.on("request", self._asked)

    def open(self, thread: str | None = None, *, view: str = "") -> Page:
        """The page by the link that the daemon printed; then a thread, or another view."""
        page = self.context.new_page()
        page.goto(self.house.daemon.address)
        expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
        if thread or view:
            page.goto(f"http://127.0.0.1:{self.house.daemon.port}/#/{view or f't/{thread}'}")
        if thread and not view:
            expect(page.get_by_test_id("composer")).to_be_visible()
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme != "data":
            self.hosts.add(address.netloc)

    def check(self, *, gone: bool, refused: bool) -> None:
        """`gone`: the daemon was away for a while. `refused`: it declined something, which a browser logs as well."""
        left = [each for each in self.complaints if not (gone and (TO_NOBODY in each or "WebSocket" in each))]
        left = [each for each in left if not (refused and REFUSED in each)]
        assert not left, f"the browser complains: {left}"
        assert self.hosts <= {f"127.0.0.1:{self.house.daemon.port}"}, f"requests left the machine: {self.hosts}"


@contextmanager
def visiting(
    house: House, browser: Browser, *, gone: bool = False, refused: bool = False, **options: Any
) -> Iterator[Visitor]:
    options.setdefault("viewport", {"width": 1280, "height": 800})
    context = browser.new_context(**options)
    visitor = Visitor(house, context)
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
    expect(page.get_by_test_id("doing")).to_have_count(0)


def words_of(locator: Locator) -> list[str]:
    """The numbered words (`w0 w1 …`) that the scripted model says one by one."""
    return re.findall(r"\bw\d+\b", locator.inner_text())


def sticking_out(container: Locator, parts: str) -> list[str]:
    """The parts that reach beyond the sides of the container, or whose text was cut without a sign of it."""
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
