"""A pair of the real Codex: both parts resume their sessions, here and on another machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.core.pairs.pair import PairStatus
from clew.hosts.transfer.export import export_thread
from clew.hosts.transfer.export_file import read_export
from clew.hosts.transfer.imports import import_thread
from clew.testing.model.api import ModelApi
from clew.testing.stage import CODEX_MODEL
from pairs.couple import Couple, carried_out, resumed
from transfer.machines import two_machines


@pytest.mark.real
async def test_both_parts_resume_their_sessions_here_and_elsewhere(tmp_path: Path, api: ModelApi) -> None:
    with two_machines(tmp_path, api, codex=True) as [a, b]:
        couple = Couple(a, rounds=2)
        async with a.open(agent="codex") as client:
            models = {"instructor_model": CODEX_MODEL, "worker_model": CODEX_MODEL}
            state = await carried_out(client, a, name="two", agent="codex", **models)
            assert (state.status, len(state.rounds)) == (PairStatus.FINISHED, 3), state.pair.error
            await couple.check_shown(client, state.pair)
            content = (await export_thread(client.engine, "two", {})).content
        sessions = {session for known in state.sessions.values() for session in known.values()}
        assert len(sessions) == 2 and {launch.resumes for launch in a.launches} == {None, *sessions}
        async with b.open(agent="codex") as client:
            came = await import_thread(client.engine, read_export(content), cwd=str(b.work))
            assert [(each.part, each.resumable) for each in came.sessions] == [("instructor", True), ("worker", True)]
            couple.rounds = 3
            [here] = await client.pairs.list()
            again = await resumed(client, here.pair, "u7z One thing more.", permissions="edits")
            assert again.status is PairStatus.FINISHED, again.pair.error
            await couple.check_shown(client, again.pair)
        assert {launch.resumes for launch in b.launches} == sessions
    assert not api.refused_hosts
