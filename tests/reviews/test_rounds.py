"""The first round shows the diff; later ones show what changed since, in the same session."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from clew.api.client import Client
from clew.api.reviews import markdown
from clew.core.reviews.review import FindingState, ReviewRound, RoundStatus, Scope, findings_of
from clew.errors import UsageError
from clew.hosts.reviews.reviews import ReviewSpec, RoundOptions
from clew.testing.stage import MODEL, Stage
from reviews.reviewer import Reviewer, answer, finding, git, repository


def new(folder: Path, **more: object) -> ReviewSpec:
    return ReviewSpec(str(folder), "claude", MODEL, **more)  # type: ignore[arg-type]


async def start(client: Client, folder: Path, **more: object) -> ReviewRound:
    return await (await client.reviews.start(new(folder, **more))).finish()


async def follow(client: Client, review_id: str, message: str = "", **more: object) -> ReviewRound:
    return await (await client.reviews.follow(review_id, RoundOptions(message, **more))).finish()  # type: ignore[arg-type]


async def test_three_rounds_in_one_session_each_show_what_changed(stage: Stage) -> None:
    repo = repository(stage.work / "repo")
    (repo / "a.py").write_text("def a():\n    return 3\n")
    reviewer = Reviewer(
        answer([finding(), finding("No test", file=None, line=None, severity="low")]),
        answer(earlier=[{"id": "F1", "state": "fixed", "note": "It returns 2."}, {"id": "F2", "state": "open"}]),
        answer([finding("New one", file="c.py", line=1)], [{"id": "F2", "state": "withdrawn", "note": "So be it."}]),
    )
    stage.api.reply = reviewer
    async with stage.open() as client:
        first = await start(client, repo, focus="numbers")
        assert (first.number, first.status, first.session_resumed, first.reason) == (
            1,
            RoundStatus.DONE,
            False,
            "first_turn",
        )
        assert first.answer is not None
        assert [each.id for each in first.answer.findings] == ["F1", "F2"]
        assert "+    return 3" in reviewer.asked[0] and "numbers" in reviewer.asked[0]

        (repo / "a.py").write_text("def a():\n    return 2\n")
        second = await follow(client, first.review_id, "Mended.")
        assert (second.number, second.session_resumed, second.reason) == (2, True, None)
        assert second.changed_since == ("a.py",)
        assert "-    return 3\n+    return 2" in reviewer.asked[1]
        assert "-    return 1" not in reviewer.asked[1], "the whole diff is not sent again"
        assert "Mended." in reviewer.asked[1]
        assert "F1 [high] a.py:2 It returns the wrong number: open; its file has changed since" in reviewer.asked[1]

        git(repo, "add", "-A")
        git(repo, "commit", "-qm", "done")
        (repo / "c.py").write_text("c = 1\n")
        third = await follow(client, first.review_id)
        assert third.session_resumed
        assert third.changed_since == ("c.py",), "a commit changes no file"
        assert "F1 [high] a.py:2 It returns the wrong number: fixed" in reviewer.asked[2]
        assert "+c = 1" in reviewer.asked[2] and "return" not in reviewer.asked[2].split("What changed in them")[1]

        state = await client.reviews.find(first.review_id)
        found = {each.id: each.state for each in findings_of(state.rounds)}
        assert found == {"F1": FindingState.FIXED, "F2": FindingState.WITHDRAWN, "F3": FindingState.OPEN}
        assert "### F3 high: New one" in markdown(state)
        sessions = await client.reviews.sessions(state)
        assert list(sessions) == [MODEL]
        assert {launch.resumes for launch in stage.launches[1:]} == set(sessions.values())
    for launch in stage.launches:
        assert "--setting-sources" in launch.argv and launch.value("--setting-sources") == "user"


async def test_a_review_without_changes_and_a_follow_up_without_news_are_refused(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    async with scripted.open() as client:
        with pytest.raises(UsageError, match="nothing to review"):
            await start(client, repo)
        assert await client.reviews.count() == 0
        (repo / "a.py").write_text("a = 2\n")
        scripted.api.reply = Reviewer()
        first = await start(client, repo)
        with pytest.raises(UsageError, match="Nothing has changed since round 1"):
            await client.reviews.follow(first.review_id, RoundOptions())
        assert len((await client.reviews.find(first.review_id)).rounds) == 1
        assert (await follow(client, first.review_id, "Are you sure?")).session_resumed


@pytest.mark.parametrize("scope", list(Scope))
async def test_the_scope_decides_which_changes_are_shown(scripted: Stage, scope: Scope) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("staged = 1\n")
    git(repo, "add", "a.py")
    (repo / "b.py").write_text("unstaged = 1\n")
    (repo / "new.py").write_text("new = 1\n")
    scripted.api.reply = Reviewer()
    async with scripted.open() as client:
        done = await start(client, repo, scope=scope)
    named = {change.path for change in done.changes}
    assert (
        named
        == {Scope.ALL: {"a.py", "b.py", "new.py"}, Scope.STAGED: {"a.py"}, Scope.UNSTAGED: {"b.py", "new.py"}}[scope]
    )


async def test_an_answer_without_the_required_form_is_asked_for_once_more_in_the_session(stage: Stage) -> None:
    repo = repository(stage.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    reviewer = Reviewer("It looks good to me!", f"Sorry.\n```json\n{answer([finding()])}\n```\n")
    stage.api.reply = reviewer
    async with stage.open() as client:
        done = await start(client, repo)
        assert (done.status, done.runs) == (RoundStatus.DONE, 2)
        assert done.answer is not None and len(done.answer.findings) == 1
        assert "does not fit" in reviewer.asked[1]
        assert stage.launches[1].resumes == stage.launches[0].session_id
        reviewer.answers = ["no", '{"summary": "x", "findings": [{"severity": "awful"}]}']
        (repo / "a.py").write_text("a = 3\n")
        failed = await follow(client, done.review_id)
        assert (failed.status, failed.error_code) == (RoundStatus.FAILED, "failed")
        assert "severity" in (failed.error or "")
        reviewer.answers = [answer()]
        (repo / "b.py").write_text("b = 3\n")
        after = await follow(client, done.review_id)
        assert after.changed_since == ("b.py",), "the failed round had shown the rest"
        assert after.session_resumed


@pytest.mark.parametrize("way", ["setting", "environment", "flag"])
async def test_the_second_try_resumes_the_session_even_when_resume_is_off(scripted: Stage, way: str) -> None:
    """Both runs are one round: what the first has just shown is not shown again."""
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    opened: dict[str, Any] = {
        "setting": {"enable_resume": False},
        "environment": {"environ": {"CLEW_ENABLE_RESUME": "false"}},
        "flag": {},
    }[way]
    off = {"resume": False} if way == "flag" else {}
    scripted.api.reply = Reviewer("It looks good to me!", answer(), "Fine!", answer())
    async with scripted.open(**opened) as client:
        first = await start(client, repo, **off)
        (repo / "a.py").write_text("a = 3\n")
        second = await follow(client, first.review_id, **off)
    for done, launches in ((first, scripted.launches[:2]), (second, scripted.launches[2:])):
        assert (done.status, done.runs, done.session_resumed) == (RoundStatus.DONE, 2, False)
        assert [launch.resumes for launch in launches] == [None, launches[0].session_id]
    assert second.reason == "disabled"
    assert "does not fit" in scripted.prompt and "+a = 3" not in scripted.prompt


NAMED_AS = {
    "b/a.py": "a.py",  # as in the lines of the diff
    "a/a.py": "a.py",
    "./a.py": "a.py",
    "./b/a.py": "a.py",
    "b/sub/c.py": "sub/c.py",
    "b/same.py": "same.py",  # in the repository, not in the diff
    "b/kept.py": "b/kept.py",  # the file exists
    "b/changed.py": "b/changed.py",
    "a/gone.py": "gone.py",
    "a/was.py": "was.py",  # renamed
    "b/nowhere.py": "b/nowhere.py",
    "b/../../out.py": "b/../../out.py",
    "b//etc/passwd": "b//etc/passwd",
    "b/\0": "b/\0",
    "a.py": "a.py",
    "b/": "b/",
}


async def test_a_path_with_the_prefix_of_a_diff_is_recognized(scripted: Stage) -> None:
    files = {name: f"{name}\n" * 9 for name in ("a.py", "same.py", "b/kept.py", "b/changed.py", "gone.py", "was.py")}
    repo = repository(scripted.work / "repo", files | {"kept.py": "k\n", "changed.py": "c\n"})
    (scripted.work / "out.py").write_text("outside\n")
    for name in ("a.py", "b/changed.py", "sub/c.py"):
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text("changed = 1\n")
    (repo / "gone.py").unlink()
    git(repo, "mv", "was.py", "is.py")
    scripted.api.reply = reviewer = Reviewer(answer([finding(f"As {name!r}", file=name) for name in NAMED_AS]))
    async with scripted.open() as client:
        first = await start(client, repo)
        assert first.answer is not None
        assert [each.file for each in first.answer.findings] == list(NAMED_AS.values())
        (repo / "a.py").write_text("changed = 2\n")
        await follow(client, first.review_id)
    assert "F1 [high] a.py:2 As 'b/a.py': open; its file has changed since" in reviewer.asked[1]


async def test_the_diff_of_a_later_round_has_the_headers_of_git(scripted: Stage) -> None:
    """Also for new and deleted files, whatever their names are."""
    repo = repository(scripted.work / "repo", {"a.py": "a\n", "gone b/gone": "g\n"})
    (repo / "a.py").write_text("a = 2\n")
    scripted.api.reply = reviewer = Reviewer()
    async with scripted.open() as client:
        first = await start(client, repo)
        (repo / "a.py").write_text("a = 3\ndiff --git b/x b/x\n")
        (repo / "new.py").write_text("n\n")
        (repo / 'odd "name"').write_text("o\n")
        (repo / "gone b/gone").unlink()
        await follow(client, first.review_id)
    assert re.findall(r"^.?diff --git .*$", reviewer.asked[1], re.MULTILINE) == [
        "diff --git a/a.py b/a.py",
        "+diff --git b/x b/x",
        "diff --git a/gone b/gone b/gone b/gone",
        "diff --git a/new.py b/new.py",
        'diff --git "a/odd \\"name\\"" "b/odd \\"name\\""',
    ]
