"""The state file: its content, who may read it, and how a pair continues from it elsewhere."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.core.history import Role, Turn
from clew.core.ids import ThreadId, TurnId
from clew.core.pairs.pair import Pair, PairPart, PairRunEvent, PairSaved, PairStatus, PairWarned
from clew.core.runs.events import TextStreamed
from clew.core.thread import Permissions
from clew.errors import Busy, Conflict, UsageError
from clew.hosts.pairs.folder import write
from clew.hosts.pairs.imports import ImportedPair
from clew.hosts.pairs.reading import read
from clew.hosts.pairs.rows import ResumeOptions
from clew.hosts.pairs.state import SavedPair, may_be_same, state_json
from clew.hosts.transfer.export import export_thread
from clew.hosts.transfer.export_file import read_export
from clew.hosts.transfer.imports import import_thread
from clew.testing.model.scripts import Hang, Text
from clew.testing.stage import MODEL, Stage
from conftest import make_stage
from pairs.couple import CONTINUE, TASK, Couple, carried_out, files_under, finished, resumed, run, start, turns
from transfer.machines import clew

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


async def bring_in(client: Any, stage: Stage, path: Path) -> ImportedPair:
    imported = await client.pairs.import_file(path, cwd=str(stage.work), agent="claude")
    assert isinstance(imported, ImportedPair)
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


async def test_only_the_owner_reads_the_file_git_ignores_it_and_it_contains_no_secret(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.reports.append(Text(f"report-1: the key is {SECRET}"))
    scripted.work.chmod(0o755)
    folder(scripted).mkdir(parents=True)
    for each in (folder(scripted), folder(scripted).parent):
        each.chmod(0o777)  # as in a repository that contains them
    (scripted.work / "elsewhere").write_text("# nothing\n")
    (folder(scripted) / ".gitignore").symlink_to("../../elsewhere")  # git does not follow it
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


async def test_the_file_is_written_every_five_rounds_and_at_the_end_or_never(scripted: Stage) -> None:
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
        live = await client.pairs.resume(live.pair.id, ResumeOptions(), live.options.replace(auto_save=False))
        live.cancel()
        assert not [event async for event in live.events() if event.kind == "saved"]
        assert not list(folder(scripted).iterdir())
        assert len((await client.pairs.find(live.pair.id)).rounds) >= 5, "the store has it all the same"


async def test_a_folder_that_is_a_link_is_not_written_to(scripted: Stage, tmp_path: Path) -> None:
    Couple(scripted, rounds=1)
    (tmp_path / "outside").mkdir()
    (scripted.work / ".clew").symlink_to(tmp_path / "outside")
    async with scripted.open() as client:
        live = await start(client, scripted)
        codes = [event.code async for event in live.events() if isinstance(event, PairWarned)]
        assert codes == ["not_saved"]
        assert (await finished(client, live)).status is PairStatus.FINISHED
    assert not list((tmp_path / "outside").iterdir())


async def test_only_current_json_is_reported_if_only_it_cannot_be_written(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    (folder(scripted) / "current.json").mkdir(parents=True)
    async with scripted.open() as client:
        live = await start(client, scripted)
        told = [event async for event in live.events() if isinstance(event, PairWarned | PairSaved)]
    [path] = [event.path for event in told if isinstance(event, PairSaved)]
    assert read(Path(path)).session_id == live.pair.id
    [warned] = [event.message for event in told if isinstance(event, PairWarned)]
    assert warned.startswith(f"{folder(scripted) / 'current.json'} was not written")


@pytest.mark.rest
async def test_another_machine_continues_in_the_middle_of_the_workers_turn(scripted: Stage, elsewhere: Stage) -> None:
    couple = Couple(scripted, rounds=3)
    couple.busy[2] = Hang("text", "a90z I am at it.")
    async with scripted.open() as client:
        live = await start(client, scripted, name="move")
        async for event in live.events():
            if isinstance(event, PairRunEvent) and isinstance(event.event, TextStreamed) and "a90z" in event.event.text:
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
            worker = await turns(other, state.pair, PairPart.WORKER)
            assert worker.count(CONTINUE) == 1
            assert [text.split()[0] for text in worker if text.startswith("order-")] == [
                "order-1",
                "order-2",
                "order-3",
            ]
            runs = await other.runs(limit=20)
            assert sorted(run.session_resumed for run in runs) == [False] * 2 + [True] * (len(runs) - 2)
        # And back: the first machine gets what it lacks.
        back = folder(elsewhere) / f"session-{first.pair.id}.json"
        again = await bring_in(client, scripted, back)
        assert "was continued elsewhere" in again.warnings[0]
        couple.orders.append('{"instruction": "a91z Nothing is left.", "should_continue": false}')
        home = await resumed(client, again.pair, "u9z Is anything left?")
        assert home.status is PairStatus.FINISHED
        instructor = await turns(client, home.pair, PairPart.INSTRUCTOR)
        assert [text for text in instructor if text.startswith("Round 5")], "after the four of both machines"
        older = await bring_in(client, scripted, back)
        assert "older than what is stored" in older.warnings[0]


async def test_an_imported_pair_continues_only_with_permissions_for_the_worker(
    scripted: Stage, elsewhere: Stage
) -> None:
    Couple(scripted, rounds=2)
    async with scripted.open() as client, elsewhere.open() as other:
        first = await carried_out(client, scripted, max_rounds=1, name="p")
        made = await export_thread(client.engine, "pair-p-worker", {})
        await import_thread(other.engine, read_export(made.content), cwd=str(elsewhere.work))
        pair = (await other.pairs.find(await other.pairs.resolve("p"))).pair
        assert pair.id == first.pair.id
        with pytest.raises(UsageError, match="without asking") as caught:
            await other.pairs.resume(pair.id, ResumeOptions())
        assert "--permissions edits" in str(caught.value.hint)
        state = await resumed(other, pair, more_rounds=3, permissions=Permissions.READ_ONLY)
        assert (state.status, state.permissions) == (PairStatus.FINISHED, "read-only")


async def test_a_pair_whose_store_is_deleted_stops(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=2)
    couple.busy[1] = Hang("text", "I am at it.")
    async with scripted.open() as client:
        live = await start(client, scripted)
        async for event in live.events():
            if (
                isinstance(event, PairRunEvent)
                and isinstance(event.event, TextStreamed)
                and "at it" in event.event.text
            ):
                for path in scripted.clew_home.glob("clew.db*"):
                    path.unlink()
                live.cancel()
        await live.finish()
        assert live.error is not None and live.error.exit_code == 9
    assert not list(scripted.clew_home.glob("clew.db"))


@pytest.mark.real
async def test_another_store_resumes_the_sessions_that_exist(real: Stage) -> None:
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
async def test_a_file_of_the_older_tool_can_be_continued(scripted: Stage, tmp_path: Path, where: str) -> None:
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


@pytest.mark.parametrize(("is_complete", "number"), [(True, 5), (False, 4)])
def test_an_imported_pair_says_in_which_round_it_is(
    scripted: Stage, tmp_path: Path, is_complete: bool, number: int
) -> None:
    said = OLDER["worker"]["conversationHistory"][: 1 + is_complete]
    in_round_4 = {"currentRound": 4, "remainingRounds": 3, "worker": {"conversationHistory": said}}
    (tmp_path / "old.json").write_text(json.dumps(OLDER | in_round_4))
    Couple(scripted, rounds=1)
    done = run(scripted, "--session-file", str(tmp_path / "old.json"), "--json")
    assert done.returncode == 0, done.stderr.decode()
    words = done.stderr.decode()
    assert f"imported in round 4, continues in round {number} of 7" in words
    assert "· finished · 5 rounds ·" in words, "those before the import count too"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (lines[0]["round"], lines[-1]["imported_round"], lines[-1]["round"]) == (number, 4, 5)
    [shown] = json.loads(run(scripted, "--list-sessions", "--json").stdout)
    assert (shown["imported_round"], shown["round"]) == (4, 5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not the state of a pair"),
        ("[1]", "not the state of a pair"),
        ("{}", "not the state of a pair"),
        ("\xff\x00", "not the state of a pair"),
        (json.dumps(OLDER | {"sessionId": "../../etc/passwd"}), "sessionId"),
        (json.dumps(OLDER | {"instructor": 3}), "not the state of a pair"),
        (json.dumps(OLDER | {"version": "2.0.0", "worker": "of another shape"}), "newer version .2.0.0; this Clew"),
        ("[" * 100_000, "not the state of a pair"),
        (json.dumps(OLDER | {"version": "9" * 5000}), "newer version"),
    ],
)
def test_an_invalid_file_is_refused_in_one_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "x.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=words) as caught:
        read(tmp_path / "x.json")
    assert "\n" not in caught.value.message
    with pytest.raises(UsageError):
        read(tmp_path)
    with pytest.raises(UsageError):
        read(tmp_path / "missing")


@pytest.mark.rest
def test_state_files_and_exports_are_told_apart(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    assert clew(scripted, "pair", TASK, "--name", "build").code == 0
    [state] = (scripted.work / ".clew" / "sessions").glob("session-*.json")
    refused = clew(scripted, "threads", "import", state)
    assert (refused.code, f"clew pair --session-file {state}" in refused.err) == (2, True)
    assert clew(scripted, "threads", "export", "build").code == 0
    assert clew(scripted, "threads", "export", "build", "--encrypt", CLEW_PASSPHRASE="correct horse").code == 0
    for name in ("build.clew", "build.clew.age"):
        refused = clew(scripted, "pair", "--session-file", name)
        assert (refused.code, f"clew threads import {name}" in refused.err) == (2, True)
    came = clew(scripted, "threads", "import", "build.clew", "--name", "copy")
    for part in PairPart:
        assert f"the next turn of the {part} (claude" in came.err
    assert clew(scripted, "threads", "export", "build", "--redact", "--output", "bare.clew").code == 0
    assert "clew pair cannot continue them" in clew(scripted, "threads", "import", "bare.clew").err


def test_a_pipe_instead_of_a_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        with pytest.raises(UsageError, match="It is not a plain file"):
            read(tmp_path / name)


async def test_a_file_without_a_prompt_sends_no_empty_prompt(scripted: Stage, tmp_path: Path) -> None:
    empty = {"phase": "working", "asking": " ", "worker": {"conversationHistory": []}}
    (tmp_path / "x.json").write_text(json.dumps(OLDER | empty))
    couple = Couple(scripted, rounds=2)
    async with scripted.open() as client:
        imported = await bring_in(client, scripted, tmp_path / "x.json")
        assert (imported.pair.phase, imported.pair.asking) == ("working", "order-1 a51z"), "the last instruction"
        assert (await resumed(client, imported.pair)).status is PairStatus.FINISHED
        await couple.check_shown(client, imported.pair)
        for change in ({"asking": "x" * 10_000_001, "phase": "working"}, {"message": "x" * 10_000_001}):
            (tmp_path / "x.json").write_text(json.dumps(OLDER | change | {"sessionId": "another"}))
            with pytest.raises(UsageError, match="10,000,000 characters"):
                await bring_in(client, scripted, tmp_path / "x.json")


async def test_a_file_is_not_imported_into_a_running_pair(scripted: Stage, tmp_path: Path) -> None:
    couple = Couple(scripted, rounds=2)
    async with scripted.open() as client:
        first = await carried_out(client, scripted, max_rounds=1)
        body = kept(scripted)
        more = [{"role": "user", "content": "forged"}, {"role": "assistant", "content": "forged, too"}]
        body["worker"]["conversationHistory"] += more
        (tmp_path / "ahead.json").write_text(json.dumps(body | {"asking": "forged", "phase": "working"}))
        couple.busy[2] = Hang("text", "I am at it.")
        live = await client.pairs.resume(first.pair.id, ResumeOptions())
        async for event in live.events():
            if (
                isinstance(event, PairRunEvent)
                and isinstance(event.event, TextStreamed)
                and "at it" in event.event.text
            ):
                with pytest.raises(Busy, match="is running in another process"):
                    await bring_in(client, scripted, tmp_path / "ahead.json")
                live.cancel()
        state = await finished(client, live)
        said = [text for part in PairPart for text in (state.pair.asking, *(await turns(client, state.pair, part)))]
        assert not [text for text in said if "forged" in text]


async def test_a_blanked_file_matches_its_own_pair_in_any_environment(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=2)
    couple.reports.append(Text(f"report-1: the key is {SECRET}, or so"))
    done = run(scripted, TASK, "-r", "1", MY_API_KEY=SECRET)
    assert done.returncode == 1, done.stderr.decode()
    path = folder(scripted) / "current.json"
    assert "the key is [blanked], or so" in path.read_text()
    async with scripted.open() as client:
        assert (await bring_in(client, scripted, path)).warnings == ()
        changed = path.read_text().replace("or so", "or not")
        (scripted.work / "x.json").write_text(changed)
        with pytest.raises(Conflict, match="different histories"):
            await bring_in(client, scripted, scripted.work / "x.json")


@pytest.mark.parametrize(
    ("stored", "told", "same"),
    [
        ("a secret b", "a [blanked] b", True),
        ("a [blanked] b", "a secret b", True),
        ("a one b two c", "a [blanked] b [blanked] c", True),
        ("whole", "[blanked]", True),
        ("a secret b", "a [blanked] c", False),
        ("a b", "a b [blanked] b", False),
        ("one", "two", False),
    ],
)
def test_a_blanked_passage_matches_any_text(stored: str, told: str, same: bool) -> None:
    assert may_be_same(stored, told) is same


async def test_a_file_with_a_different_history_is_a_conflict(scripted: Stage, tmp_path: Path) -> None:
    Couple(scripted, rounds=2)
    async with scripted.open() as client:
        await carried_out(client, scripted, max_rounds=1)
        body = kept(scripted)
        body["worker"]["conversationHistory"][1]["content"] = "something else"
        (tmp_path / "x.json").write_text(json.dumps(body))
        with pytest.raises(Conflict, match="different histories"):
            await bring_in(client, scripted, tmp_path / "x.json")


def test_a_lone_surrogate_in_an_answer_does_not_break_the_file(tmp_path: Path) -> None:
    ids = (ThreadId("t1"), ThreadId("t2"))
    pair = Pair("2026-11-15-10-00-00-1a2b", "odd", "half \ud83d", str(tmp_path), "claude", *ids)
    said = (Turn(TurnId("u"), Role.USER, "half \ud83d, whole \U0001f600 and the secret-of-mine"),)
    whole = SavedPair(pair, (), dict.fromkeys(PairPart, said), {part: {} for part in PairPart})
    path = write(str(tmp_path), pair.id, state_json(whole, {"MY_TOKEN": "secret-of-mine"}))
    expected = (Role.USER, "half \ufffd, whole \U0001f600 and the [blanked]", False)
    assert read(path).messages(PairPart.WORKER) == [expected]
