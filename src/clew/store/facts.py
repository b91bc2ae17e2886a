"""Small things worth remembering: what a binary can do, what an agent's default model is."""

from __future__ import annotations

from clew.store.database import Database


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

    def save_fact(self, key: str, value: str) -> None:
        self._do("save_fact", key=key, value=value)
