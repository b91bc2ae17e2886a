"""Threads that leave and come back: export and import, push and pull, archives; and what the next prompt would do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.daemon import Daemon
from browser.test_use import PHONE, violations
from browser.visitor import Visitor, answers, overflowing

Visit = Callable[..., Visitor]
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PASSPHRASE = "correct horse battery staple"


def act(page: Page, name: str) -> Locator:
    """Opens the dialog by the thread's menu."""
    page.get_by_test_id("thread-menu").click()
    page.get_by_test_id(f"menu-{name}").click()
    return page.get_by_test_id(f"{name}-dialog")


def listed(page: Page, name: str) -> Locator:
    return page.get_by_test_id("thread-item").filter(has=page.get_by_text(name, exact=True))


def test_a_thread_is_exported_with_a_passphrase_and_imported_under_another_name(
    daemon: Daemon, visit: Visit, tmp_path: Path
) -> None:
    page = visit(daemon, accept_downloads=True).open(daemon.thread("export-me", "!say Remember **plum**."))
    dialog = act(page, "export")
    dialog.get_by_test_id("passphrase").fill(PASSPHRASE)
    with page.expect_download() as saved:
        dialog.get_by_test_id("start-export").click()
    expect(dialog.get_by_test_id("exported")).to_contain_text("2 turns · encrypted")
    file = tmp_path / saved.value.suggested_filename
    saved.value.save_as(file)
    assert b"plum" not in file.read_bytes()
    page.keyboard.press("Escape")

    page.get_by_test_id("sidebar-menu").click()
    page.get_by_test_id("menu-import").click()
    form = page.get_by_test_id("import-form")
    form.get_by_test_id("import-file").set_input_files(file)
    form.get_by_label("Directory").fill(str(daemon.stage.work))
    form.get_by_test_id("check-import").click()
    expect(form.get_by_test_id("operation-error")).to_be_visible()  # it is encrypted
    form.get_by_test_id("passphrase").fill(PASSPHRASE)
    form.get_by_text("More settings").click()
    form.get_by_test_id("import-name").fill("import-back")
    form.get_by_test_id("check-import").click()
    expect(form.get_by_test_id("imported")).to_contain_text("import-back would be imported")
    expect(listed(page, "import-back")).to_have_count(0)
    form.get_by_test_id("start-import").click()
    expect(form.get_by_test_id("imported")).to_contain_text("It is a copy with new ids")
    form.get_by_test_id("open-imported").click()

    expect(page.get_by_test_id("thread-name")).to_have_text("import-back")
    expect(answers(page).locator("strong")).to_have_text("plum")
    expect(listed(page, "import-back")).to_be_visible()


def test_a_secret_is_named_and_the_export_is_refused_until_it_is_redacted(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon, accept_downloads=True).open(daemon.thread("leaky", f"The token is {SECRET}."))
    dialog = act(page, "export")
    dialog.get_by_test_id("start-export").click()
    expect(dialog.get_by_test_id("operation-error")).to_be_visible()
    expect(dialog.get_by_test_id("secrets").locator("li").first).to_contain_text("GitHub")
    expect(dialog).not_to_contain_text(SECRET)
    dialog.get_by_label("Redacted").check()
    with page.expect_download():
        dialog.get_by_test_id("start-export").click()
    expect(dialog.get_by_test_id("exported")).to_contain_text("blanked")


def test_a_thread_is_archived_and_restored_and_old_ones_are_shown_before_they_are_archived(
    own_daemon: Daemon, visit: Visit
) -> None:
    thread = own_daemon.thread("old-one", "!say Keep this.")
    page = visit(own_daemon).open(thread)
    dialog = act(page, "archive")
    dialog.get_by_test_id("confirm-archive").click()
    expect(dialog).to_have_count(0)
    expect(listed(page, "old-one")).to_have_count(0)

    page.get_by_test_id("sidebar-menu").click()
    page.get_by_test_id("menu-archives").click()
    row = page.get_by_test_id("archive-item")
    expect(row).to_contain_text("old-one")
    expect(row).to_contain_text("2 turns")
    row.get_by_test_id("restore").click()
    expect(row.get_by_test_id("restored")).to_contain_text("old-one is restored with 2 turns")
    row.get_by_role("button", name="Open").click()
    expect(answers(page)).to_contain_text("Keep this.")

    page.get_by_test_id("sidebar-menu").click()
    page.get_by_test_id("menu-archives").click()
    page.get_by_test_id("clean").click()
    form = page.get_by_test_id("clean-form")
    form.get_by_test_id("clean-days").fill("0.0000001")
    form.get_by_test_id("check-clean").click()
    expect(form.get_by_test_id("cleaned")).to_contain_text("1 thread would be archived")
    expect(listed(page, "old-one")).to_be_visible()
    form.get_by_test_id("confirm-clean").click()
    expect(form.get_by_test_id("cleaned")).to_contain_text("1 thread was archived")
    expect(listed(page, "old-one")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("archive-item")).to_have_count(2)


def test_a_thread_is_pushed_to_a_folder_and_pulled_after_it_was_archived(
    own_daemon: Daemon, visit: Visit, tmp_path: Path
) -> None:
    remote = f"file://{tmp_path}/remote"
    page = visit(own_daemon).open(own_daemon.thread("travels", "!say Far away."))
    dialog = act(page, "push")
    dialog.get_by_test_id("remote-url").fill(remote)
    dialog.get_by_test_id("check-push").click()
    expect(dialog.get_by_test_id("results")).to_contain_text("would be pushed")
    dialog.get_by_test_id("start-push").click()
    expect(dialog.get_by_test_id("results").locator("[data-state=pushed]")).not_to_contain_text("would be")
    page.keyboard.press("Escape")
    act(page, "archive").get_by_test_id("confirm-archive").click()
    expect(listed(page, "travels")).to_have_count(0)

    page.get_by_test_id("sidebar-menu").click()
    page.get_by_test_id("menu-pull").click()
    form = page.get_by_test_id("pull-form")
    expect(form.get_by_test_id("remote-url")).to_have_value(remote)
    form.get_by_test_id("list-remote").click()
    expect(form.get_by_test_id("remote-threads")).to_contain_text("travels")
    form.get_by_label("Directory").fill(str(own_daemon.stage.work))
    form.get_by_test_id("start-pull").click()
    expect(form.get_by_test_id("results")).to_contain_text("travels")
    form.get_by_role("button", name="Open").click()
    expect(answers(page)).to_contain_text("Far away.")


def test_the_next_prompt_is_explained_before_it_is_sent(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("explained", "!say One."))
    page.get_by_test_id("composer").fill("What comes next?")
    page.get_by_test_id("explain").click()
    told = page.get_by_test_id("explanation")
    expect(told.get_by_test_id("explained-decision")).to_have_text("resumes")
    expect(told.get_by_label("The exact prompt")).to_contain_text("What comes next?")
    expect(told).to_contain_text("expected")
    page.keyboard.press("Escape")
    page.get_by_test_id("fresh-toggle").click()
    page.get_by_test_id("explain").click()
    expect(told.get_by_test_id("explained-decision")).to_have_text("fresh: you asked for it")
    expect(told.get_by_label("The exact prompt")).to_contain_text("One.")
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("composer")).to_have_value("What comes next?")
    page.get_by_test_id("composer").fill("")
    page.get_by_test_id("explain").click()
    expect(told).to_contain_text("Write a prompt")


def test_the_menu_is_used_with_the_keyboard_alone(daemon: Daemon, visit: Visit) -> None:
    page = visit(daemon).open(daemon.thread("menu-keys"))
    expect(page.get_by_test_id("composer")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("m")
    expect(page.get_by_test_id("menu-export")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_test_id("menu-archive")).to_be_focused()
    page.keyboard.press("c")
    expect(page.get_by_test_id("menu-compare")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("other-thread")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("thread-menu")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_have_count(0)
    expect(page.get_by_test_id("thread-menu")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_dialogs_and_archives(own_daemon: Daemon, visit: Visit, scheme: str) -> None:
    thread = own_daemon.thread("axe-one", "!say One.")
    own_daemon.post("/api/archives", {"thread": own_daemon.thread("axe-two", "!say Two.")})
    page = visit(own_daemon, color_scheme=scheme, bypass_csp=True, refused=True).open(thread)  # so that axe may run
    found = {}
    page.get_by_test_id("thread-menu").click()
    found["menu"] = violations(page)
    page.keyboard.press("Escape")
    for name in ("export", "push", "replay", "compare", "merge", "archive"):
        dialog = act(page, name)
        expect(dialog).to_be_visible()
        if name == "push":
            dialog.get_by_test_id("remote-url").fill("file:///nowhere")
            dialog.get_by_test_id("check-push").click()
            expect(dialog.get_by_test_id("operation").or_(dialog.get_by_test_id("dialog-problem"))).to_be_visible()
        found[name] = violations(page)
        page.keyboard.press("Escape")
    page.get_by_test_id("explain").click()
    expect(page.get_by_test_id("explanation")).to_be_visible()
    found["explain"] = violations(page)
    page.keyboard.press("Escape")
    for name in ("import", "pull"):
        page.get_by_test_id("sidebar-menu").click()
        page.get_by_test_id(f"menu-{name}").click()
        expect(page.get_by_test_id(f"{name}-dialog")).to_be_visible()
        found[name] = violations(page)
        page.keyboard.press("Escape")
    page.get_by_test_id("sidebar-menu").click()
    page.get_by_test_id("menu-archives").click()
    page.get_by_test_id("restore").click()
    expect(page.get_by_test_id("restored")).to_be_visible()
    found["archives"] = violations(page)
    page.keyboard.press("Escape")
    page.keyboard.press("o")
    expect(page.get_by_test_id("operation-item").first).to_be_visible()
    found["operations"] = violations(page)
    assert not {name: each for name, each in found.items() if each}


def test_the_menus_and_archives_fit_a_phone(own_daemon: Daemon, visit: Visit) -> None:
    own_daemon.post("/api/archives", {"thread": own_daemon.thread("a-thread-with-quite-a-long-name", "!say Two.")})
    page = visit(own_daemon, **PHONE).open(own_daemon.thread("another-thread-with-quite-a-long-name"))
    page.get_by_test_id("thread-menu").click()
    assert overflowing(page.locator("body"), ".head-actions button, .menu button") == []
    page.keyboard.press("Escape")
    page.get_by_test_id("back-to-list").click()
    page.get_by_test_id("sidebar-menu").click()
    assert overflowing(page.locator("body"), ".brand button, .menu button") == []
    page.get_by_test_id("menu-archives").click()
    expect(page.get_by_test_id("archive-item")).to_be_visible()
    assert overflowing(page.locator("body"), ".archive, .archive button, .job-note") == []
