"""`clew threads push` and `pull`: the same thread on two machines, by way of an object store or a shared folder."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import zlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pyrage
import pytest

from clew.client import Client
from clew.core.thread import Permissions
from clew.engine.object_store import ObjectStore
from clew.errors import Conflict, UsageError
from clew.hosts.portable_head import Lock
from clew.hosts.portable_pieces import FAN, PIECE_MEAN, read_manifest, sha256
from clew.hosts.portable_remote import open_remote
from clew.hosts.portable_sync import pull, push, wanted
from clew.testing.model_api import ModelApi
from clew.testing.objects import S3Server
from clew.testing.stage import MODEL, Stage
from clew.testing.truth import Voice, expected
from pair.house import Couple, carried_out, order, resumed
from portable.machines import Done, ask, clew, two_machines

OPEN = Lock()
PASSPHRASE = {"CLEW_PASSPHRASE": "correct horse battery"}


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3") / "data") as server:
        yield server


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/remote"


def said(stage: Stage, prompt: str, thread: str = "t") -> None:
    done = clew(stage, "ask", "-t", thread, prompt)
    assert done.code == 0, done.err


async def said_at_length(stage: Stage, *prompts: str) -> None:
    async with stage.open() as client:
        thread = await client.find("t")
        for prompt in prompts:
            await ask(thread, prompt)


def moved(stage: Stage, way: str, *args: str, **environ: str) -> str:
    """What became of the one thread."""
    done = clew(stage, "threads", way, *args, "--json", **environ)
    assert done.code == 0, done.err
    [thread] = done.json["threads"]
    return str(thread["state"])


def folder_of(url: str) -> Path:
    return Path(url.removeprefix("file://"))


def objects(url: str) -> dict[str, bytes]:
    folder = folder_of(url)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def is_one_line(done: Done, code: int = 2) -> bool:
    return done.code == code and done.out == "" and len(done.err.splitlines()) <= 2 and "internal" not in done.err


@pytest.mark.real
@pytest.mark.parametrize("closed", [False, True], ids=["plain", "encrypted"])
async def test_real_agent_resumes_on_the_other_machine_and_back_again(
    tmp_path: Path, api: ModelApi, s3: S3Server, closed: bool
) -> None:
    voice, url, environ = Voice(api), f"{s3.new_bucket()}/team", s3.environ
    key, keys = pyrage.x25519.Identity.generate(), tmp_path / "key"
    keys.write_text(f"{key}\n")
    first = ["--recipient", str(key.to_public())] if closed else []
    options = ["--identity", str(keys)] if closed else []
    with two_machines(tmp_path, api, "real") as [a, b]:
        async with a.open() as client:
            thread = await client.thread("t", cwd=a.work)
            session = (await ask(thread, voice.prompt())).session_id
        assert moved(a, "push", url, "t", *first, **environ) == "pushed"
        for here, state in ((b, "new"), (a, "updated")):  # there, and back
            came = clew(here, "threads", "pull", url, "t", "--cwd", str(here.work), *options, "--json", **environ)
            assert came.code == 0, came.err
            [pulled] = came.json["threads"]
            assert (pulled["state"], pulled["sessions"][0]["resumable"]) == (state, True)
            async with here.open() as client:
                thread = await client.find("t")
                assert thread.record.cwd == str(here.work)
                history, prompt = await thread.turns(), voice.prompt()
                reply = await ask(thread, prompt)
                assert (reply.session_resumed, reply.reason, reply.session_id) == (True, None, session)
                assert voice.shown == expected(history, prompt), "the whole history, each turn once"
            assert moved(here, "push", url, "t", *options, **environ) == "pushed"
    assert not api.strays


def test_states_say_which_side_has_what(a: Stage, b: Stage, url: str) -> None:
    assert moved(a, "push", url, "t") == "pushed"
    assert moved(a, "push", url, "t") == "unchanged"
    assert moved(b, "pull", url, "t") == "new"
    assert moved(b, "pull", url, "t") == "unchanged"
    assert moved(b, "push", url, "t") == "unchanged"
    said(b, "second question")
    assert moved(b, "pull", url, "t") == "ahead"
    before = objects(url)
    tried = clew(b, "threads", "push", url, "t", "--dry-run", "--json").json
    assert (tried["dry_run"], tried["threads"][0]["state"]) == (True, "pushed")
    assert tried["threads"][0]["new_bytes"] > 0
    assert objects(url) == before, "a dry run sends nothing"
    assert moved(b, "push", url, "t") == "pushed"
    assert moved(a, "push", url, "t") == "behind"
    assert moved(a, "pull", url, "t", "--dry-run") == "updated"
    assert moved(a, "pull", url, "t") == "updated"
    assert objects(url).items() >= before.items(), "nothing is changed, and nothing deleted"
    reply = clew(a, "ask", "-t", "t", "--json", "third question").json
    assert (reply["session_resumed"], reply["reason"]) == (True, None)


def test_update_keeps_what_is_this_machines_and_archives_what_it_replaces(a: Stage, b: Stage, url: str) -> None:
    moved(a, "push", url, "t")
    home = b.folder / "shop"
    home.mkdir()
    moved(b, "pull", url, "t", "--cwd", str(home))
    clew(b, "threads", "set", "t", "--permissions", "edits")
    clew(b, "threads", "rename", "t", "mine")
    moved(b, "push", url, "mine")
    moved(a, "pull", url, "t")
    said(a, "second question")
    moved(a, "push", url, "t")
    assert clew(b, "threads", "archives", "--json").json == []
    assert moved(b, "pull", url, "mine") == "updated"
    [thread] = clew(b, "threads", "list", "--json").json
    assert (thread["name"], thread["cwd"], thread["permissions"]) == ("mine", str(home), "edits")
    assert len(clew(b, "threads", "archives", "--json").json) == 1
    assert clew(b, "ask", "-t", "mine", "--json", "third question").json["session_resumed"]


async def test_bytes_sent_grow_with_the_turn_and_not_with_the_session(a: Stage, url: str) -> None:
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(4_000)]
    small = f"{url}-small"
    clew(a, "threads", "push", small, "t")
    said(a, "one more small question")
    [on_a_small_one] = clew(a, "threads", "push", small, "t", "--json").json["threads"]
    await said_at_length(a, *(" ".join(chance.choices(words, k=25_000)) for _ in range(12)))
    [first] = clew(a, "threads", "push", url, "t", "--json").json["threads"]
    assert first["new_bytes"] > 3_000_000
    before = sum(map(len, objects(url).values()))
    said(a, "one more small question")
    [second] = clew(a, "threads", "push", url, "t", "--json").json["threads"]
    assert second["state"] == "pushed"
    assert sum(map(len, objects(url).values())) - before == second["sent_bytes"], "what is said is what is there"
    # What stood in the last pieces of rows and session goes again with the turn; nothing else does.
    assert second["sent_bytes"] < first["sent_bytes"] / 10
    assert second["sent_bytes"] < on_a_small_one["sent_bytes"] + 8 * PIECE_MEAN
    manifests = [len(content) for path, content in sorted(objects(url).items()) if path.startswith("manifests/")]
    assert max(manifests) < 2 * FAN * 64


def test_conflict_is_said_and_nothing_is_overwritten(a: Stage, b: Stage, url: str) -> None:
    moved(a, "push", url, "t")
    moved(b, "pull", url, "t")
    said(a, "asked on a")
    said(b, "asked on b")
    moved(a, "push", url, "t")
    before = objects(url)
    for way in ("push", "pull"):
        refused = clew(b, "threads", way, url, "t", "--json")
        assert (refused.code, refused.json["error"]["code"]) == (2, "conflict")
        assert "t has gone on" in refused.err and "--name" in refused.err
    assert objects(url) == before
    shown = clew(b, "threads", "show", "t", "--json").json["turns"]
    assert [turn["text"] for turn in shown][::2] == ["first question", "asked on b"]
    came = clew(b, "threads", "pull", url, "t", "--name", "theirs", "--json").json["threads"][0]
    assert (came["state"], came["name"], came["new_ids"]) == ("new", "theirs", True)
    shown = clew(b, "threads", "show", "theirs", "--json").json["turns"]
    assert [turn["text"] for turn in shown][::2] == ["first question", "asked on a"]
    both = clew(b, "threads", "push", url, "--all", "--json")
    assert both.code == 2, "one thread's conflict does not keep the others"
    assert {each["name"]: each["state"] for each in both.json["threads"]} == {"t": "conflict", "theirs": "pushed"}


class Overtaken(ObjectStore):
    """Somebody else does something in the last moment before a manifest is written."""

    first: Callable[[], Awaitable[object]] | None = None

    async def create(self, path: str, content: bytes) -> bool:
        if path.startswith("manifests/") and self.first is not None:
            first, self.first = self.first, None
            await first()
        return await super().create(path, content)


@pytest.mark.parametrize("kind", ["file", "s3"])
async def test_of_two_who_push_at_once_one_is_told(
    a: Stage, b: Stage, url: str, kind: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "s3":
        url = s3.new_bucket()
        for name, value in s3.environ.items():
            monkeypatch.setenv(name, value)
    moved(a, "push", url, "t", **s3.environ)
    moved(b, "pull", url, "t", **s3.environ)
    said(a, "asked on a")
    said(b, "asked on b")
    async with a.open() as ours, b.open() as theirs:
        late = Overtaken(url)
        mine, other = [await open_remote(each, Lock(), to_push=True) for each in (late, ObjectStore(url))]
        late.first = lambda: push(theirs.engine, other, "t", {})
        with pytest.raises(Conflict, match="t has gone on"):
            await push(ours.engine, mine, "t", {})
        [manifest] = (await other.manifests()).manifests
        assert manifest.number == 2
        texts = (await other.fetch(manifest))["rows"].decode()
        assert ("asked on b" in texts, "asked on a" in texts) == (True, False)


KILLED = """
import asyncio, os, signal, sys
from clew import client as api
from clew.engine.object_store import ObjectStore
from clew.hosts.portable_head import Lock
from clew.hosts.portable_remote import open_remote
from clew.hosts.portable_sync import push

class Dying(ObjectStore):
    async def create(self, path, content):
        if path.startswith(sys.argv[2]) and sys.argv[3] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        made = await super().create(path, content)
        if path.startswith(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return made

async def main():
    async with api.open() as client:
        remote = await open_remote(Dying(sys.argv[1]), Lock(), to_push=True)
        await push(client.engine, remote, "t", {})

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "where", ["clew-remote after", "pieces/ after", "manifests/ before", "manifests/ after"], ids=lambda where: where
)
async def test_push_that_is_killed_leaves_a_remote_that_the_next_one_goes_on_with(
    a: Stage, b: Stage, url: str, where: str
) -> None:
    await said_at_length(a, "x" * 200_000)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, url, *where.split()],
        env=a.environ,
        cwd=a.work,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -9, killed.stderr
    left = objects(url)
    listed = clew(b, "threads", "pull", url, "--json")
    assert listed.code == 0, listed.err
    assert len(listed.json["threads"]) == (where == "manifests/ after")
    said(a, "asked after the crash")
    again = clew(a, "threads", "push", url, "t", "--json").json["threads"][0]
    assert again["state"] == "pushed", "also when the last one had got there"
    assert objects(url).items() >= left.items()
    if where.startswith("manifests"):
        assert again["new_bytes"] < 200_000, "what had got there is not sent again"
    assert moved(b, "pull", url, "t") == "new"
    assert clew(b, "ask", "-t", "t", "--json", "go on").json["session_resumed"]


async def test_damage_is_one_line_and_nothing_is_stored(a: Stage, b: Stage, url: str) -> None:
    moved(a, "push", url, "t")
    folder, good = folder_of(url), objects(url)
    [manifest] = [path for path in good if path.startswith("manifests/")]
    piece = max((path for path in good if path.startswith("pieces/")), key=lambda path: len(good[path]))
    head = json.loads(good["clew-remote.json"])
    told = json.loads(zlib.decompress(good[manifest]))

    def manifest_with(**changes: Any) -> bytes:
        return zlib.compress(json.dumps(told | changes).encode())

    parts = told["parts"]
    bad: list[tuple[str, bytes | None]] = [
        (piece, zlib.compress(b"something else")),
        (piece, b"rubbish"),
        (piece, zlib.compress(b"0" * 50_000_000)),
        (piece, good[piece] + b"more"),
        (piece, None),
        (manifest, b"rubbish"),
        (manifest, zlib.compress(b"[1]")),
        (manifest, manifest_with(version=99)),
        (manifest, manifest_with(thread_id="../../etc")),
        (manifest, manifest_with(thread_id="another")),
        (manifest, manifest_with(number=7)),
        (manifest, manifest_with(pushed_at=float("nan"))),
        (manifest, manifest_with(schema=10_000)),
        (manifest, manifest_with(parts=[{**parts[0], "name": "../../x"}, *parts[1:]])),
        (manifest, manifest_with(parts=[{**parts[0], "sha256": "0" * 64}, *parts[1:]])),
        (manifest, manifest_with(parts=[{**parts[0], "pieces": [["../../../x"]]}, *parts[1:]])),
        (manifest, manifest_with(parts=[{**parts[0], "size_bytes": 10**15}, *parts[1:]])),
        (manifest, manifest_with(parts=parts[1:])),
        ("clew-remote.json", b"rubbish"),
        ("clew-remote.json", json.dumps(head | {"version": 99}).encode()),
        ("clew-remote.json", b"age-encryption.org/v1\n-> scrypt rubbish\n"),
    ]
    async with b.open() as client:
        for path, content in bad:
            (folder / path).unlink()
            if content is not None:
                (folder / path).write_bytes(content)
            try:
                with pytest.raises(UsageError) as refused:
                    remote = await open_remote(ObjectStore(url), Lock(lambda _: "whatever"), to_push=False)
                    found = await wanted(client.engine, await remote.manifests(), "t")
                    await pull(client.engine, remote, found, client.archives, cwd=str(b.work))
                assert "\n" not in refused.value.message, (path, content and content[:80])
                if (path, content) == bad[0]:
                    assert is_one_line(clew(b, "threads", "pull", url, "--all"))
            finally:
                (folder / path).write_bytes(good[path])
    assert clew(b, "threads", "list", "--json").json == []
    assert not b.session_files()
    said(a, "elsewhere", "u")
    moved(a, "push", url, "u")
    (folder / manifest).write_bytes(b"rubbish")
    some = clew(b, "threads", "pull", url, "--all", "--json")
    assert (some.code, [each["state"] for each in some.json["threads"]]) == (2, ["new", "failed"]), "not the others"
    (folder / manifest).write_bytes(good[manifest])
    assert moved(b, "pull", url, "t") == "new", "the control"


def test_encrypted_remote_tells_nothing_and_opens_with_its_passphrase_alone(a: Stage, b: Stage, url: str) -> None:
    assert moved(a, "push", url, "t", "--encrypt", **PASSPHRASE) == "pushed"
    thread_id = clew(a, "threads", "list", "--json").json[0]["id"]
    for path, content in objects(url).items():
        assert content.startswith(b"age-encryption.org/v1\n"), path
        assert thread_id not in path
    opened = json.loads(pyrage.passphrase.decrypt(objects(url)["clew-remote.json"], PASSPHRASE["CLEW_PASSPHRASE"]))
    key = pyrage.x25519.Identity.from_str(opened["identity"])
    [first, *_] = [content for path, content in sorted(objects(url).items()) if path.startswith("manifests/")]
    assert json.loads(zlib.decompress(pyrage.decrypt(first, [key])))["name"] == "t", "any age can open it"
    before = objects(url)
    assert is_one_line(clew(a, "threads", "push", url, "t")), "nothing is sent there in the clear"
    assert is_one_line(clew(a, "threads", "push", url, "t", "--encrypt")), "no passphrase"
    assert is_one_line(clew(b, "threads", "pull", url, "t", CLEW_PASSPHRASE="battery staple"))
    assert clew(b, "threads", "list", "--json").json == []
    assert objects(url) == before
    assert moved(b, "pull", url, "t", **PASSPHRASE) == "new"
    plain = f"{url}-plain"
    moved(a, "push", plain, "t")
    assert is_one_line(clew(a, "threads", "push", plain, "t", "--encrypt", **PASSPHRASE))


async def test_recipients_alone_open_it(a: Stage, b: Stage, url: str, tmp_path: Path) -> None:
    mine, other = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
    for name, identity in (("mine", mine), ("other", other)):
        (tmp_path / name).write_text(f"{identity}\n")
    assert moved(a, "push", url, "t", "--recipient", str(mine.to_public())) == "pushed"
    for options in ((), ("--identity", str(tmp_path / "other"))):
        assert is_one_line(clew(b, "threads", "pull", url, "t", *options, **PASSPHRASE))
    await said_at_length(a, "x" * 300_000)
    assert is_one_line(clew(a, "threads", "push", url, "t", "--recipient", str(mine.to_public())))
    assert moved(a, "push", url, "t", "--identity", str(tmp_path / "mine")) == "pushed"
    said(a, "a small one")
    third = clew(a, "threads", "push", url, "t", "--identity", str(tmp_path / "mine"), "--json").json["threads"][0]
    assert third["new_bytes"] < 100_000, "it is incremental all the same"
    assert moved(b, "pull", url, "t", "--identity", str(tmp_path / "mine")) == "new"


def test_files_are_their_owners_and_no_secret_of_the_environment_is_in_them(a: Stage, b: Stage, url: str) -> None:
    planted = {"PLANTED_API_KEY": "planted-0123456789-of-a-vendor", "AWS_SECRET_ACCESS_KEY": "planted-of-a-bucket"}
    old = os.umask(0)
    try:
        assert moved(a, "push", url, "t", **planted) == "pushed"
        assert moved(b, "pull", url, "t", **planted) == "new"
    finally:
        os.umask(old)
    for path in (folder_of(url), *folder_of(url).rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    for folder in (a.folder, b.folder, folder_of(url)):
        for path in folder.rglob("*"):
            raw = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            unpacked = zlib.decompress(raw) if path.parent.parent.name in ("pieces", "manifests") else raw
            assert not any(value.encode() in unpacked for value in planted.values()), path
    said(a, f"My key is {planted['PLANTED_API_KEY']}.")
    before = objects(url)
    refused = clew(a, "threads", "push", url, "t", **planted)
    assert is_one_line(refused)
    assert "PLANTED_API_KEY" in refused.err and planted["PLANTED_API_KEY"] not in refused.err
    assert objects(url) == before
    assert moved(a, "push", url, "t", "--with-secrets", **planted) == "pushed"


def test_thread_with_a_run_under_way_is_not_pushed_and_not_replaced(a: Stage, b: Stage, url: str) -> None:
    moved(a, "push", url, "t")
    moved(b, "pull", url, "t")
    said(a, "second question")
    moved(a, "push", url, "t")
    hanging = subprocess.Popen(
        [sys.executable, "-m", "clew.cli", "ask", "-t", "t", "!hang text words"],
        env={**b.environ, "CLEW_MODEL": MODEL},
        cwd=b.work,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        b.api.wait_for_hanging(1)
        for way in ("push", "pull"):
            assert clew(b, "threads", way, url, "t").code == 8
    finally:
        hanging.terminate()
        hanging.wait(timeout=60)


def test_addresses_and_stores_that_cannot_be_used_are_one_line(a: Stage, s3: S3Server, url: str) -> None:
    bucket = s3.new_bucket()
    for wrong, code, environ in [
        ("ftp://host/x", 2, {}),
        ("s3://user:hunter2hunter2@bucket/x", 2, {}),
        ("s3://bucket/x?sig=hunter2hunter2", 2, {}),
        ("file:///", 2, {}),
        ("file:///dev/null/x", 2, {}),
        ("s3://no-such-bucket-here/x", 2, s3.environ),
        (bucket, 2, s3.environ | {"AWS_SECRET_ACCESS_KEY": "hunter2hunter2"}),
        (bucket, 9, s3.environ | {"AWS_ENDPOINT": "http://127.0.0.1:9"}),
    ]:
        refused = clew(a, "threads", "push", wrong, "t", **environ)
        assert is_one_line(refused, code), (wrong, refused)
        assert "hunter2" not in refused.err
    assert is_one_line(clew(a, "threads", "push", "t")), "no address at all"
    assert is_one_line(clew(a, "threads", "push", url)), "no name"
    assert is_one_line(clew(a, "threads", "pull", url, "t")), "nothing is there"
    assert not folder_of(url).exists()
    assert moved(a, "push", "t", CLEW_REMOTE_URL=url) == "pushed"
    assert is_one_line(clew(a, "threads", "pull", url, "nobody"))


async def test_both_threads_of_a_pair_go_together(a: Stage, b: Stage, url: str) -> None:
    couple = Couple(a, rounds=1)
    async with a.open() as client:
        state = await carried_out(client, a, name="duo")
        names = [thread.name for thread in await client.threads() if thread.record.kind == "pair"]
    both = clew(a, "threads", "push", url, *names, "--json").json["threads"]
    assert [each["state"] for each in both] == ["pushed"], "by either name it is the same"
    assert (both[0]["name"], clew(b, "threads", "pull", url, "--json").json["threads"][0]["name"]) == ("duo", "duo")
    came = clew(b, "threads", "pull", url, "duo", "--json").json["threads"][0]
    assert (came["name"], came["state"]) == ("duo", "new")
    assert [each["resumable"] for each in came["sessions"]] == [True, True]
    assert "clew pair --session duo --permissions edits widens them." in " ".join(came["notes"])
    async with b.open() as client:
        couple.orders.append(order("a91z Nothing is left.", go_on=False))
        state = await resumed(client, state.pair, "u9z Is anything left?", permissions=Permissions.EDITS)
        assert state.status == "finished"
        await couple.check_shown(client, state.pair)
    assert moved(b, "push", url, names[1]) == "pushed"
    assert moved(a, "pull", url, names[0]) == "updated"
    async with a.open() as client:
        here = await client.pairs.find(state.pair.id)
        assert (here.pair.name, len(here.rounds)) == (state.pair.name, len(state.rounds))


def test_pull_that_is_given_a_key_takes_nothing_in_the_clear(a: Stage, b: Stage, url: str, tmp_path: Path) -> None:
    moved(a, "push", url, "t")
    key = tmp_path / "key"
    key.write_text(f"{pyrage.x25519.Identity.generate()}\n")
    for names, option in (((), "--identity"), (("t",), "--passphrase-file")):
        refused = clew(b, "threads", "pull", url, *names, option, key)
        assert is_one_line(refused) and "is not encrypted" in refused.err
    assert clew(b, "threads", "list", "--json").json == []
    assert moved(b, "pull", url, "t", **PASSPHRASE) == "new", "a variable is there for other remotes, too"


async def side(client: Client, way: str, url: str, lock: Lock = OPEN) -> str:
    """What becomes of t, in this process."""
    remote = await open_remote(ObjectStore(url), lock, to_push=way == "push")
    if way == "push":
        return str((await push(client.engine, remote, "t", {})).side)
    theirs = await wanted(client.engine, await remote.manifests(), "t")
    return str((await pull(client.engine, remote, theirs, client.archives, cwd=".")).side)


async def test_remote_that_is_no_longer_encrypted_is_refused_where_it_was_used_before(
    a: Stage, b: Stage, url: str
) -> None:
    key = pyrage.x25519.Identity.generate()
    lock, folder, other = Lock(identity=str(key)), folder_of(url), f"{url}-other"
    async with a.open() as ours, b.open() as theirs:
        assert await side(ours, "push", url, Lock(recipients=(str(key.to_public()),))) == "pushed"
        assert await side(theirs, "pull", url, lock) == "new"
        assert await side(ours, "push", other) == "pushed"
        folder.rename(f"{folder}-aside")
        folder_of(other).rename(folder)
        before = objects(url)
        for client in (ours, theirs):
            await ask(await client.find("t"), "not for everybody")
            for way in ("push", "pull"):
                with pytest.raises(UsageError, match="is not encrypted, and it was"):
                    await side(client, way, url)
        assert objects(url) == before
        folder.rename(f"{folder}-forged")
        folder.with_name(f"{folder.name}-aside").rename(folder)
        assert await side(theirs, "push", url, lock) == "pushed", "the control"


async def test_rows_of_another_thread_take_no_threads_place(a: Stage, b: Stage, url: str) -> None:
    async with a.open() as ours, b.open() as client:
        ids = {"t": (await ours.find("t")).record.id}
        other = await ours.thread("other", cwd=a.work)
        ids["other"] = other.record.id
        await ask(other, "another question")
        await side(ours, "push", url)
        await side(client, "pull", url)
        await push(ours.engine, await open_remote(ObjectStore(url), OPEN, to_push=True), "other", {})
        await ask(await ours.find("t"), "second question")
        await side(ours, "push", url)
        folder, good = folder_of(url), objects(url)
        newest = folder / "manifests" / ids["t"] / "00000002"
        told = json.loads(zlib.decompress(newest.read_bytes()))
        theirs = json.loads(zlib.decompress(good[f"manifests/{ids['other']}/00000001"]))
        for path in (folder / "pieces" / ids["other"]).iterdir():
            (folder / "pieces" / ids["t"] / path.name).write_bytes(path.read_bytes())
        forged: list[dict[str, Any]] = [{"parts": theirs["parts"]}, {"parts": theirs["parts"], "names": ["t", "other"]}]
        forged.append({"names": ["someone"]})
        for change in forged:
            newest.write_bytes(zlib.compress(json.dumps(told | {"state": "0" * 64} | change).encode()))
            remote = await open_remote(ObjectStore(url), Lock(), to_push=False)
            found = await wanted(client.engine, await remote.manifests(), ids["t"])
            for name in (None, "beside"):
                with pytest.raises(UsageError, match="a thread is not what was pushed"):
                    await pull(client.engine, remote, found, client.archives, cwd=str(b.work), name=name)
            assert [thread.name for thread in await client.threads()] == ["t"], change
        newest.write_bytes(good[f"manifests/{ids['t']}/00000002"])
        listed = (await remote.manifests()).manifests
        rows = b"".join([(await remote.fetch(each))["rows"] for each in listed])
        (folder / "pieces" / ids["t"] / sha256(rows)).write_bytes(zlib.compress(rows))
        part = {"name": "rows", "size_bytes": len(rows), "sha256": sha256(rows), "pieces": [[sha256(rows)]]}
        both = told | {"state": "0" * 64, "names": ["t", "other"], "parts": [part]}
        newest.write_bytes(zlib.compress(json.dumps(both).encode()))
        with pytest.raises(UsageError, match="a thread is not what was pushed"):
            await side(client, "pull", url)
        assert not list((b.clew_home / "archive").glob("*.json"))
        newest.write_bytes(good[f"manifests/{ids['t']}/00000002"])
        assert await side(client, "pull", url) == "updated", "the control"
        assert list((b.clew_home / "archive").glob("*.json"))


async def test_names_that_no_push_has_written_are_ignored(a: Stage, b: Stage, url: str) -> None:
    moved(a, "push", url, "t")
    [first] = (folder_of(url) / "manifests").rglob("00000001")
    for stray in ("000000099", "99", "٩٩٩٩٩٩٩٩", "0000009x", "below/00000099"):
        (first.parent / stray).parent.mkdir(exist_ok=True)
        (first.parent / stray).write_bytes(first.read_bytes())
    (first.parent.parent / "00000099").write_bytes(first.read_bytes())
    listed = clew(b, "threads", "pull", url, "--json").json
    assert [each["name"] for each in listed["threads"]] == ["t"]
    async with a.open() as ours, b.open() as theirs:
        assert await side(theirs, "pull", url) == "new"
        await ask(await theirs.find("t"), "second question")
        assert [await side(theirs, "push", url), await side(ours, "pull", url)] == ["pushed", "updated"]


@pytest.mark.parametrize(
    "change",
    [{"turns": -5}, {"turns": 10**40}, {"schema": -1}, {"pushed_at": 1e300}, {"pushed_at": -1.0}],
    ids=lambda change: str(next(iter(change.items()))),
)
def test_manifest_with_absurd_counts_is_damaged(change: dict[str, Any]) -> None:
    part = {"name": "rows", "size_bytes": 1, "sha256": "0" * 64, "pieces": [["0" * 64]]}
    good = {"format": "clew-remote-thread", "version": 1, "parent": None, "names": ["t"], "parts": [part]}
    good |= dict.fromkeys(("thread_id", "state", "name", "kind", "agent"), "t")
    good |= {"number": 1, "schema": 1, "turns": 1, "pushed_at": 1.0}
    assert read_manifest(json.dumps(good).encode()).turns == 1, "the control"
    for number in (0, 10**8 - 1, 10**8):
        with pytest.raises(UsageError, match="damaged"):
            read_manifest(json.dumps(good | {"number": number}).encode())
    with pytest.raises(UsageError, match="damaged"):
        read_manifest(json.dumps(good | change).encode())


async def test_folder_of_a_remote_is_read_without_waiting_and_left_by_no_link(
    a: Stage, b: Stage, url: str, tmp_path: Path
) -> None:
    moved(a, "push", url, "t")
    folder = folder_of(url)
    piece = next(path for path in (folder / "pieces").rglob("*") if path.is_file())
    content = piece.read_bytes()
    for make in (os.mkfifo, Path.mkdir, lambda path: path.symlink_to(tmp_path / "aside")):
        (tmp_path / "aside").write_bytes(content)
        piece.unlink()
        make(piece)
        async with b.open() as client:
            with pytest.raises(UsageError, match=r"no plain file|is a link"):
                await asyncio.wait_for(side(client, "pull", url), 60)
        piece.rmdir() if piece.is_dir() else piece.unlink()
        piece.write_bytes(content)
    head = folder / "clew-remote.json"
    head.rename(tmp_path / "head")
    os.mkfifo(head)
    assert is_one_line(clew(a, "threads", "pull", url, "t"))
    head.unlink()
    (tmp_path / "head").rename(head)
    outside = tmp_path / "outside"
    (folder / "manifests").rename(outside)
    (folder / "manifests").symlink_to(outside)
    before = {path: path.is_file() and path.read_bytes() for path in outside.rglob("*")}
    said(a, "second question")
    for way in ("push", "pull"):
        refused = clew(a, "threads", way, url, "t")
        assert is_one_line(refused) and "is a link" in refused.err
    assert {path: path.is_file() and path.read_bytes() for path in outside.rglob("*")} == before
    (folder / "manifests").unlink()
    outside.rename(folder / "manifests")
    (tmp_path / "way").symlink_to(folder)
    assert moved(a, "push", f"file://{tmp_path}/way", "t") == "pushed", "a remote itself may lie behind a link"


async def test_remote_that_is_older_than_what_was_pushed_before_is_merely_behind(a: Stage, b: Stage, url: str) -> None:
    """A copy of it, or one that came back out of a backup."""
    copy = f"{url}-copy"
    async with a.open() as ours, b.open() as theirs:
        mine = await ours.find("t")
        await side(ours, "push", url)
        await side(theirs, "pull", url)
        shutil.copytree(folder_of(url), folder_of(copy))
        for question in ("second question", "third question"):
            await ask(mine, question)
            await side(ours, "push", url)
        assert [await side(ours, way, copy) for way in ("pull", "push")] == ["ahead", "pushed"]
        assert await side(ours, "push", url) == "unchanged"
        await ask(mine, "fourth question")
        assert [await side(ours, "push", each) for each in (url, copy, url)] == ["pushed", "pushed", "unchanged"]
        await ask(await theirs.find("t"), "asked on b")
        with pytest.raises(Conflict):  # what b has not seen
            await side(theirs, "push", copy)
        shutil.rmtree(folder_of(url))
        shutil.copytree(folder_of(copy), folder_of(url))
        (newest := max((folder_of(url) / "manifests").rglob("0*"))).unlink()
        assert newest.name == "00000003"
        await ask(mine, "fifth question")
        assert await side(ours, "push", url) == "pushed"
        remote = await open_remote(ObjectStore(url), Lock(), to_push=False)
        [manifest] = (await remote.manifests()).manifests
        rows = (await remote.fetch(manifest))["rows"].decode()
        assert (manifest.number, "third question" in rows, "fifth question" in rows) == (3, True, True)


async def test_what_came_back_older_knows_nothing_of_what_was_here_before(a: Stage, url: str) -> None:
    later = f"{url}-later"
    async with a.open() as ours:
        await side(ours, "push", url)
        shutil.copytree(folder_of(url), folder_of(later))
        await ask(await ours.find("t"), "second question")
        await side(ours, "push", later)
        await ours.archives.archive("t")
        assert await side(ours, "pull", url) == "new"
        await ask(await ours.find("t"), "another second question")
        with pytest.raises(Conflict):
            await side(ours, "push", later)
