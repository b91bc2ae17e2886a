"""The first page of a list and of a search, over 1,000 and over 100,000 threads in one run.

Both stores are filled by SQL with threads of four turns each, and indexed by the usual triggers. A page that an index
finds takes the same time in both; any additional time is spent on rows that have to be sorted or skipped. A word that
is in every turn is the hardest for a search, a word that is in a single turn the easiest.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.report import Check, Column, Result, Table
from bench.timing import tell
from clew.store.store import Store, open_store

SMALL, LARGE = 1_000, 100_000
TURNS = 4
RARE, COMMON = "needle", "everywhere"
KINDS = ("chat", "chat", "chat", "chat", "pair", "review", "job", "hook")
MAX_RATIO = 20.0  # of the times, with a hundred times as many threads

WAYS: dict[str, Callable[[Store], object]] = {
    "list, last used": lambda store: store.search.threads(),
    "list, of one kind": lambda store: store.search.threads(kind="pair"),
    "list, the largest": lambda store: store.search.threads(sort="size"),
    "list, the dearest": lambda store: store.search.threads(sort="cost"),
    "list, older than": lambda store: store.search.threads(used_before=500.0),
    "search, a rare word": lambda store: store.search.turns(RARE),
    "search, a word in every turn": lambda store: store.search.turns(COMMON),
    "search, two words": lambda store: store.search.turns(f"{COMMON} w7*"),
    "search, a phrase": lambda store: store.search.turns(f'"{COMMON} and then"'),
    "search, of one kind": lambda store: store.search.turns(COMMON, kind="hook"),
    "search, of an agent without threads": lambda store: [store.search.turns(COMMON, agent="codex")],
    "list, a part of a word that is nowhere": lambda store: [store.search.threads(q="nowhere")],
}


def measure(quick: bool) -> Result:
    small, large, rounds = (100, 2_000, 5) if quick else (SMALL, LARGE, 30)
    with tempfile.TemporaryDirectory() as folder:
        stores = []
        try:
            for size in (small, large):
                tell(f"  {size:,} threads")
                stores.append(filled(Path(folder) / f"{size}.db", size))
            rows = [_timed(name, way, stores, rounds) for name, way in WAYS.items()]
        finally:
            for store in stores:
                store.close()
    table = Table(
        f"The first page, ms (the fastest of {rounds}: noise only adds), {TURNS} turns a thread, SQLite",
        [
            Column("what"),
            Column(f"{small:,} threads", ".2f"),
            Column(f"{large:,} threads", ".2f"),
            Column("ratio", ".1f"),
        ],
        rows,
    )
    plain = max(float(row[3]) for row in rows if row[0] in ("list, last used", "search, a rare word"))
    return Result(
        "threads", [table], [Check("the plain list's and the rare word's ratio", plain, MAX_RATIO, timed=True)]
    )


def _timed(name: str, way: Callable[[Store], object], stores: list[Store], rounds: int) -> tuple[object, ...]:
    """The two take turns, so that other load on the machine affects both."""
    times: list[list[float]] = [[] for _ in stores]
    for _ in range(rounds + 1):
        for store, taken in zip(stores, times, strict=True):
            began = time.perf_counter()
            found = way(store)
            taken.append(time.perf_counter() - began)
            assert found, name
    before, after = (min(taken[1:]) * 1000 for taken in times)  # the first call warms up the caches
    return name, before, after, after / before


def filled(path: Path, size: int) -> Store:
    """A new store with that many threads. The caller closes it."""
    store = open_store(path)
    chance = random.Random(7)
    words = [f"w{number}" for number in range(5_000)]
    with store.transaction():
        run = store.database.session().connection.executemany
        run(
            "INSERT INTO threads (id, name, cwd, agent, model, permissions, trust, visibility, kind, created_at,"
            " updated_at)"
            " VALUES (?, ?, ?, 'claude', 'model', 'ask', 'user', 'shared', ?, ?, ?)",
            (
                (f"t{n}", f"thread-{n}", f"/project/{n % 50}", KINDS[n % len(KINDS)], n, n * 1000.0 / size)
                for n in range(size)
            ),
        )
        run(
            "INSERT INTO turns (id, thread_id, position, role, text, partial, revision, created_at)"
            " VALUES (?, ?, ?, ?, ?, 0, 0, ?)",
            (
                (f"t{n}-{place}", f"t{n}", place, ("assistant", "user")[place % 2], _text(chance, words, n, place), n)
                for n in range(size)
                for place in range(1, TURNS + 1)
            ),
        )
        run(
            "INSERT INTO runs (id, thread_id, position, prompt_turn_id, prompt, agent, status, session_resumed,"
            " fallback, input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens, cost_usd,"
            " prompt_chars, transcript_chars, cancel_requested, created_at)"
            " VALUES (?, ?, 1, ?, 'x', 'claude', 'answered', 0, 0, 0, 0, 0, 0, ?, 0, 0, 0, ?)",
            ((f"r{n}", f"t{n}", f"t{n}-1", chance.random(), n) for n in range(size)),
        )
    return store


def _text(chance: random.Random, words: list[str], number: int, place: int) -> str:
    rare = f" {RARE}" if (number, place) == (3, 1) else ""
    return f"{COMMON} and then {' '.join(chance.choices(words, k=40))}{rare}"
