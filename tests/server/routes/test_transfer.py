"""Exports, imports, remotes and archives over HTTP: round trips, refusals, limits, and a cancel in the middle."""

from __future__ import annotations

import io
import os
import time
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pyrage
import pytest

from clew.hosts.transfer.export_file import unpack
from clew.server.security import body_limits, guards
from clew.server.security.body_limits import MAX_UPLOAD_BYTES
from clew.testing.stage import Stage
from clew.testing.store_contract.pairs import a_pair
from clew.testing.store_contract.samples import a_thread, a_turn
from server.daemons import LocalDaemon, local_daemon

Sent = tuple[str, dict[str, Any]]


@pytest.fixture
async def stored(daemon: LocalDaemon) -> LocalDaemon:
    await put(daemon, "t")
    return daemon


async def put(daemon: LocalDaemon, name: str, cwd: Path | None = None, text: str = "hello") -> None:
    """A thread with one turn, without an agent."""
    assert daemon.shared is not None
    thread, turn = a_thread(f"id-{name}", name, cwd=str(cwd or daemon.stage.work)), a_turn(f"turn-{name}", text=text)

    def create(store: Any) -> None:
        store.threads.create(thread)
        store.turns.add(thread.id, turn)

    await daemon.shared.client.engine.store.call(create)


async def done(daemon: LocalDaemon, operation: Any) -> Any:
    """The operation after its end. Its events are followed, so nothing is polled."""
    async for _ in followed(daemon, operation["id"]):
        pass
    return await daemon.get(f"/api/operations/{operation['id']}")


async def followed(daemon: LocalDaemon, operation_id: str) -> AsyncIterator[str]:
    async with daemon.http.stream("GET", f"/api/operations/{operation_id}/events") as response:
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                yield line.removeprefix("event: ")


async def exported(daemon: LocalDaemon, name: str = "t", **body: Any) -> bytes:
    operation = await done(daemon, await daemon.post(f"/api/threads/{name}/export", body))
    assert operation["status"] == "done", operation["error"]
    response = await daemon.http.get(operation["file"]["address"])
    assert response.status_code == 200
    return response.content


async def imported(daemon: LocalDaemon, content: bytes, **fields: str) -> httpx.Response:
    form = {"cwd": str(daemon.stage.work), **fields}
    return await daemon.http.post("/api/imports", files={"file": ("t.clew", content)}, data=form)


async def names(daemon: LocalDaemon) -> list[str]:
    return sorted(each["name"] for each in (await daemon.get("/api/threads?kind=all"))["items"])


async def test_an_export_is_downloaded_and_imported(stored: LocalDaemon) -> None:
    begun = await stored.http.post("/api/threads/t/export", json={})
    assert (begun.status_code, begun.headers["location"]) == (202, f"/api/operations/{begun.json()['id']}")
    operation = await done(stored, begun.json())
    assert (operation["kind"], operation["status"], operation["message"]) == ("export", "done", "reading t")
    assert operation["file"]["name"] == operation["result"]["file"] == "t.clew"
    content = (await stored.http.get(operation["file"]["address"])).content
    assert unpack(content).manifest["thread"]["name"] == "t"
    assert operation["result"]["size_bytes"] == len(content)

    tried = await done(stored, (await imported(stored, content, name="copy", dry_run="true")).json())
    assert (tried["status"], tried["result"]["dry_run"], await names(stored)) == ("done", True, ["t"])
    came = await done(stored, (await imported(stored, content, name="copy")).json())
    assert came["result"]["threads"][0] | {"id": ""} == {"name": "copy", "id": "", "cwd": str(stored.stage.work)}
    assert [turn["text"] for turn in await stored.turns("copy")] == ["hello"]


async def test_an_encrypted_export_opens_with_its_passphrase_only(stored: LocalDaemon) -> None:
    content = await exported(stored, passphrase="correct horse")
    assert b"hello" not in content
    for fields, words in (({}, "The file is encrypted."), ({"passphrase": "battery"}, "does not decrypt the file")):
        failed = await done(stored, (await imported(stored, content, name="copy", **fields)).json())
        assert (failed["status"], words in failed["error"]["message"]) == ("failed", True)
        assert "battery" not in str(failed)
    assert await names(stored) == ["t"]
    came = await done(stored, (await imported(stored, content, name="copy", passphrase="correct horse")).json())
    assert came["status"] == "done"


async def test_an_export_for_a_recipient_is_imported_with_the_identity(stored: LocalDaemon) -> None:
    mine = pyrage.x25519.Identity.generate()
    content = await exported(stored, recipients=[str(mine.to_public())])
    came = await done(stored, (await imported(stored, content, name="copy", identity=str(mine))).json())
    assert (came["status"], await names(stored)) == ("done", ["copy", "t"])


async def test_a_secret_stops_an_export_and_redact_blanks_it(daemon: LocalDaemon) -> None:
    secret = "sk-ant-api03-" + "x1Y2z3" * 6
    await put(daemon, "t", text=f"My key is {secret}.")
    failed = await done(daemon, await daemon.post("/api/threads/t/export"))
    assert (failed["error"]["code"], failed["error"]["secrets"][0]["where"]) == ("secret_found", "turn 1")
    assert secret.encode() not in await exported(daemon, redact=True)
    assert secret.encode() in await exported(daemon, with_secrets=True)


async def test_options_that_contradict_each_other_are_refused_at_once(stored: LocalDaemon) -> None:
    work = str(stored.stage.work)
    for path, body in (
        ("threads/t/export", {"redact": True, "with_secrets": True}),
        ("threads/t/export", {"recipients": ["age1nonsense"]}),
        ("threads/t/export", {"sign": "/key"}),
        ("remotes/push", {"url": f"file://{work}/r"}),
        ("remotes/push", {"url": f"file://{work}/r", "all": True, "threads": ["t"]}),
        ("remotes/push", {"threads": ["t"]}),
        ("remotes/pull", {"url": "ftp://host/x", "cwd": work, "all": True}),
        ("remotes/pull", {"url": f"file://{work}/r", "cwd": work, "all": True, "name": "x"}),
        ("archives/clean", {"kind": "chat"}),
    ):
        refused = await stored.http.post(f"/api/{path}", json=body)
        assert refused.status_code == 422, (path, body, refused.text)
    assert await stored.get("/api/operations") == {"items": []}


async def test_a_push_and_a_pull_on_a_local_remote(stored: LocalDaemon) -> None:
    url = f"file://{stored.stage.work}/remote"
    pushed = await done(stored, await stored.post("/api/remotes/push", {"url": url, "threads": ["t"]}))
    assert (pushed["status"], pushed["result"]["threads"][0]["state"]) == ("done", "pushed")
    listed = await stored.post("/api/remotes/list", {"url": url}, 200)
    assert [(each["name"], each["turns"]) for each in listed["threads"]] == [("t", 1)]
    archived = await stored.post("/api/archives", {"thread": "t"}, 201)
    assert (archived["thread"], await names(stored)) == ("t", [])

    body = {"url": url, "cwd": str(stored.stage.work), "all": True}
    pulled = await done(stored, await stored.post("/api/remotes/pull", body))
    assert (pulled["result"]["threads"][0]["state"], await names(stored)) == ("new", ["t"])
    await put(stored, "other")
    two = await done(stored, await stored.post("/api/remotes/push", {"url": url, "threads": ["t", "nobody", "other"]}))
    assert [each["state"] for each in two["result"]["threads"]] == ["unchanged", "failed", "pushed"]
    assert two["result"]["threads"][1]["error"]["code"] == "not_found"
    events = (await stored.http.get(f"/api/operations/{two['id']}/events")).text
    assert '"message":"reading other (3 of 3)"' in events and '"thread":"other"' in events


async def test_an_encrypted_remote_needs_its_passphrase(stored: LocalDaemon) -> None:
    url, words = f"file://{stored.stage.work}/remote", "correct horse"
    body = {"url": url, "threads": ["t"], "passphrase": words}
    assert (await done(stored, await stored.post("/api/remotes/push", body)))["result"]["encrypted"] is True
    refused = await stored.http.post("/api/remotes/list", json={"url": url, "passphrase": "battery"})
    assert (refused.status_code, "battery" in refused.text) == (422, False)
    assert len((await stored.post("/api/remotes/list", {"url": url, "passphrase": words}, 200))["threads"]) == 1


async def test_archives_are_listed_restored_and_cleaned(stored: LocalDaemon) -> None:
    await stored.post("/api/archives", {"thread": "t"}, 201)
    [file] = (await stored.get("/api/archives"))["items"]
    assert (file["name"], file["turns"], file["problem"]) == ("t", 1, None)
    restored = await done(stored, await stored.post("/api/archives/t/restore"))
    assert (restored["result"]["was"], await names(stored)) == ("t", ["t"])
    again = await done(stored, await stored.post(f"/api/archives/{Path(file['file']).name}/restore"))
    assert (again["result"]["copy"], await names(stored)) == (True, ["t", "t-2"])

    await put(stored, "old")  # its sample was used long ago
    tried = await done(stored, await stored.post("/api/archives/clean", {"older_than_s": 3600, "dry_run": True}))
    assert [each["thread"] for each in tried["result"]["archived"]] == ["old"]
    assert tried["message"] == "would archive old"
    await done(stored, await stored.post("/api/archives/clean", {"older_than_s": 3600}))
    assert await names(stored) == ["t", "t-2"]


async def test_only_archives_of_this_store_are_restored(stored: LocalDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    await stored.post("/api/archives", {"thread": "t"}, 201)
    [file] = (await stored.get("/api/archives"))["items"]
    elsewhere = stored.stage.work / "gift.json"
    Path(file["file"]).rename(elsewhere)
    monkeypatch.chdir(stored.stage.work)
    for name in ("t", "gift.json", str(elsewhere).replace("/", "%2F"), "..%2Fgift.json", "~"):
        assert (await stored.http.post(f"/api/archives/{name}/restore")).status_code in (404, 405), name
    assert await names(stored) == []


POSTS = (
    "threads/t/export",
    "imports",
    "remotes/push",
    "remotes/pull",
    "remotes/list",
    "archives",
    "archives/t/restore",
    "archives/clean",
)


async def test_every_call_needs_the_token_and_its_own_origin(stored: LocalDaemon) -> None:
    content = await exported(stored)
    form = {"files": {"file": ("t.clew", content)}, "data": {"cwd": str(stored.stage.work), "name": "copy"}}
    stored.http.headers.pop("authorization")
    for path in POSTS:
        assert (await stored.http.post(f"/api/{path}", json={})).status_code == 401, path
    assert (await stored.http.post("/api/imports", **form)).status_code == 401
    assert (await stored.http.get("/api/archives")).status_code == 401
    async with local_daemon(stored.stage) as other:
        foreign = {"Origin": "https://evil.example"}
        assert (await other.http.post("/api/imports", headers=foreign, **form)).status_code == 403
        assert await names(other) == ["t"]


async def test_nothing_is_used_outside_of_the_roots(scripted: Stage, tmp_path: Path) -> None:
    root, outside = scripted.work / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to(outside)
    async with local_daemon(scripted, roots=[root]) as daemon:
        await put(daemon, "in", root)
        await put(daemon, "out", outside)
        content = await exported(daemon, "in")
        inner, outer, linked = (f"file://{place}/remote" for place in (root, outside, root / "link"))
        there = {"url": inner, "cwd": str(root)}
        await done(daemon, await daemon.post("/api/remotes/push", {"url": inner, "threads": ["in"]}))
        refused: list[Sent] = [
            ("threads/out/export", {}),
            ("archives", {"thread": "out"}),
            ("remotes/push", {"url": inner, "threads": ["out"]}),
            ("remotes/pull", {**there, "threads": ["out"]}),
            ("remotes/pull", {**there, "cwd": str(outside), "all": True}),
        ]
        for url in (outer, linked):
            refused += [
                ("remotes/push", {"url": url, "threads": ["in"]}),
                ("remotes/pull", {**there, "url": url, "all": True}),
                ("remotes/list", {"url": url}),
            ]
        for path, body in refused:
            response = await daemon.http.post(f"/api/{path}", json=body)
            assert response.status_code == 403, (path, body, response.text)
        for cwd in (outside, root / "link"):
            assert (await imported(daemon, content, cwd=str(cwd), name="copy")).status_code == 403
        assert list(outside.iterdir()) == []

        everything = await done(daemon, await daemon.post("/api/remotes/push", {"url": inner, "all": True}))
        states = {each["name"]: each["state"] for each in everything["result"]["threads"]}
        assert states == {"in": "unchanged", "out": "failed"}
        cleaned = await done(daemon, await daemon.post("/api/archives/clean", {"older_than_s": 3600}))
        assert [each["thread"] for each in cleaned["result"]["archived"]] == ["in"]
        assert await names(daemon) == ["out"]
        assert daemon.shared is not None
        await daemon.shared.client.archives.archive("out")
        assert (await daemon.http.post("/api/archives/out/restore")).status_code == 403


async def test_a_pair_that_is_partly_outside_of_the_roots_is_left_alone(scripted: Stage, tmp_path: Path) -> None:
    root, outside = scripted.work / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    scripted.clew_home.mkdir(parents=True, exist_ok=True)
    (scripted.clew_home / "clew.toml").write_text('[retention]\narchives = "1d"\n')
    async with local_daemon(scripted, roots=[root]) as daemon:
        assert daemon.shared is not None
        archives = daemon.shared.client.archives

        def create(store: Any) -> None:
            for number, cwd in ((1, root), (2, outside)):
                store.threads.create(a_thread(f"thread-{number}", f"part-{number}", kind="pair", cwd=str(cwd)))
            store.pairs.create(a_pair())

        await daemon.shared.client.engine.store.call(create)
        cleaned = await done(daemon, await daemon.post("/api/archives/clean", {"older_than_s": 3600}))
        assert (cleaned["status"], cleaned["result"]["archived"]) == ("done", [])
        assert await names(daemon) == ["part-1", "part-2"]

        await put(daemon, "in", root)
        kept = [await archives.archive("part-1"), await archives.archive("in")]
        assert (await daemon.http.post("/api/archives/part-1/restore")).status_code == 403
        assert await names(daemon) == []
        pair, own = (each.path for each in kept)
        assert pair is not None and own is not None
        unknown = own.with_name("unknown-1-x.json")
        unknown.write_text("{}")
        for path in (pair, own, unknown):
            os.utime(path, (1, 1))
        pair, own = (path.rename(path.with_name(f"{path.name.split('-1')[0]}-1-x.json")) for path in (pair, own))
        cleaned = await done(daemon, await daemon.post("/api/archives/clean"))
        assert cleaned["result"]["removed"] == [str(own)]
        assert (pair.exists(), own.exists(), unknown.exists()) == (True, False, True)


async def test_an_upload_that_is_too_large_is_refused_before_it_is_read(stored: LocalDaemon) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"x"
        raise AssertionError("it was read")

    length = {"Content-Length": str(MAX_UPLOAD_BYTES + 1), "Content-Type": "multipart/form-data; boundary=b"}
    declared = await stored.http.post("/api/imports", content=chunks(), headers=length)
    assert (declared.status_code, declared.json()["detail"]) == (413, "The body is larger than 64 MB.")
    assert await names(stored) == ["t"]


async def test_uploads_and_their_fields_are_bounded_while_they_arrive(
    scripted: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_limits, "MAX_UPLOAD_BYTES", 300_000)
    monkeypatch.setattr(guards, "MAX_UPLOADS_BYTES", 200_000)
    async with local_daemon(scripted) as daemon:

        async def chunks(count: int) -> AsyncIterator[bytes]:
            for _ in range(count):
                yield b"x" * 1000

        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        for count, status in ((301, 503), (100, 400)):
            response = await daemon.http.post("/api/imports", content=chunks(count), headers=headers)
            assert response.status_code == status, response.text
        assert (await imported(daemon, b"x", name="y" * 100_001)).status_code == 400, "a long field"
        many = {f"field-{number}": "x" for number in range(20)}
        assert (await imported(daemon, b"x", **many)).status_code == 400
        assert (await imported(daemon, b"x", unknown="x")).status_code == 422
        assert (await imported(daemon, b"x", dry_run="maybe")).status_code == 422
        assert (await daemon.http.post("/api/imports", json={"cwd": "/"})).json()["code"] == "not_a_form"
        form = {"cwd": str(scripted.work), "file": "a text"}
        no_file = await daemon.http.post("/api/imports", data=form, files={"name": ("n", b"x")})
        assert (no_file.status_code, no_file.json()["detail"]) == (422, "There is no file in the form.")
        assert await daemon.get("/api/operations") == {"items": []}


@pytest.mark.parametrize("charset", ["undefined", "punycode", "utf_8\0"])
async def test_a_charset_that_decodes_nothing_is_refused_like_any_malformed_form(
    daemon: LocalDaemon, charset: str
) -> None:
    content = b'--B\r\nContent-Disposition: form-data; name="cwd"\r\n\r\n/\r\n--B--\r\n'
    headers = {"Content-Type": f"multipart/form-data; boundary=B; charset={charset}"}
    refused = await daemon.http.post("/api/imports", content=content, headers=headers)
    assert (refused.status_code, refused.json()["detail"]) == (400, "The form cannot be read.")


def changed(content: bytes, change: str) -> bytes:
    """The file with a trick in it."""
    parts = zipfile.ZipFile(io.BytesIO(content))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for info in parts.infolist():
            kind = zipfile.ZIP_DEFLATED if change == "bomb" and info.filename == "history.json" else zipfile.ZIP_STORED
            made.writestr(info, parts.read(info), kind)
        if change == "path":
            made.writestr("../../escaped", b"x")
        elif change == "link":
            link = zipfile.ZipInfo("sessions/claude/x.jsonl")
            link.external_attr = 0o120777 << 16
            made.writestr(link, b"/etc/passwd")
    return out.getvalue()


@pytest.mark.parametrize("change", ["path", "link", "bomb", "cut", "nothing"])
async def test_a_trick_in_the_file_imports_nothing(stored: LocalDaemon, change: str) -> None:
    content = await exported(stored)
    tricked = {"cut": content[:-100], "nothing": b""}.get(change) or changed(content, change)
    before = sorted(stored.stage.folder.rglob("*"))
    if change == "nothing":
        tricked = b""
    failed = await done(stored, (await imported(stored, tricked, name="copy")).json())
    assert (failed["status"], failed["error"]["code"]) == ("failed", "usage")
    assert await names(stored) == ["t"]
    assert [path for path in sorted(stored.stage.folder.rglob("*")) if path not in before] == []


async def test_signers_in_the_settings_apply_to_uploads(scripted: Stage) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIDnRSFzzjCzVzKnVhAkQbLBLTRzCiVYPhBHBQbdOnGX somebody"
    (scripted.clew_home).mkdir(parents=True, exist_ok=True)
    (scripted.clew_home / "clew.toml").write_text(f'[remote]\nsigners = ["{key}"]\n')
    async with local_daemon(scripted) as daemon:
        await put(daemon, "t")
        content = await exported(daemon)
        failed = await done(daemon, (await imported(daemon, content, name="copy")).json())
        assert failed["error"]["message"] == "t.clew is not signed."
        failed = await done(daemon, (await imported(daemon, content, name="copy", signature="none")).json())
        assert failed["error"]["message"] == "The signature of t.clew is not an SSH signature."
        refused = await daemon.http.post("/api/remotes/push", json={"url": f"file://{scripted.work}/r", "all": True})
        assert (refused.status_code, await names(daemon)) == (422, ["t"])


async def test_the_same_request_sent_again_starts_one_operation(stored: LocalDaemon) -> None:
    key = {"Idempotency-Key": f"key-{time.time()}"}
    first, second = [await stored.http.post("/api/threads/t/export", json={}, headers=key) for _ in range(2)]
    assert first.json()["id"] == second.json()["id"]
    assert second.headers["idempotency-replayed"] == "true"
    assert len((await stored.get("/api/operations"))["items"]) == 1


async def until(daemon: LocalDaemon, operation: Any, words: str) -> None:
    """Waits until the operation reports this."""
    assert daemon.shared is not None
    async for event in daemon.shared.client.operations.find(operation["id"]).follow():
        if words in event.message:
            return
    raise AssertionError(f"it ended without {words}")


async def cancelled(daemon: LocalDaemon, begun: Any, at: str) -> Any:
    await until(daemon, begun, at)
    await daemon.post(f"/api/operations/{begun['id']}/cancel")
    ended = await done(daemon, begun)
    assert (ended["status"], ended["result"], ended["file"]) == ("cancelled", None, None)
    refused = await daemon.http.post(f"/api/operations/{begun['id']}/cancel", json={})
    assert refused.status_code == 409
    return ended


async def test_a_cancelled_export_has_no_file(stored: LocalDaemon) -> None:
    begun = await stored.post("/api/threads/t/export", {"passphrase": "correct horse"})
    ended = await cancelled(stored, begun, "reading")
    assert (await stored.http.get(f"/api/operations/{ended['id']}/file")).status_code == 404


async def test_a_cancelled_import_stores_nothing(stored: LocalDaemon) -> None:
    content = await exported(stored)
    before = sorted(stored.stage.folder.rglob("*"))
    await cancelled(stored, (await imported(stored, content, name="copy")).json(), "reading")
    assert await names(stored) == ["t"]
    assert [path for path in sorted(stored.stage.folder.rglob("*")) if path not in before] == []


async def test_a_cancelled_push_is_not_visible_and_can_be_repeated(daemon: LocalDaemon) -> None:
    await put(daemon, "t", text=" ".join(str(number) for number in range(1_000_000)))
    folder = daemon.stage.work / "remote"
    body = {"url": f"file://{folder}", "threads": ["t"]}
    await cancelled(daemon, await daemon.post("/api/remotes/push", body), "sending")
    assert (await daemon.post("/api/remotes/list", {"url": body["url"]}, 200))["threads"] == []
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert not [path for path in files if "#" in path.name or "manifests" in path.parts], "no draft is left"
    pushed = await done(daemon, await daemon.post("/api/remotes/push", body))
    assert (pushed["status"], pushed["result"]["threads"][0]["state"]) == ("done", "pushed")
