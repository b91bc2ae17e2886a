"""An agent's question may be deceptive or malformed: all of it is shown, and the page keeps working."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from browser.daemon import Daemon
from browser.visitor import Visitor, answers, expect_idle, prompts, send

Visit = Callable[..., Visitor]


def asks(tool: str, given: dict[str, Any]) -> str:
    return f"!tool {tool} {json.dumps(given)}"


def test_the_whole_input_of_a_call_is_shown_before_it_is_allowed(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("whole-input", permissions="ask"))
    given = {
        "description": "List the tables",
        "command": "touch whole",
        "dangerouslyDisableSandbox": True,
        "sql": "DROP TABLE users",
        "script": "x\n" * 300 + "THE END",
    }
    send(page, asks("Bash", given))
    card = page.get_by_test_id("permission-form")
    expect(card).to_contain_text("$ touch whole")
    for words in ("List the tables", "dangerouslyDisableSandbox", "true", "DROP TABLE users"):
        expect(card).to_contain_text(words)
    expect(card.get_by_label("command")).to_be_visible()
    long = card.locator("details")
    expect(long).to_contain_text("607 characters, 301 lines")
    expect(long).not_to_contain_text("THE END")
    long.locator("summary").click()
    expect(long.get_by_label("script")).to_contain_text("THE END")
    card.get_by_test_id("deny").click()
    expect_idle(page)


def test_an_edit_is_shown_with_the_fields_that_its_diff_lacks(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("whole-edit", permissions="ask"))
    send(page, asks("Write", {"file_path": "a.txt", "content": "new\u202e words", "mode": "0777"}))
    card = page.get_by_test_id("permission-form")
    expect(card.locator(".diff")).to_contain_text("+new[U+202E] words")
    expect(card.get_by_label("mode")).to_have_text("0777")
    card.get_by_test_id("deny").click()
    expect_idle(page)


def test_control_characters_are_shown_and_have_no_effect(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("bidi", permissions="ask"))
    send(page, asks("Bash", {"command": "echo \u202eezam\u202c; rm -rf nothing \x1b[2K\u200b"}))
    card = page.get_by_test_id("permission-form")
    expect(card).to_contain_text("$ echo [U+202E]ezam[U+202C]; rm -rf nothing [U+001B][2K[U+200B]")
    expect(page.get_by_test_id("tool")).to_contain_text("[U+202E]")
    card.get_by_test_id("deny").click()
    expect_idle(page)
    form = {"questions": [{"question": "Is \u202eit?", "options": [{"label": "\u2066yes", "description": "\u200fso"}]}]}
    send(page, asks("AskUserQuestion", form))
    asked = page.get_by_test_id("question-form")
    expect(asked).to_contain_text("Is [U+202E]it?")
    expect(asked).to_contain_text("[U+2066]yes")
    asked.get_by_role("radio").check()
    asked.get_by_test_id("question-answer").click()
    expect_idle(page)
    [result] = [text for _, text in daemon.stage.api.main_requests[-1].shown_texts(tools=True) if "yes" in text][-1:]
    assert "\u2066yes" in result, "what is sent back is what the agent wrote"


def test_markdown_cannot_change_the_direction_of_writing(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("bidi-markdown")
    daemon.say(thread, "a \u202e b &#x202e; `c \u2066` [d](https://ok.example '\u202e')\n\n```\ne \u202e\n```")
    answer = answers(visit(daemon).open(thread))
    expect(answer.locator(".markdown:not(.plain)")).to_have_count(1)
    expect(answer.locator(".markdown p")).to_have_text("a [U+202E] b [U+202E] c [U+2066] d")
    expect(answer.locator("a")).to_have_attribute("title", "[U+202E]")
    expect(answer.locator("pre")).to_contain_text("e [U+202E]")


@pytest.mark.parametrize(
    ("name", "questions"),
    [
        ("none", [None]),
        ("number", 5),
        ("empty", []),
        ("words", ["x"]),
        ("nonsense", [{"question": {}, "options": "x"}]),
    ],
)
def test_a_malformed_form_is_answered_in_free_text_and_breaks_nothing(
    daemon: Daemon, visit: Visit, name: str, questions: Any
) -> None:
    other = daemon.thread(f"beside-{name}", "!say ELSEWHERE")
    page = visit(daemon).open(daemon.thread(f"odd-{name}", "!say BEFORE", permissions="ask"))
    send(page, asks("AskUserQuestion", {"questions": questions}))
    form = page.get_by_test_id("question-form")
    expect(form.get_by_label("Raw form")).to_contain_text('"questions"')
    expect(page.get_by_test_id("composer")).to_have_count(1)
    page.get_by_test_id("thread-item").filter(has_text=f"beside-{name}").click()
    expect(answers(page).last).to_contain_text("ELSEWHERE")
    expect(answers(page)).to_have_count(1)
    expect(page.get_by_test_id("composer")).to_have_count(1)
    expect(page.locator("main")).not_to_contain_text("BEFORE")
    page.go_back()
    page.reload()
    expect(answers(page).first).to_contain_text("BEFORE")
    form.get_by_label("In your own words").fill("blue")
    form.get_by_test_id("question-answer").click()
    expect(form).to_have_count(0)
    expect_idle(page)
    assert "blue" in str(daemon.stage.api.main_requests[-1].body)
    send(page, "and on")
    expect(prompts(page).last).to_contain_text("and on")
    expect(answers(page).last).to_contain_text("ack: and on")
    assert other


def test_unreadable_options_are_left_out_and_the_others_can_be_chosen(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("odd-options"))
    options = [None, {"label": "same"}, {"label": "same"}, {"label": None}]
    send(page, asks("AskUserQuestion", {"questions": [{"question": "Which?", "options": options}, None]}))
    form = page.get_by_test_id("question-form")
    expect(form.get_by_label("Raw form")).to_contain_text("null")
    expect(form.get_by_role("radio")).to_have_count(1)
    form.get_by_role("radio").check()
    form.get_by_test_id("question-answer").click()
    expect(form).to_have_count(0)
    expect_idle(page)


def test_a_turn_that_fails_to_render_does_not_affect_the_others(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("one-broken", "!say FIRST", "!say SECOND")
    visitor = visit(daemon)

    def spoiled(route: Route) -> None:
        view = route.fetch().json()
        view["turns"][1]["text"] = {"not": "a text"}
        route.fulfill(json=view)

    visitor.context.route("**/view*", spoiled)
    page = visitor.open(thread)
    broken = page.get_by_test_id("render-error")
    expect(broken).to_have_count(1)
    expect(broken).to_contain_text("This could not be displayed.")
    expect(broken.get_by_label("Raw content")).to_contain_text('"not": "a text"')
    expect(answers(page)).to_contain_text("SECOND")
    visitor.context.unroute("**/view*")
    send(page, "THIRD")
    expect(answers(page).last).to_contain_text("ack: THIRD")
    expect(broken).to_have_count(0)
    expect(page.get_by_test_id("composer")).to_have_count(1)
    visitor.errors.clear()  # the browser logs the error
