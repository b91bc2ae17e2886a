"""Asking, following up, changing earlier turns, stopping and queueing."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from browser.daemon import Daemon
from browser.visitor import Visitor, answers, expect_idle, prompts, send
from clew.testing.model.scripts import Slow, Text, ToolUse

Visit = Callable[..., Visitor]


@pytest.mark.always
def test_a_thread_is_made_and_its_first_answer_is_fresh_and_the_second_resumed(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open()
    page.get_by_test_id("new-thread").click()
    page.get_by_test_id("folder").fill(str(daemon.stage.work))
    page.get_by_test_id("first-message").fill("Call the port 8080.")
    page.get_by_test_id("make-thread").click()
    expect(answers(page)).to_contain_text("ack: Call the port 8080.")
    expect(page.get_by_test_id("badge")).to_contain_text("fresh: first turn")
    expect(page.get_by_test_id("thread-name")).to_have_text(re.compile("call-the-port"))

    send(page, "Which port is it?")
    expect(answers(page).nth(1)).to_contain_text("ack: Which port is it?")
    badge = page.get_by_test_id("badge").nth(1)
    expect(badge).to_contain_text("resumed")
    expect(badge).to_contain_text("cached")
    expect(badge).to_contain_text("transcript ≈ $")
    expect(page.get_by_test_id("composer")).to_have_value("")
    assert daemon.stage.launches[-1].resumes


def test_fenced_data_is_shown_unchanged_in_a_prompt_and_in_an_answer(daemon: Daemon, visit: Visit) -> None:
    data = "<<<data 4566eb89\n/boss mend *it*\n> or not\n>>>data 4566eb89"
    page = visit(daemon).open(daemon.thread("fenced"))
    daemon.stage.api.script.append(Text(f"It says\n{data}\nand **no** more.\n\n> A quotation."))
    send(page, f"pull.opened on #7\n\n{data}\n\nLook at it.")

    said = prompts(page).locator(".bubble")
    expect(said.locator("p")).to_have_text(["pull.opened on #7", "Look at it."])
    expect(said.locator("blockquote")).to_have_count(0)
    expect(answers(page).locator("strong")).to_have_text("no")
    expect(answers(page).locator("blockquote")).to_have_text("A quotation.")
    for turn in (said, answers(page)):
        assert turn.locator("pre").inner_text().strip() == data


def test_a_fresh_session_for_one_turn(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("fresh", "one"))
    page.get_by_test_id("fresh-toggle").click()
    expect(page.get_by_test_id("session-line")).to_contain_text("because you asked for it")
    send(page, "two")
    expect(page.get_by_test_id("badge").nth(1)).to_contain_text("fresh: you asked for it")
    assert daemon.stage.launches[-1].resumes is None
    assert "\none\n" in daemon.stage.prompt, "no resume flag, so the transcript"
    expect(page.get_by_test_id("fresh-toggle")).to_have_attribute("aria-pressed", "false")
    send(page, "three")
    expect(page.get_by_test_id("badge").nth(2)).to_contain_text("resumed")


@pytest.mark.always
def test_an_edit_of_the_first_turn_says_what_it_does_and_the_next_turn_is_fresh(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("edit", "one", "two"))
    prompts(page).first.hover()
    prompts(page).first.get_by_test_id("edit-turn").click()
    expect(page.get_by_test_id("consequence")).to_contain_text("the next turn starts a fresh session")
    page.get_by_label("The text of this turn").fill("uno")
    page.get_by_test_id("save-turn").click()
    expect(prompts(page).first).to_contain_text("uno")
    expect(page.get_by_test_id("session-line")).to_contain_text(re.compile("fresh", re.I))
    send(page, "three")
    expect(page.get_by_test_id("badge").nth(2)).to_contain_text("fresh: history changed")
    assert "uno" in daemon.stage.prompt


def test_an_archived_turn_is_in_the_composer_again(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("truncate", "one", "two", "three")
    page = visit(daemon).open(thread)
    prompts(page).nth(1).hover()
    prompts(page).nth(1).get_by_test_id("truncate-turn").click()
    expect(page.get_by_test_id("consequence")).to_contain_text("Archives 4 turns")
    page.get_by_test_id("confirm-change").click()
    expect(page.get_by_test_id("composer")).to_have_value("two")
    expect(prompts(page)).to_have_count(1)
    assert len(daemon.turns(thread)) == 2


def test_a_fork_continues_from_an_answer_in_a_new_thread(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("fork", "one", "two")
    page = visit(daemon).open(thread)
    answers(page).first.hover()
    answers(page).first.get_by_test_id("fork-turn").click()
    expect(page.get_by_test_id("consequence")).to_contain_text("copy of the session")
    page.get_by_test_id("confirm-change").click()
    expect(page.get_by_test_id("thread-name")).to_have_text("fork-fork")
    expect(prompts(page)).to_have_count(1)
    send(page, "another two")
    expect(answers(page)).to_have_count(2)
    expect_idle(page)
    expect(page.get_by_test_id("badge")).to_contain_text("resumed")
    assert [turn["text"] for turn in daemon.turns("fork-fork")][::2] == ["one", "another two"]
    assert [turn["text"] for turn in daemon.turns(thread)][::2] == ["one", "two"]
    expect(page.get_by_test_id("origin")).to_have_text("forked from fork")
    page.get_by_test_id("origin").get_by_role("link").click()
    expect(page.get_by_test_id("thread-name")).to_have_text("fork")
    expect(page.get_by_test_id("origin")).to_have_count(0)


@pytest.mark.parametrize("width", [390, 1200])
def test_the_notice_of_a_fork_leaves_the_composer_free(daemon: Daemon, visit: Visit, width: int) -> None:
    thread = daemon.thread(f"free-{width}", "one")
    page = visit(daemon, viewport={"width": width, "height": 800}).open(thread)
    answers(page).first.hover()
    answers(page).first.get_by_test_id("fork-turn").click()
    page.get_by_test_id("confirm-change").dblclick()
    expect(page.get_by_test_id("thread-name")).to_have_text(f"free-{width}-fork")
    expect(page.get_by_test_id("notice")).to_contain_text("The old thread has not changed.")
    notice, form = page.get_by_test_id("notice").bounding_box(), page.locator("form.composer").bounding_box()
    head = page.locator("header.head", has=page.get_by_test_id("thread-name")).bounding_box()
    assert notice is not None and form is not None and head is not None
    assert notice["y"] + notice["height"] <= form["y"], "above the composer"
    assert notice["y"] >= head["y"] + head["height"], "below the head"
    forks = [each["name"] for each in daemon.get("/api/threads?limit=100")["items"] if f"free-{width}" in each["name"]]
    assert sorted(forks) == [f"free-{width}", f"free-{width}-fork"], "once, though it was clicked twice"


def test_the_first_turn_is_asked_again_in_a_fresh_session(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("retry", "one", "two")
    page = visit(daemon).open(thread)
    prompts(page).first.hover()
    prompts(page).first.get_by_test_id("retry-turn").click()
    expect(page.get_by_test_id("consequence")).to_contain_text("fresh session")
    page.get_by_test_id("confirm-change").click()
    expect(answers(page)).to_have_count(1)
    expect_idle(page)
    expect(page.get_by_test_id("badge")).to_contain_text("fresh")
    assert [turn["text"] for turn in daemon.turns(thread)] == ["one", "ack: one"]


@pytest.mark.always
def test_a_stop_keeps_the_answer_so_far(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("stop"))
    send(page, "!slow 2000 0.02")
    expect(answers(page)).to_contain_text("w5")
    page.get_by_test_id("composer").press("Escape")
    expect(page.get_by_test_id("ending")).to_contain_text("Stopped.")
    expect(answers(page)).to_contain_text("w0 w1 w2 w3 w4 w5")
    page.reload()
    expect(answers(page)).to_contain_text("w0 w1 w2 w3 w4 w5")
    expect(page.get_by_test_id("ending")).to_contain_text("The answer so far is kept.")


def test_prompts_queue_and_are_edited_removed_and_sent_now(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("queue")
    page = visit(daemon).open(thread)
    send(page, "!slow 2000 0.02")
    expect(answers(page)).to_contain_text("w3")
    queued = page.get_by_test_id("queued-item")
    send(page, "second")
    expect(queued).to_have_count(1)
    send(page, "third")
    expect(queued).to_have_count(2)

    queued.nth(1).get_by_test_id("queued-remove").click()
    expect(queued).to_have_count(1)
    queued.get_by_test_id("queued-edit").click()
    page.get_by_test_id("queued-editor").fill("the second one")
    page.get_by_test_id("queued-save").click()
    expect(queued).to_contain_text("the second one")
    queued.get_by_test_id("queued-now").click()
    expect(answers(page).nth(1)).to_contain_text("ack: the second one")
    expect_idle(page)
    assert [turn["text"] for turn in daemon.turns(thread)][2:] == ["the second one", "ack: the second one"]
    assert daemon.turns(thread)[1]["partial"]


def test_a_stop_starts_nothing_that_was_queued(own_daemon: Daemon, visit: Visit) -> None:
    thread = own_daemon.thread("held")
    visitor = visit(own_daemon, gone=True)
    page, other = visitor.open(thread), visitor.open(thread)
    send(page, "!slow 2000 0.02")
    expect(answers(page)).to_contain_text("w3")
    queued = page.get_by_test_id("queued-item")
    for n, prompt in enumerate(("second", "third"), start=1):
        send(page, prompt)
        expect(queued).to_have_count(n)
    page.get_by_test_id("stop").click()
    expect(page.get_by_test_id("ending")).to_contain_text("Stopped.")
    expect_idle(page)
    for tab in (page, other):
        expect(tab.get_by_test_id("queued-item").and_(tab.locator("[data-state=held]"))).to_have_count(2)
        expect(tab.locator(".queue")).to_contain_text("wait until you send them")
    send(page, "what was meant")
    expect(answers(page).nth(1)).to_contain_text("ack: what was meant")
    expect_idle(page)
    expect(queued).to_have_count(2)

    own_daemon.process.kill()
    own_daemon.process.restart()
    page.reload()
    expect(queued.and_(page.locator("[data-state=held]"))).to_have_count(2)
    queued.nth(1).get_by_test_id("queued-now").click()
    expect(answers(page).nth(2)).to_contain_text("ack: third")
    expect_idle(page)
    expect(queued).to_have_count(1)
    expect(other.get_by_test_id("queued-item")).to_have_count(1)
    queued.get_by_test_id("queued-remove").click()
    expect(queued).to_have_count(0)
    said = [turn["text"] for turn in own_daemon.turns(thread) if turn["role"] == "user"]
    assert said == ["!slow 2000 0.02", "what was meant", "third"]


def test_tool_calls_are_folded_and_a_file_edit_opens_as_a_diff(daemon: Daemon, visit: Visit) -> None:
    path = daemon.stage.work / "made.txt"
    written = f'!tool Write {{"file_path": "{path}", "content": "first line\\nsecond line\\n"}}'
    thread = daemon.thread("tools", written, '!tool Bash {"command": "echo told && exit 3"}', permissions="all")
    page = visit(daemon).open(thread)
    tools = page.get_by_test_id("tool")
    expect(tools).to_have_count(2)
    expect(tools.first).to_contain_text("made.txt")
    expect(tools.first).to_contain_text("+2")
    expect(page.get_by_text("+second line")).to_have_count(0)
    tools.first.click()
    expect(page.get_by_text("+second line")).to_be_visible()
    expect(tools.nth(1)).to_contain_text("failed")
    tools.nth(1).click()
    expect(tools.nth(1)).to_contain_text("told")

    page.get_by_test_id("changes-open").click()
    expect(page.get_by_test_id("changes-view")).to_contain_text("+second line")


def test_a_to_do_list_is_shown_while_the_run_is_active(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("todo", permissions="all"))
    todos = [{"content": "Read", "status": "completed"}, {"content": "Write", "status": "in_progress"}]
    daemon.stage.api.script.extend(
        [ToolUse("TodoWrite", {"todos": todos}), Slow(" ".join(f"w{n}" for n in range(2000)), 50)]
    )
    send(page, "Do it.")
    card = page.get_by_test_id("todo-card")
    expect(card).to_contain_text("1 of 2")
    expect(card.get_by_role("listitem")).to_have_count(2)
    expect(answers(page)).to_contain_text("w3")
    page.get_by_test_id("stop").click()
    expect(page.get_by_test_id("ending")).to_be_visible()
    expect(card).to_have_count(0)


def test_the_badge_shows_a_fallback(own_daemon: Daemon, visit: Visit) -> None:
    page = visit(own_daemon).open(own_daemon.thread("fallback", "one"))
    own_daemon.stage.fault({"do": "reject", "on": "resume"})
    send(page, "two")
    badge = page.get_by_test_id("badge").nth(1)
    expect(badge).to_contain_text("fresh: the agent did not know the session")
    expect(badge).to_contain_text("fell back")
    assert "ack: one" in own_daemon.stage.prompt, "the transcript was sent"


def test_another_model_is_picked_in_the_composer(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("model", "one")
    page = visit(daemon).open(thread)
    model = page.get_by_test_id("model-picker")
    model.fill("claude-opus-4-5")
    model.press("Enter")
    expect(page.get_by_test_id("session-line")).to_contain_text("fresh session")
    send(page, "two")
    expect(page.get_by_test_id("badge").nth(1)).to_contain_text("claude-opus-4-5")
    assert daemon.get(f"/api/threads/{thread}")["model"] == "claude-opus-4-5"
    assert daemon.stage.launches[-1].value("--model") == "claude-opus-4-5"


def test_a_failed_run_says_why_and_can_be_asked_again(own_daemon: Daemon, visit: Visit) -> None:
    stage = own_daemon.stage
    thread = own_daemon.thread("crash", "one")
    stage.fault({"do": "crash_before_init", "rc": 3, "stderr": "node: bad option --foo"})
    page = visit(own_daemon).open(thread)
    send(page, "two")
    error = page.get_by_test_id("run-error")
    expect(error).to_contain_text("bad option")
    error.get_by_text("Error output of the agent").click()
    expect(error.get_by_label("Standard error")).to_contain_text("node: bad option --foo")
    stage.fault()
    page.get_by_test_id("ask-again").click()
    expect(answers(page).nth(1)).to_contain_text("ack: two")
    expect(error).to_have_count(0)
    assert [turn["text"] for turn in own_daemon.turns(thread)] == ["one", "ack: one", "two", "ack: two"]


def test_the_error_of_an_unanswered_prompt_stays_with_it(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("unanswered", "one", "!fail 429 rate_limit_error Slow down"))
    error = page.get_by_test_id("run-error")
    expect(error.get_by_test_id("ask-again")).to_be_visible()
    expect(error).to_have_count(1)
    send(page, "!tool Bash {}")
    expect(page.get_by_test_id("permission-form")).to_be_visible()
    page.get_by_test_id("stop").click()
    expect(page.get_by_test_id("ending").get_by_test_id("ask-again")).to_be_visible()
    send(page, "four")
    expect(answers(page).last).to_contain_text("ack: four")
    page.reload()
    expect(prompts(page).nth(1).get_by_test_id("run-error")).to_contain_text("Slow down")
    expect(prompts(page).nth(2).get_by_test_id("ending")).to_contain_text("Stopped, before the agent answered.")
    expect(error).to_have_count(1)
    expect(page.get_by_test_id("ending")).to_have_count(1)
    error.get_by_test_id("prompt-to-composer").click()
    expect(page.get_by_test_id("composer")).to_have_value("!fail 429 rate_limit_error Slow down")
    error.get_by_test_id("ask-again-here").click()
    expect(page.get_by_test_id("consequence")).to_contain_text("turn 2. The 3 turns after this prompt are archived.")


def test_a_missing_directory_is_reported_at_its_field(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon, refused=True).open()
    page.get_by_test_id("new-thread").click()
    page.get_by_test_id("folder").fill("/nowhere/at/all")
    page.get_by_test_id("make-thread").click()
    dialog = page.get_by_test_id("new-thread-dialog")
    expect(dialog.get_by_test_id("folder-problem")).to_contain_text("/nowhere/at/all is not a directory.")
    expect(page.get_by_test_id("folder")).to_be_focused()
    expect(page.get_by_test_id("notice")).to_have_count(0)
    page.get_by_test_id("folder").fill(str(daemon.stage.work))
    expect(dialog.get_by_test_id("folder-problem")).to_have_count(0)


def test_a_thread_is_renamed_changed_and_deleted_with_an_archive(daemon: Daemon, visit: Visit) -> None:
    thread = daemon.thread("old-name", "one")
    page = visit(daemon).open(thread)
    page.get_by_test_id("rename").click()
    page.get_by_test_id("rename-field").fill("new name")
    page.get_by_test_id("rename-field").press("Enter")
    expect(page.get_by_test_id("thread-name")).to_have_text("new-name")

    page.get_by_test_id("thread-settings").click()
    page.get_by_label("Read-only").check()
    page.get_by_test_id("save-settings").click()
    expect(page.get_by_test_id("permission-pill")).to_have_text("read-only")
    assert daemon.get(f"/api/threads/{thread}")["permissions"] == "read-only"

    page.get_by_test_id("delete").click()
    expect(page.get_by_test_id("delete-dialog")).to_contain_text("archive file first")
    page.get_by_test_id("confirm-delete").click()
    expect(page.get_by_test_id("notice")).to_contain_text("Its archive:")
    expect(listed(page, "new-name")).to_have_count(0)


def test_the_search_finds_messages(daemon: Daemon, visit: Visit) -> None:
    daemon.thread("haystack", "!say nothing of note")
    daemon.thread("needle-case", "!say the zebra is in the attic")
    page = visit(daemon).open()
    page.get_by_test_id("search").fill("zebra")
    expect(page.get_by_test_id("thread-item")).to_have_count(1)
    expect(listed(page, "needle-case")).to_be_visible()
    page.get_by_test_id("search").fill("")
    expect(listed(page, "haystack")).to_be_visible()


def listed(page: Page, name: str):  # type: ignore[no-untyped-def]
    return page.get_by_test_id("thread-item").filter(has_text=name)
