"""Leases: who may do something alone, on any machine (law 5), and counting slots made of them.

A lease is a row with a token and an expiry. Taking one is a single statement, so two cannot both get it. A holder that
lives renews before it expires; a holder that lost it learns so from `renew_lease`, and must stop. The token is the
fence: each holder brings a new one, and one token holds one lease. Times come from the caller, who has them from
`time`: machines that share a store need not agree on the time.
"""

from __future__ import annotations

from collections.abc import Callable

from clew.core.runs.run import Owner
from clew.store.records import Lease, each, first, lease_from
from clew.store.tables.table import Table


class LeaseTable(Table):
    def time(self, own: Callable[[], float]) -> float:
        """By the clock that all users of the store share: the server's, or `own` where all are on one machine."""
        told = self._database.time()
        return own() if told is None else told

    def acquire(
        self, key: str, *, token: str, owner: Owner, run_id: str | None, now: float, ttl_s: float
    ) -> Lease | None:
        """The lease when it was free, expired, or this token's own already; None when somebody holds it."""
        lease = Lease(key, token, owner, run_id, now, now, now + ttl_s)
        return lease if self._database.do("acquire_lease", key=key, **_holder(lease)) else None

    def take(
        self, key: str, *, old_token: str, token: str, owner: Owner, run_id: str | None, now: float, ttl_s: float
    ) -> Lease | None:
        """Take it from a holder known to be dead; None when it is no longer that holder's (or was released)."""
        lease = Lease(key, token, owner, run_id, now, now, now + ttl_s)
        return lease if self._database.do("take_lease", key=key, old_token=old_token, **_holder(lease)) else None

    def acquire_slot(
        self, prefix: str, limit: int, *, token: str, owner: Owner, run_id: str | None, now: float, ttl_s: float
    ) -> Lease | None:
        """One of `prefix/0` … `prefix/limit-1` that nobody has, or else one that is over; None when all are held."""
        with self._database.transaction():
            held = {lease.key: lease for lease in self.under(f"{prefix}/")}
            mine = [lease.key for lease in held.values() if lease.token == token]
            keys = slot_keys(prefix, limit)
            expired = [key for key in keys if key in held and held[key].expires_at <= now]
            free = [*mine, *(key for key in keys if key not in held), *expired]
            if not free:
                return None
            return self.acquire(free[0], token=token, owner=owner, run_id=run_id, now=now, ttl_s=ttl_s)

    def renew(self, token: str, now: float, ttl_s: float) -> bool:
        """False: it is lost, and what it guarded is somebody else's now."""
        return self._database.do("renew_lease", token=token, now=now, expires_at=now + ttl_s) > 0

    def release(self, token: str) -> bool:
        """False: it was lost before."""
        return self._database.do("release_lease", token=token) > 0

    def find(self, key: str) -> Lease | None:
        """Expired ones too: `expires_at` tells."""
        return first(lease_from, self._database.one("lease_by_key", key=key))

    def under(self, prefix: str = "") -> list[Lease]:
        """All whose key begins so, expired ones too."""
        return each(lease_from, self._database.all("leases_under", prefix=prefix))


def slot_keys(prefix: str, limit: int) -> list[str]:
    return [f"{prefix}/{number}" for number in range(limit)]


def _holder(lease: Lease) -> dict[str, object]:
    return {
        "token": lease.token,
        "host": lease.owner.host,
        "pid": lease.owner.pid,
        "pid_started": lease.owner.started,
        "run_id": lease.run_id,
        "now": lease.acquired_at,
        "expires_at": lease.expires_at,
    }
