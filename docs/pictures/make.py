"""Makes the pictures of the README: `make pictures`. Both show one thread, once in the terminal and once on the page.

The terminal is a real one: a shell in which `clew chat` is typed. The page is in Debian's Chromium. The agent and the
model are the scripted ones of `clew.testing`, so nothing leaves the machine, and the figures are the same every time,
except for durations.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coloured_screen import ColouredScreen
from playwright.sync_api import expect, sync_playwright
from recording import Recording

from browser.daemon import Daemon, started
from browser.visitor import CHROMIUM, FLAGS, visiting
from clew.testing.model.scripts import Text, ToolUse
from clew.testing.stage import MODEL
from turns.outside.terminal import Terminal

FOLDER = Path(__file__).parent
ROWS, COLUMNS = 29, 88
VIEW = {"width": 1120, "height": 760}
TYPED_S, READ_S = 0.45, 2.2  # how long a frame is shown

SESSION = """\
import redis

SESSION_LIFETIME = 60  # minutes


def save(store: redis.Redis, key: str, payload: bytes) -> None:
    store.setex(key, SESSION_LIFETIME, payload)
"""
CHANGE = "sed -i 's/= 60 .*/= 60 * 60  # seconds/' src/session.py"
FIRST = "Our users are logged out after a minute. Why? @src/session.py"
SECOND = "Fix it."
THIRD = "Which test would have caught it?"
WHY = """\
`setex` takes **seconds**, and `SESSION_LIFETIME` is written in minutes:

```python
store.setex(key, SESSION_LIFETIME, payload)  # 60 seconds
```

So every session ends after a minute, also for people who are active."""
DONE = "Done: the lifetime is `60 * 60` seconds now, and the comment says the unit."
TEST = """\
One that says the rule, not the number:

```python
assert redis.ttl(f"session:{cookie.value}") >= cookie.max_age_s - 5
```"""


def main() -> int:
    with clean_folder() as folder, started(folder) as daemon:
        shop = daemon.stage.work / "shop"
        (shop / "src").mkdir(parents=True)
        (shop / "src" / "session.py").write_text(SESSION)
        (FOLDER / "terminal.svg").write_text(terminal(daemon, shop), encoding="utf-8")
        page(daemon, FOLDER / "page.png")
    sizes = {path.name: path.stat().st_size for path in (FOLDER / "terminal.svg", FOLDER / "page.png")}
    sys.stdout.write(f"wrote {sizes} to {FOLDER}\n")
    return 0


@contextmanager
def clean_folder() -> Iterator[Path]:
    """Always of the same name, since the page shows it, and the number of tokens depends on it."""
    folder = Path(tempfile.gettempdir(), "clew-pictures")
    folder.mkdir(0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def terminal(daemon: Daemon, shop: Path) -> str:
    """The first three prompts of the thread, in `clew chat`."""
    screen = ColouredScreen(ROWS, COLUMNS)
    recording = Recording(ROWS, COLUMNS, "clew chat in a terminal: three prompts, the last two resumed")
    tools = shop.parent / "bin"
    tools.mkdir()
    (tools / "clew").symlink_to(Path(sys.executable).with_name("clew"))
    stage = daemon.stage
    environ = {**stage.environ, "CLEW_MODEL": MODEL, "PS1": "$ ", "PATH": f"{tools}:{stage.environ['PATH']}"}
    stage.api.script.extend([Text(WHY), ToolUse("Bash", {"command": CHANGE}), Text(DONE), Text(TEST)])

    with Terminal(["bash", "--norc", "--noprofile", "-i"], environ, shop, screen=screen) as shell:

        def show(wanted: str, shown_s: float = READ_S) -> None:
            shell.wait_for(wanted)
            recording.add(screen.svg_lines(), shown_s)

        def enter(text: str, then: str) -> None:
            """Types the text word by word, and then Enter."""
            typed = ""
            for word in text.split(" "):
                shell.type(f"{' ' if typed else ''}{word}")
                typed = f"{typed} {word}".strip()
                show(f"(?m)[$>] {_escaped(typed)}", TYPED_S)
            shell.type("\r")
            show(then)

        show(r"\$ ?$", 0.8)
        enter("clew chat fix-login", "fix-login>(?s:.*)/help")
        enter(FIRST, r"fresh: (?s:.*)\nfix-login>\n")
        enter(SECOND, r"\[y\]es|\(y\)|Allow")
        shell.type("y\n")
        show(r"Done: (?s:.*)resumed · (?s:.*)\nfix-login>\n")
        enter(THIRD, r"assert (?s:.*)resumed · (?s:.*)\nfix-login>\n")
        shell.type("\x04")
        show(r"continues here\n\$", 1.0)
        shell.type("exit\r")
        shell.ended()
    return recording.svg()


def page(daemon: Daemon, target: Path) -> None:
    """The same thread in the browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        options = {"viewport": VIEW, "reduced_motion": "reduce", "color_scheme": "light"}
        with visiting(daemon, browser, **options) as visitor:
            opened = visitor.open(daemon.get("/api/threads/fix-login")["id"])
            expect(opened.get_by_test_id("turn-assistant")).to_have_count(3)
            expect(opened.get_by_text("sed -i")).to_be_visible()  # the tool call
            expect(opened.locator("code").get_by_text("60 * 60", exact=True)).to_be_visible()  # Markdown is rendered
            opened.screenshot(path=target, animations="disabled")
        browser.close()


def _escaped(text: str) -> str:
    return re.escape(text).replace(r"\ ", r"\s+")


if __name__ == "__main__":
    sys.exit(main())
