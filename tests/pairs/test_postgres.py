"""A pair in PostgreSQL: run, archived and restored."""

from __future__ import annotations

import pytest

from clew.core.pairs.pair import PairStatus
from clew.hosts.pairs.naming import rename
from clew.hosts.transfer.export import export_thread
from clew.hosts.transfer.export_file import read_export
from clew.hosts.transfer.imports import import_thread
from clew.testing.postgres import PostgresServer
from clew.testing.stage import Stage
from pairs.couple import TASK, Couple, carried_out, resumed, run

pytestmark = pytest.mark.rest


async def test_a_pair_works_in_postgresql_as_in_sqlite(scripted: Stage, postgres: PostgresServer) -> None:
    couple = Couple(scripted, rounds=2)
    url = postgres.new_database()
    done = run(scripted, TASK, "--name", "six", "-r", "1", CLEW_STORE=url)
    assert done.returncode == 1, done.stderr.decode()
    async with scripted.open(store=url) as client:
        first = await client.pairs.find("six")
        state = await resumed(client, first.pair, "u7z Go on.", more_rounds=3)
        assert (state.status, len(state.rounds)) == (PairStatus.FINISHED, 3), state.pair.error
        await couple.check_shown(client, state.pair)
        assert (await rename(client.engine, "six", "seven")) is not None
        forked = await client.fork("seven", at_round=1)
        hits = await client.engine.store.call(lambda store: store.search.turns("report", kind="pair"))
        assert {hit.thread.name for hit in hits} >= {"pair-seven-worker", f"pair-{forked.pair}-worker"}
        content = (await export_thread(client.engine, "seven", {})).content
        await client.archives.archive("seven")
        assert [each.pair.name for each in await client.pairs.list()] == [forked.pair]
        await client.archives.restore("seven")
        back = await client.pairs.find("seven")
        assert (back.pair.id, len(back.rounds)) == (state.pair.id, 3)
        again = await resumed(client, back.pair, "u8z And more.")
        assert again.status is PairStatus.FINISHED, again.pair.error
        copy = await import_thread(client.engine, read_export(content), cwd=str(scripted.work), name="copy")
        assert copy.pair == "copy"
        assert (await carried_out(client, scripted, name="other")).status is PairStatus.FINISHED
