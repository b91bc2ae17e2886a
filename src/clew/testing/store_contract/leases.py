"""Leases and slots: each has one holder, which keeps it after it expires until another takes it."""

from __future__ import annotations

import time
from typing import Any

from clew.errors import UsageError
from clew.store.store import Store
from clew.testing.store_contract.samples import OTHER, OWNER, raises


class LeaseContract:
    def test_all_users_of_the_store_share_one_clock(self, store: Store) -> None:
        """The clock is the same inside a transaction and outside."""
        before = store.leases.time(time.time)
        with store.transaction():
            inside = store.leases.time(time.time)
        assert before <= inside <= store.leases.time(time.time)

    def test_a_lease_has_one_holder(self, store: Store) -> None:
        held = store.leases.acquire("key", token="t-1", owner=OWNER, run_id="run-1", now=100.0, ttl_s=10.0)
        assert held is not None and held == store.leases.find("key")
        assert (held.owner, held.run_id, held.acquired_at, held.expires_at) == (OWNER, "run-1", 100.0, 110.0)
        assert store.leases.acquire("key", token="t-2", owner=OTHER, run_id=None, now=109.0, ttl_s=10.0) is None
        assert store.leases.find("key") == held
        assert store.leases.acquire("key", token="t-1", owner=OWNER, run_id="run-1", now=101.0, ttl_s=10.0) is not None
        assert store.leases.release("t-1") and not store.leases.release("t-1")
        assert store.leases.find("key") is None
        assert store.leases.acquire("key", token="t-2", owner=OTHER, run_id=None, now=109.0, ttl_s=10.0) is not None

    def test_an_expired_lease_is_lost_once_another_takes_it(self, store: Store) -> None:
        store.leases.acquire("key", token="t-1", owner=OWNER, run_id=None, now=100.0, ttl_s=10.0)
        assert store.leases.renew("t-1", 111.0, 10.0)  # it had expired, but nobody had taken it
        assert store.leases.acquire("key", token="t-2", owner=OTHER, run_id=None, now=120.0, ttl_s=10.0) is None
        assert store.leases.acquire("key", token="t-2", owner=OTHER, run_id=None, now=121.0, ttl_s=10.0) is not None
        assert not store.leases.renew("t-1", 122.0, 10.0) and not store.leases.release("t-1")
        lease = store.leases.find("key")
        assert lease is not None and (lease.token, lease.owner) == ("t-2", OTHER)

    def test_the_lease_of_a_dead_holder_is_taken_only_while_it_still_holds_it(self, store: Store) -> None:
        store.leases.acquire("key", token="t-1", owner=OWNER, run_id=None, now=100.0, ttl_s=99.0)
        terms: dict[str, Any] = {"owner": OTHER, "run_id": None, "now": 101.0, "ttl_s": 10.0}
        taken = store.leases.take("key", old_token="t-1", token="t-2", **terms)
        assert taken is not None and store.leases.find("key") == taken and taken.token == "t-2"
        assert store.leases.take("key", old_token="t-1", token="t-3", **terms) is None
        assert not store.leases.renew("t-1", 102.0, 10.0) and store.leases.renew("t-2", 102.0, 10.0)
        with raises(UsageError):  # a token can hold only one lease
            store.leases.acquire("other", token="t-2", **terms)

    def test_slots_are_counted(self, store: Store) -> None:
        terms: dict[str, Any] = {"owner": OWNER, "run_id": None, "ttl_s": 10.0}
        store.leases.acquire("agents", token="no slot", now=100.0, **terms)
        store.leases.acquire("agents-of-others/0", token="not ours", now=100.0, **terms)
        got = [store.leases.acquire_slot("agents", 2, token=f"t-{n}", now=100.0 + n, **terms) for n in range(3)]
        assert [lease and lease.key for lease in got] == ["agents/0", "agents/1", None]
        again = store.leases.acquire_slot("agents", 2, token="t-1", now=102.0, **terms)
        assert again is not None and again.key == "agents/1"
        assert [lease.key for lease in store.leases.under("agents/")] == ["agents/0", "agents/1"]
        freed = store.leases.acquire_slot("agents", 2, token="t-9", now=110.0, **terms)
        assert freed is not None and freed.key == "agents/0"
        assert len(store.leases.under()) == 4
