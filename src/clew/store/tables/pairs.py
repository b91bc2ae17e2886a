"""The tables of pairs: the pairs, their rounds, and what is known about their files."""

from __future__ import annotations

from typing import Any

from clew.core.pairs.pair import PAIR_NAME_CHARS, Pair, PairRound
from clew.core.record import replace
from clew.errors import Conflict, NotFound
from clew.store.records import each, first
from clew.store.rows.pairs import KeptFiles, files_from, files_row, pair_from, pair_row, round_from, round_row
from clew.store.tables.table import DumpedTable, Json, Table, Tables, free_name

ALL_PAIRS = "`clew pair --list-sessions` shows those of this directory, `clew threads list --kind pair` all."


# The sizes and digests of files that a pair remembers are not dumped: they describe one directory of one machine.
DUMPED = (
    DumpedTable(
        "pairs",
        has_id=True,
        belongs_to={"instructor_thread_id": "threads", "worker_thread_id": "threads"},
        may_name={"run_id": "runs"},
        json={
            "models": Json(list, str),
            "changed_files": Json(list, str),
            "fresh_parts": Json(list, str),
            "planned_messages": Json(list, list),
        },
        store_columns=frozenset({"updated_at", "stop_requested", "imported_round"}),
        is_shared=True,
    ),
    DumpedTable(
        "pair_rounds",
        belongs_to={"pair_id": "pairs"},
        may_name={"instructor_run_id": "runs", "worker_run_id": "runs"},
        json={"instructor_order": Json(dict), "changed_files": Json(list, str)},
        is_shared=True,
    ),
)


class PairTable(Table):
    def create(self, pair: Pair, *, unique: bool = True) -> Pair:
        """Stores the pair under its name, or under that name with -2, -3, … when it is taken.

        `unique=False`: raises Conflict when the name is taken.
        """
        with self._database.transaction():
            named = replace(pair, name=self.free_name(pair.name)) if unique else pair
            self._check_pair_name(named.name, named.id)
            if self._database.one("pair_by_id", id=named.id) is not None:
                raise Conflict(f"There is a pair {named.id} already.", hint="clew pair --session continues it.")
            self._database.do("insert_pair", **pair_row(named))
        return named

    def free_name(self, name: str) -> str:
        def is_taken(name: str) -> bool:
            return any(self._database.one(query, name=name) for query in ("pair_by_name", "thread_by_name"))

        return free_name(name[:PAIR_NAME_CHARS], PAIR_NAME_CHARS, is_taken)

    def _check_pair_name(self, name: str, pair_id: str) -> None:
        """Commands accept threads and pairs by name, so a thread and a pair cannot have the same name."""
        known = self._database.one("pair_by_name", name=name)
        if known is not None and known["id"] != pair_id:
            raise Conflict(f"There is a pair named {name} already.", hint="Choose another name.")
        if self._database.one("thread_by_name", name=name) is not None:
            raise Conflict(f"There is a thread named {name} already.", hint="Choose another name.")

    def find(self, name_or_id: str) -> Pair | None:
        """By exact id first, then by name."""
        return first(
            pair_from,
            self._database.one("pair_by_id", id=name_or_id) or self._database.one("pair_by_name", name=name_or_id),
        )

    def of_thread(self, thread_id: str) -> Pair | None:
        return first(pair_from, self._database.one("dump_pairs", id=thread_id))

    def require(self, name_or_id: str) -> Pair:
        found = self.find(name_or_id)
        if found is None:
            raise NotFound(f"There is no pair {name_or_id}.", hint=ALL_PAIRS)
        return found

    def recent(self, *, cwd: str | None = None, limit: int = 50) -> list[Pair]:
        """The last used first."""
        return each(pair_from, self._database.all("pairs_newest", cwd=cwd, limit=limit))

    def update(self, pair_id: str, *, at: float, **changes: Any) -> Pair:
        with self._database.transaction():
            stored = self.require(pair_id)
            changed = replace(stored, **changes, updated_at=max(at, stored.updated_at))
            self._database.do("write_pair", **pair_row(changed))
            self._versions.changed(changed.instructor_thread_id)
        return changed

    def rename(self, pair_id: str, name: str, *, hint: str | None) -> Pair:
        """Raises Conflict when the name is taken. `updated_at` stays the same.

        `hint` replaces the hint of the pair's stored error, because that hint may contain the old name.
        """
        with self._database.transaction():
            stored = self.require(pair_id)
            self._check_pair_name(name, stored.id)
            return self.update(stored.id, at=stored.updated_at, name=name, hint=hint)

    def add_round(self, round_: PairRound) -> None:
        self._database.do("insert_pair_round", **round_row(round_))

    def update_round(self, pair_id: str, number: int, **changes: Any) -> PairRound:
        with self._database.transaction():
            stored = first(round_from, self._database.one("pair_round", pair_id=pair_id, number=number))
            if stored is None:
                raise NotFound(f"Pair {pair_id} has no round {number}.")
            changed = replace(stored, **changes)
            self._database.do("write_pair_round", **round_row(changed))
        return changed

    def rounds(self, pair_id: str) -> list[PairRound]:
        return each(round_from, self._database.all("rounds_of_pair", pair_id=pair_id))

    def keep_files(self, pair_id: str, kept: KeptFiles | None) -> None:
        """Replaces what was stored before. None: the state of the files is not known."""
        with self._database.transaction():
            self._database.do("forget_pair_files", pair_id=pair_id)
            if kept is not None:
                self._database.do("keep_pair_files", pair_id=pair_id, **files_row(kept))

    def files(self, pair_id: str) -> KeptFiles | None:
        return first(files_from, self._database.one("pair_files", pair_id=pair_id))

    def adapt_imported(self, tables: Tables) -> None:
        for pair in tables.get("pairs", ()):
            pair["name"] = self.free_name(str(pair.get("name")))

    def read_back(self, thread_id: str) -> None:
        for row in self._database.all("dump_pairs", id=thread_id):
            self.find(row["id"])
            self.rounds(row["id"])
