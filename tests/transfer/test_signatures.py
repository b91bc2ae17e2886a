"""Signed remotes and exports: only what an accepted signer has signed is used, however it was changed on the way."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zlib
from pathlib import Path

import pyrage
import pytest

from clew.api.client import Client
from clew.errors import NotFound, UsageError
from clew.hosts.transfer.remote.chunks import sha256
from clew.hosts.transfer.remote.header import RemoteKeys
from clew.hosts.transfer.remote.object_store import ObjectStore
from clew.hosts.transfer.remote.remote import Remote, open_remote
from clew.hosts.transfer.remote.sync import PullResult, PushResult, find_manifest, pull, push
from clew.hosts.transfer.signatures import FOR_A_FILE, Signer, sign, signer, signers, verify
from clew.testing.stage import Stage
from clew.testing.store_contract.samples import a_thread, a_turn
from transfer.machines import clew
from transfer.remote.remotes import OPEN, folder_of, objects


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`mine` and `other`, each with its public half."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("mine", "other"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name}@example.org", "-f", str(folder / name)]
        subprocess.run(make, check=True, stdin=subprocess.DEVNULL)
    return folder


@pytest.fixture
def mine(keys: Path) -> Signer:
    return signer(str(keys / "mine"), os.environ)


async def say(client: Client, *turns: str, thread: str = "t") -> None:
    def add(store: object) -> None:
        try:
            store.threads.require(f"id-{thread}")  # type: ignore[attr-defined]
        except NotFound:
            store.threads.create(a_thread(f"id-{thread}", thread, cwd="/"))  # type: ignore[attr-defined]
        for turn in turns:
            store.turns.add(f"id-{thread}", a_turn(turn, text=turn))  # type: ignore[attr-defined]

    await client.engine.store.call(add)


async def sent(client: Client, url: str, by: Signer | None, keys: RemoteKeys = OPEN, thread: str = "t") -> PushResult:
    remote = await open_remote(ObjectStore(url), keys, to_push=True)
    return await push(client.engine, remote, thread, {}, signer=by)


async def fetched(
    client: Client, url: str, public: Path | str, keys: RemoteKeys = OPEN, thread: str = "t"
) -> PullResult:
    remote: Remote = await open_remote(ObjectStore(url), keys, to_push=False)
    theirs = await find_manifest(client.engine, await remote.manifests(), thread)
    trusted = signers((str(public),), os.environ)
    return await pull(client.engine, remote, theirs, client.archives, cwd="/", signers=trusted)


@pytest.mark.parametrize("closed", [False, True], ids=["plain", "encrypted"])
async def test_a_thread_with_an_accepted_signature_is_pulled(
    machines: list[Stage], url: str, keys: Path, mine: Signer, closed: bool
) -> None:
    key = pyrage.x25519.Identity.generate()
    first = RemoteKeys(recipients=(str(key.to_public()),)) if closed else OPEN
    later = RemoteKeys(identity=str(key)) if closed else OPEN
    allowed = keys / "allowed"
    allowed.write_text(f"# the team\nalice@example.org {(keys / 'mine.pub').read_text()}")
    async with machines[0].open() as a, machines[1].open() as b:
        await say(a, "one")
        assert (await sent(a, url, mine, first)).signed
        assert (await fetched(b, url, keys / "mine.pub", later)).signer == "mine@example.org"
        await say(a, "two")
        await sent(a, url, mine, later)
        pulled = await fetched(b, url, allowed, later)
        assert (pulled.state, pulled.signer) == ("updated", "alice@example.org")
        inline = (keys / "mine.pub").read_text().strip()
        assert (await fetched(b, url, inline, later)).state == "unchanged"
        assert [turn.text for turn in await (await b.find("t")).turns()] == ["one", "two"]
    if closed:
        assert not [raw for raw in objects(url).values() if b"SSH SIGNATURE" in raw]


async def refused(client: Client, url: str, public: Path) -> str:
    with pytest.raises(UsageError) as caught:
        await fetched(client, url, public)
    assert caught.value.exit_code == 2 and caught.value.hint
    assert await client.threads() == [], "nothing was stored"
    return caught.value.message.replace(url, "URL")


async def test_threads_without_an_accepted_signature_are_refused(
    machines: list[Stage], url: str, keys: Path, mine: Signer
) -> None:
    async with machines[0].open() as a, machines[1].open() as b:
        await say(a, "one")
        await sent(a, url, None)
        assert await refused(b, url, keys / "mine.pub") == "t at URL is not signed."
        again = await sent(a, url, mine)
        assert (again.state, again.number, again.signed) == ("pushed", 2, True), "the same, and now it is signed"
        assert (await sent(a, url, mine)).state == "unchanged"
        assert await refused(b, url, keys / "other.pub") == "t at URL is not signed by an accepted signer."
        assert (await fetched(b, url, keys / "mine.pub")).state == "new"


async def test_no_signed_object_can_be_changed_or_moved(
    machines: list[Stage], url: str, keys: Path, mine: Signer, tmp_path: Path
) -> None:
    async with machines[0].open() as a, machines[1].open() as b:
        await say(a, "one")
        await say(a, "of another", thread="u")
        await sent(a, url, mine)
        await sent(a, url, mine, thread="u")
        good = tmp_path / "good"
        shutil.copytree(folder_of(url), good)
        first, second = (next((good / "signatures" / f"id-{name}").iterdir()) for name in ("t", "u"))

        def restored() -> Path:
            shutil.rmtree(folder_of(url))
            return Path(shutil.copytree(good, folder_of(url)))

        def place_of(manifest: bytes) -> Path:
            digest = sha256(b"signature\0" + sha256(manifest).encode())
            return folder_of(url) / "signatures" / "id-t" / digest

        # A changed manifest, with the existing signature.
        path = restored() / "manifests" / "id-t" / "00000001"
        forged = json.dumps(json.loads(zlib.decompress(path.read_bytes())) | {"kind": "hook"}).encode()
        path.write_bytes(zlib.compress(forged))
        assert await refused(b, url, keys / "mine.pub") == "t at URL is not signed."
        shutil.copy(first, place_of(forged))
        assert await refused(b, url, keys / "mine.pub") == "The signature of t at URL does not match it."

        # The signature of another thread, and an invalid one.
        restored()
        here = folder_of(url) / first.relative_to(good)
        here.write_bytes(second.read_bytes())
        assert await refused(b, url, keys / "mine.pub") == "The signature of t at URL does not match it."
        here.write_bytes(zlib.compress(b"rubbish"))
        assert await refused(b, url, keys / "mine.pub") == "The signature of t at URL is not an SSH signature."
        here.write_bytes(b"rubbish")
        assert await refused(b, url, keys / "mine.pub") == "The remote is damaged: a signature is not what was pushed."

        # Everything, copied into another remote.
        head = restored() / "clew-remote.json"
        head.write_text(json.dumps(json.loads(head.read_text()) | {"id": "0" * 32}))
        assert await refused(b, url, keys / "mine.pub") == "The signature of t at URL does not match it."

        # A changed chunk, with the signed manifest.
        [piece, *_] = (restored() / "pieces" / "id-t").iterdir()
        piece.write_bytes(zlib.compress(b"something else"))
        assert await refused(b, url, keys / "mine.pub") == "The remote is damaged: a chunk is not what was pushed."


async def test_an_older_push_does_not_replace_a_newer_one(
    machines: list[Stage], url: str, keys: Path, mine: Signer
) -> None:
    """A signature does not prove that there is nothing newer. What was pulled here before does."""
    async with machines[0].open() as a, machines[1].open() as b:
        for turn in ("one", "two"):
            await say(a, turn)
            await sent(a, url, mine)
            await fetched(b, url, keys / "mine.pub")
        (folder_of(url) / "manifests" / "id-t" / "00000002").unlink()
        assert (await fetched(b, url, keys / "mine.pub")).state == "ahead"
        assert len(await (await b.find("t")).turns()) == 2


@pytest.mark.process
def test_unusable_keys_are_reported_in_one_line(keys: Path, tmp_path: Path) -> None:
    def fails(make: object, *args: object) -> str:
        with pytest.raises(UsageError) as caught:
            make(*args)  # type: ignore[operator]
        return caught.value.message

    (tmp_path / "no-key").write_text("none")
    (tmp_path / "empty").write_text("# nobody\n\n")
    assert fails(signer, str(tmp_path / "gone"), os.environ) == f"There is no key {tmp_path / 'gone'} to sign with."
    nothing = {"PATH": str(tmp_path)}
    assert fails(signer, str(keys / "mine"), nothing) == "Signatures need ssh-keygen, and there is none on the PATH."
    gone = tmp_path / "gone"
    assert (
        fails(signers, (str(gone),), os.environ) == f"The signers in {gone} cannot be read: No such file or directory."
    )
    assert fails(signers, (str(tmp_path / "empty"),), os.environ) == "No signer is named."
    said = fails(sign, signer(str(tmp_path / "no-key"), os.environ), FOR_A_FILE, b"x")
    assert said.startswith(f"{tmp_path / 'no-key'} cannot sign: ") and "\n" not in said


@pytest.mark.process
@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("alice@example.org,bob", "alice@example.org"),
        ("!bob,alice@example.org", "alice@example.org"),
        ("!alice@example.org,*", "* (ED25519 key SHA256:…)"),
        ("!alice@example.org", None),
    ],
)
def test_the_signer_is_a_name_and_not_an_exception_pattern(
    keys: Path, mine: Signer, names: str, said: str | None
) -> None:
    trusted = signers((f"{names} {(keys / 'mine.pub').read_text().strip()}",), os.environ)
    signature = sign(mine, FOR_A_FILE, b"content")
    if said is not None:
        assert re.sub(r"SHA256:[^)]+", "SHA256:…", verify(trusted, FOR_A_FILE, b"content", signature, "f")) == said
        return
    with pytest.raises(UsageError, match=r"^f is not signed by an accepted signer\.$"):
        verify(trusted, FOR_A_FILE, b"content", signature, "f")


@pytest.fixture
def file(a: Stage, keys: Path) -> Path:
    """A thread that `mine` has signed, and its signature beside it."""
    assert clew(a, "threads", "export", "t", "--sign", keys / "mine").code == 0
    return a.work / "t.clew"


def test_an_import_uses_the_signers_of_the_option_and_of_the_settings(file: Path, b: Stage, keys: Path) -> None:
    mine, other = ({"CLEW_REMOTE_SIGNERS": str(keys / f"{name}.pub")} for name in ("mine", "other"))
    for flags, setting in (((), other), (("--signers", keys / "other.pub"), {})):
        refused = clew(b, "threads", "import", file, *flags, **setting)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err == (
            f"clew: {file} is not signed by an accepted signer.\n  Nothing was stored. Find out whose key signed it.\n"
        )
    for flags, setting in (((), mine), (("--signers", keys / "mine.pub"), other)):
        came = clew(b, "threads", "import", file, *flags, "--dry-run", **setting)
        assert (came.code, came.err.splitlines()[0]) == (0, "signed by mine@example.org")
    file.with_name("t.clew.sig").unlink()
    refused = clew(b, "threads", "import", file, **mine)
    assert (refused.code, refused.err.splitlines()[0]) == (2, f"clew: {file} is not signed.")
    assert clew(b, "threads", "list", "--json").json == []
    assert clew(b, "threads", "import", file, "--dry-run").code == 0


def test_an_invalid_signature_is_refused_and_a_pipe_is_not_waited_for(file: Path, b: Stage, keys: Path) -> None:
    signature, trusted = file.with_name("t.clew.sig"), ("--signers", keys / "mine.pub")
    signature.write_bytes(b"")
    refused = clew(b, "threads", "import", file, *trusted)
    assert (refused.code, refused.err.splitlines()[0]) == (
        2,
        f"clew: The signature of {file} is not an SSH signature.",
    )
    signature.unlink()
    os.mkfifo(signature)
    refused = clew(b, "threads", "import", file, *trusted)
    assert (refused.code, refused.err.splitlines()[0]) == (
        2,
        f"clew: {signature} cannot be read: It is not a plain file.",
    )


def test_an_unsigned_export_leaves_no_signature_of_the_file_that_it_replaced(file: Path, a: Stage) -> None:
    signature = file.with_name("t.clew.sig")
    assert clew(a, "threads", "export", "t").code == 2
    assert signature.exists(), "nothing was replaced"
    made = clew(a, "threads", "export", "t", "--force")
    assert (made.code, signature.exists()) == (0, False)
    assert "removed t.clew.sig: it was the signature of the replaced file\n" in made.err


async def test_key_that_only_an_agent_holds_signs_by_its_public_half(
    machines: list[Stage], url: str, keys: Path, tmp_path: Path
) -> None:
    public = tmp_path / "mine.pub"
    shutil.copy(keys / "mine.pub", public)
    socket = tmp_path / "s"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE, text=True)
    try:
        assert agent.stdout is not None
        agent.stdout.readline()  # the agent is listening
        environ = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
        subprocess.run(["ssh-add", "-q", str(keys / "mine")], env=environ, check=True, capture_output=True)
        async with machines[0].open() as a, machines[1].open() as b:
            await say(a, "one")
            await sent(a, url, signer(str(public), environ))
            assert (await fetched(b, url, public)).signer == "mine@example.org"
    finally:
        agent.terminate()
        agent.communicate()
