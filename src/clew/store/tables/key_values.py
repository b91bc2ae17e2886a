"""Small stored values: what a binary can do, an agent's default model, answers to idempotent requests."""

from __future__ import annotations

from clew.store.records import StoredRequest
from clew.store.tables.table import Table


class KeyValueTable(Table):
    def probe(self, path: str, stamp: str) -> str | None:
        """The stored abilities of the binary, if its stamp has not changed since."""
        row = self._database.one("probe", path=path, stamp=stamp)
        return None if row is None else str(row["body"])

    def save_probe(self, path: str, stamp: str, body: str, at: float) -> None:
        """Replaces the abilities that were stored with an earlier stamp."""
        self._database.do("save_probe", path=path, stamp=stamp, body=body, at=at)

    def get(self, key: str) -> str | None:
        row = self._database.one("key_value", key=key)
        return None if row is None else str(row["value"])

    def peek(self, key: str) -> str | None:
        """Like `get`, but without a lock: another process may change the value at any time."""
        row = self._database.one("key_value_unlocked", key=key)
        return None if row is None else str(row["value"])

    def set(self, key: str, value: str) -> None:
        self._database.do("save_key_value", key=key, value=value)

    def claim_request(self, key: str, sent: str, made_id: str, *, at: float, since: float) -> StoredRequest:
        """Returns the stored request of that key, or stores this one. Requests from before `since` are deleted.

        The returned request is the new one if it has the given `made_id`.
        """
        with self._database.transaction():
            self._database.do("forget_requests", before=since)
            self._database.do("claim_request", key=key, sent=sent, made_id=made_id, created_at=at)
            row = self._database.one("request", key=key)
            assert row is not None
            return StoredRequest(**{name: row[name] for name in StoredRequest._fields})

    def finish_request(self, key: str, status: int, location: str | None, answer: str) -> None:
        self._database.do("finish_request", key=key, status=status, location=location, answer=answer)

    def release_request(self, key: str) -> None:
        """Deletes a request that made nothing, so that its key can be used again. An answered request is kept."""
        self._database.do("release_request", key=key)
