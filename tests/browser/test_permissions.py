"""What the page says about permissions, with an agent that asks and with one that cannot ask."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from browser.daemon import Daemon
from browser.visitor import Visitor, answers, expect_idle, send
from clew.testing.stage import CODEX_MODEL

Visit = Callable[..., Visitor]


def test_an_agent_that_cannot_ask_is_not_described_as_asking(codex_daemon: Daemon, visit: Visit) -> None:
    page = visit(codex_daemon).open(codex_daemon.thread("silent", agent="codex", model=CODEX_MODEL, permissions="ask"))
    pill, line = page.get_by_test_id("permission-pill"), page.get_by_test_id("cannot-ask")
    expect(pill).to_have_text("reads only")
    expect(line).to_contain_text("codex cannot ask for permission: it can read, but not change anything.")
    send(page, "one")
    expect(answers(page)).to_contain_text("ack: one")
    expect_idle(page)
    page.reload()
    expect(answers(page)).to_contain_text("codex cannot ask, so it may read and not change anything.")
    expect(page.get_by_test_id("badge")).to_contain_text("no price reported")

    line.get_by_role("button").click()
    dialog = page.get_by_test_id("settings-dialog")
    expect(dialog).not_to_contain_text("You are asked")
    dialog.get_by_label("Edits").check()
    page.get_by_test_id("save-settings").click()
    expect(pill).to_have_text("edits, sandboxed")
    expect(line).to_have_count(0)


def test_the_form_of_a_new_thread_follows_the_chosen_agent(codex_daemon: Daemon, visit: Visit) -> None:
    page = visit(codex_daemon).open()
    page.get_by_test_id("new-thread").click()
    dialog = page.get_by_test_id("new-thread-dialog")
    expect(dialog).to_contain_text("You are asked before the agent changes a file")
    page.get_by_test_id("form-agent").select_option("codex")
    expect(dialog).to_contain_text("This agent cannot ask for permission: it can read, but not change anything.")
    expect(dialog).not_to_contain_text("You are asked")


def test_the_agents_view_says_what_an_agent_that_cannot_ask_may_do(codex_daemon: Daemon, visit: Visit) -> None:
    page = visit(codex_daemon).open(view="agents")
    agents = page.get_by_test_id("agent")
    expect(agents.filter(has_text="claude").first).to_contain_text("permissions and questions come to this page")
    expect(agents.filter(has_text="codex").last).to_contain_text("with Edits it may change the thread's directory")


def test_costs_that_no_agent_reports_are_unknown_and_not_zero(codex_daemon: Daemon, visit: Visit) -> None:
    codex_daemon.thread("unpriced", "one", agent="codex", model=CODEX_MODEL)
    page = visit(codex_daemon).open(view="savings")
    view = page.get_by_test_id("savings-view")
    view.get_by_label("Thread", exact=True).select_option(label="unpriced")
    expect(view).to_contain_text("unknown")
    expect(view).to_contain_text("no price reported")
