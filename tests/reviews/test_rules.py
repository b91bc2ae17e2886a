"""A reviewer is shown the project's rules: the base's when commits are reviewed, else those of the work directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.core.reviews.review import RoundStatus
from clew.hosts.branching.merge import MergeOptions, merge
from clew.hosts.branching.replay import ReplayOptions, replay
from clew.testing.stage import Stage
from reviews.reviewer import Reviewer, answer, git, repository
from reviews.test_rounds import follow, start

BASE, THEIRS, NEWER = "rules-of-the-base", "rules-of-the-branch", "what-the-base-says-now"


def given(stage: Stage) -> str:
    folder = stage.launches[-1].value("--add-dir")
    return "".join(path.read_text() for path in Path(folder).rglob("*.md")) if folder is not None else ""


def branched(folder: Path) -> Path:
    repo = repository(folder, {"a.py": "a = 1\n", "CLAUDE.md": BASE})
    git(repo, "checkout", "-q", "-b", "theirs")
    (repo / "CLAUDE.md").write_text(THEIRS)
    (repo / "CLAUDE.local.md").write_text(THEIRS)
    git(repo, "add", "-A")
    # Whoever makes a commit chooses the author that it names, so the author proves nothing.
    git(repo, "commit", "-qm", "their change", "--author", "The User <user@localhost>")
    return repo


async def test_commits_are_reviewed_by_the_rules_of_their_base(scripted: Stage) -> None:
    repo = branched(scripted.work / "repo")
    scripted.api.reply = Reviewer(answer())
    async with scripted.open() as client:
        first = await start(client, repo, base="main")
        assert first.status is RoundStatus.DONE and BASE in given(scripted) and THEIRS not in given(scripted)
        git(repo, "checkout", "-q", "main")
        (repo / "CLAUDE.md").write_text(NEWER)
        git(repo, "commit", "-qam", "newer")
        git(repo, "checkout", "-q", "theirs")
        (repo / "a.py").write_text("a = 2\n")
        scripted.api.reply = Reviewer(answer())
        second = await follow(client, first.review_id)
        assert second.session_resumed and NEWER in given(scripted) and THEIRS not in given(scripted)
        thread = await client.find(f"review-{first.review_id}")
        scripted.api.reply = None
        assert (await (await thread.ask("Why?"))).status == "answered"
        assert NEWER in given(scripted) and THEIRS not in given(scripted), "a question to the reviewer"


async def test_uncommitted_changes_are_reviewed_by_the_rules_as_they_are(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo", {"a.py": "a = 1\n", "CLAUDE.md": BASE})
    (repo / "CLAUDE.md").write_text(NEWER)
    scripted.api.reply = Reviewer(answer())
    async with scripted.open() as client:
        assert (await start(client, repo)).status is RoundStatus.DONE
    assert NEWER in given(scripted) and BASE not in given(scripted)


@pytest.mark.parametrize("how", ["fork", "merge", "replay"])
async def test_a_thread_made_from_a_review_is_shown_its_rules(scripted: Stage, how: str) -> None:
    repo = branched(scripted.work / "repo")
    scripted.api.reply = Reviewer(answer())
    async with scripted.open() as client:
        name = f"review-{(await start(client, repo, base='main')).review_id}"
        scripted.api.reply = None
        if how == "fork":
            await client.fork(name, "made")
            await client.fork("made", "again")
            made = await client.find("again")
        elif how == "merge":
            other = await client.thread("other", cwd=repo)
            await (await other.ask("Hello"))
            assert THEIRS in given(scripted), "the user's own thread there"
            await merge(client.engine, "other", name, MergeOptions(name="made"))
            made = await client.find("made")
        else:
            await replay(client.engine, name, ReplayOptions(name="made"))
            made = await client.find("made")
        assert (await (await made.ask("Why?"))).status == "answered"
        assert BASE in given(scripted) and THEIRS not in given(scripted)


async def test_reviews_at_once_are_each_shown_their_own_rules(scripted: Stage) -> None:
    repo = branched(scripted.work / "repo")
    git(repo, "branch", "other", "main")
    scripted.api.reply = Reviewer(answer())
    async with scripted.open() as client:
        await start(client, repo, base="main")
        first = scripted.launches[-1].value("--add-dir")
        await start(client, repo, base="other")
        assert scripted.launches[-1].value("--add-dir") != first, "one would write its rules over the other's"
