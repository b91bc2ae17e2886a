"""Small things worth remembering: what a binary can do, an agent's default model, how a request was answered."""

from __future__ import annotations

from clew.store.database import Database
from clew.store.records import Request


class Facts(Database):
    def probe(self, path: str, stamp: str) -> str | None:
        """What was found out about the binary, if it still bears that stamp."""
        row = self._one("probe", path=path, stamp=stamp)
        return None if row is None else str(row["body"])

    def save_probe(self, path: str, stamp: str, body: str, at: float) -> None:
        """Replaces what was known of an earlier stamp."""
        self._do("save_probe", path=path, stamp=stamp, body=body, at=at)

    def fact(self, key: str) -> str | None:
        row = self._one("fact", key=key)
        return None if row is None else str(row["value"])

    def fact_seen(self, key: str) -> str | None:
        """As `fact`, of one that others may change meanwhile: nobody waits for it, and nothing may depend on it."""
        row = self._one("fact_seen", key=key)
        return None if row is None else str(row["value"])

    def save_fact(self, key: str, value: str) -> None:
        self._do("save_fact", key=key, value=value)

    def claim_request(self, key: str, sent: str, made_id: str, *, at: float, since: float) -> Request:
        """The request of that key: the one that is there already, or this one. Those from before `since` are deleted.

        It is this one when its `made_id` is the given one.
        """
        with self.transaction():
            self._do("forget_requests", before=since)
            self._do("claim_request", key=key, sent=sent, made_id=made_id, created_at=at)
            row = self._one("request", key=key)
            assert row is not None
            return Request(**{name: row[name] for name in Request._fields})

    def finish_request(self, key: str, status: int, location: str | None, answer: str) -> None:
        self._do("finish_request", key=key, status=status, location=location, answer=answer)

    def release_request(self, key: str) -> None:
        """Nothing came of it: the key may be used again. One that was answered stays."""
        self._do("release_request", key=key)
