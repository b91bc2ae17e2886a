"""Reviews: ids by day, rounds with their diffs; they are deleted with their thread."""

from __future__ import annotations

from typing import Any

from clew.core.costs.usage import Usage
from clew.core.ids import RunId, ThreadId
from clew.core.record import replace
from clew.core.reviews.review import (
    FileChange,
    Finding,
    FindingState,
    FindingVerdict,
    Review,
    ReviewAnswer,
    ReviewRound,
    RoundStatus,
    Scope,
    Severity,
    measure,
)
from clew.errors import Conflict, NotFound, UsageError
from clew.store.store import Store
from clew.testing.store_contract.samples import ODD_TEXTS, OWNER, a_thread, raises

DAY = "2026-01-02"
# File names and texts of a model may contain one half of a surrogate pair. Two halves in a row would be one character.
ODD = (*ODD_TEXTS[1:4], "a byte \udcff that is no character", *ODD_TEXTS[5:])


def a_review(**changes: Any) -> Review:
    return replace(Review("", ThreadId("thread-1"), "/project", created_at=10.0), **changes)


def a_round(number: int = 1, review_id: str = f"{DAY}-001", **changes: Any) -> ReviewRound:
    round_ = ReviewRound(review_id, number, RoundStatus.RUNNING, "claude", "opus", OWNER, started_at=10.0 + number)
    return replace(round_, **changes)


class ReviewContract:
    def test_a_review_is_read_back_unchanged_under_the_next_id_of_its_day(self, store: Store) -> None:
        store.threads.create(a_thread())
        odd = a_review(
            scope=Scope.STAGED, base=ODD_TEXTS[2], paths=ODD_TEXTS[1:], focus=ODD_TEXTS[4], imported_from=ODD_TEXTS[3]
        )
        made = store.reviews.create(odd, DAY)
        assert made == replace(odd, id=f"{DAY}-001")
        assert store.reviews.find(made.id) == store.reviews.require(made.id) == made
        assert store.reviews.create(a_review(), DAY).id == f"{DAY}-002"
        assert store.reviews.create(a_review(), "2026-01-03").id == "2026-01-03-001"
        assert store.reviews.find("nothing") is None
        with raises(NotFound):
            store.reviews.require("nothing")

    def test_the_thousandth_review_of_a_day_has_an_id_too(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.reviews.add_imported(a_review(id=f"{DAY}-999"), DAY, 999)
        assert store.reviews.create(a_review(), DAY).id == f"{DAY}-1000"
        assert store.reviews.create(a_review(), DAY).id == f"{DAY}-1001"

    def test_an_imported_review_keeps_its_id_and_no_other_gets_it(self, store: Store) -> None:
        store.threads.create(a_thread())
        old = a_review(id=f"{DAY}-007", imported_from="/old.json")
        store.reviews.add_imported(old, DAY, 7)
        assert store.reviews.find(old.id) == old
        with raises(Conflict):
            store.reviews.add_imported(a_review(id=f"{DAY}-007"), DAY, 7)
        assert store.reviews.create(a_review(), DAY).id == f"{DAY}-008"
        assert store.reviews.count() == 2

    def test_reviews_are_listed_newest_first(self, store: Store) -> None:
        store.threads.create(a_thread())
        for number in range(5):
            store.reviews.create(a_review(top=f"/project-{number % 2}", created_at=float(number)), DAY)
        ids = [f"{DAY}-{number:03d}" for number in range(5, 0, -1)]
        assert [each.id for each in store.reviews.newest()] == ids
        assert [each.id for each in store.reviews.newest(limit=2, offset=1)] == ids[1:3]
        assert [each.id for each in store.reviews.newest(top="/project-1")] == [ids[1], ids[3]]
        assert (store.reviews.count(), store.reviews.count(top="/project-0"), store.reviews.count(top="/")) == (5, 3, 0)

    def test_a_round_is_read_back_unchanged(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.reviews.create(a_review(), DAY)
        finding = Finding("F1", Severity.HIGH, ODD[1], 3, ODD[3], ODD[4], ODD[5])
        whole = a_round(
            status=RoundStatus.DONE,
            message=ODD_TEXTS[3],
            base_commit="b",
            head_commit="h",
            changes=(FileChange(ODD[5], "R", None, 2, ODD[3], "cut"), FileChange("b", "M", 1, 0)),
            changed_since=ODD,
            run_id=RunId("run"),
            runs=2,
            session_resumed=True,
            reason="expired",
            fallback=True,
            session_age_s=1.5,
            usage=Usage(1, 2, 3, 4),
            cost_usd=0.25,
            prompt_chars=5,
            transcript_chars=6,
            answer=ReviewAnswer(ODD[1], (finding,), (FindingVerdict("F1", FindingState.WITHDRAWN, ODD[3]),)),
            error=ODD[1],
            hint=ODD[0],
            error_code="failed",
            ended_at=12.5,
        )
        store.reviews.add_round(whole, diff="", files={})
        assert store.reviews.rounds(whole.review_id) == [whole]
        assert measure(store.reviews.all_rounds()) == measure([whole]), "for the measures, their figures are enough"
        with raises(NotFound):
            store.reviews.add_round(a_round(review_id="nothing"), diff="", files={})

    def test_the_diff_of_a_round_is_kept_to_the_byte(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.reviews.create(a_review(), DAY)
        diff = "".join(ODD_TEXTS) + "+x\n" * 100_000
        files = {text: text.encode("utf-8", "surrogatepass") for text in ODD}
        files |= {"bytes": bytes(range(256)), "name \udcff": b"", "large": b"x" * 1_000_000}
        store.reviews.add_round(a_round(), diff=diff, files=files)
        assert store.reviews.round_diff(f"{DAY}-001", 1) == diff
        assert store.reviews.round_files(f"{DAY}-001", 1) == files
        for look in (store.reviews.round_diff, store.reviews.round_files):
            with raises(NotFound):
                look(f"{DAY}-001", 2)

    def test_a_round_is_updated_and_its_diff_is_not(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.reviews.create(a_review(), DAY)
        for number in (1, 2):
            store.reviews.add_round(a_round(number), diff=f"diff {number}", files={"a": b"%d" % number})
        done = store.reviews.update_round(
            f"{DAY}-001",
            1,
            status=RoundStatus.DONE,
            answer=ReviewAnswer("Well."),
            usage=Usage(1, 2, 3, 4),
            ended_at=20.0,
        )
        assert (done.status, done.answer, done.ended_at) == (RoundStatus.DONE, ReviewAnswer("Well."), 20.0)
        assert store.reviews.rounds(f"{DAY}-001") == [done, a_round(2)], "the other is as it was"
        assert (store.reviews.round_diff(f"{DAY}-001", 1), store.reviews.round_files(f"{DAY}-001", 1)) == (
            "diff 1",
            {"a": b"1"},
        )
        with raises(NotFound):
            store.reviews.update_round(f"{DAY}-001", 3, status=RoundStatus.DONE)
        with raises(NotFound):
            store.reviews.update_round("nothing", 1, status=RoundStatus.DONE)

    def test_a_number_is_given_to_one_round_only(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.reviews.create(a_review(), DAY)
        store.reviews.add_round(a_round(), diff="first", files={})
        with raises(UsageError):
            store.reviews.add_round(a_round(message="second"), diff="second", files={})
        assert store.reviews.rounds(f"{DAY}-001") == [a_round()]
        assert store.reviews.round_diff(f"{DAY}-001", 1) == "first"

    def test_rounds_of_all_reviews_by_time(self, store: Store) -> None:
        store.threads.create(a_thread())
        for number in (1, 2):
            store.reviews.create(a_review(), DAY)
            for place in (1, 2, 3):
                started = 100.0 * number + place
                store.reviews.add_round(a_round(place, f"{DAY}-{number:03d}", started_at=started), diff="", files={})
        assert [each.started_at for each in store.reviews.all_rounds()] == [101.0, 102.0, 103.0, 201.0, 202.0, 203.0]
        assert [each.started_at for each in store.reviews.all_rounds(since=103.0)] == [103.0, 201.0, 202.0, 203.0]
        assert store.reviews.all_rounds(since=1000.0) == []

    def test_a_review_is_deleted_with_its_thread(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.threads.create(a_thread("thread-2", "other"))
        store.reviews.create(a_review(), DAY)
        store.reviews.create(a_review(thread_id=ThreadId("thread-2")), DAY)
        for number in (1, 2):
            store.reviews.add_round(a_round(1, f"{DAY}-{number:03d}"), diff="", files={})
        dumped = store.threads.dump(ThreadId("thread-1"))
        store.threads.delete(ThreadId("thread-1"))
        assert [each.id for each in store.reviews.newest()] == [f"{DAY}-002"]
        assert [each.review_id for each in store.reviews.all_rounds()] == [f"{DAY}-002"]
        assert f"{DAY}-001" in str(dumped) and f"{DAY}-002" not in str(dumped), "what is deleted is archived first"
        assert store.reviews.create(a_review(thread_id=ThreadId("thread-2")), DAY).id == f"{DAY}-003"

    def test_a_change_of_a_review_is_a_change_of_its_thread(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.reviews.create(a_review(), DAY)
        seen = store.versions.current()
        store.reviews.add_round(a_round(), diff="", files={})
        assert store.versions.current() != seen
        seen = store.versions.current()
        store.reviews.update_round(f"{DAY}-001", 1, status=RoundStatus.DONE)
        assert store.versions.current() != seen
