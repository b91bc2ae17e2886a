"""Rounds whose session was continued or changed elsewhere, and rounds that somebody removed from the thread."""

from __future__ import annotations

from clew.core.reviews.review import RoundStatus
from clew.testing.stage import Stage
from reviews.reviewer import follow
from reviews.test_fresh_rounds import assert_missed, reviewed
from transfer.machines import continue_without_clew, go_back_without_clew


async def test_a_session_that_continued_elsewhere_is_followed(scripted: Stage) -> None:
    async with reviewed(scripted) as (client, _, first):
        [path] = scripted.session_files()
        continue_without_clew(scripted, path.stem, "in between")
        second = await follow(client, first.review_id, "Mended.")
        assert (second.status, second.session_resumed, second.reason) == (RoundStatus.DONE, True, None)
        assert (second.number, second.changed_since) == (2, ("a.py",)), "what was asked elsewhere is no round"
        thread = await client.find(f"review-{first.review_id}")
        assert [turn.text for turn in await thread.turns() if turn.outside][:1] == ["in between"]


async def test_a_session_that_branched_off_elsewhere_is_not_rewound(scripted: Stage) -> None:
    async with reviewed(scripted) as (client, _, first):
        [path] = scripted.session_files()
        continue_without_clew(scripted, path.stem, "in between")
        thread = await client.find(f"review-{first.review_id}")
        await thread.sync()
        await thread.truncate((await thread.turns())[2].id)
        go_back_without_clew(scripted, path.stem, "from the first answer")
        assert_missed(scripted, await follow(client, first.review_id, "Mended."), "history_changed")


async def test_a_round_that_was_removed_is_not_in_the_rewound_session_and_what_changed_since_is_shown(
    stage: Stage,
) -> None:
    async with reviewed(stage) as (client, repo, first):
        second = await follow(client, first.review_id)
        assert second.session_resumed
        (repo / "b.py").write_text("b = 77\n")
        await follow(client, first.review_id)
        thread = await client.find(f"review-{first.review_id}")
        _, answer, removed, *_ = await thread.turns()
        files = {path: path.read_bytes() for path in stage.session_files()}
        await thread.truncate(removed.id)
        fourth = await follow(client, first.review_id, "Mended.")
        assert (fourth.status, fourth.session_resumed, fourth.reason) == (RoundStatus.DONE, True, "history_changed")
        assert (await client.run(fourth.run_id or "")).rewound_to_turn_id == answer.id
        assert {path: path.read_bytes() for path in files} == files
        assert fourth.changed_since == ("a.py", "b.py"), "both have changed since the first round"
        texts = [text for role, text in stage.shown if role == "user"]
        assert (sum("+b = 77" in text for text in texts), len(texts)) == (1, 2)
