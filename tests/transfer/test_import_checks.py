"""Rows of files that somebody else may have written: imports and archives refuse the same rows, with an error."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.agents.adapter import SessionEntry, SessionView
from clew.core.history import Role
from clew.core.ids import SessionId, ThreadId
from clew.core.pins import Mark, PinState
from clew.core.thread import Origin, OriginKind
from clew.engine.sessions import adoption
from clew.errors import Conflict, UsageError
from clew.hosts.branching.replay import ReplayOptions, replay
from clew.hosts.pairs import folder as pair_folder
from clew.hosts.transfer.archives import Archives
from clew.hosts.transfer.export import export_thread
from clew.hosts.transfer.export_file import HISTORY, STATE, Unpacked, pack, read_export, unpack
from clew.hosts.transfer.imports import import_thread
from clew.store.rows.reviews import packed
from clew.store.store import Store, open_store
from clew.store.transfer.codec import PortableThread, as_json, from_json
from clew.store.transfer.import_checks import MAX_AMOUNT, MAX_COUNT, MAX_TIME, MAX_UNPACKED_BYTES
from clew.store.transfer.restoring import restore
from clew.testing.postgres import PostgresServer
from clew.testing.stage import Stage
from clew.testing.store_contract.samples import RUNTIME, a_pin, a_run, a_thread, a_turn
from clew.wiring.engine import runtime_context
from transfer.machines import ask, clew, exported, imported
from transfer.samples import engine_on, fill, fill_pair

ESCAPE = "wild\x1b[2J"


def an_origin(**changes: Any) -> str:
    return json.dumps({"how": "replay", "of": [{"id": "x", "name": "y"}], "round": None} | changes)


# Changes of the first row of a table that make it invalid or too large.
HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("review_rounds", {"diff": "not packed"}),
    ("review_rounds", {"files": packed(b"[]")}),
    ("threads", {"name": "../x"}),
    ("threads", {"permissions": "everything"}),
    ("threads", {"trust": 1}),
    ("threads", {"id": None}),
    ("threads", {"id": "/../../x"}),
    ("threads", {"visibility": "none"}),
    ("threads", {"no_such_column": 1}),
    ("threads", {'id) VALUES (1); DROP TABLE threads; --"': 1}),
    ("threads", {"kind": "zz"}),
    ("threads", {"kind": ESCAPE}),
    ("threads", {"model": "--dangerously-skip-permissions"}),
    ("threads", {"model": "a\nb"}),
    ("threads", {"model": ESCAPE}),
    ("threads", {"agent": "-x"}),
    ("threads", {"agent": "../../x"}),
    ("threads", {"origin": "[" * 100_000}),
    ("threads", {"origin": an_origin(of=[])}),
    ("threads", {"origin": an_origin(of={})}),
    ("threads", {"origin": an_origin(of=[{"id": "x"}])}),
    ("threads", {"origin": an_origin(of=[{"id": "x", "name": "y"}] * 101)}),
    ("threads", {"origin": an_origin(of=[{"id": "../x", "name": "y"}])}),
    ("threads", {"origin": an_origin(of=[{"id": "x", "name": ESCAPE}])}),
    ("threads", {"origin": an_origin(how="zz")}),
    ("threads", {"origin": an_origin(how=[])}),
    ("threads", {"origin": an_origin(round=-5)}),
    ("threads", {"origin": an_origin(round=10**40)}),
    ("threads", {"origin": an_origin(round=True)}),
    ("threads", {"origin": an_origin(at=1)}),
    ("threads", {"created_at": MAX_TIME * 2}),
    ("turns", {"role": "system"}),
    ("turns", {"thread_id": "another"}),
    ("turns", {"thread_id": "of-b"}),
    ("turns", {"id": ESCAPE}),
    ("turns", {"run_id": "run-of-b"}),
    ("turns", {"text": None}),
    ("turns", {"text": ["a"]}),
    ("turns", {"partial": 2}),
    ("turns", {"created_at": 1e299}),
    ("turns", {"created_at": -1.0}),
    ("turns", {"position": 2**63}),
    ("turns", {"position": 2**63 - 1}),
    ("turns", {"position": True}),
    ("turns", {"position": 2}),
    ("turn_revisions", {"turn_id": "turn-of-b"}),
    ("runs", {"status": "over"}),
    ("runs", {"thread_id": "another"}),
    ("runs", {"prompt_turn_id": "turn-of-b"}),
    ("runs", {"answer_turn_id": "turn-of-b"}),
    ("runs", {"position": 2**63 - 1}),
    ("runs", {"input_tokens": MAX_COUNT + 1}),
    ("runs", {"output_tokens": -1}),
    ("runs", {"cost_usd": MAX_AMOUNT * 2}),
    ("runs", {"created_at": -1e200}),
    ("runs", {"asked": "no json"}),
    ("runs", {"asked": '{"retry_of": []}'}),
    ("runs", {"asked": '{"timeout_s": "soon"}'}),
    ("runs", {"asked": "[" * 100_000}),
    ("events", {"run_id": "another"}),
    ("events", {"run_id": "run-of-b"}),
    ("events", {"body": "text"}),
    ("events", {"kind": ESCAPE}),
    ("attempts", {"run_id": "run-of-b"}),
    ("jobs", {"thread_id": "of-b"}),
    ("jobs", {"run_id": "run-of-b"}),
    ("jobs", {"model": "-x"}),
    ("jobs", {"status": "idle"}),
    ("jobs", {"limits": "[]"}),
    ("jobs", {"limits": '{"max_runs": "many"}'}),
    ("jobs", {"allowed_tools": "[1]"}),
    ("pins", {"thread_id": "of-b"}),
    ("pins", {"state": "perfect"}),
    ("pins", {"runtime": None}),
    ("pins", {"session_id": "../../x"}),
    ("pins", {"pending": {"shown": 1}}),
    ("pins", {"pending": {"user_uuid": "u", "shown": [["turn-0", []]], "standing": None}}),
    ("pin_absorbed", {"n": "first"}),
    ("reviews", {"scope": "universe"}),
    ("review_rounds", {"run_id": "run-of-b"}),
]
HOSTILE_PAIRS: list[tuple[str, dict[str, Any]]] = [
    ("pairs", {"id": "a/../../../../pwn"}),
    ("pairs", {"id": ESCAPE}),
    ("pairs", {"name": f"maze\n{ESCAPE}"}),
    ("pairs", {"run_id": "run-of-b"}),
    ("pairs", {"models": '["-x"]'}),
    ("pairs", {"worker_model": "-x"}),
    ("pairs", {"max_rounds": 2**63 - 1}),
    ("pair_rounds", {"worker_run_id": "run-of-b"}),
]


def _of_somebody_else(store: Store) -> None:
    store.threads.create(a_thread("of-b", "theirs"))
    store.turns.add("of-b", a_turn("turn-of-b"))
    store.runs.create(a_run("run-of-b", "of-b"))


def changed(file: Unpacked, table: str, change: dict[str, Any]) -> PortableThread:
    """The export with changed rows, and a manifest that matches."""
    about = {key: file.manifest[key] for key in ("schema", "redacted", "thread")}
    parts = dict(file.parts)
    for part in (HISTORY, STATE):
        content = from_json(parts[part])
        if table in content:
            content[table][0].update(change)
            parts[part] = as_json(content)
    return read_export(pack(about, parts))


@pytest.mark.rest
@pytest.mark.parametrize(("name", "hostile"), [("maze", HOSTILE), ("maze-worker", HOSTILE_PAIRS)])
async def test_imports_and_archives_refuse_the_same_rows_and_write_nothing(
    tmp_path: Path, name: str, hostile: list[tuple[str, dict[str, Any]]]
) -> None:
    a, b = engine_on(tmp_path / "a.db"), engine_on(tmp_path / "b.db")
    archives = Archives(b, tmp_path / "archive")
    await a.store.call(fill if name == "maze" else fill_pair)
    await b.store.call(_of_somebody_else)
    before = await b.store.call(lambda store: store.threads.dump("of-b"))
    file = unpack((await export_thread(a, name, {})).content)
    dumps = await a.store.call(lambda store: _dumps(store, name))
    path = tmp_path / "archive" / "foreign.json"
    path.parent.mkdir()

    async def both(table: str, change: dict[str, Any]) -> None:
        ways: list[Callable[[], Any]] = [
            lambda: import_thread(b, changed(file, table, change), cwd=str(tmp_path)),
            lambda: archives.restore(str(path)),
        ]
        path.write_text(json.dumps(_archive(dumps, table, change)))
        for way in ways:
            with pytest.raises(UsageError) as caught:
                await way()
            assert "\n" not in caught.value.message and "\x1b" not in caught.value.message, (table, change)
            assert [thread.id for thread in await b.store.call(lambda store: store.threads.recent())] == ["of-b"], (
                change
            )

    for table, change in hostile:
        await both(table, change)
    if name == "maze":
        await both("review_rounds", {"diff": packed(bytes(MAX_UNPACKED_BYTES + 1))})
    assert await b.store.call(lambda store: store.threads.dump("of-b")) == before
    path.write_text(json.dumps(_archive(dumps, "threads", {"origin": an_origin()})))
    assert (await archives.restore(str(path))).turns > 0, "the control"
    for engine in (a, b):
        await engine.close()


def _dumps(store: Store, name: str) -> list[dict[str, Any]]:
    thread = store.threads.require(name)
    return [store.threads.dump(each.id) for each in (thread, *store.threads.companions(thread.id))]


def _archive(dumps: list[dict[str, Any]], table: str, change: dict[str, Any]) -> dict[str, Any]:
    own, *others = json.loads(json.dumps(dumps))
    for dump in (own, *others) if table.startswith("pair") else (own,):  # a pair is in both dumps
        row = dump["thread"] if table == "threads" else dump[table][0]
        row.update(change)
    return {**own, "companions": others}


@pytest.mark.parametrize("content", [b"[]", b'{"threads": []}', b'{"threads": [{}]}', b'{"threads": 1}', b"null"])
async def test_invalid_history_is_refused(tmp_path: Path, content: bytes) -> None:
    engine = engine_on(tmp_path / "a.db")
    about = {"schema": 1, "redacted": False, "thread": {"name": "t"}}
    with pytest.raises(UsageError):
        await import_thread(engine, read_export(pack(about, {HISTORY: content})), cwd=str(tmp_path))
    for schema in (9999, "1", None):
        with pytest.raises(UsageError):
            await import_thread(
                engine, read_export(pack(about | {"schema": schema}, {HISTORY: content})), cwd=str(tmp_path)
            )
    await engine.close()


async def test_a_copy_gives_a_prompt_that_was_never_sent_a_new_id(tmp_path: Path) -> None:
    engine = engine_on(tmp_path / "a.db")

    def waiting(store: Store) -> None:
        store.threads.create(a_thread())
        store.runs.create(a_run(prompt_turn_id="not-yet", asked=a_run().asked.replace(retry_of="turn-9")))

    await engine.store.call(waiting)
    dumps = await engine.store.call(lambda store: _dumps(store, "maze"))
    path = tmp_path / "foreign.json"
    path.write_text(json.dumps(_archive(dumps, "threads", {})))
    made = await Archives(engine, tmp_path / "archive").restore(str(path))
    [run] = await engine.store.call(lambda store: store.runs.newest(thread_id=made.threads[0].id))
    assert made.is_copy and run.prompt_turn_id != "not-yet"
    await engine.close()


@pytest.mark.process
async def test_an_archived_turn_with_an_unknown_role_is_the_fault_of_the_file(tmp_path: Path) -> None:
    engine = engine_on(tmp_path / "a.db")
    await engine.store.call(fill)
    thread = read_export((await export_thread(engine, "maze", {})).content)
    [archived] = [row for row in thread.tables["turns"] if row["id"] == "turn-5"]
    archived["role"] = "oracle"
    with pytest.raises(UsageError, match="not valid"):  # the ids are taken, so a copy is made
        await import_thread(engine, thread, cwd=str(tmp_path))
    await engine.close()


async def test_an_archive_from_elsewhere_has_no_permissions_and_no_hidden_prompt_but_our_own_has(
    tmp_path: Path,
) -> None:
    engine = engine_on(tmp_path / "a.db")
    archives = Archives(engine, tmp_path / "archive")
    await engine.store.call(fill)
    dumps = await engine.store.call(lambda store: _dumps(store, "maze"))
    content = _archive(dumps, "jobs", {"permissions": "all", "allowed_tools": '["Bash(*)"]', "full_prompt": "Obey."})
    content["attempts"][0] |= {"pid": 7, "pid_started": 7.0}
    (tmp_path / "archive").mkdir()
    rights = []
    for folder in (tmp_path, tmp_path / "archive"):
        (folder / "foreign.json").write_text(json.dumps(content))
        made = await archives.restore(str(folder / "foreign.json"))
        dump = await engine.store.call(lambda store, id=made.threads[0].id: store.threads.dump(id))
        job = [dump["jobs"][0][name] for name in ("permissions", "allowed_tools", "full_prompt")]
        rights.append((made.is_narrowed, *job, dump["attempts"][0]["pid"]))
    assert rights == [(True, "ask", "[]", None, None), (False, "all", '["Bash(*)"]', "Obey.", 7)]
    await engine.close()


@pytest.mark.parametrize("pair_id", ["a/../../../../pwn", "../x", ESCAPE, "", "a\nb"])
def test_no_id_of_a_pair_names_a_file_outside_its_folder(tmp_path: Path, pair_id: str) -> None:
    path = pair_folder.path_of(str(tmp_path), pair_id)
    assert path.resolve().parent == tmp_path / ".clew" / "sessions" and path.name.isprintable()
    assert pair_folder.path_of(str(tmp_path), "2026-11-15-a").name == "session-2026-11-15-a.json"


@pytest.mark.parametrize(
    ("table", "change"), [("pairs", {"instructor_thread_id": "of-b"}), ("pair_rounds", {"pair_id": "pair-of-b"})]
)
async def test_a_pair_cannot_name_threads_of_others(tmp_path: Path, table: str, change: dict[str, Any]) -> None:
    """An import is refused; an archive restores the threads, but no pair."""
    a, b = engine_on(tmp_path / "a.db"), engine_on(tmp_path / "b.db")
    await a.store.call(fill_pair)
    await b.store.call(_of_somebody_else)
    file = unpack((await export_thread(a, "maze-worker", {})).content)
    with pytest.raises(UsageError):
        await import_thread(b, changed(file, table, change), cwd=str(tmp_path))
    path = tmp_path / "foreign.json"
    path.write_text(json.dumps(_archive(await a.store.call(lambda store: _dumps(store, "maze-worker")), table, change)))
    await Archives(b, tmp_path / "archive").restore(str(path))
    assert await b.store.call(lambda store: store.pairs.of_thread("of-b")) is None
    for engine in (a, b):
        await engine.close()


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


def test_deep_or_huge_json_in_archives_breaks_no_command(scripted: Stage) -> None:
    assert clew(scripted, "ask", "-t", "t", "one").code == 0
    assert clew(scripted, "threads", "archive", "t").code == 0
    folder = scripted.clew_home / "archive"
    [whole] = folder.glob("*.json")
    text = whole.read_text()
    (folder / "huge-1-abc.json").write_text('{"schema": ' + "9" * 5000 + ', "thread": {}}')
    (folder / "many-1-abc.json").write_text(
        '{"schema": 1, "packed": true, "turn_count": ' + "9" * 5000 + ', "thread": {}}'
    )
    for number, levels in enumerate((400, 900, 100_000)):
        content = text.replace('"turn_revisions": []', f'"turn_revisions": [{deep(levels)}]')
        assert content != text
        (scripted.folder / f"deep-{number}.json").write_text(content)
        refused = clew(scripted, "threads", "restore", scripted.folder / f"deep-{number}.json")
        assert (refused.code, len(refused.err.splitlines()) <= 2) == (2, True), refused.err
    listed = {each["name"]: each["problem"] for each in clew(scripted, "threads", "archives", "--json").json}
    assert (listed["t"], listed["huge"], listed["many"]) == (None, "damaged", "damaged")
    assert clew(scripted, "threads", "clean", "--dry-run").code == 0
    assert clew(scripted, "threads", "restore", "t").code == 0


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    if request.param == "sqlite":
        return tmp_path / "clew.db"
    server = request.getfixturevalue("postgres")
    assert isinstance(server, PostgresServer)
    return server.new_store()


def at_once(where: Path | str, works: list[Callable[[Store], object]]) -> list[object]:
    """Runs each in its own OS thread with its own connection, all started at the same moment."""
    barrier, results = threading.Barrier(len(works)), list[object]()

    def run(work: Callable[[Store], object]) -> None:
        with open_store(where) as store:
            store.threads.recent()
            barrier.wait(60)
            try:
                with store.transaction():
                    results.append(work(store))
            except Conflict as error:
                results.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_of_several_concurrent_imports_of_a_session_one_gets_it(where: Path | str) -> None:
    def restored(number: int) -> Callable[[Store], object]:
        thread = a_thread(f"thread-{number}", f"maze-{number}")
        pin = a_pin(f"pin-{number}", thread_id=thread.id, session_id=SessionId("s-1"), state=PinState.GOOD)
        return lambda store: restore(store, [thread], [pin], {})

    def adopted(number: int) -> Callable[[Store], object]:
        view = SessionView((SessionEntry("e", Role.USER, "hello", True),), "e", 1)

        def work(store: Store) -> object:
            thread = store.threads.create(a_thread(f"thread-{number}", f"maze-{number}"))
            found = adoption.FoundSession(RUNTIME, view, 1.0, Mark(1, "e"))
            return adoption.adopt(store, thread, found, "s-1", None, runtime_context({}))

        return work

    results = at_once(where, [restored(1), restored(2), adopted(3), adopted(4)])
    assert len(results) == 4
    with open_store(where) as store:
        pins = [pin for number in range(1, 5) for pin in store.pins.of_thread(f"thread-{number}")]
        assert [pin.session_id for pin in pins if pin.state is PinState.GOOD] == ["s-1"]
        owner = store.pins.of_session("s-1")
        assert owner is not None and owner.state is PinState.GOOD


def test_one_file_cannot_give_a_session_to_two_threads(tmp_path: Path) -> None:
    threads = [a_thread(f"thread-{number}", f"maze-{number}") for number in (1, 2)]
    pins = [
        a_pin(f"pin-{each.id}", thread_id=ThreadId(each.id), session_id=SessionId("s-1"), state=PinState.GOOD)
        for each in threads
    ]
    with open_store(tmp_path / "clew.db") as store:
        restore(store, threads, pins, {})
        assert [store.pins.of_thread(each.id)[0].state for each in threads] == [PinState.GOOD, PinState.RETIRED]


async def test_however_often_a_thread_is_copied_its_session_stays_its_own(scripted: Stage) -> None:
    async with scripted.open() as client:
        await ask(await client.thread("t", cwd=scripted.work), "one")
    content = (await exported(scripted)).content
    for _ in range(3):
        [session] = (await imported(scripted, content)).sessions
        assert (session.resumable, session.why) == (False, "the session belongs to t already")
    [listed] = clew(scripted, "sessions", "list", "--json").json
    assert listed["thread"] == "t"
    adopted = clew(scripted, "sessions", "adopt", "--all")
    assert (adopted.out, "t has it already" in adopted.err) == ("", True)
    async with scripted.open() as client:
        archived = await client.archives.archive("t")
        resumable = [(await client.archives.restore(str(archived.path))).resumable for _ in range(3)]
        assert resumable == [1, 0, 0]


async def test_an_unsafe_model_name_in_a_session_file_is_ignored(scripted: Stage) -> None:
    begun = clew(scripted, "ask", "-t", "t", "one")
    assert begun.code == 0
    [file] = scripted.session_files()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if line.get("type") == "assistant":
            line["message"]["model"] = f"-x{ESCAPE}"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert clew(scripted, "threads", "delete", "t", "--yes").code == 0
    done = clew(scripted, "sessions", "adopt", "--all", "--json")
    assert [each["adopted"] for each in done.json] == [True], done.err
    async with scripted.open() as client:
        thread = await client.find(done.json[0]["thread"])
        assert thread.record.model is None
        assert {turn.model for turn in await thread.turns()} == {None}


async def test_thread_without_a_source_is_not_a_replay(scripted: Stage) -> None:
    """Rows that an older Clew imported may have no source."""
    async with scripted.open() as client:
        await ask(await client.thread("t", cwd=scripted.work), "one")
        made = a_thread("thread-9", "f", origin=Origin(OriginKind.REPLAY, ()))
        await client.engine.store.call(lambda store: store.threads.create(made))
        with pytest.raises(Conflict, match="it is not a replay of t"):
            await replay(client.engine, "t", ReplayOptions(name="f"))
