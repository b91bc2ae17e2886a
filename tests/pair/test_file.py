"""The state file: what is in it, who may read it, and going on from it elsewhere."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.core.events import TextStreamed
from clew.core.history import Role, Turn
from clew.core.ids import ThreadId, TurnId
from clew.core.pair import Heard, Pair, PairStatus, PairWarned, Part
from clew.errors import Conflict, UsageError
from clew.hosts.pair_import import Imported
from clew.hosts.pair_live import iso
from clew.hosts.pair_rows import Wishes
from clew.hosts.pair_state import Whole, read, worded, write
from clew.testing.scripts import Hang, Text
from clew.testing.stage import MODEL, Stage
from conftest import make_stage
from pair.house import CONTINUE, TASK, Couple, carried_out, files_under, finished, resumed, run, start, turns

SECRET = "planted-secret-0123456789"


def folder(stage: Stage) -> Path:
    return stage.work / ".clew" / "sessions"


def kept(stage: Stage) -> dict[str, Any]:
    found = json.loads((folder(stage) / "current.json").read_text("utf-8"))
    assert isinstance(found, dict)
    return found


@pytest.fixture
def elsewhere(tmp_path: Path, scripted: Stage) -> Iterator[Stage]:
    """Machine B: another home, another directory, another store."""
    with make_stage("scripted", tmp_path / "b", scripted.api) as stage:
        yield stage


async def bring_in(client: Any, stage: Stage, path: Path) -> Imported:
    imported = await client.pairs.bring_in(path, cwd=str(stage.work), agent="claude")
    assert isinstance(imported, Imported)
    return imported


async def test_the_file_has_the_fields_of_the_older_tool_and_ours(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    async with scripted.open() as client:
        state = await carried_out(client, scripted, thinking=True)
    body = kept(scripted)
    assert (body["sessionId"], body["version"], body["name"]) == (state.pair.id, "1.0.0", state.pair.name)
    assert body["config"] == {
        "instructorModel": MODEL,
        "workerModel": MODEL,
        "maxRounds": 10,
        "useThinking": True,
        "workDir": str(scripted.work),
    }
    assert (body["currentRound"], body["remainingRounds"]) == (2, 8)
    assert [each["role"] for each in body["instructor"]["conversationHistory"]] == ["user", "assistant"] * 2
    assert TASK in body["instructor"]["conversationHistory"][0]["content"]
    assert "You lead the work" in body["instructor"]["systemPrompt"]
    assert [each["content"].split()[0] for each in body["worker"]["conversationHistory"]] == ["order-1", "report-1"]
    assert body["lastInstruction"].startswith("All of it is done.")
    assert body["lastInstructorResponse"] == {
        "thinking": "It comes next.",
        "instruction": body["lastInstruction"],
        "workerModel": MODEL,
        "shouldContinue": False,
        "needsCorrection": False,
    }
    assert body["createdAt"] <= body["lastUpdatedAt"] and body["createdAt"].endswith("Z")
    assert [each["number"] for each in body["rounds"]] == [1, 2]
    assert {part: list(known) for part, known in body["sessions"].items()} == {"instructor": [MODEL], "worker": [MODEL]}


async def test_only_the_owner_reads_it_git_does_not_see_it_and_no_secret_is_in_any_file(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.reports.append(Text(f"report-1: the key is {SECRET}"))
    scripted.work.chmod(0o755)
    done = run(scripted, TASK, MY_API_KEY=SECRET, OTHER_TOKEN="planted-token-987654")
    assert done.returncode == 0, done.stderr.decode()
    files = [path for path in folder(scripted).iterdir() if not path.is_symlink()]
    assert {path.name[:8] for path in files} == {".gitigno", "session-"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    folders = (folder(scripted), folder(scripted).parent)
    assert [stat.S_IMODE(path.stat().st_mode) for path in folders] == [0o700, 0o700]
    assert (folder(scripted) / ".gitignore").read_text() == "*\n"
    assert str((folder(scripted) / "current.json").readlink()) == f"session-{kept(scripted)['sessionId']}.json"
    assert kept(scripted)["worker"]["conversationHistory"][1]["content"] == "report-1: the key is [blanked]"
    written = b"".join(path.read_bytes() for path in files_under(folder(scripted)))
    assert SECRET.encode() not in written and b"planted-token" not in written
    stored = b"".join(path.read_bytes() for path in files_under(scripted.clew_home))
    assert b"planted-token" not in stored, "nothing of the environment is stored"


async def test_it_is_written_every_five_rounds_and_at_the_end_or_not_at_all(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=6)
    couple.busy[6] = Hang("text", "I am at it.")
    async with scripted.open() as client:
        live = await start(client, scripted)
        async for event in live.events():
            if event.kind == "saved":
                assert (event.round, kept(scripted)["currentRound"]) == (6, 6), "five are done"
                break
        live.cancel()
        await live.finish()
        assert kept(scripted)["phase"] in ("instructing", "working")
        for path in folder(scripted).iterdir():
            path.unlink()
        live = await client.pairs.resume(live.pair.id, Wishes(), live.manner.replace(auto_save=False))
        live.cancel()
        assert not [event async for event in live.events() if event.kind == "saved"]
        assert not list(folder(scripted).iterdir())
        assert len((await client.pairs.find(live.pair.id)).rounds) >= 5, "the store has it all the same"


async def test_a_folder_that_leads_elsewhere_is_left_alone(scripted: Stage, tmp_path: Path) -> None:
    Couple(scripted, rounds=1)
    (tmp_path / "outside").mkdir()
    (scripted.work / ".clew").symlink_to(tmp_path / "outside")
    async with scripted.open() as client:
        live = await start(client, scripted)
        codes = [event.code async for event in live.events() if isinstance(event, PairWarned)]
        assert codes == ["not_saved"]
        assert (await finished(client, live)).status is PairStatus.FINISHED
    assert not list((tmp_path / "outside").iterdir())


async def test_another_machine_goes_on_in_the_middle_of_the_workers_turn(scripted: Stage, elsewhere: Stage) -> None:
    couple = Couple(scripted, rounds=3)
    couple.busy[2] = Hang("text", "a90z I am at it.")
    async with scripted.open() as client:
        live = await start(client, scripted, name="move")
        async for event in live.events():
            if isinstance(event, Heard) and isinstance(event.event, TextStreamed) and "a90z" in event.event.text:
                live.cancel()
        first = await finished(client, live)
        assert (first.status, first.pair.phase) == (PairStatus.STOPPED, "working")
        file = folder(scripted) / f"session-{first.pair.id}.json"
        async with elsewhere.open() as other:
            imported = await bring_in(other, elsewhere, file)
            assert len(imported.warnings) == 2, "neither session is here"
            state = await resumed(other, imported.pair)
            assert (state.status, state.pair.id, state.pair.name) == (PairStatus.FINISHED, first.pair.id, "move")
            assert [(each.result or "-").split()[0] for each in state.rounds] == [
                "report-1",
                "report-2",
                "report-3",
                "-",
            ]
            await couple.check_shown(other, state.pair)
            worker = await turns(other, state.pair, Part.WORKER)
            assert worker.count(CONTINUE) == 1
            assert [text.split()[0] for text in worker if text.startswith("order-")] == [
                "order-1",
                "order-2",
                "order-3",
            ]
            runs = await other.runs(limit=20)
            assert sorted(run.session_resumed for run in runs) == [False] * 2 + [True] * (len(runs) - 2)
        # And back: the first machine is told what it lacks.
        back = folder(elsewhere) / f"session-{first.pair.id}.json"
        again = await bring_in(client, scripted, back)
        assert "went on elsewhere" in again.warnings[0]
        couple.orders.append('{"instruction": "a91z Nothing is left.", "should_continue": false}')
        home = await resumed(client, again.pair, "u9z Is anything left?")
        assert home.status is PairStatus.FINISHED
        instructor = await turns(client, home.pair, Part.INSTRUCTOR)
        assert [text for text in instructor if text.startswith("Round 5")], "after the four of both machines"
        older = await bring_in(client, scripted, back)
        assert "older than what is stored" in older.warnings[0]


@pytest.mark.real
async def test_another_store_goes_on_in_the_sessions_that_are_there(real: Stage) -> None:
    couple = Couple(real, rounds=2)
    async with real.open() as client:
        first = await carried_out(client, real, max_rounds=1)
    launched = len(real.launches)
    async with real.open(environ={"CLEW_HOME": str(real.folder / "other")}) as other:
        imported = await bring_in(other, real, folder(real) / "current.json")
        assert imported.warnings == ()
        state = await resumed(other, imported.pair, more_rounds=1)
        await couple.check_shown(other, state.pair)
    resumes = [launch.resumes for launch in real.launches[launched:]]
    assert resumes == [first.sessions["instructor"][MODEL], first.sessions["worker"][MODEL]]


OLDER: dict[str, Any] = {
    "sessionId": "2025-11-08-15-30-00",
    "createdAt": "2025-11-08T15:30:00.000Z",
    "lastUpdatedAt": "2025-11-08T15:40:00.000Z",
    "version": "1.0.0",
    "config": {
        "instructorModel": MODEL,
        "workerModel": MODEL,
        "maxRounds": 4,
        "useThinking": False,
        "workDir": "/gone",
    },
    "currentRound": 1,
    "remainingRounds": 3,
    "instructor": {
        "conversationHistory": [
            {"role": "user", "content": "u1z Build the thing."},
            {"role": "assistant", "content": [{"type": "text", "text": "a50z The plan."}]},
        ],
        "systemPrompt": "You are an instructor.",
    },
    "worker": {
        "conversationHistory": [
            {"role": "user", "content": "order-1 a51z"},
            {"role": "assistant", "content": "report-1 a52z"},
        ]
    },
    "lastInstruction": "order-1 a51z",
    "lastInstructorResponse": {
        "thinking": "",
        "instruction": "order-1 a51z",
        "workerModel": MODEL,
        "shouldContinue": True,
        "needsCorrection": False,
    },
}


@pytest.mark.parametrize("where", ["a round is complete", "the worker was not asked", "the worker was cut off"])
async def test_a_file_of_the_older_tool_goes_on(scripted: Stage, tmp_path: Path, where: str) -> None:
    said = OLDER["worker"]["conversationHistory"]
    left = {"a round is complete": said, "the worker was not asked": [], "the worker was cut off": said[:1]}[where]
    (tmp_path / "old.json").write_text(json.dumps(OLDER | {"worker": {"conversationHistory": left}}))
    couple = Couple(scripted, rounds=2)
    async with scripted.open() as client:
        imported = await bring_in(client, scripted, tmp_path / "old.json")
        state = await resumed(client, imported.pair)
        assert (state.status, state.pair.id) == (PairStatus.FINISHED, OLDER["sessionId"])
        assert [(each.result or "-").split()[0] for each in state.rounds] == ["report-1", "report-2", "-"]
        assert (state.pair.max_rounds, state.pair.last_round, state.permissions) == (4, 4, "edits")
        await couple.check_shown(client, state.pair)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no state of a pair"),
        ("[1]", "no state of a pair"),
        ("{}", "no state of a pair"),
        ("\xff\x00", "no state of a pair"),
        (json.dumps(OLDER | {"sessionId": "../../etc/passwd"}), "sessionId"),
        (json.dumps(OLDER | {"instructor": 3}), "no state of a pair"),
        (json.dumps(OLDER | {"version": "2.0.0", "worker": "of another shape"}), "newer version .2.0.0; this Clew"),
        ("[" * 100_000, "no state of a pair"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "x.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=words) as caught:
        read(tmp_path / "x.json")
    assert "\n" not in caught.value.message
    with pytest.raises(UsageError):
        read(tmp_path)
    with pytest.raises(UsageError):
        read(tmp_path / "missing")


async def test_a_file_that_went_another_way_is_a_conflict(scripted: Stage, tmp_path: Path) -> None:
    Couple(scripted, rounds=2)
    async with scripted.open() as client:
        await carried_out(client, scripted, max_rounds=1)
        body = kept(scripted)
        body["worker"]["conversationHistory"][1]["content"] = "something else"
        (tmp_path / "x.json").write_text(json.dumps(body))
        with pytest.raises(Conflict, match="different ways"):
            await bring_in(client, scripted, tmp_path / "x.json")


def test_half_a_character_in_what_was_said_spoils_no_file(tmp_path: Path) -> None:
    ids = (ThreadId("t1"), ThreadId("t2"))
    pair = Pair("2026-11-15-10-00-00-1a2b", "odd", "half \ud83d", str(tmp_path), "claude", *ids)
    said = (Turn(TurnId("u"), Role.USER, "half \ud83d, whole \U0001f600 and the secret-of-mine"),)
    whole = Whole(pair, (), dict.fromkeys(Part, said), {part: {} for part in Part})
    path = write(str(tmp_path), pair.id, worded(whole, {"MY_TOKEN": "secret-of-mine"}, iso))
    expected = (Role.USER, "half \ufffd, whole \U0001f600 and the [blanked]", False)
    assert read(path).messages(Part.WORKER) == [expected]
