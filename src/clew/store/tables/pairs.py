"""Pairs in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.core.record import replace
from clew.errors import Conflict, NotFound
from clew.store.records import each, first
from clew.store.versions import Versions

if TYPE_CHECKING:
    from clew.core.pair import Pair, Round
    from clew.store.pair_rows import KeptFiles

NAME_CHARS = 60  # the names of its threads are longer
ALL_PAIRS = "`clew pair --list-sessions` shows those of this directory, `clew threads list --kind pair` all."


class Pairs(Versions):
    def create_pair(self, pair: Pair, *, unique: bool = True) -> Pair:
        """Under its name, or that name with -2, -3, … when it is taken (`unique=False`: Conflict then)."""
        from clew.store.pair_rows import pair_row

        with self.transaction():
            named = replace(pair, name=self._free_pair_name(pair.name)) if unique else pair
            self._check_pair_name(named.name, named.id)
            if self._one("pair_by_id", id=named.id) is not None:
                raise Conflict(f"There is a pair {named.id} already.", hint="clew pair --session goes on with it.")
            self._do("insert_pair", **pair_row(named))
        return named

    def _free_pair_name(self, name: str) -> str:
        number, candidate = 1, name[:NAME_CHARS]
        while any(self._one(query, name=candidate) for query in ("pair_by_name", "thread_by_name")):
            number += 1
            suffix = f"-{number}"
            candidate = name[: NAME_CHARS - len(suffix)] + suffix
        return candidate

    def _check_pair_name(self, name: str, pair_id: str) -> None:
        """Commands take threads and pairs by name: one name must not lead to both."""
        known = self._one("pair_by_name", name=name)
        if known is not None and known["id"] != pair_id:
            raise Conflict(f"There is a pair named {name} already.", hint="Choose another name.")
        if self._one("thread_by_name", name=name) is not None:
            raise Conflict(f"There is a thread named {name} already.", hint="Choose another name.")

    def pair(self, name_or_id: str) -> Pair | None:
        """By exact id first, then by name."""
        from clew.store.pair_rows import pair_from

        return first(pair_from, self._one("pair_by_id", id=name_or_id) or self._one("pair_by_name", name=name_or_id))

    def pair_of_thread(self, thread_id: str) -> Pair | None:
        from clew.store.pair_rows import pair_from

        return next(iter(each(pair_from, self._all("dump_pairs", id=thread_id))), None)

    def require_pair(self, name_or_id: str) -> Pair:
        found = self.pair(name_or_id)
        if found is None:
            raise NotFound(f"There is no pair {name_or_id}.", hint=ALL_PAIRS)
        return found

    def pairs(self, *, cwd: str | None = None, limit: int = 50) -> list[Pair]:
        """Those last used come first."""
        from clew.store.pair_rows import pair_from

        return each(pair_from, self._all("pairs_newest", cwd=cwd, limit=limit))

    def update_pair(self, pair_id: str, *, at: float, **changes: Any) -> Pair:
        from clew.store.pair_rows import pair_row

        with self.transaction():
            stored = self.require_pair(pair_id)
            changed = replace(stored, **changes, updated_at=max(at, stored.updated_at))
            self._do("write_pair", **pair_row(changed))
            self._changed(changed.instructor_thread_id)
        return changed

    def rename_pair(self, pair_id: str, name: str, *, hint: str | None) -> Pair:
        """A name that is taken: Conflict. `hint`: what to do about its error, which may name it. Its time stays."""
        with self.transaction():
            stored = self.require_pair(pair_id)
            self._check_pair_name(name, stored.id)
            return self.update_pair(stored.id, at=stored.updated_at, name=name, hint=hint)

    def add_pair_round(self, round_: Round) -> None:
        from clew.store.pair_rows import round_row

        self._do("insert_pair_round", **round_row(round_))

    def update_pair_round(self, pair_id: str, number: int, **changes: Any) -> Round:
        from clew.store.pair_rows import round_from, round_row

        with self.transaction():
            stored = first(round_from, self._one("pair_round", pair_id=pair_id, number=number))
            if stored is None:
                raise NotFound(f"Pair {pair_id} has no round {number}.")
            changed = replace(stored, **changes)
            self._do("write_pair_round", **round_row(changed))
        return changed

    def pair_rounds(self, pair_id: str) -> list[Round]:
        from clew.store.pair_rows import round_from

        return each(round_from, self._all("rounds_of_pair", pair_id=pair_id))

    def keep_pair_files(self, pair_id: str, kept: KeptFiles | None) -> None:
        """Instead of what was kept before; None: it is not known."""
        from clew.store.pair_rows import files_row

        with self.transaction():
            self._do("forget_pair_files", pair_id=pair_id)
            if kept is not None:
                self._do("keep_pair_files", pair_id=pair_id, **files_row(kept))

    def pair_files(self, pair_id: str) -> KeptFiles | None:
        from clew.store.pair_rows import files_from

        return first(files_from, self._one("pair_files", pair_id=pair_id))
