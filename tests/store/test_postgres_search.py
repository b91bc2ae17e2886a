"""How PostgreSQL searches turns: by the index of words if there are few hits, and in order if there are many."""

from __future__ import annotations

import pytest

from clew.store import open_store
from clew.testing.postgres import PostgresServer

pytestmark = pytest.mark.rest

TURNS = 20_000
OTHERS = " ".join(f"f{number}" for number in range(40))
FILL = f"""
INSERT INTO threads (id, name, cwd, agent, permissions, trust, visibility, kind, created_at, updated_at)
SELECT 't' || n, 't' || n, '/', 'claude', 'ask', 'user', 'shared', 'chat', n, n
FROM generate_series(1, {TURNS}) AS n;
INSERT INTO turns (id, thread_id, position, role, text, partial, revision, created_at)
SELECT 'turn-' || n, 't' || n, 1, 'user',
    'everywhere w' || n % 50 || ' {OTHERS}' || CASE WHEN n = 3 THEN ' needle' ELSE '' END, 0, 0, n
FROM generate_series(1, {TURNS}) AS n
"""


def test_neither_a_rare_word_nor_a_common_one_reads_every_turn(postgres: PostgresServer) -> None:
    import psycopg

    url = postgres.new_store()
    with open_store(url) as store:
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in FILL.split(";"):
                connection.execute(statement)  # type: ignore[call-overload, unused-ignore]
            connection.execute("VACUUM ANALYZE")  # the server does this by itself after a while
        assert [hit.turn_id for hit in store.search.turns("needle")] == ["turn-3"]
        assert [hit.turn_id for hit in store.search.turns("everywhere", limit=2)] == [
            f"turn-{TURNS}",
            f"turn-{TURNS - 1}",
        ]
        assert [hit.turn_id for hit in store.search.turns("w7", limit=2, offset=1)] == ["turn-19907", "turn-19857"]
        asked = {"archived": 0, "chars": 1000, "kind": None, "below": None, "agent": None, "limit": 20, "offset": 0}
        for word in ("needle", "nowhere", "everywhere"):
            with psycopg.connect(url) as connection:
                query = f"EXPLAIN (ANALYZE, FORMAT JSON) {store.database._sql['search']}"
                [(plan,)] = connection.execute(query, asked | {"words": word})  # type: ignore[call-overload, unused-ignore]
            assert _rows_read(plan[0]["Plan"]) < 10_000, word


def _rows_read(plan: dict[str, object]) -> float:
    """The rows that all steps of the plan read, including those that a filter removed."""
    own = sum(float(str(plan.get(key, 0))) for key in ("Actual Rows", "Rows Removed by Filter"))
    below = plan.get("Plans", [])
    assert isinstance(below, list)
    return own * float(str(plan["Actual Loops"])) + sum(_rows_read(each) for each in below)
