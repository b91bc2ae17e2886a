"""`clew ask` in a pipe: the answer on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from clew.cli.stdin import MAX_INPUT_BYTES
from clew.testing.model.scripts import Cut, Text, TooLong, ToolUse
from cli.conftest import TIMEOUT_S

KEYS = {
    "thread",
    "run",
    "agent",
    "model",
    "status",
    "text",
    "session_id",
    "session_resumed",
    "reason",
    "fallback",
    "usage",
    "cost_usd",
    "error",
}


def test_the_answer_alone_is_on_stdout_and_the_rest_on_stderr(both: Any) -> None:
    done = both.run("ask", "hello there")

    assert (done.code, done.out) == (0, "ack: hello there\n")
    first, closing = done.err.splitlines()
    assert first == "new thread: hello-there"
    assert closing.startswith("fresh: first turn of the thread · ")
    assert " tokens (0 cached) · $0." in closing


@pytest.mark.always
def test_continue_resumes_the_thread_of_this_directory(both: Any) -> None:
    both.run("ask", "one")
    done = both.run("ask", "-c", "two")

    assert (done.code, done.out) == (0, "ack: two\n")
    assert done.err.startswith("continuing one\nresumed · ")
    assert both.stage.launches[-1].resumes
    assert [turn["text"] for turn in both.turns("one")] == ["one", "ack: one", "two", "ack: two"]


def test_json_is_one_object_with_every_key(both: Any) -> None:
    done = both.run("ask", "--json", "-t", "named", "hello")

    reply = done.json
    assert set(reply) >= KEYS
    assert reply["thread"] == "named"
    assert (reply["status"], reply["text"], reply["error"]) == ("answered", "ack: hello", None)
    assert (reply["session_resumed"], reply["reason"]) == (False, "first_turn")
    assert reply["usage"]["output_tokens"] > 0
    assert reply["cost_usd"] > 0
    assert reply["cost_usd"] == round(reply["cost_usd"], 6)
    assert both.run("ask", "--json", "-t", "named", "again").json["session_resumed"] is True


def test_a_prompt_may_come_from_stdin(cli: Any) -> None:
    assert cli.run("ask", stdin="from a pipe\n").out == "ack: from a pipe\n"
    assert cli.run("ask", "-", stdin="with a dash").out == "ack: with a dash\n"


@pytest.mark.parametrize("piped", ["diff --git\n+line\n\n", "\n  spaces \n"])
def test_what_is_piped_in_comes_after_the_argument_as_in_the_plain_cli(both: Any, piped: str) -> None:
    assert both.run("ask", "review this", stdin=piped).code == 0
    assert both.stage.prompt == f"review this\n{piped}"


@pytest.mark.parametrize("piped", ["", " \n"])
def test_an_empty_pipe_leaves_the_argument_alone(cli: Any, piped: str) -> None:
    done = cli.run("ask", "review this", stdin=piped)

    assert (done.code, "stdin" in done.err) == (0, False)
    assert cli.stage.prompt == "review this"


def test_a_file_beside_an_argument_is_sent_too(cli: Any, tmp_path: Any) -> None:
    (tmp_path / "diff").write_text("+line")
    with (tmp_path / "diff").open() as file:
        process = cli.start("ask", "review this", stdin=file)
        process.communicate(timeout=TIMEOUT_S)

    assert cli.stage.prompt == "review this\n+line"


def test_a_silent_open_pipe_is_named_and_left_alone(cli: Any) -> None:
    """CI systems and cron leave stdin open."""
    silent, other_end = os.pipe()
    try:
        process = cli.start("ask", "review this", stdin=silent)
        _, err = process.communicate(timeout=TIMEOUT_S)
    finally:
        os.close(silent)
        os.close(other_end)

    assert process.returncode == 0
    assert err.decode().count("nothing came on stdin within 3 s: continuing without it") == 1
    assert cli.stage.prompt == "review this"


def test_a_diff_of_a_latin_1_file_is_sent(cli: Any) -> None:
    done = cli.run("ask", "-t", "t", "Review this.", stdin=b"-caf\xe9\n+caf\xe9 noir \xef\xbf\xbd\n")

    assert done.code == 0
    assert cli.stage.prompt == "Review this.\n-caf\ufffd\n+caf\ufffd noir \ufffd\n"
    assert done.err.count("what is piped in is not all UTF-8: \ufffd stands in 2 places instead\n") == 1


def test_stdin_that_is_instructions_is_not_sent_twice(cli: Any) -> None:
    cli.run("ask", "--instructions", "-", "hello", stdin="In prose.")

    assert cli.stage.prompt.count("In prose.") == 1


@pytest.mark.parametrize("argument", [(), ("review this",)])
def test_too_much_on_stdin_is_refused_and_nothing_is_sent(cli: Any, argument: tuple[str, ...]) -> None:
    done = cli.run("ask", *argument, stdin=b"x" * (MAX_INPUT_BYTES + 1))

    assert (done.code, done.out) == (2, "")
    assert "stdin has more than 50,000,000 bytes; nothing was sent." in done.err
    assert not cli.api.requests


def test_a_named_thread_is_created_and_announced_once(cli: Any) -> None:
    assert "new thread: work" in cli.run("ask", "-t", "work", "one").err
    assert "new thread" not in cli.run("ask", "-t", "work", "two").err


def test_messages_of_one_answer_have_a_blank_line_between_them_as_in_the_stored_turn(both: Any) -> None:
    both.api.script.extend([ToolUse("Bash", {"command": "echo hi"}, text="Let me look."), Text("Found it.", chunks=3)])

    done = both.run("ask", "-t", "t", "look")

    assert done.out == "Let me look.\n\nFound it.\n"
    assert both.turns("t")[-1]["text"] + "\n" == done.out


def test_text_that_was_not_streamed_is_still_printed(cli: Any) -> None:
    """An agent without partial messages sends only complete ones."""
    launcher = cli.stage.binary
    launcher.write_text(
        launcher.read_text().replace(
            "\nexec", '\nfor a; do shift; [ "$a" = --include-partial-messages ] || set -- "$@" "$a"; done\nexec'
        )
    )
    cli.api.script.extend([ToolUse("Bash", {"command": "echo hi"}, text="Let me look."), Text("Found it.", chunks=3)])

    assert cli.run("ask", "look").out == "Let me look.\n\nFound it.\n"


def test_any_text_is_printed_unchanged(cli: Any) -> None:
    text = "ünï\tcödé 🧵 \x1b[31mred\x1b[0m\n\nend"
    cli.api.script.append(Text(text, chunks=7))

    assert cli.run("ask", "-t", "t", "x").out == text + "\n"
    assert cli.turns("t")[-1]["text"] == text


def test_a_large_answer_is_not_cut(cli: Any) -> None:
    assert len(cli.run("ask", "!big 1500000").out) == 1_500_001


def test_instructions_come_before_the_prompt(cli: Any, tmp_path: Any) -> None:
    rubric = tmp_path / "rubric.md"
    rubric.write_text("Answer in rhymes.")

    cli.run("ask", "--instructions", str(rubric), "hello")

    assert "Answer in rhymes." in cli.stage.prompt
    assert cli.run("ask", "--instructions", "-", "hello", stdin="In prose.").code == 0
    assert "In prose." in cli.stage.prompt


def test_fresh_session_and_no_resume_say_why(cli: Any) -> None:
    cli.run("ask", "-t", "t", "one")

    assert cli.run("ask", "-t", "t", "--fresh-session", "two", "--json").json["reason"] == "forced_fresh"
    assert cli.stage.launches[-1].resumes is None
    assert "\none\n" in cli.stage.prompt, "no resume flag, so the transcript"
    assert cli.run("ask", "-t", "t", "--no-resume", "three", "--json").json["reason"] == "disabled"
    assert cli.run("ask", "-t", "t", "four", "--json", CLEW_ENABLE_RESUME="no").json["reason"] == "disabled"
    assert "# New message" in cli.stage.prompt


def test_cwd_moves_an_existing_thread(cli: Any, tmp_path: Any) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    cli.run("ask", "-t", "t", "one")

    done = cli.run("ask", "-t", "t", "--cwd", str(elsewhere), "two")

    assert "fresh: the work directory changed" in done.err
    assert cli.run("ask", "-c", "three", cwd=elsewhere).err.startswith("continuing t\nresumed")


def test_a_thread_of_another_directory_continues_in_its_own_directory(cli: Any, tmp_path: Any) -> None:
    cli.run("ask", "-t", "t", "one")

    place, closing = cli.run("ask", "-t", "t", "two", cwd=tmp_path).err.splitlines()
    assert place == f"in {cli.stage.work}"
    assert closing.startswith("resumed")
    assert cli.run("threads", "show", "t", "--json").json["cwd"] == str(cli.stage.work)


def test_an_emptied_session_is_reported(both: Any) -> None:
    both.run("ask", "-t", "t", "one")
    [session] = both.stage.session_files()
    session.write_bytes(b"")

    done = both.run("ask", "-t", "t", "two")

    assert (done.code, done.out) == (0, "ack: two\n")
    assert "fresh: the session's file is gone" in done.err


def test_an_overflow_is_reported_as_such(cli: Any) -> None:
    cli.run("ask", "-t", "t", "one")
    cli.api.script.append(TooLong())

    done = cli.run("ask", "-t", "t", "two")

    assert done.code == 0
    assert "continuing with a fresh session and a transcript cut to fit" in done.err


def test_withdrawn_text_is_separated_from_what_follows(cli: Any) -> None:
    """The real agent does not always pass on the text of a broken request; the scripted agent does."""
    cli.api.script.extend([Cut("The first tr"), Text("The second try.", chunks=3)])

    done = cli.run("ask", "-t", "t", "go", CLAUDE_CODE_MAX_RETRIES="2")

    assert done.code == 0
    assert done.out == "The first tr\nThe second try.\n"
    assert "(the connection broke; the agent starts this part again)" in done.err
    assert cli.turns("t")[-1]["text"] == "The second try."


def test_without_a_terminal_a_permission_is_declined_with_a_sentence(both: Any) -> None:
    done = both.run("ask", '!tool Bash {"command": "touch made"}')

    assert done.code == 0
    assert not (both.stage.work / "made").exists()
    assert "Nobody is there to allow Bash" in str(both.api.main_requests[-1].body)
    assert done.err.count("warning: Bash was declined: nobody was there to allow it") == 1


def test_permissions_all_warns_and_asks_nobody(both: Any) -> None:
    done = both.run("ask", "--permissions", "all", '!tool Bash {"command": "touch made"}')

    assert done.code == 0
    assert "warning: --permissions all" in done.err
    assert (both.stage.work / "made").exists()


def test_permissions_edits_lets_files_be_written(both: Any) -> None:
    path = both.stage.work / "made.txt"

    write = json.dumps({"file_path": str(path), "content": "x"})
    both.run("ask", "--permissions", "edits", f"!tool Write {write}")

    assert path.read_text() == "x"


def test_read_only_has_a_fixed_tool_list(both: Any) -> None:
    both.run("ask", "--permissions", "read-only", '!tool Bash {"command": "touch made"}')

    assert not (both.stage.work / "made").exists()
    assert both.stage.launches[-1].value("--tools")


def test_a_projects_own_settings_load_only_when_trusted(cli: Any) -> None:
    cli.run("ask", "-t", "t", "one")
    assert cli.stage.launches[-1].value("--setting-sources") == "user"

    cli.run("ask", "-t", "t", "--trust", "project", "two")
    assert "project" in cli.stage.launches[-1].value("--setting-sources")
    assert "warning: --trust project: " in cli.run("ask", "-t", "t", "three").err


def test_what_a_crash_left_is_reported(cli: Any) -> None:
    process = cli.start("ask", "-t", "t", "!hang text so far", CLEW_FAULT="text_streamed")
    process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == -9

    done = cli.run("ask", "-t", "t", "go on")

    assert done.code == 0
    assert "ended 1 run that a crash had left unfinished" in done.err
