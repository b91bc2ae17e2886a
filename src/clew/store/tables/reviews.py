"""The tables of reviews and their rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.core.record import replace
from clew.core.reviews.review import Review, ReviewRound
from clew.errors import Conflict, NotFound
from clew.store.records import each, first
from clew.store.rows.reviews import (
    packed,
    packed_files,
    review_from,
    review_row,
    round_from,
    round_row,
    unpacked,
    unpacked_files,
)
from clew.store.tables.table import DumpedTable, Json, Table, Tables

DUMPED = (
    DumpedTable("reviews", has_id=True, belongs_to={"thread_id": "threads"}, json={"paths": Json(list, str)}),
    DumpedTable(
        "review_rounds",
        belongs_to={"review_id": "reviews"},
        may_name={"run_id": "runs", "first_run_id": "runs"},
        json={"answer": Json(dict), "changed_since": Json(list, str), "changes": Json(list, dict)},
    ),
)


class ReviewTable(Table):
    def create(self, review: Review, day: str) -> Review:
        """Stores the review with the next free id of that day (`YYYY-MM-DD`); several processes may do so at once."""
        with self._database.transaction():
            number = self._database.number("last_review_of_day", day=day) + 1
            stored = replace(review, id=f"{day}-{number:03d}")
            self._database.do("insert_review", day=day, number=number, **review_row(stored))
            self._versions.changed(stored.thread_id)
        return stored

    def add_imported(self, review: Review, day: str, number: int) -> None:
        """Stores the review under the id that it has. Raises Conflict when that id is taken."""
        with self._database.transaction():
            if self.find(review.id) is not None:
                raise Conflict(f"There is a review {review.id} already.", hint="clew review show tells more.")
            self._database.do("insert_review", day=day, number=number, **review_row(review))
            self._versions.changed(review.thread_id)

    def find(self, review_id: str) -> Review | None:
        return first(review_from, self._database.one("review_by_id", id=review_id))

    def require(self, review_id: str) -> Review:
        found = self.find(review_id)
        if found is None:
            raise NotFound(f"There is no review {review_id}.", hint="`clew review list` shows them.")
        return found

    def newest(self, *, top: str | None = None, limit: int = 50, offset: int = 0) -> list[Review]:
        """The newest first. `top` is the top directory of a repository."""
        return each(review_from, self._database.all("reviews_newest", top=top, limit=limit, offset=offset))

    def count(self, *, top: str | None = None) -> int:
        return self._database.number("count_reviews", top=top)

    def add_round(self, round_: ReviewRound, *, diff: str, files: Mapping[str, bytes]) -> None:
        """`diff` is what the reviewer is shown; `files` are the contents of the files after the diff."""
        with self._database.transaction():
            review = self.require(round_.review_id)
            text = packed(diff.encode("utf-8", "surrogatepass"))
            self._database.do("insert_round", **round_row(round_), diff=text, files=packed_files(files))
            self._versions.changed(review.thread_id)

    def update_round(self, review_id: str, number: int, **changes: Any) -> ReviewRound:
        with self._database.transaction():
            stored = next((known for known in self.rounds(review_id) if known.number == number), None)
            if stored is None:
                raise _no_such_round(review_id, number)
            changed = replace(stored, **changes)
            self._database.do("write_round", **round_row(changed))
            self._versions.changed(self.require(review_id).thread_id)
        return changed

    def rounds(self, review_id: str) -> list[ReviewRound]:
        return each(round_from, self._database.all("rounds_of_review", review_id=review_id))

    def all_rounds(self, *, since: float | None = None, thread_id: str | None = None) -> list[ReviewRound]:
        """The rounds of all reviews, or of that thread's review. Only their figures: no answer, files or message."""
        return each(round_from, self._database.all("rounds_since", since=since, thread_id=thread_id))

    def round_diff(self, review_id: str, number: int) -> str:
        row = self._database.one("round_diff", review_id=review_id, number=number)
        if row is None:
            raise _no_such_round(review_id, number)
        return unpacked(row["diff"]).decode("utf-8", "surrogatepass")

    def round_files(self, review_id: str, number: int) -> dict[str, bytes]:
        row = self._database.one("round_files", review_id=review_id, number=number)
        if row is None:
            raise _no_such_round(review_id, number)
        return unpacked_files(row["files"])

    def adapt_imported(self, tables: Tables) -> None:
        for review in tables.get("reviews", ()):
            old, day = str(review.get("id")), str(review.get("day"))
            if self._database.one("review_by_id", id=old) is None:
                continue
            number = self._database.number("last_review_of_day", day=day) + 1
            review.update(id=f"{day}-{number:03d}", number=number)
            for round_ in tables.get("review_rounds", ()):
                if round_.get("review_id") == old:
                    round_["review_id"] = review["id"]

    def read_back(self, thread_id: str) -> None:
        for row in self._database.all("dump_reviews", id=thread_id):
            self.find(row["id"])
            self.rounds(row["id"])


def _no_such_round(review_id: str, number: int) -> NotFound:
    return NotFound(f"Review {review_id} has no round {number}.")
