"""`threads show` says what the agents did and in which sessions; `threads list` says that a first turn failed."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any

import pytest

from clew.testing.model.scripts import FINAL, Fail, ToolUse
from cli.conftest import TIMEOUT_S

REFUSED = "!fail 401 authentication_error invalid x-api-key"


def _writes(cli: Any, name: str, text: str) -> str:
    call = {"file_path": str(cli.stage.work / name), "content": text}
    cli.api.script.extend([ToolUse("Write", call), ToolUse("Bash", {"command": "echo \x1b]52;c;eA==\x07hi"})])
    return f"write {name}"


def test_tool_calls_files_and_sessions_are_shown(cli: Any) -> None:
    prompt = _writes(cli, "a\x1b[2Jb.txt", "new")
    assert cli.run("ask", "-t", "t", "--permissions", "all", prompt).code == 0

    shown = cli.run("threads", "show", "t").out
    assert "· Write " in shown and "· Bash echo ␛]52;c;eA==␇hi\n" in shown
    assert "files: a␛[2Jb.txt\n" in shown
    [session] = cli.run("threads", "show", "t", "--json").json["sessions"]
    assert f"session: claude {session['model']}  {session['id']}  good, current\n  {session['command']}\n" in shown
    assert session["command"].startswith(f"cd {shlex.quote(str(cli.stage.work))} && ")

    asked, answered = cli.turns("t")
    assert (asked["tools"], asked["files"]) == ([], [])
    assert [(each["name"], each["status"]) for each in answered["tools"]] == [("Write", "done"), ("Bash", "done")]
    assert answered["files"] == [{"path": "a\x1b[2Jb.txt", "kind": "write"}]


@pytest.mark.rest
def test_the_command_of_a_session_opens_it_from_any_directory(both: Any) -> None:
    both.run("ask", "-t", "t", "first words")
    [session] = both.run("threads", "show", "t", "--json").json["sessions"]
    command = f"{session['command']} -p --output-format stream-json --verbose 'from the shell'"

    done = subprocess.run(
        ["sh", "-c", command],
        cwd="/",
        env=both.environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["session_id"] == session["id"]
    assert "outside: 2 turns were made" in both.run("threads", "show", "t").out


def test_a_session_without_a_file_has_no_command(cli: Any) -> None:
    cli.run("ask", "-t", "t", "hello")
    [path] = cli.stage.home.rglob("*.jsonl")
    path.unlink()
    [session] = cli.run("threads", "show", "t", "--json").json["sessions"]
    assert session["command"] is None
    assert " && " not in cli.run("threads", "show", "t").out


def test_a_first_turn_that_failed_is_said_in_the_list(cli: Any) -> None:
    assert cli.run("ask", "-t", "t", REFUSED).code == 4
    assert "  first turn failed: not logged in  " in cli.run("threads", "list").out
    [listed] = cli.run("threads", "list", "--json").json
    assert listed["first_failure"]["outcome"] == "auth"

    assert cli.run("ask", "-t", "t", "again").code == 0
    assert "first turn failed" not in cli.run("threads", "list").out
    assert cli.run("ask", "-t", "t", REFUSED).code == 4
    assert "first turn failed" not in cli.run("threads", "list").out, "it was answered before"


@pytest.mark.rest
def test_answers_are_rendered_on_a_terminal_and_prompts_are_shown_as_they_were_typed(cli: Any) -> None:
    cli.run("ask", "-t", "t", "!say **bold** \x1b[2Jwords")
    rendered = cli.terminal("threads", "show", "t", NO_COLOR="1").end()[1]
    assert "\nbold ␛[2Jwords\n" in rendered and "\n!say **bold** ␛[2Jwords\n" in rendered
    plain = cli.terminal("threads", "show", "t", "--plain").end()[1]
    assert "\n**bold** ␛[2Jwords\n" in plain
    assert "\n**bold** \x1b[2Jwords\n" in cli.run("threads", "show", "t").out, "a pipe gets what was written"


def test_the_tool_calls_of_a_run_that_failed_follow_its_prompt(cli: Any) -> None:
    cli.api.script.extend([ToolUse("Bash", {"command": "echo hi"}), Fail(400, "invalid_request_error", "no", FINAL)])
    assert cli.run("ask", "-t", "t", "--permissions", "all", "go").code != 0
    assert "you  " in (shown := cli.run("threads", "show", "t").out)
    assert "\ngo\n· Bash echo hi\n(no answer: " in shown
