"""Questions of the agent, answered on the page."""

from __future__ import annotations

import json
from collections.abc import Callable

from playwright.sync_api import expect

from browser.daemon import Daemon
from browser.visitor import Visitor, answers, expect_idle, send
from clew.core.runs.choices import CHOICES

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


def test_a_form_is_answered_with_choices_and_free_text(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("choices", "one")
    page = visit(daemon).open(thread)
    send(page, f"!tool AskUserQuestion {json.dumps(ASKED)}")
    form = page.get_by_test_id("question-form")
    expect(form).to_be_visible()
    expect(page.get_by_test_id("tool")).to_contain_text("waiting for you")
    expect(page.get_by_test_id("thread-item").filter(has_text="choices")).to_have_attribute("data-state", "waiting")
    answer = form.get_by_test_id("question-answer")
    form.get_by_label("SQLite").check()
    expect(answer).to_be_disabled()
    form.get_by_label("Backups").check()
    form.get_by_label("In your own words: Which extras?").fill("a cache")
    answer.click()
    expect(answers(page).nth(1)).to_contain_text("done:")
    expect_idle(page)
    expect(form).to_have_count(0)
    expect(page.get_by_test_id("badge").nth(1)).to_contain_text("resumed")
    [result] = [
        text for role, text in daemon.stage.api.main_requests[-1].shown_texts(tools=True) if "tool_result" in text
    ]
    assert '"Which database?"="SQLite"' in result
    assert '"Which extras?"="Backups, a cache"' in result


def test_a_question_survives_the_daemon_and_its_answer_reaches_the_session(own_daemon: Daemon, visit: Visit) -> None:
    thread = own_daemon.thread("asleep", "one")
    page = visit(own_daemon, gone=True).open(thread)
    send(page, f"!tool AskUserQuestion {json.dumps(ASKED)}")
    form = page.get_by_test_id("question-form")
    expect(form).to_be_visible()
    own_daemon.process.kill()
    own_daemon.process.restart()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "open")
    expect(form).to_contain_text("The run that asked has ended.")
    form.get_by_label("SQLite").check()
    form.get_by_label("Metrics").check()
    form.get_by_test_id("question-answer").click()
    expect(page.get_by_test_id("badge").last).to_contain_text("resumed")
    expect(form).to_have_count(0)
    expect_idle(page)
    assert "SQLite" in own_daemon.stage.prompt


def test_a_permission_is_allowed(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("allow", permissions="ask"))
    send(page, '!tool Bash {"command": "touch allowed"}')
    form = page.get_by_test_id("permission-form")
    expect(form).to_contain_text("$ touch allowed")
    expect(page.get_by_test_id("tool")).to_contain_text("waiting for you")
    assert not (daemon.stage.work / "allowed").exists()
    form.get_by_test_id("allow").click()
    expect(answers(page)).to_contain_text("done:")
    expect(form).to_have_count(0)
    assert (daemon.stage.work / "allowed").exists()


def test_a_tool_error_is_failed_and_not_declined(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("errors", permissions="all"))
    send(page, '!tool Bash {"command": "exit 3"}\n!tool Nonesuch {"x": 1}')
    for tool, name in zip((0, 1), ("Bash", "Nonesuch"), strict=True):
        expect(page.get_by_test_id("tool").nth(tool)).to_contain_text(name)
        expect(page.get_by_test_id("tool").nth(tool)).to_contain_text("failed")
    expect_idle(page)


def test_a_permission_is_denied_with_a_message_to_the_agent(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("deny", permissions="ask"))
    send(page, '!tool Bash {"command": "touch denied"}')
    form = page.get_by_test_id("permission-form")
    form.get_by_test_id("deny-with-message").click()
    form.get_by_test_id("deny-message").fill("Use the Makefile.")
    form.get_by_test_id("deny").click()
    expect(answers(page)).to_contain_text("You declined: “Use the Makefile.”")
    expect(page.get_by_test_id("tool")).to_contain_text("declined")
    expect_idle(page)
    assert not (daemon.stage.work / "denied").exists()
    shown = daemon.stage.api.main_requests[-1].shown_texts(tools=True)
    assert any("Use the Makefile." in text for _, text in shown)


def test_the_choices_of_core_are_buttons_and_always_holds_until_it_is_taken_back(daemon: Daemon, visit: Visit) -> None:
    (daemon.stage.work / "edited.txt").write_text("first\nold\nlast\n")
    page = visit(daemon).open(daemon.thread("always", permissions="ask"))
    write = {"file_path": str(daemon.stage.work / "edited.txt"), "content": "first\nnew\nlast\n"}
    send(page, f"!tool Write {json.dumps(write)}")
    form = page.get_by_test_id("permission-form")
    expect(form.locator(".diff .removed")).to_have_text("-old")
    expect(form.locator(".diff .added")).to_have_text("+new")
    for choice in CHOICES:
        button = form.get_by_role("button", name=choice.label)
        expect(button.first).to_have_attribute("title", choice.meaning)
    always = form.get_by_test_id("allow-thread")
    expect(always).to_have_text(f"always in this thread: Write in {daemon.stage.work}, except hidden files")
    always.click()
    expect_idle(page)

    send(page, f"!tool Write {json.dumps(write | {'content': 'again'})}")
    expect(answers(page)).to_have_count(2)
    expect_idle(page)
    expect(form).to_have_count(0)
    assert (daemon.stage.work / "edited.txt").read_text() == "again"
    page.get_by_test_id("tool").last.click()
    expect(page.get_by_test_id("tool").last).to_contain_text("You had allowed this always in this thread.")

    page.get_by_test_id("thread-settings").click()
    expect(page.get_by_test_id("allowed")).to_contain_text("Write in")
    page.get_by_test_id("forget-allowed").click()
    expect(page.get_by_test_id("allowed")).to_have_count(0)
