"""Copies of sessions that were interrupted while they were made, and copies that need the file of another session."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from branching.forks import forked, rounds, true_turn
from clew.core.history import Absorbed, Role
from clew.core.pins import Pending, PinState
from clew.core.record import replace
from clew.hosts.transfer.export import export_thread
from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage
from clew.testing.truth import TokenModel
from conftest import make_stage


@pytest.mark.parametrize("share", [0, 0.5])
async def test_a_copy_that_was_interrupted_is_made_again(stage: Stage, share: float) -> None:
    voice = TokenModel(stage.api)
    async with stage.open() as client:
        old = await client.thread("t", cwd=stage.work)
        await rounds(old, voice, 3)
        [session] = stage.session_files()
        branch, _ = await forked(client)
        [borrowed] = await client.engine.store.call(lambda store: store.pins.of_thread(branch.record.id))
        cut_off = replace(
            borrowed,
            id="cut-off",
            session_id=str(uuid.uuid4()),
            state=PinState.PROVISIONAL,
            borrowed_at=None,
            mark=None,
            pending=Pending(str(uuid.uuid4()), (Absorbed("never-sent", None),), None),
        )
        await client.engine.store.call(lambda store: store.pins.save(cut_off))
        lines = session.read_text().splitlines(keepends=True)
        half = "".join(lines[: int(len(lines) * share)]).replace(session.stem, cut_off.session_id)
        there = session.with_name(f"{cut_off.session_id}.jsonl")
        if half:
            there.write_text(half)
        assert (await branch.preview()).resumes
        reply = await true_turn(branch, voice)
        assert reply.session_resumed and reply.session_id not in (session.stem, cut_off.session_id)
        assert stage.launches[-1].resumes == session.stem
        assert not half or there.read_text() == half
        again = await true_turn(branch, voice)
        assert (again.session_resumed, again.session_id) == (True, reply.session_id)


@pytest.mark.rest
async def test_a_codex_copy_is_read_together_with_its_original(tmp_path: Path, api: ModelApi) -> None:
    voice = TokenModel(api)
    with make_stage("scripted", tmp_path, api, codex=True) as stage:
        async with stage.open(agent="codex") as client:
            old = await client.thread("t", cwd=stage.work)
            await rounds(old, voice, 2)
            child, _ = await forked(client, new="child")
            await rounds(child, voice, 1)
            grandchild, _ = await forked(client, "child", "grandchild")
            session_id = (await true_turn(grandchild, voice)).session_id
            for goes_on in (old, child):
                await true_turn(goes_on, voice)
            found = await client.engine.find_session("codex", str(stage.work), str(session_id))
            assert found is not None and not found.view.is_whole
            held = [entry.text for entry in found.view.entries if entry.is_prompt or entry.role is Role.ASSISTANT]
            assert held == [turn.text for turn in await grandchild.turns()]
            exported = await export_thread(client.engine, "grandchild", {})
            assert [(each.included, "another session" in each.why) for each in exported.sessions] == [(False, True)]
