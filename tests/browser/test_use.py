"""Accessibility, keyboard, phone width, long threads, the other views."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.daemon import Daemon
from browser.visitor import Visitor, answers, expect_idle, overflowing, prompts, send
from clew import web
from clew.agents.claude.binary import INSTALL_HINT as CLAUDE_HINT
from clew.agents.codex.binary import INSTALL_HINT as CODEX_HINT
from clew.testing.model.scripts import Hang, Text, ToolUse

Visit = Callable[..., Visitor]

AXE = Path(web.__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}
RICH = """# Title

text with `code` and [a link](https://example.org)

```py
x = 1
```

| a | b |
| - | - |
| 1 | 2 |
"""
TURNS = 5_000
PAGE = 100


def violations(page: Page) -> list[str]:
    page.evaluate(AXE.read_text())
    found = page.evaluate("async () => (await axe.run(document, {resultTypes: ['violations']})).violations")
    return [f"{each['id']}: {node['html'][:160]} {node['failureSummary']}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_view(daemon: Daemon, visit: Visit, scheme: str) -> None:
    path = daemon.stage.work / "axe.txt"
    daemon.stage.api.script.append(Text(RICH))
    thread = daemon.thread(
        f"axe-{scheme}",
        "Be rich.",
        f'!tool Write {{"file_path": "{path}", "content": "a\\nb\\n"}}',
        "!fail 429 rate_limit_error Slow down",
        permissions="all",
    )
    asked = {
        "questions": [
            {"question": "Which?", "header": "H", "multiSelect": False, "options": [{"label": "A", "description": "d"}]}
        ]
    }
    page = visit(daemon, color_scheme=scheme, bypass_csp=True).open(thread)  # so that axe may run
    expect(page.get_by_test_id("run-error")).to_be_visible()
    expect(page.get_by_test_id("tool")).to_be_visible()
    found = {}

    def look(name: str) -> None:
        if complaints := violations(page):
            found[name] = complaints

    page.get_by_test_id("tool").click()
    prompts(page).first.hover()
    look("conversation")
    prompts(page).first.get_by_test_id("edit-turn").click()
    look("editing")
    page.keyboard.press("Escape")
    send(page, f"!tool AskUserQuestion {json.dumps(asked)}")
    expect(page.get_by_test_id("question-form")).to_be_visible()
    page.get_by_test_id("composer").fill("later")
    page.get_by_test_id("send").click()
    expect(page.get_by_test_id("queued-item")).to_be_visible()
    look("question and queue")
    page.get_by_test_id("queued-remove").click()
    page.get_by_test_id("stop").click()
    expect_idle(page)
    for button, shown in (
        ("thread-settings", "settings-dialog"),
        ("new-thread", "new-thread-dialog"),
        ("delete", "delete-dialog"),
    ):
        page.get_by_test_id(button).click()
        expect(page.get_by_test_id(shown)).to_be_visible()
        look(shown)
        page.keyboard.press("Escape")
        expect(page.get_by_test_id(shown)).to_have_count(0)
    for button, shown in (
        ("changes-open", "changes-view"),
        ("savings-open", "savings-view"),
        ("agents-open", "agents-view"),
    ):
        page.get_by_test_id(button).click()
        expect(page.get_by_test_id(shown)).to_be_visible()
        expect(page.get_by_test_id(shown).locator("[aria-busy=true]")).to_have_count(0)
        look(shown)
    page.goto(page.url.split("#")[0] + "#/")
    expect(page.get_by_test_id("home")).to_be_visible()
    look("home")
    assert not found, json.dumps(found, indent=2)


def short(count: int) -> str:
    """As the page writes it."""
    return str(count) if count < 1000 else f"{count / 1000:.1f}".removesuffix(".0") + "k"


def dollars(usd: float) -> str:
    """As the page writes it."""
    return f"${usd:.{4 if usd < 0.01 else 3 if usd < 1 else 2}f}"


def test_the_savings_view_shows_what_was_resumed_and_what_was_not(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("saved", "one", "two", "three")
    page = visit(daemon).open(view="savings")
    view = page.get_by_test_id("savings-view")
    expect(view.locator("canvas")).to_have_count(1)  # only for the tokens: the costs of a single day are bars
    expect(view.get_by_role("figure").filter(has_text="Cost over time").get_by_role("listitem")).to_have_count(3)
    expect(view).to_contain_text("fresh: first turn")
    expect(view).to_contain_text("Resumed, or fresh and why")
    view.get_by_label("Thread", exact=True).select_option(label="saved")
    expect(view).to_contain_text("2 of 3 runs")
    stats = daemon.get(f"/api/stats?thread={thread}")
    words = {name: dollars(stats[name]) for name in ("cost_usd", "transcript_usd", "plain_resume_usd")}
    costs = view.get_by_role("figure").filter(has_text="Cost over time").get_by_role("listitem")
    expect(costs.nth(0)).to_have_text(f"paid{words['cost_usd']}")
    expect(costs.nth(1)).to_have_text(f"with transcripts (estimate){words['transcript_usd']}")
    expect(costs.nth(2)).to_have_text(f"with a plain --resume (estimate){words['plain_resume_usd']}")
    otherwise = f"≈ {words['transcript_usd']} with transcripts, ≈ {words['plain_resume_usd']} with a plain --resume"
    expect(view.get_by_role("definition").filter(has_text="with transcripts, ")).to_contain_text(otherwise)
    view.get_by_text("As a table").first.click()
    rows = view.get_by_role("table").first.get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.first).to_have_text("Turnactualwith transcripts (estimate)")
    for row, turn in zip(rows.all()[1:], stats["by_turn"], strict=True):
        was, would_be = turn["new_tokens"], turn["transcript_new_tokens"]
        assert row.get_by_role("cell").all_inner_texts() == [short(was), short(would_be)]
        assert would_be > was if turn["session_resumed"] else would_be == was, "they differ where it was resumed"


def test_the_agents_view_shows_which_are_ready(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(view="agents")
    claude = page.get_by_test_id("agent").filter(has_text="claude").first
    expect(claude.locator(".chip")).to_have_text("ready")
    expect(claude).to_contain_text("2.1")
    expect(claude).to_contain_text(str(daemon.stage.binary))


def test_an_unknown_address_is_not_found(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(view="saving")
    expect(page.get_by_test_id("not-found")).to_contain_text("Clew has no page at #/saving")
    page.get_by_test_id("not-found").get_by_role("link").click()
    expect(page.get_by_test_id("home")).to_be_visible()


def test_a_run_stopped_before_it_answered_shows_its_steps_and_cost(daemon: Daemon, visit: Visit) -> None:
    path = daemon.stage.work / "half.txt"
    write = ToolUse("Write", {"file_path": str(path), "content": "half\n"})
    daemon.stage.api.script.extend([write, Hang("headers")])
    page = visit(daemon).open(daemon.thread("halfway", permissions="all"))
    send(page, "Do it.")
    tool = page.get_by_test_id("tool")
    expect(tool.and_(page.locator(".done"))).to_be_visible()
    page.get_by_test_id("stop").click()

    def expect_details(turn: Locator) -> None:
        expect(turn.get_by_test_id("ending")).to_contain_text("Stopped, before the agent answered.")
        expect(turn.get_by_test_id("tool")).to_contain_text("half.txt")
        expect(turn.get_by_test_id("badge")).to_contain_text("fresh: first turn")
        expect(turn.get_by_test_id("badge")).to_contain_text(re.compile(r" read.*\d written\$\d"))

    expect_details(answers(page))
    daemon.stage.api.release()
    page.reload()
    expect_details(answers(page))
    send(page, "And now?")
    expect(answers(page)).to_contain_text("ack: And now?")
    expect_details(prompts(page).first)
    page.reload()
    expect_details(prompts(page).first)
    expect(tool).to_have_count(1)
    page.get_by_test_id("changes-open").click()
    expect(page.get_by_test_id("changes-view")).to_contain_text("+half")


def test_an_interrupted_tool_is_not_shown_as_running(own_daemon: Daemon, visit: Visit) -> None:
    own_daemon.stage.api.script.append(ToolUse("Bash", {"command": "sleep 60"}))
    page = visit(own_daemon, gone=True).open(own_daemon.thread("cut-off", permissions="all"))
    send(page, "Do it.")
    tool = page.get_by_test_id("tool")
    expect(tool).to_contain_text("running")
    own_daemon.process.kill()
    own_daemon.process.restart()
    expect(page.get_by_test_id("ending")).to_contain_text("before the agent answered")
    expect(tool).to_contain_text("unfinished")
    page.reload()
    expect(tool).to_contain_text("unfinished")


def test_the_title_of_the_tab_is_what_is_open(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("titled", "one"))
    expect(page).to_have_title("titled · Clew")
    page.get_by_test_id("changes-open").click()
    expect(page).to_have_title("File changes · titled · Clew")
    for key, title in (("b", "Jobs"), ("r", "Reviews"), ("s", "Savings"), ("a", "Agents")):
        page.keyboard.press(key)
        expect(page).to_have_title(f"{title} · Clew")
    page.goto(page.url.split("#")[0] + "#/")
    expect(page).to_have_title("Clew")


def test_everything_is_reached_by_keys(own_daemon: Daemon, visit: Visit) -> None:
    for name in ("a-first", "b-second"):
        own_daemon.thread(name, "one")
    page = visit(own_daemon).open()
    expect(page.get_by_test_id("thread-item")).to_have_count(2)
    name = page.get_by_test_id("thread-name")
    page.keyboard.press("j")
    expect(name).to_have_text("b-second")
    page.keyboard.press("j")
    expect(name).to_have_text("a-first")
    expect(page.get_by_test_id("composer")).to_have_value("")
    page.keyboard.press("e")
    expect(page.get_by_test_id("turn-editor")).to_be_visible()
    page.keyboard.type(" more")
    page.keyboard.press("Control+Enter")
    expect(prompts(page).first).to_contain_text("one more")
    page.keyboard.press("c")
    page.keyboard.type("line one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("line two")
    page.keyboard.press("Enter")
    expect(answers(page).nth(1)).to_contain_text("ack: line two")
    expect_idle(page)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_test_id("help-dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.get_by_test_id("search")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    expect(page.get_by_test_id("first-message")).to_be_focused()


def test_the_theme_is_switched_and_kept(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon, color_scheme="light").open()
    body = page.locator("body")
    light = body.evaluate("body => getComputedStyle(body).backgroundColor")
    for expected in ("light", "dark"):
        page.get_by_test_id("theme").click()
        expect(page.locator("html")).to_have_attribute("data-theme", expected)
    expect(body).not_to_have_css("background-color", light)
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(body).not_to_have_css("background-color", light)


def test_a_phone_shows_the_list_first_and_nothing_is_cut_off(daemon: Daemon, visit: Visit) -> None:
    daemon.thread("phone", "!say " + "word " * 60, "!say `" + "unbroken" * 30 + "`")
    page = visit(daemon, **PHONE).open()
    item = page.get_by_test_id("thread-item").filter(has_text="phone")
    expect(item).to_be_in_viewport()
    box = item.bounding_box()
    assert box is not None and box["width"] > 350, "it has the whole width"
    expect(page.get_by_test_id("composer")).to_have_count(0)
    for _ in range(2):
        item.click()
        expect(answers(page)).to_have_count(2)
        expect(item).not_to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_test_id("back-to-list").click()
        expect(item).to_be_in_viewport()
    item.click()
    expect(page.get_by_test_id("composer")).to_be_visible()
    page.go_back()
    expect(item).to_be_in_viewport()
    page.get_by_test_id("savings-open").click()
    expect(page.get_by_test_id("savings-view")).to_be_visible()
    page.get_by_test_id("back-to-list").click()
    item.click()
    expect(answers(page)).to_have_count(2)
    for name in ("composer", "send", "fresh-toggle", "agent-picker"):
        box = page.get_by_test_id(name).bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390, name
    send(page, "from a phone")
    expect(answers(page).nth(2)).to_contain_text("ack: from a phone")


@pytest.mark.parametrize("width", [1280, 390])
def test_without_an_agent_the_first_screen_says_what_to_install(bare_daemon: Daemon, visit: Visit, width: int) -> None:
    page = visit(bare_daemon, viewport={"width": width, "height": 844}).open()
    home = page.get_by_test_id("home")
    expect(home.get_by_role("heading", name="No agent is ready")).to_be_visible()
    for name, hint in (("claude", CLAUDE_HINT), ("codex", CODEX_HINT)):  # the hints of clew doctor
        expect(home.get_by_test_id("agent").filter(has_text=name)).to_contain_text(hint)
    parts = [home.locator(".mark"), home.get_by_role("heading", name="No agent"), home.locator(".agents")]
    boxes = [part.bounding_box() for part in [*parts, home.get_by_test_id("check-again")]]
    for above, below in pairwise(boxes):
        assert above is not None and below is not None
        assert 0 <= below["y"] - above["y"] - above["height"] < 120, "what belongs together is close together"
    assert not overflowing(page.locator("body"), "[data-testid=home] .empty *")

    home.get_by_test_id("check-again").click()
    expect(home.get_by_role("status")).to_have_text("Clew checked again and found no agent.")
    found = re.search(r"agents\.claude\.path is (\S+),", home.inner_text())
    assert found is not None
    bare_daemon.stage.launcher(bare_daemon.stage.agent, Path(found[1]))
    home.get_by_test_id("check-again").click()
    expect(home).to_contain_text("Start your first thread")
    expect(page.get_by_test_id("agents-open")).not_to_contain_text("!")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_badge_of_an_answer_fills_a_row_before_it_wraps(daemon: Daemon, visit: Visit, width: int) -> None:
    thread = daemon.thread(f"facts-{width}", "one", "two")
    page = visit(daemon, viewport={"width": width, "height": 800}).open(thread)
    expect(page.get_by_test_id("badge")).to_have_count(2)
    broken = (
        answers(page)
        .last.locator("footer")
        .evaluate(
            """footer => {
            const room = footer.getBoundingClientRect().right;
            const gap = parseFloat(getComputedStyle(footer).columnGap);
            const boxes = [...footer.querySelectorAll(".badge > *")].map(each => each.getBoundingClientRect());
            return boxes.slice(1).filter((box, before) =>
                box.top > boxes[before].bottom && boxes[before].right + gap + box.width <= room).length;
        }"""
        )
    )
    assert broken == 0, "there was room before it"


def test_the_default_directory_is_where_the_daemon_was_started(own_daemon: Daemon, visit: Visit) -> None:
    page = visit(own_daemon).open()
    page.get_by_test_id("new-thread").click()
    expect(page.get_by_test_id("folder")).to_have_value(str(own_daemon.stage.work))
    inner = own_daemon.stage.work / "inner"
    inner.mkdir()
    page.get_by_test_id("folder").fill(str(inner))
    page.get_by_test_id("make-thread").click()
    expect(page.get_by_test_id("thread-name")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_test_id("new-thread").click()
    expect(page.get_by_test_id("folder")).to_have_value(str(inner))
    page.keyboard.press("Escape")
    page.reload()
    page.get_by_test_id("reviews-open").click()
    page.get_by_test_id("new-review").click()
    expect(page.get_by_test_id("folder")).to_have_value(str(own_daemon.stage.work))


@pytest.mark.parametrize("width", [390, 320])
def test_savings_are_no_wider_than_a_phone(own_daemon: Daemon, visit: Visit, width: int) -> None:
    own_daemon.thread("a-thread-whose-name-is-as-long-as-a-name-may-be-which-is-eighty-characters-long", "one", "two")
    page = visit(own_daemon, **{**PHONE, "viewport": {"width": width, "height": 780}}).open(view="savings")
    view = page.get_by_test_id("savings-view")
    expect(view.locator("canvas")).to_have_count(1)
    view.get_by_text("As a table").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert not overflowing(page.locator("body"), "header *, .tile *, .chart > *")


def test_a_thread_of_five_thousand_messages_is_loaded_by_pages(own_daemon: Daemon, visit: Visit) -> None:
    thread = own_daemon.thread("long")
    texts = (
        f"answer {n} with **bold** words\n\n- and a list\n- of two\n\n```\ncode {n}\n```" for n in range(TURNS // 2)
    )
    own_daemon.say(thread, *texts)
    page = visit(own_daemon).open(thread)
    expect(page.get_by_text(f"answer {TURNS // 2 - 1} with")).to_be_visible()
    shown = page.locator("[data-turn]")
    expect(shown).to_have_count(PAGE)

    page.mouse.move(700, 400)
    for pages in (2, 3):
        page.mouse.wheel(0, -1_000_000)
        expect(shown).to_have_count(pages * PAGE)
        once_first = page.locator(f"[data-turn='{thread}-{(TURNS - (pages - 1) * PAGE) // 2:05}']")
        expect(once_first).to_be_in_viewport()
    send(page, "and one more")
    expect(page.get_by_text("ack: and one more")).to_be_visible()
    expect(page.get_by_text(re.compile(f"answer {TURNS // 2 - 1} with"))).to_be_visible()
    expect(shown).to_have_count(3 * PAGE + 2)
