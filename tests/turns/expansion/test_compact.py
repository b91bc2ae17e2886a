"""`/compact` acts on the session that the next turn would resume; the thread keeps its turns."""

from __future__ import annotations

import json

import pytest

from clew.errors import AgentFailed, UsageError
from clew.testing.model.replies import FINAL, Fail, Text
from clew.testing.stage import Stage

SUMMARY = "scripted summary"


@pytest.mark.real
async def test_a_session_is_compacted_and_the_next_turn_resumes_it(real: Stage) -> None:
    real.api.reply = lambda request: None if request.is_compaction else Text("an answer " * 200)
    async with real.open() as client:
        thread = await client.thread("t", cwd=real.work)
        assert (await thread.compact()).session_id is None
        for number in range(4):
            await (await thread.ask(f"question {number} " * 200))
        done = await thread.compact("the numbers")
        assert done.is_compacted
        asked = [request for request in real.api.requests if request.is_compaction]
        assert "the numbers" in json.dumps(asked[-1].body["messages"])
        reply = await (await thread.ask("and now?"))
        assert reply.session_resumed and reply.session_id == done.session_id
        shown = json.dumps(real.api.main_requests[-1].body["messages"])
        assert SUMMARY in shown and "question 0 " not in shown
        turns = await thread.turns()
        assert len(turns) == 10 and "question 0" in turns[0].text


@pytest.mark.real
async def test_what_the_agent_says_about_a_compaction_is_passed_on(real: Stage) -> None:
    async with real.open() as client:
        thread = await client.thread("t", cwd=real.work)
        await (await thread.ask("hello"))
        real.api.reply = lambda request: Fail(400, "invalid_request_error", "no way", FINAL)
        with pytest.raises(AgentFailed, match="not compacted: Error during compaction: API Error: 400 no way"):
            await thread.compact()
        real.api.reply = None
        assert (await thread.compact()).is_compacted
        again = await thread.compact()
        assert again.session_id is not None and not again.is_compacted, "there was too little in it"
        assert (await (await thread.ask("on"))).session_resumed


@pytest.mark.real
async def test_codex_cannot_be_asked_to_compact(codex: Stage) -> None:
    async with codex.open() as client:
        thread = await client.thread("t", cwd=codex.work, agent="codex")
        await (await thread.ask("hello"))
        with pytest.raises(UsageError, match="cannot be asked"):
            await thread.compact()
        assert (await (await thread.ask("on"))).session_resumed
