"""Pairs in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.core.pairs.pair import PAIR_NAME_CHARS
from clew.core.record import replace
from clew.errors import Conflict, NotFound
from clew.store.records import each, first
from clew.store.tables.table import Table

if TYPE_CHECKING:
    from clew.core.pairs.pair import Pair, PairRound
    from clew.store.rows.pairs import KeptFiles

ALL_PAIRS = "`clew pair --list-sessions` shows those of this directory, `clew threads list --kind pair` all."


class PairTable(Table):
    def create(self, pair: Pair, *, unique: bool = True) -> Pair:
        """Under its name, or that name with -2, -3, … when it is taken (`unique=False`: Conflict then)."""
        from clew.store.rows.pairs import pair_row

        with self._database.transaction():
            named = replace(pair, name=self.free_name(pair.name)) if unique else pair
            self._check_pair_name(named.name, named.id)
            if self._database.one("pair_by_id", id=named.id) is not None:
                raise Conflict(f"There is a pair {named.id} already.", hint="clew pair --session goes on with it.")
            self._database.do("insert_pair", **pair_row(named))
        return named

    def free_name(self, name: str) -> str:
        number, candidate = 1, name[:PAIR_NAME_CHARS]
        while any(self._database.one(query, name=candidate) for query in ("pair_by_name", "thread_by_name")):
            number += 1
            suffix = f"-{number}"
            candidate = name[: PAIR_NAME_CHARS - len(suffix)] + suffix
        return candidate

    def _check_pair_name(self, name: str, pair_id: str) -> None:
        """Commands take threads and pairs by name: one name must not lead to both."""
        known = self._database.one("pair_by_name", name=name)
        if known is not None and known["id"] != pair_id:
            raise Conflict(f"There is a pair named {name} already.", hint="Choose another name.")
        if self._database.one("thread_by_name", name=name) is not None:
            raise Conflict(f"There is a thread named {name} already.", hint="Choose another name.")

    def find(self, name_or_id: str) -> Pair | None:
        """By exact id first, then by name."""
        from clew.store.rows.pairs import pair_from

        return first(
            pair_from,
            self._database.one("pair_by_id", id=name_or_id) or self._database.one("pair_by_name", name=name_or_id),
        )

    def of_thread(self, thread_id: str) -> Pair | None:
        from clew.store.rows.pairs import pair_from

        return next(iter(each(pair_from, self._database.all("dump_pairs", id=thread_id))), None)

    def require(self, name_or_id: str) -> Pair:
        found = self.find(name_or_id)
        if found is None:
            raise NotFound(f"There is no pair {name_or_id}.", hint=ALL_PAIRS)
        return found

    def recent(self, *, cwd: str | None = None, limit: int = 50) -> list[Pair]:
        """Those last used come first."""
        from clew.store.rows.pairs import pair_from

        return each(pair_from, self._database.all("pairs_newest", cwd=cwd, limit=limit))

    def update(self, pair_id: str, *, at: float, **changes: Any) -> Pair:
        from clew.store.rows.pairs import pair_row

        with self._database.transaction():
            stored = self.require(pair_id)
            changed = replace(stored, **changes, updated_at=max(at, stored.updated_at))
            self._database.do("write_pair", **pair_row(changed))
            self._versions.changed(changed.instructor_thread_id)
        return changed

    def rename(self, pair_id: str, name: str, *, hint: str | None) -> Pair:
        """A name that is taken: Conflict. `hint`: what to do about its error, which may name it. Its time stays."""
        with self._database.transaction():
            stored = self.require(pair_id)
            self._check_pair_name(name, stored.id)
            return self.update(stored.id, at=stored.updated_at, name=name, hint=hint)

    def add_round(self, round_: PairRound) -> None:
        from clew.store.rows.pairs import round_row

        self._database.do("insert_pair_round", **round_row(round_))

    def update_round(self, pair_id: str, number: int, **changes: Any) -> PairRound:
        from clew.store.rows.pairs import round_from, round_row

        with self._database.transaction():
            stored = first(round_from, self._database.one("pair_round", pair_id=pair_id, number=number))
            if stored is None:
                raise NotFound(f"Pair {pair_id} has no round {number}.")
            changed = replace(stored, **changes)
            self._database.do("write_pair_round", **round_row(changed))
        return changed

    def rounds(self, pair_id: str) -> list[PairRound]:
        from clew.store.rows.pairs import round_from

        return each(round_from, self._database.all("rounds_of_pair", pair_id=pair_id))

    def keep_files(self, pair_id: str, kept: KeptFiles | None) -> None:
        """Instead of what was kept before; None: it is not known."""
        from clew.store.rows.pairs import files_row

        with self._database.transaction():
            self._database.do("forget_pair_files", pair_id=pair_id)
            if kept is not None:
                self._database.do("keep_pair_files", pair_id=pair_id, **files_row(kept))

    def files(self, pair_id: str) -> KeptFiles | None:
        from clew.store.rows.pairs import files_from

        return first(files_from, self._database.one("pair_files", pair_id=pair_id))
