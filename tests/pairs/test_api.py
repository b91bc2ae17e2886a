"""`clew.api.pairs`: what a surface calls, by the name of a pair."""

from __future__ import annotations

import json

from clew.api import pairs
from clew.core.pairs.pair import PairStatus
from clew.testing.stage import MODEL, Stage
from pairs.couple import TASK, Couple


async def test_a_pair_is_started_followed_forked_renamed_replayed_merged_and_cleaned(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    work = str(scripted.work)
    async with scripted.open(model=MODEL, **{"pair.auto_save": False}) as client:
        live = await pairs.start(client, pairs.PairOptions(text=TASK, cwd=work, name="p"))
        lines = [pairs.followed_json(each) async for each in pairs.follow(client, "p")]
        await live.finish()
        lines = json.loads(json.dumps(lines))
        assert (lines[0]["type"], lines[0]["cursor"], lines[-1]["type"]) == ("opened", "1.0.0.0", "ended")
        assert live.saved is None, "the setting says so"
        state = await pairs.show(client, "p")
        assert (state.status, pairs.error_of(live, state)) == (PairStatus.FINISHED, None)
        assert await pairs.latest(client, work) == state
        assert not await pairs.stop(client, state.pair.id)
        assert [await pairs.is_pair(client, name) for name in ("p", "pair-p-worker", "q")] == [True, False, False]
        forked = await pairs.fork(client, "p", "other", at_round=1)
        assert forked.pair == "other"
        which = pairs.PairSelection(session="other")
        live, warnings = await pairs.resume(client, which, pairs.PairOptions(text="Go on.", fresh_session=True))
        await live.finish()
        assert (live.error, warnings) == (None, ())
        merged = await pairs.merge(client, "p", "other", pairs.MergeOptions(name="both"))
        assert merged.common == 1
        replayed = await pairs.replay(client, "p", pairs.PairReplayOptions(worker_model="claude-opus-4-1"))
        assert replayed.live is not None and replayed.old == state
        await replayed.live.finish()
        renamed = await pairs.rename(client, "both", "all")
        assert renamed is not None and renamed.pair.name == "all"
        assert await pairs.rename(client, "pair-p-worker", "x") is None, "a thread's name"
        names = {each.pair.name for each in await pairs.list_pairs(client, cwd=work)}
        assert names == {"p", "other", "all", "p-claude-opus-4-1"}
        cleaned = await pairs.clean(client, work, -1.0)
        assert {each.state.pair.name for each in cleaned if each.archive is not None} == names
        assert await pairs.list_pairs(client) == []
