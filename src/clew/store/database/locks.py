"""The locks of each query on PostgreSQL, as data.

Each query that writes, and each query whose result a transaction depends on, names its locks in a comment:
`-- locks: thread :thread_id`. A write transaction on PostgreSQL takes them before the query and holds them to its end
(strict two-phase locking), so what it has read is still true when it writes. Transactions without a common lock do not
wait for each other. SQLite has one writer at a time, and needs no locks.

The lock of a thread protects everything that belongs to it: `run`, `turn`, `pin` and other kinds lead to the thread's
lock. It also protects the thread's lease, because the key of that lease is the name of the lock. `row` means that the
statement needs no lock, because it is atomic by itself. `commit` means that it runs in the last step of a transaction,
where the version counter admits one transaction at a time.
"""

from __future__ import annotations

import re
from pathlib import Path

from clew.store.database.sql import HERE, NAME

Locks = tuple[tuple[str, str], ...]  # kinds of locks, each with the parameter that has its value

ROW, COMMIT = "row", "commit"

# By kind: the beginning of the lock's name; the rest is the value of the parameter.
PREFIXES: dict[str, str] = {
    "thread": "thread/",
    "lease": "",  # so the lease `thread/…` has the lock of that thread
    "leases": "leases/",  # all slots of one prefix
    "name": "name/",  # of a thread or a pair: they share one namespace
    "session": "session/",  # protects which thread owns the session
    "day": "review-day/",  # protects the number of the next review
    "pair": "pair/",
    "hook": "hook/",
    "hook_key": "hook-key/",
    "delivery": "delivery/",  # of a forge's message: each is handled once
    "digest": "digest/",
    "key_value": "fact/",
}

# By kind: a query that selects the name of the lock, or no row. {} is the value of the parameter.
OF_THREAD: dict[str, str] = {  # a row never moves to another thread, so the name of its lock never changes
    "run": "SELECT 'thread/' || thread_id FROM runs WHERE id = {}",
    "turn": "SELECT 'thread/' || thread_id FROM turns WHERE id = {}",
    "pin": "SELECT 'thread/' || thread_id FROM pins WHERE id = {}",
    "job": "SELECT 'thread/' || thread_id FROM jobs WHERE id = {}",
    "review": "SELECT 'thread/' || thread_id FROM reviews WHERE id = {}",
    "attempt": (
        "SELECT 'thread/' || runs.thread_id FROM attempts JOIN runs ON runs.id = attempts.run_id WHERE attempts.id = {}"
    ),
}
LOOKED_UP: dict[str, str] = OF_THREAD | {
    "session_of_pin": "SELECT 'session/' || session_id FROM pins WHERE id = {}",
    "key_of_job": "SELECT 'job-key/' || key FROM jobs WHERE id = {}",  # protects which job of the key is next
}

_LOCKS = re.compile(r"^-- locks: (.+)$", re.MULTILINE)


def declared(folder: Path = HERE / "queries") -> dict[str, str]:
    """By query: the text of its `-- locks:` comment."""
    found = {}
    for file in folder.rglob("*.sql"):
        _, *parts = NAME.split(file.read_text("utf-8"))
        for name, block in zip(parts[::2], parts[1::2], strict=True):
            words = _LOCKS.search(block)
            if words is not None:
                found[name] = words[1]
    return found


def by_query() -> dict[str, Locks]:
    """The locks that each query needs before it runs."""
    return {
        name: tuple((kind, parameter.removeprefix(":")) for kind, parameter in map(str.split, words.split(", ")))
        for name, words in declared().items()
        if words not in (ROW, COMMIT)
    }
