"""The reviews view: a review is started, followed live and exported; findings on the diff, rounds side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.daemon import Daemon
from browser.test_safety import COUNT, FORBIDDEN
from browser.test_use import PHONE, violations
from browser.visitor import Visitor
from clew.testing.model.scripts import Fail, Hang, Reply, Request, ToolUse
from clew.testing.stage import MODEL
from reviews.reviewer import Reviewer, answer, finding, git, repository

Visit = Callable[..., Visitor]
WRITTEN_S = 60
BAD = "<img src=x onerror=hacked()>"
BIDI = "\u202etxt.exe\u202c"


def changed(daemon: Daemon, name: str = "shop") -> Path:
    """A repository in which `a.py` was changed to return another number."""
    repo = repository(daemon.stage.work / name)
    (repo / "a.py").write_text("def a():\n    return 3\n")
    return repo


def started(daemon: Daemon, repo: Path, *answers: str, **more: Any) -> str:
    """The id of a review whose first round is over."""
    daemon.stage.api.reply = Reviewer(*answers)
    begun = daemon.post("/api/reviews", {"cwd": str(repo), "model": MODEL, **more})
    ended(daemon, begun)
    return str(begun["id"])


def followed(daemon: Daemon, review: str, message: str, **more: Any) -> None:
    ended(daemon, daemon.post(f"/api/reviews/{review}/rounds", {"message": message, **more}))


def ended(daemon: Daemon, begun: Any) -> None:
    """Waits until the round is stored. No event reports that, but it happens right after the end of its run."""
    daemon.end_of(begun["run_id"])
    until = time.monotonic() + WRITTEN_S
    while daemon.get(f"/api/reviews/{begun['id']}")["status"] == "running":
        assert time.monotonic() < until, "the round is not over"


def view(page: Page) -> Locator:
    return page.get_by_test_id("review-view")


def rounds(page: Page) -> Locator:
    return view(page).get_by_test_id("round")


def card(page: Page, finding_id: str) -> Locator:
    return page.locator(f"[data-testid=finding-card][data-finding={finding_id}]")


def file_of(page: Page, name: str) -> Locator:
    return page.get_by_test_id("patch-file").filter(has_text=name)


def test_a_review_is_started_on_the_page_and_its_findings_are_on_the_diff(own_daemon: Daemon, visit: Visit) -> None:
    repo = changed(own_daemon)
    (repo / "b.py").write_text("b = 5\n")
    own_daemon.stage.api.reply = Reviewer(
        answer([finding(detail="It is **three**."), finding("No test", file=None, line=None, severity="low")])
    )
    page = visit(own_daemon).open(view="reviews")
    expect(page.get_by_test_id("reviews-view")).to_contain_text("No reviews yet")
    page.get_by_test_id("new-review").click()
    form = page.get_by_test_id("review-form")
    form.get_by_label("Directory").fill(str(repo))
    form.get_by_test_id("review-paths").fill("a.py\nb.py")
    form.get_by_test_id("review-focus").fill("numbers")
    form.get_by_test_id("start-review").click()

    expect(page.get_by_test_id("new-review-dialog")).to_have_count(0)
    expect(view(page).get_by_test_id("review-status")).to_have_text("2 open")
    expect(rounds(page)).to_have_count(1)
    expect(rounds(page)).to_contain_text("fresh: first turn")
    expect(rounds(page)).to_contain_text("Looked at it.")
    # The card follows the line that it is about.
    on_line = file_of(page, "a.py").locator(".line.added:has-text('return 3') + [data-testid=finding-card]")
    expect(on_line).to_contain_text("It returns the wrong number")
    expect(on_line.locator("strong").first).to_have_text("three")
    expect(file_of(page, "b.py").get_by_test_id("finding-card")).to_have_count(0)
    expect(page.locator("[data-testid=patch] > [data-testid=finding-card]")).to_contain_text("No test")

    page.get_by_test_id("raw-messages").locator("summary").click()
    expect(page.get_by_label("Prompt, message 1")).to_contain_text("+    return 3")
    expect(page.get_by_label("Answer, message 2")).to_contain_text('"summary": "Looked at it."')

    page.get_by_test_id("reviews-open").click()
    row = page.get_by_test_id("review-item")
    expect(row).to_have_attribute("data-state", "done")
    for words in ("shop", "1 high", "1 low", "1 round", "numbers"):
        expect(row).to_contain_text(words)
    expect(page.get_by_test_id("thread-item")).to_have_count(0)
    [review] = own_daemon.get("/api/reviews")["items"]
    assert (review["paths"], review["focus"], review["scope"]) == (["a.py", "b.py"], "numbers", "all")


def test_rounds_are_side_by_side_and_a_fixed_finding_is_marked(own_daemon: Daemon, visit: Visit) -> None:
    repo = changed(own_daemon)
    review = started(
        own_daemon,
        repo,
        answer([finding(), finding("No test", file=None, line=None, severity="low")]),
        answer(
            [finding("Two is not enough", line=3, severity="medium")],
            [{"id": "F1", "state": "fixed", "note": "It is two."}, {"id": "F2", "state": "withdrawn", "note": "Fine."}],
            summary="The number is right.",
        ),
    )
    page = visit(own_daemon).open(view=f"reviews/{review}")
    expect(card(page, "F1")).to_have_attribute("data-state", "open")
    (repo / "a.py").write_text("# Two.\ndef a():\n    return 2\n")

    page.get_by_test_id("next-message").fill("I fixed it.\nThere is a test elsewhere.")
    page.get_by_test_id("next-round").click()

    expect(rounds(page)).to_have_count(2)
    expect(rounds(page).nth(1)).to_contain_text("resumed")
    expect(rounds(page).nth(1)).to_contain_text("There is a test elsewhere.")
    expect(rounds(page).nth(1)).to_contain_text("The number is right.")
    expect(rounds(page).nth(1)).to_contain_text("F1 fixed It is two.")
    expect(page.get_by_test_id("next-message")).to_have_value("")
    first, second = (rounds(page).nth(at).bounding_box() for at in (0, 1))
    assert first is not None and second is not None
    assert first["y"] == second["y"] and first["x"] + first["width"] <= second["x"], "side by side"

    expect(page.get_by_test_id("patch")).to_have_attribute("data-round", "2")
    expect(file_of(page, "a.py")).to_contain_text("return 2")
    expect(card(page, "F1")).to_contain_text("fixed in round 2")
    states = page.get_by_test_id("state-filter")
    states.get_by_text("open 1").click()
    expect(page.get_by_test_id("finding")).to_have_count(1)
    expect(page.get_by_test_id("finding-card")).to_have_count(1)
    states.get_by_text("fixed 1").click()
    expect(page.get_by_test_id("finding")).to_contain_text("It returns the wrong number")
    states.get_by_text("withdrawn 1").click()
    expect(page.get_by_test_id("finding")).to_contain_text("No test")
    states.get_by_text("all 3").click()
    expect(page.get_by_test_id("finding")).to_have_count(3)

    rounds(page).nth(0).get_by_role("link", name="Round 1").click()
    expect(page.get_by_test_id("patch")).to_have_attribute("data-round", "1")
    expect(file_of(page, "a.py")).to_contain_text("return 3")
    expect(card(page, "F3")).to_have_count(0)
    expect(card(page, "F1")).to_contain_text("fixed in round 2")
    page.reload()
    expect(page.get_by_test_id("patch")).to_have_attribute("data-round", "1")


def test_a_finding_of_an_earlier_round_stays_on_its_line_and_is_jumped_to(own_daemon: Daemon, visit: Visit) -> None:
    repo = changed(own_daemon)
    review = started(
        own_daemon,
        repo,
        answer([finding(), finding("Settled", line=1, severity="low")]),
        answer([], [{"id": "F1", "state": "open"}, {"id": "F2", "state": "fixed"}]),
        answer([], [{"id": "F1", "state": "open", "note": "Still three."}]),
    )
    (repo / "a.py").write_text("# One\n# Two\ndef a():\n    return 3\n")
    followed(own_daemon, review, "Lines were added above.")
    (repo / "b.py").write_text("b = 9\n")
    followed(own_daemon, review, "And elsewhere.")
    page = visit(own_daemon).open(view=f"reviews/{review}")

    on_line = file_of(page, "a.py").locator(".line.added:has-text('return 3') + [data-testid=finding-card]")
    expect(on_line).to_contain_text("It returns the wrong number")
    expect(on_line).to_contain_text("a.py:2, as it was in round 1")
    expect(on_line).to_contain_text("Still three.")
    expect(card(page, "F2")).to_have_count(0)
    page.get_by_test_id("finding").filter(has_text="wrong number").click()
    expect(card(page, "F1").locator("summary")).to_be_focused()
    expect(card(page, "F1")).to_be_in_viewport()

    # A finding that was settled before this round is on the diff of the round that found it.
    page.get_by_test_id("finding").filter(has_text="Settled").click()
    expect(page.get_by_test_id("patch")).to_have_attribute("data-round", "1")
    expect(card(page, "F2").locator("summary")).to_be_focused()
    expect(card(page, "F2")).to_contain_text("It should be two.")


def test_a_round_is_watched_stopped_and_asked_again_in_a_fresh_session(own_daemon: Daemon, visit: Visit) -> None:
    repo = changed(own_daemon)
    replies: list[Reply] = [ToolUse("Read", {"file_path": str(repo / "a.py")}), Hang("text", '{"summary": "so far')]

    def slow(request: Request) -> Reply | None:
        return replies.pop(0) if request.is_main and replies else None

    own_daemon.stage.api.reply = slow
    review = own_daemon.post("/api/reviews", {"cwd": str(repo), "model": MODEL})["id"]
    page = visit(own_daemon).open(view=f"reviews/{review}")
    expect(rounds(page).get_by_test_id("activity")).to_contain_text("writing…")
    expect(rounds(page).get_by_test_id("tool")).to_contain_text("a.py")
    expect(rounds(page)).not_to_contain_text("so far")
    expect(page.get_by_test_id("next-round")).to_have_count(0)

    page.get_by_test_id("round-stop").click()

    expect(rounds(page).get_by_test_id("round-error")).to_be_visible()
    expect(page.get_by_test_id("activity")).to_have_count(0)
    expect(view(page).get_by_test_id("review-status")).to_have_text("failed")
    own_daemon.stage.api.release()
    own_daemon.stage.api.reply = Reviewer(answer([finding()]))
    page.get_by_test_id("fresh-toggle").click()
    page.get_by_test_id("next-message").fill("Once more.")
    page.get_by_test_id("next-message").press("Enter")

    expect(rounds(page)).to_have_count(2)
    expect(rounds(page).nth(1)).to_contain_text("fresh: resume is switched off")
    expect(card(page, "F1")).to_be_visible()
    expect(page.get_by_test_id("fresh-toggle")).to_have_attribute("aria-pressed", "false")


def test_another_model_is_asked_for_one_round(own_daemon: Daemon, visit: Visit) -> None:
    review = started(own_daemon, changed(own_daemon))
    page = visit(own_daemon).open(view=f"reviews/{review}")
    model = page.get_by_test_id("model-picker")
    expect(model).to_have_value(MODEL)
    model.fill("claude-opus-4-5")
    model.press("Enter")
    page.get_by_test_id("next-round").click()
    expect(rounds(page)).to_have_count(2)
    expect(rounds(page).nth(1)).to_contain_text("claude-opus-4-5")
    expect(rounds(page).nth(1)).to_contain_text("fresh: no session of this agent and model to resume")


def test_a_review_is_exported_as_a_file(own_daemon: Daemon, visit: Visit) -> None:
    review = started(own_daemon, changed(own_daemon), answer([finding()]))
    page = visit(own_daemon).open(view=f"reviews/{review}")
    expect(card(page, "F1")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_test_id("export").click()
    assert download.value.suggested_filename == f"review-{review}.md"
    text = Path(download.value.path()).read_text()
    assert "### F1 high: It returns the wrong number" in text


def test_errors_are_shown_where_they_can_be_fixed(own_daemon: Daemon, visit: Visit) -> None:
    daemon = own_daemon
    repo = repository(daemon.stage.work / "shop")
    page = visit(daemon, refused=True).open(view="reviews")
    page.get_by_test_id("new-review").click()
    form = page.get_by_test_id("review-form")
    dialog = page.get_by_test_id("new-review-dialog")
    form.get_by_label("Directory").fill(str(daemon.stage.work))
    form.get_by_test_id("start-review").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is not in a git work tree")
    form.get_by_label("Directory").fill(str(repo))
    form.get_by_test_id("start-review").click()
    expect(dialog.get_by_test_id("dialog-problem")).to_contain_text("nothing to review")
    form.get_by_test_id("review-base").fill("no-such-branch")
    form.get_by_test_id("start-review").click()
    expect(dialog.get_by_test_id("dialog-problem")).to_contain_text("is not a commit")

    form.get_by_label("Directory").fill(str(changed(daemon, "second")))
    form.get_by_test_id("review-base").fill("")
    daemon.stage.api.reply = _refuse
    form.get_by_test_id("start-review").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_test_id("round-error")).to_be_visible()
    expect(view(page).get_by_test_id("review-status")).to_have_text("failed")

    daemon.stage.api.reply = Reviewer()
    page.get_by_test_id("next-round").click()
    expect(view(page).get_by_test_id("review-status")).to_have_text("nothing open")
    page.get_by_test_id("next-round").click()
    expect(page.get_by_test_id("notice")).to_contain_text("Nothing has changed since round 2")
    page.goto(page.url.split("#")[0] + "#/reviews/2001-01-01-001")
    expect(page.get_by_text("Review not found")).to_be_visible()


def _refuse(request: Request) -> Reply | None:
    return Fail(401, "authentication_error", "invalid x-api-key") if request.is_main else None


def test_a_review_is_loaded_after_the_daemon_is_back(own_daemon: Daemon, visit: Visit) -> None:
    review = started(own_daemon, changed(own_daemon), answer([finding()]))
    page = visit(own_daemon, gone=True).open(view="reviews")
    expect(page.get_by_test_id("review-item")).to_have_count(1)
    own_daemon.process.kill()
    expect(page.get_by_test_id("connection")).to_have_attribute("data-state", "lost")
    page.goto(page.url.split("#")[0] + f"#/reviews/{review}")
    expect(page.get_by_role("alert")).to_contain_text("Clew does not answer")
    own_daemon.process.restart()
    expect(card(page, "F1")).to_be_visible()


def test_a_review_whose_thread_is_deleted_elsewhere_is_no_longer_shown(own_daemon: Daemon, visit: Visit) -> None:
    review = started(own_daemon, changed(own_daemon), answer([finding()]))
    page = visit(own_daemon, refused=True).open(view=f"reviews/{review}")
    expect(card(page, "F1")).to_be_visible()
    own_daemon.delete(f"/api/threads/{own_daemon.get(f'/api/reviews/{review}')['thread_id']}")
    expect(page.get_by_text("Review not found")).to_be_visible()
    page.get_by_role("link", name="All reviews").click()
    expect(page.get_by_test_id("reviews-view")).to_contain_text("No reviews yet")


def test_hostile_text_and_names_are_plain_text(own_daemon: Daemon, visit: Visit) -> None:
    repo = changed(own_daemon)
    (repo / f"{BAD}.py").write_text(f"{BAD}\n")
    (repo / f"{BIDI}.py").write_text(f"x = '{BIDI}'  # \x1b[31m\rdiff --git a/evil b/evil\n")
    review = started(
        own_daemon,
        repo,
        answer(
            [
                finding(f"{BAD}{BIDI}", file=f"{BAD}.py", line=1, detail=BAD, suggestion="[x](javascript:hacked())"),
                finding("b", file=f"../{BAD}", line=9, detail="<script>hacked()</script>"),
            ],
            summary=f"{BAD} {BIDI}",
        ),
        answer([], [{"id": "F1", "state": "open", "note": f"{BAD} {BIDI}"}]),
        focus=BAD,
    )
    followed(own_daemon, review, f"{BAD} {BIDI}")
    visitor = visit(own_daemon)
    visitor.context.add_init_script(COUNT)
    page = visitor.open(view=f"reviews/{review}")
    expect(rounds(page)).to_have_count(2)
    expect(rounds(page).nth(0)).to_contain_text(f"{BAD} [U+202E]txt.exe[U+202C]")
    expect(rounds(page).nth(1)).to_contain_text(f"F1 open {BAD} [U+202E]txt.exe[U+202C]")
    expect(card(page, "F1")).to_contain_text(f"{BAD}[U+202E]txt.exe[U+202C]")
    expect(page.get_by_test_id("patch-file")).to_have_count(3)
    expect(file_of(page, "[U+202E]txt.exe[U+202C].py")).to_contain_text("[U+001B][31m[U+000D]diff --git a/evil b/evil")
    expect(file_of(page, f"{BAD}.py").locator(".line")).to_contain_text(BAD)
    expect(file_of(page, f"{BAD}.py").locator(".finding-body .markdown:not(.plain)").first).to_be_visible()
    shown = view(page)
    assert shown.locator("img, .markdown svg").count() == 0
    assert shown.locator(".markdown").locator(FORBIDDEN).count() == 0
    assert shown.locator("a[href^=javascript]").count() == 0
    assert "\u202e" not in shown.inner_text()
    page.get_by_test_id("reviews-open").click()
    expect(page.get_by_test_id("review-item")).to_contain_text(BAD)
    assert page.evaluate("window.hits") == 0


def test_binary_renamed_and_huge_files_are_shown(own_daemon: Daemon, visit: Visit) -> None:
    repo = repository(
        own_daemon.stage.work / "shop", {"old.py": "".join(f"line {n}\n" for n in range(30)), "logo.png": "\0\1" * 9}
    )
    git(repo, "mv", "old.py", "new.py")
    (repo / "logo.png").write_text("\0\2" * 9)
    (repo / "min.js").write_text("x" * 300_000 + "\n")
    (repo / "rows.txt").write_text("".join(f"row {n} of a long file\n" for n in range(1, 6_001)))
    (repo / "z.txt").write_text("".join(f"more {n}\n" for n in range(1, 601)))
    late = finding("Row 4500 is wrong", file="rows.txt", line=4_500)
    review = started(own_daemon, repo, answer([late]))
    page = visit(own_daemon).open(view=f"reviews/{review}")
    expect(file_of(page, "logo.png")).to_contain_text("A binary or very large file")
    expect(file_of(page, "old.py → new.py")).to_contain_text("Its lines are the same.")
    expect(file_of(page, "min.js")).to_contain_text("299,000 more characters")
    expect(file_of(page, "rows.txt")).to_contain_text("shown in part to the reviewer")
    expect(file_of(page, "z.txt")).not_to_have_attribute("open", "")
    assert page.locator(".line").count() < 1_000, "only what is near is drawn line by line"

    page.get_by_test_id("finding").click()
    expect(card(page, "F1")).to_be_in_viewport()
    drawn = file_of(page, "rows.txt").locator(".line:has-text('row 4500')")
    expect(drawn).to_be_in_viewport()
    file_of(page, "z.txt").locator("summary").click()
    expect(file_of(page, "z.txt")).to_contain_text("more 600")
    assert page.locator(".line").count() < 2_000, "and what was looked at"
    drawn_by_step = page.evaluate(
        """async () => {
          const box = document.querySelector('.scroll');
          const lines = () => document.querySelectorAll('.line').length;
          const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
          const seen = [];
          for (let at = 0; at < 40; at++) {
            const before = lines();
            box.scrollTop += 2500;
            for (let frames = 0; frames < 3; frames++) await frame();
            seen.push(lines() - before);
          }
          return seen;
        }"""
    )
    assert 0 < max(drawn_by_step) < 1_000, drawn_by_step


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_reviews(own_daemon: Daemon, visit: Visit, scheme: str) -> None:
    repo = changed(own_daemon)
    severities = ("critical", "high", "medium", "low", "info")
    review = started(
        own_daemon,
        repo,
        answer([finding(each, severity=each, suggestion="```py\nreturn 2\n```") for each in severities]),
        answer([], [{"id": "F1", "state": "fixed", "note": "x"}, {"id": "F2", "state": "withdrawn", "note": "y"}]),
    )
    followed(own_daemon, review, "Fixed.")
    page = visit(own_daemon, color_scheme=scheme, bypass_csp=True).open(view="reviews")  # so that axe may run
    expect(page.get_by_test_id("review-item")).to_have_count(1)
    assert violations(page) == []
    page.get_by_test_id("review-item").click()
    expect(rounds(page)).to_have_count(2)
    expect(card(page, "F1")).to_be_visible()
    card(page, "F1").locator("summary").click()
    card(page, "F3").scroll_into_view_if_needed()
    expect(card(page, "F3").locator("pre")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("r")
    page.get_by_test_id("new-review").click()
    expect(page.get_by_test_id("new-review-dialog")).to_be_visible()
    assert violations(page) == []


def test_a_review_fits_a_phone(own_daemon: Daemon, visit: Visit) -> None:
    repo = changed(own_daemon)
    (repo / "long.py").write_text(f"{'x' * 400} = 1\n")
    review = started(own_daemon, repo, answer([finding("A title that is much longer than a phone is wide " * 3)]))
    followed(own_daemon, review, "Well?")
    page = visit(own_daemon, **PHONE).open(view="reviews")
    expect(page.get_by_test_id("review-item")).to_be_visible()
    width = PHONE["viewport"]["width"]  # type: ignore[index]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_test_id("review-item").tap()
    expect(card(page, "F1")).to_be_attached()
    expect(page.get_by_test_id("next-round")).to_be_in_viewport()
    wide = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.patch, .findings, .scroll')].map(e => e.scrollWidth))"
    )
    assert wide <= width
