"""Requests with a key: what they were answered, and the id that is given to what they make."""

from __future__ import annotations

from clew.store.database import Database
from clew.store.records import Request


class Requests(Database):
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
