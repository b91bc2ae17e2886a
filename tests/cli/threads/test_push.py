"""`clew threads push` and `pull`: every line names its thread, and mistakes are explained."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from clew.errors import UsageError
from clew.hosts.transfer.remote.object_store import ObjectStore
from clew.testing.stage import Stage
from clew.testing.store_contract.samples import a_thread, a_turn


async def put(stage: Stage, *names: str) -> None:
    async with stage.open() as client:
        for name in names:
            thread = a_thread(f"id-{name}", name, cwd=str(stage.work))
            await client.engine.store.call(lambda store, thread=thread: store.threads.create(thread))
            turn = a_turn(f"turn-{name}")
            await client.engine.store.call(lambda store, thread=thread, turn=turn: store.turns.add(thread.id, turn))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/remote"


@pytest.mark.rest
async def test_an_unknown_name_does_not_stop_the_other_threads(cli: Any, url: str) -> None:
    await put(cli.stage, "one", "two")

    pushed = cli.run("threads", "push", url, "one", "nope", "two", "--json")
    assert (pushed.code, [each["state"] for each in pushed.json["threads"]]) == (2, ["pushed", "failed", "pushed"])
    said = cli.run("threads", "push", url, "nope", "two")
    assert (said.code, said.out) == (2, "two  the remote has all of it\n")
    assert "There is no thread named nope." in said.err
    for name in ("one", "two"):
        assert cli.run("threads", "delete", name, "--yes").code == 0
    pulled = cli.run("threads", "pull", url, "twoo", "two", "one")
    assert (pulled.code, pulled.out) == (2, "two  pulled\none  pulled\n")
    assert "There is no thread named twoo at the remote." in pulled.err
    assert "Did you mean two?" in pulled.err
    alone = cli.run("threads", "pull", url, "onee", "--json")
    assert (alone.code, alone.json["error"]["hint"]) == (2, "Did you mean one?")


async def test_every_line_names_its_thread(cli: Any, url: str) -> None:
    await put(cli.stage, "one", "two")
    secret = {"MY_TOKEN": "planted-0123456789"}
    async with cli.stage.open() as client:
        turn = a_turn("told", text=f"It is {secret['MY_TOKEN']}.")
        await client.engine.store.call(lambda store: store.turns.add("id-one", turn))

    tried = cli.run("threads", "push", url, "one", "two", "--dry-run")
    assert [line.split(":")[0] for line in tried.err.splitlines()] == ["one", "two"]
    refused = cli.run("threads", "push", url, "one", "two", **secret)
    assert (refused.code, refused.out) == (2, "two  pushed\n")
    assert "one holds the value of MY_TOKEN" in refused.err
    assert "\ntwo: 1 turn; sent " in refused.err
    cli.run("threads", "delete", "two", "--yes")
    assert cli.run("threads", "pull", url, "two").err.startswith("two: it has no session")


@pytest.mark.rest
async def test_a_conflict_suggests_a_command_that_can_be_pasted(cli: Any, url: str) -> None:
    await put(cli.stage, "t")
    cli.run("threads", "push", url, "t")
    cli.stage.clew_home = cli.stage.folder / "another-store"
    await put(cli.stage, "t")  # under the same ids
    async with cli.stage.open() as client:
        await client.engine.store.call(lambda store: store.turns.add("id-t", a_turn("another")))

    refused = cli.run("threads", "push", url, "t", "--json").json["error"]
    assert refused["code"] == "conflict"
    line, _, _ = refused["hint"].partition(" brings theirs")
    assert line == f"clew threads pull {url} t --name t-theirs"
    assert cli.run(*line.split()[1:]).code == 0
    assert len(cli.turns("t-theirs")) == 1


@pytest.mark.rest
async def test_one_ctrl_c_at_the_passphrase_is_enough(cli: Any, url: str) -> None:
    await put(cli.stage, "t")
    assert cli.run("threads", "push", url, "--all", "--encrypt", CLEW_PASSPHRASE="correct horse").code == 0
    for args in (("push", f"{url}-2", "--all", "--encrypt"), ("pull", url)):
        terminal = cli.terminal("threads", *args)
        terminal.read_until("Passphrase: ")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(60) == 7, args
        assert "Stopped." in terminal.end()[1]


def test_it_says_that_it_waits_for_a_remote_that_does_not_answer(cli: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environ = {"AWS_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}", "AWS_ALLOW_HTTP": "true"}
        credentials = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "c"}
        terminal = cli.terminal("threads", "pull", "s3://team/x", **environ, **credentials)
        terminal.read_until("connecting to s3://team/x")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end()[0] == 7


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("s3:/team/x", "s3://team/x"),
        ("file:/tmp/share", "file:///tmp/share"),
        ("/tmp/my share", "file:///tmp/my%20share"),
        ("share/clew", "file:///path"),
        ("~/share", "file:///path"),
    ],
)
def test_a_mistyped_url_is_not_taken_for_a_name(cli: Any, word: str, meant: str) -> None:
    for way in ("push", "pull"):
        error = cli.run("threads", way, word, "t", "--json", CLEW_REMOTE_URL="file:///nowhere").json["error"]
        assert error["message"] == f"{word} is not a URL."
        assert meant in error["hint"]


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("ftp://host/x", "s3://bucket/path"),
        ("file://tmp/x", "file:///path"),
        ("file://~/x", "file:///path"),
        ("file:///a folder/x", "%20"),
    ],
)
def test_a_wrong_url_is_repeated_with_what_is_wrong(url: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        ObjectStore(url)
    assert refused.value.message.startswith(f"{url} ")
    assert hint in str(refused.value.hint)


@pytest.mark.parametrize(
    "word", ["s3:/me:hunter2@b", "s3://me:hunter2@b/x", "s3://me:hunter2/x", "s3://b/x?sig=hunter2"]
)
def test_a_wrong_url_that_may_contain_a_secret_is_not_repeated(cli: Any, word: str) -> None:
    refused = cli.run("threads", "push", word, "t")
    assert refused.code == 2
    assert "hunter2" not in refused.err


def test_missing_and_superfluous_arguments_are_named(cli: Any, url: str) -> None:
    for args, message in (
        (("pull",), "No remote was named."),
        (("push", "t"), "No remote was named."),
        (("push", url, "t", "--all"), "Names and --all cannot be given together."),
        (("push", "t", url), "Only one URL can be given, and it comes first."),
        (("pull", url, "--dry-run"), "--dry-run is only for threads that are pulled."),
        (("pull", url, "--cwd", "."), "--cwd is only for threads that are pulled."),
    ):
        refused = cli.run("threads", *args, "--json")
        assert (refused.code, refused.json["error"]["message"]) == (2, message)


@pytest.mark.parametrize(("scheme", "variable"), [("gs", "GOOGLE_"), ("az", "AZURE_"), ("s3", "AWS_")])
def test_a_remote_that_refuses_access_names_its_variables(scheme: str, variable: str) -> None:
    for words in ("status code: 403", "Account must be specified"):
        error = ObjectStore(f"{scheme}://team/x")._explain(ValueError(words))
        assert str(error.hint).count(variable) >= 1
        assert not any(other in str(error.hint) for other in {"GOOGLE_", "AZURE_", "AWS_"} - {variable})


@pytest.mark.rest
async def test_signed_push_signed_export_and_required_signers(cli: Any, url: str, tmp_path: Path) -> None:
    key, other, settings = tmp_path / "key", tmp_path / "other", cli.stage.clew_home / "clew.toml"
    for each in (key, other):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", each.name, "-f", str(each)]
        subprocess.run(make, check=True, stdin=subprocess.DEVNULL)
    await put(cli.stage, "one")
    signed = cli.run("threads", "push", url, "one", "--sign", str(key))
    assert (signed.code, signed.out, signed.err.endswith(", signed\n")) == (0, "one  pushed\n", True)
    file = tmp_path / "one.clew"
    assert cli.run("threads", "export", "one", "--output", str(file), "--sign", str(key)).code == 0
    cli.run("threads", "delete", "one", "--yes")

    settings.write_text(f'[remote]\nsigners = ["{(tmp_path / "other.pub").read_text().strip()}"]\n')
    refused = cli.run("threads", "pull", url, "one", "--json")
    message = f"one at {url} is not signed by an accepted signer."
    assert (refused.code, refused.json["error"]["message"]) == (2, message)
    pulled = cli.run("threads", "pull", url, "one", "--signers", str(tmp_path / "key.pub"), "--json")
    assert (pulled.code, pulled.json["threads"][0]["signer"]) == (0, "key")
    unsigned = cli.run("threads", "push", url, "one")
    assert unsigned.code == 2
    assert "This push would not be signed, and remote.signers accepts only signed ones." in unsigned.err
    cli.run("threads", "delete", "one", "--yes")

    command = ["threads", "import", str(file), "--signers"]
    denied = cli.run(*command, str(tmp_path / "other.pub"))
    assert (denied.code, denied.err.splitlines()[0]) == (2, f"clew: {file} is not signed by an accepted signer.")
    came = cli.run(*command, str(tmp_path / "key.pub"))
    assert (came.code, came.err.splitlines()[0]) == (0, "signed by key")
    file.write_bytes(file.read_bytes() + b"more")
    changed = cli.run(*command, str(tmp_path / "key.pub"))
    assert (changed.code, changed.err.splitlines()[0]) == (2, f"clew: The signature of {file} does not match it.")
    (tmp_path / "one.clew.sig").unlink()
    bare = cli.run(*command, str(tmp_path / "key.pub"))
    assert (bare.code, bare.err.splitlines()[0]) == (2, f"clew: {file} is not signed.")
