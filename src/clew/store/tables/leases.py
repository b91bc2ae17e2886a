"""The table of leases: the exclusive right to do something, on any machine (law 5), and numbered slots made of leases.

A lease is a row with a token and an expiry. Acquiring it is a single statement, so two processes cannot both get it. A
live holder renews it before it expires. A holder that has lost its lease learns so from `renew`, and must stop. The
token is the fence: each holder has a new token, and one token holds one lease. Times come from the caller, which gets
them from `time`, so machines that share a store need not have the same clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict, Unpack

from clew.core.runs.run import Owner
from clew.store.records import Lease, each, first, lease_from, process_columns
from clew.store.tables.table import Table


class LeaseTerms(TypedDict):
    """Who wants a lease, and for how long."""

    token: str
    owner: Owner
    run_id: str | None
    now: float
    ttl_s: float


class LeaseTable(Table):
    def time(self, own: Callable[[], float]) -> float:
        """The time on the clock that all users of the store share: the server's, or `own` if there is no server."""
        told = self._database.time()
        return own() if told is None else told

    def acquire(self, key: str, **terms: Unpack[LeaseTerms]) -> Lease | None:
        """The lease, if it was free, expired, or held by this token already. None: another token holds it."""
        return self._write("acquire_lease", key, terms)

    def take(self, key: str, *, old_token: str, **terms: Unpack[LeaseTerms]) -> Lease | None:
        """Takes the lease from a dead holder. None: that holder no longer has it."""
        return self._write("take_lease", key, terms, old_token=old_token)

    def acquire_slot(self, prefix: str, limit: int, **terms: Unpack[LeaseTerms]) -> Lease | None:
        """One of `prefix/0` … `prefix/limit-1` that is free, or else one that has expired. None: all are held."""
        with self._database.transaction():
            held = {lease.key: lease for lease in self.under(f"{prefix}/")}
            mine = [lease.key for lease in held.values() if lease.token == terms["token"]]
            keys = slot_keys(prefix, limit)
            expired = [key for key in keys if key in held and held[key].expires_at <= terms["now"]]
            free = [*mine, *(key for key in keys if key not in held), *expired]
            return self.acquire(free[0], **terms) if free else None

    def _write(self, query: str, key: str, terms: LeaseTerms, **more: str) -> Lease | None:
        now = terms["now"]
        lease = Lease(key, terms["token"], terms["owner"], terms["run_id"], now, now, now + terms["ttl_s"])
        taken = self._database.do(
            query,
            key=key,
            token=lease.token,
            **process_columns(lease.owner),
            run_id=lease.run_id,
            now=now,
            expires_at=lease.expires_at,
            **more,
        )
        return lease if taken else None

    def renew(self, token: str, now: float, ttl_s: float) -> bool:
        """False: the lease is lost, and another process may hold it now."""
        return self._database.do("renew_lease", token=token, now=now, expires_at=now + ttl_s) > 0

    def release(self, token: str) -> bool:
        """False: the lease was lost before."""
        return self._database.do("release_lease", token=token) > 0

    def find(self, key: str) -> Lease | None:
        """The lease of that key, also if it has expired (see `expires_at`)."""
        return first(lease_from, self._database.one("lease_by_key", key=key))

    def under(self, prefix: str = "") -> list[Lease]:
        """All leases whose key begins with the prefix, expired ones too."""
        return each(lease_from, self._database.all("leases_under", prefix=prefix))


def slot_keys(prefix: str, limit: int) -> list[str]:
    return [f"{prefix}/{number}" for number in range(limit)]
