"""Leases and slots: held by one, lost when they expire."""

from __future__ import annotations

import time
from typing import Any

from clew.errors import UsageError
from clew.store.store import Store
from clew.testing.store_contract.samples import OTHER, OWNER, raises


class LeaseContract:
    def test_time_goes_forward_for_all_alike(self, store: Store) -> None:
        """By a clock that all users of the store share, inside a transaction and outside."""
        before = store.time(time.time)
        with store.transaction():
            inside = store.time(time.time)
        assert before <= inside <= store.time(time.time)

    def test_a_lease_is_held_by_one(self, store: Store) -> None:
        held = store.acquire_lease("key", token="t-1", owner=OWNER, run_id="run-1", now=100.0, ttl_s=10.0)
        assert held is not None and held == store.lease("key")
        assert (held.owner, held.run_id, held.acquired_at, held.expires_at) == (OWNER, "run-1", 100.0, 110.0)
        assert store.acquire_lease("key", token="t-2", owner=OTHER, run_id=None, now=109.0, ttl_s=10.0) is None
        assert store.lease("key") == held
        assert store.acquire_lease("key", token="t-1", owner=OWNER, run_id="run-1", now=101.0, ttl_s=10.0) is not None
        assert store.release_lease("t-1") and not store.release_lease("t-1")
        assert store.lease("key") is None
        assert store.acquire_lease("key", token="t-2", owner=OTHER, run_id=None, now=109.0, ttl_s=10.0) is not None

    def test_an_expired_lease_is_lost_once_another_takes_it(self, store: Store) -> None:
        store.acquire_lease("key", token="t-1", owner=OWNER, run_id=None, now=100.0, ttl_s=10.0)
        assert store.renew_lease("t-1", 111.0, 10.0)  # late, but nobody took it
        assert store.acquire_lease("key", token="t-2", owner=OTHER, run_id=None, now=120.0, ttl_s=10.0) is None
        assert store.acquire_lease("key", token="t-2", owner=OTHER, run_id=None, now=121.0, ttl_s=10.0) is not None
        assert not store.renew_lease("t-1", 122.0, 10.0) and not store.release_lease("t-1")
        lease = store.lease("key")
        assert lease is not None and (lease.token, lease.owner) == ("t-2", OTHER)

    def test_a_dead_holders_lease_is_taken_only_while_it_is_still_his(self, store: Store) -> None:
        store.acquire_lease("key", token="t-1", owner=OWNER, run_id=None, now=100.0, ttl_s=99.0)
        terms: dict[str, Any] = {"owner": OTHER, "run_id": None, "now": 101.0, "ttl_s": 10.0}
        taken = store.take_lease("key", old_token="t-1", token="t-2", **terms)
        assert taken is not None and store.lease("key") == taken and taken.token == "t-2"
        assert store.take_lease("key", old_token="t-1", token="t-3", **terms) is None
        assert not store.renew_lease("t-1", 102.0, 10.0) and store.renew_lease("t-2", 102.0, 10.0)
        with raises(UsageError):  # one token, one lease
            store.acquire_lease("other", token="t-2", **terms)

    def test_slots_are_counted(self, store: Store) -> None:
        terms: dict[str, Any] = {"owner": OWNER, "run_id": None, "ttl_s": 10.0}
        store.acquire_lease("agents", token="no slot", now=100.0, **terms)
        store.acquire_lease("agents-of-others/0", token="not ours", now=100.0, **terms)
        got = [store.acquire_slot("agents", 2, token=f"t-{n}", now=100.0 + n, **terms) for n in range(3)]
        assert [lease and lease.key for lease in got] == ["agents/0", "agents/1", None]
        again = store.acquire_slot("agents", 2, token="t-1", now=102.0, **terms)
        assert again is not None and again.key == "agents/1"
        assert [lease.key for lease in store.leases("agents/")] == ["agents/0", "agents/1"]
        freed = store.acquire_slot("agents", 2, token="t-9", now=110.0, **terms)
        assert freed is not None and freed.key == "agents/0"
        assert len(store.leases()) == 4
