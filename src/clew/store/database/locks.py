"""What a query reads or writes that others may change at the same time: the lock that guards it, as data.

Each query that writes, and each that reads what a transaction goes by, names its locks in a comment of its own:
`-- locks: thread :thread_id`. A write transaction on PostgreSQL takes them before the query and keeps them to its end
(strict two-phase locking), so whatever it has read is still true when it writes. Two transactions with nothing in
common do not meet. SQLite has one writer at a time, and needs none of them.

Everything that belongs to a thread is under the lock of the thread: `run`, `turn`, `pin` and the others lead to it. The
lease of a thread is under it as well, since the key of that lease is the name of the lock. `row` says that the
statement by itself is enough; `commit` that it runs in the last step of a transaction, where the counter of versions
lets in one at a time.
"""

from __future__ import annotations

import re
from pathlib import Path

from clew.store.database.sql import HERE, NAME

Locks = tuple[tuple[str, str], ...]  # kinds, each with the parameter that says which one

ROW, COMMIT = "row", "commit"

# By kind: how the name of the lock begins; the parameter's value is the rest of it.
PREFIXES: dict[str, str] = {
    "thread": "thread/",
    "lease": "",  # `thread/…` is the thread's own
    "leases": "leases/",  # all slots of one prefix
    "name": "name/",  # of a thread or of a pair: they share one space
    "session": "session/",  # which thread owns it
    "day": "review-day/",  # the number of the next review
    "pair": "pair/",
    "hook": "hook/",
    "hook_key": "hook-key/",
    "delivery": "delivery/",  # told once
    "digest": "digest/",
    "key_value": "fact/",
}

# By kind: what selects the name of the lock, or nothing where there is no such row. {} is the parameter's value.
OF_THREAD: dict[str, str] = {  # a row never goes over to another thread, so its lock's name is known for good
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
    "key_of_job": "SELECT 'job-key/' || key FROM jobs WHERE id = {}",  # whose turn it is
}

_LOCKS = re.compile(r"^-- locks: (.+)$", re.MULTILINE)


def declared(folder: Path = HERE / "queries") -> dict[str, str]:
    """By query: what its comment says."""
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
