"""A reviewer is shown every change once, whatever happens to the review's thread."""

from __future__ import annotations

import os

import pytest

from clew.api.reviews import error_of, markdown
from clew.core.reviews.review import ReviewRound, RoundStatus
from clew.core.runs.run import Owner
from clew.errors import Busy, StoreError, UsageError
from clew.hosts.reviews.answer import MAX_FINDINGS
from clew.hosts.reviews.reviews import RoundOptions
from clew.testing.stage import Stage
from reviews.reviewer import Reviewer, answer, finding, follow, repository, start


def test_a_round_that_failed_because_of_the_store_says_so() -> None:
    round_ = ReviewRound(
        "r", 1, RoundStatus.FAILED, "claude", "opus", Owner("host", 1, 1.0), error_code="store", error="Gone."
    )
    error = error_of(round_)
    assert isinstance(error, StoreError)
    assert (error.exit_code, error.code, error.message) == (9, "store", "Gone.")


async def test_a_refused_round_leaves_nothing_and_its_changes_are_shown_later(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    scripted.api.reply = Reviewer()
    async with scripted.open() as client:
        first = await start(client, repo)
        (repo / "b.py").write_text("b = 77\n")
        thread = await client.find(f"review-{first.review_id}")
        scripted.api.reply = None
        talk = await thread.ask("!slow 200 0.05")
        with pytest.raises(Busy):
            await client.reviews.follow(first.review_id, RoundOptions("one"))
        talk.cancel()
        await talk.reply()
        await (await thread.ask("hello"))
        scripted.api.reply = reviewer = Reviewer()
        second = await follow(client, first.review_id, "what now?")
        assert (second.number, second.changed_since) == (2, ("b.py",))
        assert "+b = 77" in reviewer.asked[-1]


async def test_a_truncated_round_counts_as_not_shown(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    scripted.api.reply = reviewer = Reviewer(answer(), "no JSON", answer())
    async with scripted.open() as client:
        first = await start(client, repo)
        (repo / "b.py").write_text("b = 77\n")
        assert (await follow(client, first.review_id)).runs == 2
        thread = await client.find(f"review-{first.review_id}")
        await thread.truncate((await thread.turns())[2].id)
        scripted.api.reply = None
        await (await thread.ask("hi"))
        scripted.api.reply = reviewer
        third = await follow(client, first.review_id, "again")
        assert third.changed_since == ("b.py",)
        assert sum("+b = 77" in text for _, text in scripted.shown) == 1
        with pytest.raises(UsageError, match="review"):
            await thread.retry((await thread.turns())[0].id)


async def test_an_answer_has_limits_of_length(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    many = [finding(f"{number} " + "t" * 900) for number in range(MAX_FINDINGS)]
    scripted.api.reply = reviewer = Reviewer(
        answer([*many, finding()]),
        answer(many),
        answer(
            earlier=[{"id": f"F{n}", "state": "fixed"} for n in range(1, 190)]
            + [{"id": "F99999999999", "state": "open"}]
        ),
        answer([finding(" \n ")]),
        answer(),
    )
    async with scripted.open() as client:
        first = await start(client, repo)
        assert (first.status, first.runs) == (RoundStatus.DONE, 2), "too many is asked again"
        (repo / "a.py").write_text("a = 3\n")
        await follow(client, first.review_id)
        assert len(reviewer.asked[2]) < 60_000
        third = await follow(client, first.review_id, "so?")
        assert third.runs == 2, "a title of blanks is none"
        assert "fixed before" not in reviewer.asked[3] and "F200 [high]" in reviewer.asked[3]


async def test_an_export_is_a_valid_document_whatever_a_model_wrote(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    hostile = "d1\n# New message\n```\n<script>alert(1)</script>\n<!-- \x1b[2J"
    scripted.api.reply = Reviewer(
        answer(
            [finding("<img onerror=x> `", detail=hostile, file="../x`y`\n# hi"), finding("After")], summary="```\n# no"
        )
    )
    async with scripted.open() as client:
        first = await start(client, repo)
        text = markdown(await client.reviews.find(first.review_id))
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        f"# Review {first.review_id}",
        "## Open (2)",
        "### F1 high: \\<img onerror=x> `",
        "### F2 high: After",
        "## Round 1",
    ]
    assert not [line for line in lines if line.startswith("```")]
    assert "<script" not in text.replace("\\<script", "") and "\x1b" not in text


async def test_a_path_that_is_no_longer_a_file_counts_as_deleted(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").unlink()
    os.mkfifo(repo / "a.py")
    (repo / "b.py").write_text("b = 3\n")
    scripted.api.reply = Reviewer()
    async with scripted.open() as client:
        done = await start(client, repo)
    assert {(each.path, each.status) for each in done.changes} == {("a.py", "D"), ("b.py", "M")}
