"""What the agent asks a person, answered on the page."""

from __future__ import annotations

import json
from collections.abc import Callable

from playwright.sync_api import expect

from browser.house import House, Visitor, answers, expect_idle, send

Visit = Callable[..., Visitor]

ASKED = {
    "questions": [
        {
            "question": "Which database?",
            "header": "DB",
            "multiSelect": False,
            "options": [
                {"label": "PostgreSQL", "description": "a server"},
                {"label": "SQLite", "description": "a file"},
            ],
        },
        {
            "question": "Which extras?",
            "header": "Extras",
            "multiSelect": True,
            "options": [{"label": "Backups", "description": ""}, {"label": "Metrics", "description": ""}],
        },
    ]
}


def test_a_form_is_answered_with_choices_and_own_words(house: House, visit: Visit) -> None:
    thread = house.thread("choices", "one")
    page = visit(house).open(thread)
    send(page, f"!tool AskUserQuestion {json.dumps(ASKED)}")
    form = page.get_by_test_id("question-form")
    expect(form).to_be_visible()
    expect(page.get_by_test_id("tool")).to_contain_text("waiting for you")
    expect(page.get_by_test_id("thread-item").filter(has_text="choices")).to_have_attribute("data-state", "waiting")
    answer = form.get_by_test_id("question-answer")
    form.get_by_label("SQLite").check()
    expect(answer).to_be_disabled()
    form.get_by_label("Backups").check()
    form.get_by_label("Own words: Which extras?").fill("a cache")
    answer.click()
    expect(answers(page).nth(1)).to_contain_text("done:")
    expect_idle(page)
    expect(form).to_have_count(0)
    expect(page.get_by_test_id("badge").nth(1)).to_contain_text("resumed")
    [result] = [
        text for role, text in house.stage.api.main_requests[-1].shown_texts(tools=True) if "tool_result" in text
    ]
    assert '"Which database?"="SQLite"' in result
    assert '"Which extras?"="Backups, a cache"' in result


def test_a_question_outlives_the_daemon_and_its_answer_reaches_the_session(own_house: House, visit: Visit) -> None:
    thread = own_house.thread("asleep", "one")
    page = visit(own_house, gone=True).open(thread)
    send(page, f"!tool AskUserQuestion {json.dumps(ASKED)}")
    form = page.get_by_test_id("question-form")
    expect(form).to_be_visible()
    own_house.daemon.kill()
    own_house.daemon.restart()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
    expect(form).to_contain_text("The run that asked is over.")
    form.get_by_label("SQLite").check()
    form.get_by_label("Metrics").check()
    form.get_by_test_id("question-answer").click()
    expect(page.get_by_test_id("badge").last).to_contain_text("resumed")
    expect(form).to_have_count(0)
    expect_idle(page)
    assert "SQLite" in own_house.stage.prompt


def test_a_permission_is_allowed(house: House, visit: Visit) -> None:
    page = visit(house).open(house.thread("allow", permissions="ask"))
    send(page, '!tool Bash {"command": "touch allowed"}')
    form = page.get_by_test_id("permission-form")
    expect(form).to_contain_text("$ touch allowed")
    expect(page.get_by_test_id("tool")).to_contain_text("waiting for you")
    assert not (house.stage.work / "allowed").exists()
    form.get_by_test_id("allow").click()
    expect(answers(page)).to_contain_text("done:")
    expect(form).to_have_count(0)
    assert (house.stage.work / "allowed").exists()


def test_an_error_of_a_tool_has_failed_and_was_not_declined(house: House, visit: Visit) -> None:
    page = visit(house).open(house.thread("errors", permissions="all"))
    send(page, '!tool Bash {"command": "exit 3"}\n!tool Nonesuch {"x": 1}')
    for tool, name in zip((0, 1), ("Bash", "Nonesuch"), strict=True):
        expect(page.get_by_test_id("tool").nth(tool)).to_contain_text(name)
        expect(page.get_by_test_id("tool").nth(tool)).to_contain_text("failed")
    expect_idle(page)


def test_a_permission_is_denied_with_words_that_reach_the_agent(house: House, visit: Visit) -> None:
    page = visit(house).open(house.thread("deny", permissions="ask"))
    send(page, '!tool Bash {"command": "touch denied"}')
    form = page.get_by_test_id("permission-form")
    form.get_by_test_id("deny-with-words").click()
    form.get_by_test_id("deny-words").fill("Use the Makefile.")
    form.get_by_test_id("deny").click()
    expect(answers(page)).to_contain_text("You declined: “Use the Makefile.”")
    expect(page.get_by_test_id("tool")).to_contain_text("declined")
    expect_idle(page)
    assert not (house.stage.work / "denied").exists()
    shown = house.stage.api.main_requests[-1].shown_texts(tools=True)
    assert any("Use the Makefile." in text for _, text in shown)
