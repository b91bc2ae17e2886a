"""What tests of remotes share: push, pull, and the objects at a remote."""

from __future__ import annotations

from pathlib import Path

from clew.api.client import Client
from clew.hosts.transfer.remote.header import RemoteKeys
from clew.hosts.transfer.remote.object_store import ObjectStore
from clew.hosts.transfer.remote.remote import open_remote
from clew.hosts.transfer.remote.sync import find_manifest, pull, push
from clew.testing.stage import Stage
from transfer.machines import Done, ask, clew

OPEN = RemoteKeys()
PASSPHRASE = {"CLEW_PASSPHRASE": "correct horse battery"}


def said(stage: Stage, prompt: str, thread: str = "t") -> None:
    done = clew(stage, "ask", "-t", thread, prompt)
    assert done.code == 0, done.err


async def said_at_length(stage: Stage, *prompts: str) -> None:
    async with stage.open() as client:
        thread = await client.find("t")
        for prompt in prompts:
            await ask(thread, prompt)


def moved(stage: Stage, way: str, *args: str, **environ: str) -> str:
    """Pushes or pulls one thread, and returns its state."""
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


async def synced(client: Client, way: str, url: str, keys: RemoteKeys = OPEN) -> str:
    """Pushes or pulls the thread t in this process, and returns its state."""
    remote = await open_remote(ObjectStore(url), keys, to_push=way == "push")
    if way == "push":
        return str((await push(client.engine, remote, "t", {})).state)
    theirs = await find_manifest(client.engine, await remote.manifests(), "t")
    return str((await pull(client.engine, remote, theirs, client.archives, cwd=".")).state)
