"""The agents' own sessions through the API: listed, chosen within bounds, and adopted in an operation."""

from __future__ import annotations

import pytest

from clew.api import sessions
from clew.api.operations import OperationStatus
from clew.api.sessions import SessionSelection
from clew.errors import Cancelled, UsageError
from clew.testing.stage import Stage
from transfer.session_files import planted


async def test_sessions_are_listed_up_to_a_limit_and_within_the_allowed_directories(scripted: Stage) -> None:
    inside, outside = scripted.folder / "inside", scripted.folder / "outside"
    ids = planted(scripted, inside, outside, inside)
    async with scripted.open() as client:
        found, has_more = await sessions.newest(client, limit=2)
        assert ([each.id for each in found], has_more) == (ids[:2], True)
        found, has_more = await sessions.newest(client, allowed=lambda folder: folder == str(inside), limit=2)
        assert ([each.id for each in found], has_more) == ([ids[0], ids[2]], False)
        shape = sessions.session_shape(found[0]).to_json()
        assert list(shape) == ["id", "agent", "cwd", "first_words", "changed_at", "size_bytes", "file", "thread"]
        assert (shape["cwd"], shape["first_words"], shape["thread"]) == (str(inside), "question 0", None)
        with pytest.raises(UsageError):
            await sessions.newest(client, agent="nobody")


async def test_sessions_are_adopted_with_progress_and_only_where_it_is_allowed(scripted: Stage) -> None:
    inside, outside = scripted.folder / "inside", scripted.folder / "outside"
    ids = planted(scripted, inside, outside, inside)

    def allowed(folder: str) -> bool:
        return folder == str(inside)

    async with scripted.open() as client:
        everything = SessionSelection(everything=True)
        chosen = await sessions.choose(client, everything, allowed=allowed)
        assert [each.id for each in chosen.sessions] == [ids[0], ids[2]]
        tried = await sessions.adopt(client, chosen, dry_run=True)
        assert [each.thread for each in tried.done] == ["question-0", "question-2"]
        assert await client.threads() == []
        operation = sessions.adopt(client, chosen)
        events = [(event.kind, event.done, event.total) async for event in operation]
        assert events == [("progress", 1, 2), ("progress", 2, 2), ("ended", None, None)]
        result = operation.to_shape().result
        assert result is not None and result["errors"] == []
        assert [(each["adopted"], each["thread"], each["turns"]) for each in result["items"]] == [
            (True, "question-0", 2),
            (True, "question-2", 2),
        ]
        named = await sessions.choose(client, SessionSelection(ids=(ids[1], "0b0b", ids[0])), allowed=allowed)
        assert [each.id for each in named.sessions] == [ids[0]]
        messages = [
            error.message.replace(f"'{name}'", "X") for error, name in zip(named.failed, (ids[1], "0b0b"), strict=True)
        ]
        assert messages == ["X is not a session of an agent on this machine."] * 2, "it does not say which exists"
        again = await sessions.adopt(client, named)
        assert [each.why for each in again.done] == ["question-0 has it already"]
        assert len(again.failed) == 2


async def test_a_cancel_takes_effect_before_the_next_session(scripted: Stage) -> None:
    planted(scripted, scripted.work, scripted.work, scripted.work)
    async with scripted.open() as client:
        chosen = await sessions.choose(client, SessionSelection(everything=True))
        operation = sessions.adopt(client, chosen)
        async for event in operation:
            if event.done == 1:
                operation.cancel()
        with pytest.raises(Cancelled):
            await operation
        assert operation.status is OperationStatus.CANCELLED
        result = operation.to_shape().result
        threads = await client.threads()
        assert result is not None and len(result["items"]) == len(threads) < 3
        for thread in threads:
            assert len(await thread.turns()) == 2, "what was adopted is whole"
        rest = await sessions.adopt(client, chosen)
        assert sum(each.thread is not None for each in rest.done) == 3 - len(threads)


@pytest.mark.parametrize(
    "selection",
    [
        SessionSelection(),
        SessionSelection(ids=("0a0a",), everything=True),
        SessionSelection(ids=("0a0a",), project="/"),
    ],
)
async def test_a_selection_that_contradicts_itself_is_refused(scripted: Stage, selection: SessionSelection) -> None:
    async with scripted.open() as client:
        with pytest.raises(UsageError):
            await sessions.choose(client, selection)
