"""The probe of a binary."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from clew.agents.adapter import Binary
from clew.engine.process.family import started_at
from clew.testing.stage import Stage


async def test_a_cancelled_probe_leaves_no_process(
    scripted: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\necho $$ > {begun}\nexec sleep 60\n")
    slow.chmod(0o700)
    async with scripted.open() as client:
        asking = asyncio.create_task(client.engine.abilities("claude", Binary(str(slow), "setting")))
        pids = (await asyncio.to_thread(begun.read_text)).split()  # two commands run at the same time
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert pids
        assert [started_at(int(pid)) for pid in pids] == [None] * len(pids), "ended, and its end was waited for"
    assert not [record for record in caplog.records if record.name == "asyncio"]


async def test_a_binary_that_prints_endlessly_is_stopped(scripted: Stage, tmp_path: Path) -> None:
    talker = tmp_path / "talker"
    talker.write_text("#!/bin/sh\nexec yes\n")
    talker.chmod(0o700)
    async with scripted.open() as client:
        for _ in range(4):  # how much has been read by then depends on chance
            asking = asyncio.create_task(client.engine.abilities("claude", Binary(str(talker), "setting")))
            await asyncio.sleep(0.05)
            asking.cancel()
            await asyncio.wait({asking}, timeout=60)
            assert asking.cancelled()
