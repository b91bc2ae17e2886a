"""Somebody changes an earlier turn of a pair's thread: that part continues from before it, the other one as ever."""

from __future__ import annotations

import pytest

from clew.core.pairs.pair import PairPart, PairStatus
from clew.testing.model.scripts import ToolUse
from clew.testing.stage import Stage
from pairs.couple import Couple, carried_out, resumed


@pytest.mark.parametrize("part", PairPart)
async def test_a_part_whose_turn_was_edited_is_rewound(stage: Stage, part: PairPart) -> None:
    couple = Couple(stage, rounds=9)
    write = {"file_path": str(stage.work / "made.txt"), "content": "text"}
    couple.busy[2] = ToolUse("Write", write)
    async with stage.open() as client:
        first = await carried_out(client, stage, max_rounds=3, permissions="edits")
        assert first.status is PairStatus.OUT_OF_ROUNDS
        files = {path: path.read_bytes() for path in stage.session_files()}
        pair = first.pair
        thread = await client.find(pair.thread_of(part))
        _, answer, edited, *_ = await thread.turns()
        await thread.edit(edited.id, f"{edited.text} u99z")
        again = await resumed(client, pair, more_rounds=1)
        assert (again.status, len(again.rounds)) == (PairStatus.OUT_OF_ROUNDS, 4)
        await couple.check_shown(client, again.pair)
        runs = {each: (await client.runs(thread=await client.find(pair.thread_of(each))))[0] for each in PairPart}
        other = next(each for each in PairPart if each is not part)
        assert (runs[part].session_resumed, runs[part].rewound_to_turn_id) == (True, answer.id)
        assert (runs[other].session_resumed, runs[other].reason) == (True, None)
        assert ("made.txt` was written" in couple.prompt(part)) is (part is PairPart.WORKER)
        assert [path.read_bytes() == content for path, content in files.items()].count(False) == 1, "only the other's"
