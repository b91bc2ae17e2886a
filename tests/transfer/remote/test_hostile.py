"""Remotes that were damaged, forged or exchanged: the error is one line, and nothing is stored."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import pyrage
import pytest

from clew.errors import Conflict, UsageError
from clew.hosts.transfer.remote.chunks import read_manifest, sha256
from clew.hosts.transfer.remote.header import RemoteKeys
from clew.hosts.transfer.remote.object_store import ObjectStore
from clew.hosts.transfer.remote.remote import open_remote
from clew.hosts.transfer.remote.sync import find_manifest, pull, push
from clew.testing.stage import Stage
from transfer.machines import ask, clew
from transfer.remote.remotes import OPEN, PASSPHRASE, folder_of, is_one_line, moved, objects, said, synced


@pytest.mark.rest
async def test_damage_is_reported_in_one_line_and_nothing_is_stored(a: Stage, b: Stage, url: str) -> None:
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
                    remote = await open_remote(ObjectStore(url), RemoteKeys(lambda _: "whatever"), to_push=False)
                    found = await find_manifest(client.engine, await remote.manifests(), "t")
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


def test_pull_with_a_key_refuses_an_unencrypted_remote(a: Stage, b: Stage, url: str, tmp_path: Path) -> None:
    moved(a, "push", url, "t")
    key = tmp_path / "key"
    key.write_text(f"{pyrage.x25519.Identity.generate()}\n")
    for names, option in (((), "--identity"), (("t",), "--passphrase-file")):
        refused = clew(b, "threads", "pull", url, *names, option, key)
        assert is_one_line(refused) and "is not encrypted" in refused.err
    assert clew(b, "threads", "list", "--json").json == []
    assert moved(b, "pull", url, "t", **PASSPHRASE) == "new", "a variable is there for other remotes, too"


async def test_remote_that_is_no_longer_encrypted_is_refused_where_it_was_used_before(
    a: Stage, b: Stage, url: str
) -> None:
    key = pyrage.x25519.Identity.generate()
    keys, folder, other = RemoteKeys(identity=str(key)), folder_of(url), f"{url}-other"
    async with a.open() as ours, b.open() as theirs:
        assert await synced(ours, "push", url, RemoteKeys(recipients=(str(key.to_public()),))) == "pushed"
        assert await synced(theirs, "pull", url, keys) == "new"
        assert await synced(ours, "push", other) == "pushed"
        folder.rename(f"{folder}-aside")
        folder_of(other).rename(folder)
        before = objects(url)
        for client in (ours, theirs):
            await ask(await client.find("t"), "not for everybody")
            for way in ("push", "pull"):
                with pytest.raises(UsageError, match="is not encrypted, and it was"):
                    await synced(client, way, url)
        assert objects(url) == before
        folder.rename(f"{folder}-forged")
        folder.with_name(f"{folder.name}-aside").rename(folder)
        assert await synced(theirs, "push", url, keys) == "pushed", "the control"


async def test_rows_of_another_thread_are_refused(a: Stage, b: Stage, url: str) -> None:
    async with a.open() as ours, b.open() as client:
        ids = {"t": (await ours.find("t")).record.id}
        other = await ours.thread("other", cwd=a.work)
        ids["other"] = other.record.id
        await ask(other, "another question")
        await synced(ours, "push", url)
        await synced(client, "pull", url)
        await push(ours.engine, await open_remote(ObjectStore(url), OPEN, to_push=True), "other", {})
        await ask(await ours.find("t"), "second question")
        await synced(ours, "push", url)
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
            remote = await open_remote(ObjectStore(url), RemoteKeys(), to_push=False)
            found = await find_manifest(client.engine, await remote.manifests(), ids["t"])
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
            await synced(client, "pull", url)
        assert not list((b.clew_home / "archive").glob("*.json"))
        newest.write_bytes(good[f"manifests/{ids['t']}/00000002"])
        assert await synced(client, "pull", url) == "updated", "the control"
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
        assert await synced(theirs, "pull", url) == "new"
        await ask(await theirs.find("t"), "second question")
        assert [await synced(theirs, "push", url), await synced(ours, "pull", url)] == ["pushed", "updated"]


def good_manifest() -> dict[str, Any]:
    part = {"name": "rows", "size_bytes": 1, "sha256": "0" * 64, "pieces": [["0" * 64]]}
    good = {"format": "clew-remote-thread", "version": 1, "parent": None, "names": ["t"], "parts": [part]}
    good |= dict.fromkeys(("thread_id", "state", "name", "kind", "agent"), "t")
    return good | {"number": 1, "schema": 1, "turns": 1, "pushed_at": 1.0}


@pytest.mark.parametrize(
    "change",
    [{"turns": -5}, {"turns": 10**40}, {"schema": -1}, {"pushed_at": 1e300}, {"pushed_at": -1.0}],
    ids=lambda change: str(next(iter(change.items()))),
)
def test_manifest_with_absurd_counts_is_damaged(change: dict[str, Any]) -> None:
    good = good_manifest()
    assert read_manifest(json.dumps(good).encode()).turns == 1, "the control"
    for number in (0, 10**8 - 1, 10**8):
        with pytest.raises(UsageError, match="damaged"):
            read_manifest(json.dumps(good | {"number": number}).encode())
    with pytest.raises(UsageError, match="damaged"):
        read_manifest(json.dumps(good | change).encode())


@pytest.mark.parametrize("before", ["/", "../../", "0"])
@pytest.mark.parametrize("what", ["sha256", "pieces"])
def test_manifest_names_nothing_but_digests(what: str, before: str) -> None:
    good = good_manifest()
    digest = before + "0" * 64
    good["parts"][0][what] = digest if what == "sha256" else [[digest]]
    with pytest.raises(UsageError, match="damaged"):
        read_manifest(json.dumps(good).encode())


async def test_remote_folder_is_read_without_waiting_and_without_following_links(
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
            with pytest.raises(UsageError, match=r"not a plain file|is a link"):
                await asyncio.wait_for(synced(client, "pull", url), 60)
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


@pytest.mark.rest
async def test_remote_that_is_older_than_what_was_pushed_before_is_merely_behind(a: Stage, b: Stage, url: str) -> None:
    """A copy of the remote, or one that was restored from a backup."""
    copy = f"{url}-copy"
    async with a.open() as ours, b.open() as theirs:
        mine = await ours.find("t")
        await synced(ours, "push", url)
        await synced(theirs, "pull", url)
        shutil.copytree(folder_of(url), folder_of(copy))
        for question in ("second question", "third question"):
            await ask(mine, question)
            await synced(ours, "push", url)
        assert [await synced(ours, way, copy) for way in ("pull", "push")] == ["ahead", "pushed"]
        assert await synced(ours, "push", url) == "unchanged"
        await ask(mine, "fourth question")
        assert [await synced(ours, "push", each) for each in (url, copy, url)] == ["pushed", "pushed", "unchanged"]
        await ask(await theirs.find("t"), "asked on b")
        with pytest.raises(Conflict):  # b has not seen this push
            await synced(theirs, "push", copy)
        shutil.rmtree(folder_of(url))
        shutil.copytree(folder_of(copy), folder_of(url))
        (newest := max((folder_of(url) / "manifests").rglob("0*"))).unlink()
        assert newest.name == "00000003"
        await ask(mine, "fifth question")
        assert await synced(ours, "push", url) == "pushed"
        remote = await open_remote(ObjectStore(url), RemoteKeys(), to_push=False)
        [manifest] = (await remote.manifests()).manifests
        rows = (await remote.fetch(manifest))["rows"].decode()
        assert (manifest.number, "third question" in rows, "fifth question" in rows) == (3, True, True)


async def test_a_thread_pulled_from_an_older_remote_conflicts_with_the_newer_one(a: Stage, url: str) -> None:
    later = f"{url}-later"
    async with a.open() as ours:
        await synced(ours, "push", url)
        shutil.copytree(folder_of(url), folder_of(later))
        await ask(await ours.find("t"), "second question")
        await synced(ours, "push", later)
        await ours.archives.archive("t")
        assert await synced(ours, "pull", url) == "new"
        await ask(await ours.find("t"), "another second question")
        with pytest.raises(Conflict):
            await synced(ours, "push", later)
