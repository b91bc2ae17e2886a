"""`clew threads push` and `pull`: the same thread on two machines, through an object store or a shared folder."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import zlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pyrage
import pytest

import forkserver
from clew.core.thread import Permissions
from clew.errors import Conflict
from clew.hosts.transfer.remote.chunks import FAN_OUT, MEAN_CHUNK_BYTES
from clew.hosts.transfer.remote.header import RemoteKeys
from clew.hosts.transfer.remote.object_store import ObjectStore
from clew.hosts.transfer.remote.remote import open_remote
from clew.hosts.transfer.remote.sync import push
from clew.testing.model.api import ModelApi
from clew.testing.s3 import S3Server
from clew.testing.stage import MODEL, Stage
from clew.testing.truth import TokenModel, expected
from pairs.couple import Couple, carried_out, order, resumed
from transfer.machines import ask, clew, two_machines
from transfer.remote.remotes import PASSPHRASE, folder_of, is_one_line, moved, objects, said, said_at_length


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3") / "data") as server:
        yield server


@pytest.mark.real
@pytest.mark.parametrize(
    "closed", [pytest.param(False, marks=pytest.mark.always, id="plain"), pytest.param(True, id="encrypted")]
)
async def test_real_agent_resumes_on_the_other_machine_and_back_again(
    tmp_path: Path, api: ModelApi, s3: S3Server, closed: bool
) -> None:
    voice, url, environ = TokenModel(api), f"{s3.new_bucket()}/team", s3.environ
    key, keys = pyrage.x25519.Identity.generate(), tmp_path / "key"
    keys.write_text(f"{key}\n")
    signing = tmp_path / "signing"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(signing)], check=True)
    sign, trust = (["--sign", str(signing)], ["--signers", f"{signing}.pub"]) if closed else ([], [])
    first = ["--recipient", str(key.to_public())] if closed else []
    options = ["--identity", str(keys)] if closed else []
    with two_machines(tmp_path, api, "real") as [a, b]:
        async with a.open() as client:
            thread = await client.thread("t", cwd=a.work)
            session = (await ask(thread, voice.prompt())).session_id
        assert moved(a, "push", url, "t", *first, *sign, **environ) == "pushed"
        for here, state in ((b, "new"), (a, "updated")):  # there, and back
            came = clew(
                here, "threads", "pull", url, "t", "--cwd", str(here.work), *options, *trust, "--json", **environ
            )
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
            assert moved(here, "push", url, "t", *options, *sign, **environ) == "pushed"
    assert not api.refused_hosts


@pytest.mark.rest
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


@pytest.mark.rest
def test_update_keeps_local_values_and_archives_what_it_replaces(a: Stage, b: Stage, url: str) -> None:
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


@pytest.mark.rest
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
    # The last chunks of the rows and of the session are sent again with the turn, and nothing else.
    assert second["sent_bytes"] < first["sent_bytes"] / 10
    assert second["sent_bytes"] < on_a_small_one["sent_bytes"] + 8 * MEAN_CHUNK_BYTES
    manifests = [len(content) for path, content in sorted(objects(url).items()) if path.startswith("manifests/")]
    assert max(manifests) < 2 * FAN_OUT * 64


@pytest.mark.rest
def test_conflict_is_reported_and_nothing_is_overwritten(a: Stage, b: Stage, url: str) -> None:
    moved(a, "push", url, "t")
    moved(b, "pull", url, "t")
    said(a, "asked on a")
    said(b, "asked on b")
    moved(a, "push", url, "t")
    before = objects(url)
    for way in ("push", "pull"):
        refused = clew(b, "threads", way, url, "t", "--json")
        assert (refused.code, refused.json["error"]["code"]) == (2, "conflict")
        assert "t has changed here" in refused.err and "--name" in refused.err
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
    """Another client acts just before a manifest is written."""

    first: Callable[[], Awaitable[object]] | None = None

    async def create(self, path: str, content: bytes) -> bool:
        if path.startswith("manifests/") and self.first is not None:
            first, self.first = self.first, None
            await first()
        return await super().create(path, content)


@pytest.mark.rest
@pytest.mark.parametrize("kind", ["file", "s3"])
async def test_of_two_concurrent_pushes_one_is_a_conflict(
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
        mine, other = [await open_remote(each, RemoteKeys(), to_push=True) for each in (late, ObjectStore(url))]
        late.first = lambda: push(theirs.engine, other, "t", {})
        with pytest.raises(Conflict, match="t has changed here"):
            await push(ours.engine, mine, "t", {})
        [manifest] = (await other.manifests()).manifests
        assert manifest.number == 2
        texts = (await other.fetch(manifest))["rows"].decode()
        assert ("asked on b" in texts, "asked on a" in texts) == (True, False)


KILLED = """
import asyncio, os, signal, sys
from clew.api import client as api
from clew.hosts.transfer.remote.object_store import ObjectStore
from clew.hosts.transfer.remote.header import RemoteKeys
from clew.hosts.transfer.remote.remote import open_remote
from clew.hosts.transfer.remote.sync import push

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
        remote = await open_remote(Dying(sys.argv[1]), RemoteKeys(), to_push=True)
        await push(client.engine, remote, "t", {})

asyncio.run(main())
"""


@pytest.mark.rest
@pytest.mark.parametrize(
    "where", ["clew-remote after", "pieces/ after", "manifests/ before", "manifests/ after"], ids=lambda where: where
)
async def test_the_next_push_continues_after_one_that_was_killed(a: Stage, b: Stage, url: str, where: str) -> None:
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


@pytest.mark.rest
def test_encrypted_remote_reveals_nothing_and_needs_its_passphrase(a: Stage, b: Stage, url: str) -> None:
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
    assert is_one_line(clew(a, "threads", "push", url, "t")), "nothing is sent there unencrypted"
    assert is_one_line(clew(a, "threads", "push", url, "t", "--encrypt")), "no passphrase"
    assert is_one_line(clew(b, "threads", "pull", url, "t", CLEW_PASSPHRASE="battery staple"))
    assert clew(b, "threads", "list", "--json").json == []
    assert objects(url) == before
    assert moved(b, "pull", url, "t", **PASSPHRASE) == "new"
    plain = f"{url}-plain"
    moved(a, "push", plain, "t")
    assert is_one_line(clew(a, "threads", "push", plain, "t", "--encrypt", **PASSPHRASE))


@pytest.mark.rest
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


@pytest.mark.rest
def test_files_are_private_and_contain_no_secret_of_the_environment(a: Stage, b: Stage, url: str) -> None:
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


@pytest.mark.rest
def test_thread_with_a_run_in_progress_is_not_pushed_and_not_replaced(a: Stage, b: Stage, url: str) -> None:
    moved(a, "push", url, "t")
    moved(b, "pull", url, "t")
    said(a, "second question")
    moved(a, "push", url, "t")
    hanging = forkserver.start(
        ["ask", "-t", "t", "!hang text words"],
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


@pytest.mark.rest
def test_unusable_addresses_and_stores_are_reported_in_one_line(a: Stage, s3: S3Server, url: str) -> None:
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


@pytest.mark.rest
async def test_both_threads_of_a_pair_are_pushed_together(a: Stage, b: Stage, url: str) -> None:
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
    assert f"The pair duo is in round {state.pair.number}." in came["notes"]
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
