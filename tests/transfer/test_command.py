"""The commands `clew threads export` and `import`."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyrage
import pytest

from clew.hosts.transfer.export_file import HISTORY, unpack
from clew.store.transfer.codec import from_json
from clew.testing.model.scripts import Text
from clew.testing.stage import Stage
from transfer.machines import clew

PLANTED = {
    "PLANTED_API_KEY": "planted-0123456789-of-a-vendor",
    "PLANTED_TOKEN": "planted-abcdefghij-of-a-forge",
    "CLEW_PASSPHRASE": "planted-correct-horse-battery",
}


def every_byte_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def test_file_is_private_and_is_not_overwritten(a: Stage) -> None:
    old = os.umask(0)
    try:
        made = clew(a, "threads", "export", "t", "--json")
    finally:
        os.umask(old)
    path = a.work / "t.clew"
    assert (made.code, made.json["file"], made.json["turns"], made.json["encrypted"]) == (0, "t.clew", 2, False)
    assert [each["included"] for each in made.json["sessions"]] == [True]
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(a.work.iterdir()) == [path], "no draft is left"
    path.write_bytes(b"precious")
    refused = clew(a, "threads", "export", "t", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (2, "conflict")
    assert path.read_bytes() == b"precious"
    assert clew(a, "threads", "export", "t", "--force").code == 0
    assert unpack(path.read_bytes()).manifest["thread"]["name"] == "t"
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.rest
def test_import_continues_where_the_other_machine_stopped(a: Stage, b: Stage) -> None:
    file = b.folder / "t.clew"
    assert clew(a, "threads", "export", "t", "--output", file).code == 0
    tried = clew(b, "threads", "import", file, "--dry-run", "--json")
    assert (tried.code, tried.json["dry_run"], tried.json["sessions"][0]["resumable"]) == (0, True, True)
    assert clew(b, "threads", "list", "--json").json == []
    assert not b.session_files()
    other = b.folder / "shop"
    other.mkdir()
    came = clew(b, "threads", "import", file, "--cwd", other, "--name", "here", "--json")
    assert came.code == 0, came.err
    assert (came.json["threads"][0]["name"], came.json["threads"][0]["cwd"]) == ("here", str(other))
    reply = clew(b, "ask", "-t", "here", "--json", "second question").json
    assert (reply["session_resumed"], reply["reason"]) == (True, None)
    assert b.shown == [("user", "first question"), ("assistant", "ack: first question"), ("user", "second question")]


@pytest.mark.rest
def test_passphrase_encrypts_and_decrypts_the_file(a: Stage, b: Stage, tmp_path: Path) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text("correct horse\nnot this line\n")
    wrong.write_text("battery staple\n")
    made = clew(a, "threads", "export", "t", "--encrypt", "--json", CLEW_PASSPHRASE="correct horse")
    assert (made.code, made.json["file"], made.json["encrypted"]) == (0, "t.clew.age", True)
    file = a.work / "t.clew.age"
    assert b"first question" not in file.read_bytes()
    opened = unpack(pyrage.passphrase.decrypt(file.read_bytes(), "correct horse"))
    assert "first question" in opened.parts[HISTORY].decode(), "any age can open it"
    for options in (("--passphrase-file", wrong), ("--identity", wrong), ()):
        refused = clew(b, "threads", "import", file, *options)
        assert (refused.code, refused.out) == (2, "")
        assert len(refused.err.splitlines()) <= 2
    assert clew(b, "threads", "import", file, "--passphrase-file", right).code == 0
    assert clew(b, "ask", "-t", "t", "--json", "second question").json["session_resumed"]
    assert b"correct horse" not in every_byte_below(a.folder) + every_byte_below(b.folder)


def test_recipients_alone_open_it(a: Stage, b: Stage, tmp_path: Path) -> None:
    mine, other = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
    keys = {}
    for name, identity in (("mine", mine), ("other", other)):
        keys[name] = tmp_path / name
        keys[name].write_text(f"# public key: {identity.to_public()}\n{identity}\n")
    rest = ("--recipient", str(pyrage.x25519.Identity.generate().to_public()), "--output", "sealed")
    assert clew(a, "threads", "export", "t", "--recipient", str(mine.to_public()), *rest).code == 0
    file = a.work / "sealed"
    assert unpack(pyrage.decrypt(file.read_bytes(), [mine])).manifest["thread"]["turns"] == 2
    for options in ((), ("--identity", keys["other"]), ("--identity", file)):
        refused = clew(b, "threads", "import", file, *options)
        assert (refused.code, refused.out) == (2, "")
    assert clew(b, "threads", "import", file, "--identity", keys["mine"]).code == 0
    bad = clew(a, "threads", "export", "t", "--recipient", "age1nonsense", "--output", "never")
    assert bad.code == 2
    assert not (a.work / "never").exists()


@pytest.mark.rest
def test_redacted_export_is_the_history_with_secrets_blanked(a: Stage, b: Stage) -> None:
    key = "sk-ant-api03-" + "x1Y2z3" * 6
    clew(a, "ask", "-t", "t", f"My key is {key}, and PLANTED is {PLANTED['PLANTED_API_KEY']}.", **PLANTED)
    made = clew(a, "threads", "export", "t", "--redact", "--output", "t.clew", "--json", **PLANTED)
    assert (made.code, made.json["redacted"]) == (0, 4), "in the prompt and in the answer"
    [session] = made.json["sessions"]
    assert (session["included"], session["why"].partition(",")[0]) == (
        False,
        "a session that was changed cannot be resumed",
    )
    told = [(each["kind"], each["where"]) for each in made.json["secrets"]]
    assert told.count(("Anthropic API key", "turn 3")) == 1 and ("value of PLANTED_API_KEY", "turn 4") in told
    raw = (a.work / "t.clew").read_bytes()
    assert key.encode() not in raw
    assert PLANTED["PLANTED_API_KEY"].encode() not in raw
    assert list(unpack(raw).parts) == [HISTORY]
    assert {row["run_id"] for row in from_json(unpack(raw).parts[HISTORY])["turns"]} == {None}
    assert clew(b, "threads", "import", a.work / "t.clew").code == 0
    reply = clew(b, "ask", "-t", "t", "--json", "Go on.").json
    assert (reply["session_resumed"], reply["reason"]) == (False, "no_pin")
    assert "My key is [redacted: Anthropic API key]" in b.prompt


def test_redacted_export_has_no_name_that_was_made_from_a_secret(a: Stage, b: Stage) -> None:
    key = "AKIAIOSFODNN7EXAMPLE"
    asked = clew(a, "ask", "--json", f"My key is {key}")
    assert key.lower() in asked.json["thread"]
    made = clew(a, "threads", "export", asked.json["thread"], "--redact", "--json")
    assert (made.code, made.json["file"], made.json["threads"]) == (0, "redacted.clew", ["redacted"])
    assert key.lower() not in made.out.lower() + made.err.lower()
    assert key.lower().encode() not in (a.work / "redacted.clew").read_bytes().lower()
    came = clew(b, "threads", "import", a.work / "redacted.clew", "--json")
    assert came.json["threads"][0]["name"] == "redacted"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("AWS_SECRET_ACCESS_KEY", "/Ab9+longbase64secret==", "it printed /Ab9+longbase64secret=="),
        ("DB_PASSWORD", "hunter2345", "it printed hunter2345"),
        ("DATABASE_URL", "postgres://u:pw@db/x", "it printed postgres://u:pw@db/y"),
        ("DATABASE_URL", "postgres://u:longer-pw-1@db/x", "it printed longer-pw-1"),
    ],
)
def test_secret_in_a_prompt_stops_the_export(a: Stage, name: str, value: str, said: str) -> None:
    assert clew(a, "ask", "-t", "t", said).code == 0
    refused = clew(a, "threads", "export", "t", **{name: value})
    assert (refused.code, f"the value of {name} " in refused.err) == (2, True)
    made = clew(a, "threads", "export", "t", "--redact", "--json", **{name: value})
    assert made.json["redacted"] == 2, "in the prompt and in the answer"
    assert value.removesuffix("db/x").encode() not in (a.work / "t.clew").read_bytes()


def test_secret_that_is_not_in_the_environment_stops_the_export(a: Stage) -> None:
    """A tool read it from a file: it is in the run's events, but in no turn's text."""
    key = "ghp_" + "x1Y2z3" * 6
    (a.work / ".env").write_text(f"DEPLOY={key}\n")
    read = '!tool Read {"file_path": "' + str(a.work / ".env") + '"}'
    a.api.reply = lambda request: Text("I have read it.") if "tool_result" in str(request.messages[-1]) else None
    assert clew(a, "ask", "-t", "t", "--permissions", "all", read).code == 0
    refused = clew(a, "threads", "export", "t")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        "clew: t holds a GitHub token (turn 4): 1 place in all.\n"
        "  --redact exports the history with secrets blanked; --with-secrets exports it as it is.\n"
    )
    assert not (a.work / "t.clew").exists()
    told = clew(a, "threads", "export", "t", "--json").json["error"]
    assert told["code"] == "secret_found"
    assert [(each["kind"], each["where"], each["count"]) for each in told["secrets"]] == [("GitHub token", "turn 4", 1)]
    made = clew(a, "threads", "export", "t", "--with-secrets")
    assert (made.code, "it holds: GitHub token (turn 4)" in made.err) == (0, True)
    pushed = clew(a, "threads", "push", f"file://{a.folder}/remote", "t")
    assert (pushed.code, "t holds a GitHub token (turn 4)" in pushed.err) == (2, True)
    assert not (a.folder / "remote" / "pieces").exists(), "nothing has left"


def test_a_target_that_is_not_a_plain_file_is_not_overwritten(a: Stage) -> None:
    pipe, link = a.work / "pipe", a.work / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        refused = clew(a, "threads", "export", "t", "--force", "--output", path)
        assert (refused.code, "is not a file" in refused.err) == (2, True)
    assert pipe.is_fifo() and link.is_symlink()


def test_no_secret_of_the_environment_is_in_any_file(a: Stage, b: Stage) -> None:
    assert clew(a, "ask", "-t", "t", "second question", **PLANTED).code == 0
    assert clew(a, "threads", "export", "t", **PLANTED).code == 0
    assert clew(b, "threads", "import", a.work / "t.clew", **PLANTED).code == 0
    everything = every_byte_below(a.folder) + every_byte_below(b.folder)
    assert b"second question" in everything, "the control"
    for value in PLANTED.values():
        assert value.encode() not in everything


def test_secret_that_a_tool_printed_stops_the_export(a: Stage) -> None:
    show = '!tool Bash {"command": "echo [$PLANTED_TOKEN] [$CLEW_PASSPHRASE]"}'
    assert clew(a, "ask", "-t", "t", "--permissions", "all", show, **PLANTED).code == 0
    [session] = a.session_files()
    assert PLANTED["PLANTED_TOKEN"] in session.read_text()
    assert PLANTED["CLEW_PASSPHRASE"] not in session.read_text(), "an agent is not given it"
    refused = clew(a, "threads", "export", "t", **PLANTED)
    assert refused.code == 2
    assert "PLANTED_TOKEN" in refused.err and PLANTED["PLANTED_TOKEN"] not in refused.err
    assert not (a.work / "t.clew").exists()
    assert clew(a, "threads", "export", "t", "--with-secrets", **PLANTED).code == 0


@pytest.mark.rest
def test_bad_files_are_one_line_and_nothing_is_written(a: Stage, b: Stage, tmp_path: Path) -> None:
    assert clew(a, "threads", "export", "t").code == 0
    good = (a.work / "t.clew").read_bytes()
    place = good.index(b"first question")
    bad = {
        "tampered": good[:place] + b"F" + good[place + 1 :],
        "cut": good[:-100],
        "rubbish": b"\0\1\2" * 100,
        "empty": b"",
        "age": b"age-encryption.org/v1\n-> scrypt rubbish\n",
        "cut age": b"age-encryption.org/v1\n",
        "toil": pyrage.passphrase.encrypt(good, "whatever it was"),
    }
    bad["toil"] = re.sub(rb"^(-> scrypt \S+) [0-9]+$", rb"\1 22", bad["toil"], count=1, flags=re.MULTILINE)
    why = {"cut age": "damaged", "toil": "far more work"}
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
    for name in (*bad, "missing", "a"):
        refused = clew(b, "threads", "import", tmp_path / name, CLEW_PASSPHRASE="whatever it was")
        assert (refused.code, refused.out) == (2, ""), name
        assert len(refused.err.splitlines()) <= 2, refused.err
        assert "internal error" not in refused.err
        assert why.get(name, "") in refused.err
    assert clew(b, "threads", "import", a.work / "t.clew", "--cwd", tmp_path / "nowhere").code == 2
    assert clew(b, "threads", "import", a.work / "t.clew", "--name", "no good name").code == 2
    assert clew(b, "threads", "list", "--json").json == []
    assert not b.session_files()
