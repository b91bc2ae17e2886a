"""The prompt loop of `clew chat`, as a user sees it."""

from __future__ import annotations

import json
import signal
import sqlite3
import stat
import threading
from collections.abc import Callable
from typing import Any

import pytest

from clew.cli.chat.commands import own_command
from clew.testing.model.scripts import FINAL, Fail, Slow, Text, ToolUse
from turns.outside.terminal import CTRL_C, ENTER, LEFT, TIMEOUT_S, UP

CTRL_D, TAB, ALT_ENTER = "\x04", "\t", "\x1b\r"
SLOW = Slow("word " * 2000, words_per_s=20)

AGAIN = r"(?s:.*)(?m:^t>$)"  # and then the prompt, which is empty

Chat = Callable[..., Any]


def prompts(cli: Any, thread: str) -> list[str]:
    return [turn["text"] for turn in cli.turns(thread) if turn["role"] == "user"]


def test_turns_of_a_chat_resume_each_other(cli: Any, chat: Chat, columns: int) -> None:
    terminal = chat("fix-login", columns=columns)
    terminal.type("Why does it fail?\r")
    terminal.wait_for(r"new thread: fix-login\nack: Why does it fail\?\nfresh: first turn[^>]*\nfix-login>")
    terminal.type("And now?\r")
    terminal.wait_for(r"ack: And now\?\nresumed · [^>]*\nfix-login>\n+fix-login · claude claude-sonnet-4-5 · /help")

    terminal.type(CTRL_D)
    assert terminal.ended() == 0
    terminal.wait_for("clew chat fix-login continues here")
    assert prompts(cli, "fix-login") == ["Why does it fail?", "And now?"]


def test_a_new_thread_is_named_after_the_first_prompt_and_continued_with_c(cli: Any, chat: Chat) -> None:
    first = chat(ready="new thread>")
    first.type("Look at it\r")
    first.wait_for("look-at-it>")
    first.type("/exit\r")
    assert first.ended() == 0

    again = chat("-c", ready="look-at-it>")
    assert "continuing look-at-it" in again.text
    again.type("Again\r")
    again.wait_for("resumed · ")


def test_what_was_typed_comes_back_with_arrow_up_in_the_next_chat(cli: Any, chat: Chat) -> None:
    first = chat("t")
    first.type("the \x11\x07 first" + ENTER)  # Ctrl-Q quotes the bell
    first.wait_for("ack: the ␇ first" + AGAIN)
    first.type("one" + ALT_ENTER + "two" + ENTER)
    first.wait_for("ack: two" + AGAIN)
    first.type(CTRL_D)
    assert first.ended() == 0

    [file] = (cli.stage.clew_home / "chat-history").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(map(json.loads, file.read_text().splitlines())) == ["the \x07 first", "one\ntwo"]
    file.write_text(file.read_text() + '{"no": "prompt"}\n"half of a l')

    again = chat("other")
    again.type(UP)
    again.wait_for("other> one\n       two")
    again.type(UP + UP)
    again.wait_for(r"other> the \^G first")
    again.type(ENTER)
    again.wait_for("fresh: ")
    assert prompts(cli, "other") == ["the \x07 first"]


def test_a_prompt_may_have_several_lines(cli: Any, chat: Chat, columns: int) -> None:
    terminal = chat("t", columns=columns)
    terminal.type("one\\\r" + "two" + ALT_ENTER + "three\n" + "four ")
    terminal.wait_for("t> one\n   two\n   three\n   four")
    terminal.type("\x1b[200~pasted\r\n\tlines\r\x1b[201~")
    terminal.wait_for("four pasted\n")
    terminal.type("end" + ENTER)
    terminal.wait_for("fresh: ")
    assert prompts(cli, "t") == ["one\ntwo\nthree\nfour pasted\n\tlines\nend"]


def test_files_and_commands_are_completed(cli: Any, chat: Chat, columns: int) -> None:
    work = cli.stage.work
    for name in ("src/login.py", "src/two words.py", "notes/login\x1b]52;c;x\x07"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(f"the text of {name}")
    own = cli.stage.home / ".claude" / "commands"
    own.mkdir(parents=True)
    (own / "thorough.md").write_text("---\ndescription: Be thorough\n---\nBe thorough about $ARGUMENTS.\n")

    terminal = chat("t", columns=columns)
    terminal.type("Read @log")
    terminal.wait_for("\n +src/login.py")
    assert "52;c" not in terminal.text
    terminal.type(TAB)
    terminal.wait_for("t> Read @src/login.py")
    terminal.type(ENTER)  # takes the completion
    terminal.type(" and @src/tw")
    terminal.wait_for("\n +src/two words.py")
    terminal.type(TAB)
    terminal.wait_for('and @"src/two words.py"')
    terminal.type(ENTER + ENTER)
    terminal.wait_for("fresh: " + AGAIN)
    assert "the text of src/login.py" in cli.stage.prompt
    assert "the text of src/two words.py" in cli.stage.prompt
    terminal.type("/th")
    terminal.wait_for("Be thorough")
    terminal.wait_for("lists threads")
    terminal.type(TAB)
    terminal.wait_for("t> /threads")
    terminal.type(ENTER + ENTER)
    terminal.wait_for(r"\nt +\d+s ago" + AGAIN)
    terminal.type("/thorough tests" + ENTER)
    terminal.wait_for("Be thorough about tests(?s:.*)resumed" + AGAIN)
    terminal.type("/clear" + ENTER)
    terminal.wait_for("t begins anew" + AGAIN)
    terminal.type("/model opus" + ENTER)
    terminal.wait_for("clew threads set(?s:.*)\nt> /model opus")
    assert prompts(cli, "t") == []


def test_ctrl_c_stops_the_run_and_not_the_chat(cli: Any, chat: Chat) -> None:
    cli.api.script.append(SLOW)
    terminal = chat("t")
    terminal.type("Tell me" + ENTER)
    terminal.wait_for("word word")
    terminal.type(CTRL_C)
    terminal.wait_for("stopping…(?s:.*)clew: " + AGAIN)
    terminal.type("unfinished" + CTRL_C)
    terminal.wait_for("Ctrl-D leaves the chat." + AGAIN)
    terminal.type("Go on" + ENTER)
    terminal.wait_for("ack: Go on" + AGAIN)
    terminal.type(CTRL_D)
    assert terminal.ended() == 0
    assert [turn["partial"] for turn in cli.turns("t") if turn["role"] == "assistant"] == [True, False]


def test_an_error_is_printed_and_the_chat_goes_on(cli: Any, chat: Chat) -> None:
    cli.api.script.append(Fail(401, "authentication_error", "invalid x-api-key", FINAL))
    terminal = chat("t")
    terminal.type("First" + ENTER)
    terminal.wait_for(r"clew: claude is not logged in" + AGAIN)
    terminal.type("Second" + ENTER)
    terminal.wait_for("ack: Second" + AGAIN)

    cli.stage.work.rename(cli.stage.folder / "away")
    terminal.type("Third" + ENTER)
    terminal.wait_for("is not a directory.(?s:.*)\nt> Third")
    (cli.stage.folder / "away").rename(cli.stage.work)
    terminal.type(ENTER)
    terminal.wait_for("ack: Third")
    assert prompts(cli, "t") == ["First", "Second", "Third"]


def test_the_second_chat_of_a_thread_waits_and_says_for_what(cli: Any, chat: Chat) -> None:
    cli.api.script.append(SLOW)
    first = chat("t")
    first.type("Tell me" + ENTER)
    first.wait_for("word word")
    second = chat("t")
    second.type("Me too" + ENTER)
    second.wait_for("waiting for the thread: run [0-9a-z]+ is running in it")
    second.type(CTRL_C)
    second.wait_for("while it waited.(?s:.*)\nt> Me too")  # it is not a turn, so it is offered again
    first.type(CTRL_C)
    first.wait_for(r"clew: " + AGAIN)
    second.type(ENTER)
    second.wait_for("ack: Me too")
    assert prompts(cli, "t") == ["Tell me", "Me too"]


def test_a_question_of_the_agent_is_answered_in_the_chat(cli: Any, chat: Chat) -> None:
    terminal = chat("t")
    terminal.type('!tool Bash {"command": "touch made"}' + ENTER)
    terminal.wait_for("Bash asks for permission")
    terminal.wait_for("Allow it")
    terminal.type("y\n")
    terminal.wait_for(r"fresh: " + AGAIN)
    assert (cli.stage.work / "made").exists()


def test_what_is_typed_during_a_run_is_in_the_next_prompt(cli: Any, chat: Chat) -> None:
    cli.api.script.append(SLOW)
    terminal = chat("t")
    terminal.type("Tell me" + ENTER)
    terminal.wait_for("word word")
    terminal.type("kept words" + CTRL_C)
    terminal.wait_for(r"stopping…(?s:.*)(?m:^t> kept words$)")
    terminal.type(CTRL_C)
    terminal.wait_for("Ctrl-D leaves the chat." + AGAIN)

    typed = threading.Event()
    answers = iter([ToolUse("Bash", {"command": "touch made"}), Text("Done.")])
    cli.api.reply = lambda request: next(answers) if typed.wait(TIMEOUT_S) else None
    terminal.type("And now" + ENTER)
    terminal.wait_for("And now(?s:.*)thinking")
    terminal.type("my next " + LEFT + "words")
    terminal.wait_for("my next (?s:.*)words")
    typed.set()
    terminal.wait_for("Allow it")
    terminal.type("n\n")
    terminal.wait_for(r"resumed · (?s:.*)(?m:^t> my next words$)")


@pytest.mark.parametrize("asks", [False, True])
def test_a_text_that_is_pasted_during_a_run_is_one_prompt(cli: Any, chat: Chat, asks: bool) -> None:
    """It is longer than what a terminal holds."""
    pasted, first = threading.Event(), ToolUse("Bash", {"command": "touch made"}) if asks else Text("First.")
    answers = iter([first, Text("Done."), Text("Done.")])
    cli.api.reply = lambda request: next(answers) if pasted.wait(TIMEOUT_S) else None
    terminal = chat("t")
    terminal.type("Begin" + ENTER)
    terminal.wait_for("thinking")
    lines = [f"line {number:03} {'x' * 90}" for number in range(100)]
    text = "\r".join(lines)
    terminal.type("\x1b[200~")
    typing = threading.Thread(target=terminal.type_all, args=(f"{text}\x1b[201~",))
    typing.start()
    terminal.wait_for("line 035")  # the terminal holds no more
    pasted.set()
    if asks:
        terminal.wait_for("Allow it")
        typing.join(TIMEOUT_S)
        terminal.type("n\n")
    terminal.wait_for("line 099 x+\n(?s:.*)/help")
    typing.join(TIMEOUT_S)
    terminal.type(ENTER)
    terminal.wait_for("resumed · ")
    assert prompts(cli, "t") == ["Begin", "\n".join(lines)]


def test_the_terminal_is_asked_to_mark_what_is_pasted_during_a_run(cli: Any) -> None:
    terminal = cli.terminal("chat", "t", PROMPT_TOOLKIT_NO_CPR="1")
    terminal.read_until(r"(?s)\?2004h.*>.*\?25h")
    terminal.type("Hello" + ENTER)
    shown = terminal.read_until("ack: Hello")
    assert shown.rfind("\x1b[?2004h") > shown.rfind("\x1b[?2004l") > 0
    terminal.read_until(r"(?s)fresh: .*\?2004h.*>.*\?25h")
    terminal.type(CTRL_D)
    _, shown = terminal.end()
    assert shown.rfind("\x1b[?2004l") > shown.rfind("\x1b[?2004h")


def test_a_key_that_selects_does_not_stop_typing(cli: Any, chat: Chat) -> None:
    terminal = chat("t")
    terminal.type("abc\x00def" + ENTER)  # Ctrl-Space
    terminal.wait_for("ack: abcdef" + AGAIN)


def test_the_history_is_that_of_the_project_of_the_thread(cli: Any, chat: Chat) -> None:
    other = cli.stage.folder / "other"
    other.mkdir()
    assert cli.run("ask", "-t", "there", "--cwd", str(other), "one").code == 0
    terminal = chat("t")
    terminal.type("/threads there" + ENTER)
    terminal.wait_for("continuing there(?s:.*)there>")
    terminal.type("typed there" + ENTER)
    terminal.wait_for("ack: typed there(?s:.*)there>")
    terminal.type(CTRL_D)
    assert terminal.ended() == 0
    again = chat("there")
    again.type(UP)
    again.wait_for("there> typed there")
    again = chat("t")
    again.type(UP)
    again.wait_for("t> /threads there")


@pytest.mark.parametrize(
    ("number", "asks"),
    [(signal.SIGHUP, False), (signal.SIGTERM, True)],
    ids=["at the prompt", "during a run"],
)
def test_a_signal_ends_the_chat_in_order(cli: Any, chat: Chat, number: int, asks: bool) -> None:
    cli.api.script.append(SLOW)
    terminal = chat("t")
    if asks:
        terminal.type("Tell me" + ENTER)
        terminal.wait_for("word word")
    terminal.process.send_signal(number)
    assert terminal.ended() == 7
    assert "clew: Stopped." in terminal.text
    if asks:
        [run] = cli.run("runs", "list", "--json").json
        assert run["status"] == "cancelled"


def test_a_second_ctrl_c_stops_the_run_at_once_and_an_interrupt_at_the_prompt_leaves_the_chat_alive(
    cli: Any, chat: Chat
) -> None:
    cli.api.script.append(SLOW)
    cli.stage.fault({"do": "hang_after_init", "ignore_term": True})
    terminal = chat("t")
    terminal.process.send_signal(signal.SIGINT)
    terminal.wait_for("Ctrl-D leaves the chat." + AGAIN)
    terminal.type("Tell me" + ENTER)
    terminal.wait_for("thinking")
    terminal.type(CTRL_C)
    terminal.wait_for("stopping…")
    terminal.type(CTRL_C)
    terminal.wait_for("clew: (?s:.*)cancelled" + AGAIN)


def test_a_new_thread_is_begun_and_another_continued_in_one_chat(cli: Any, chat: Chat) -> None:
    cli.run("ask", "-t", "older", "one")
    terminal = chat("t")
    terminal.type("Hello" + ENTER)
    terminal.wait_for("ack: Hello" + AGAIN)
    terminal.type("/new t" + ENTER)
    terminal.wait_for("There is a thread named t.(?s:.*)\nt> /new t")
    terminal.type("\x15/new" + ENTER)
    terminal.wait_for("\nnew thread>\n")
    terminal.type("Something else" + ENTER)
    terminal.wait_for("fresh: (?s:.*)\nsomething-else>\n")
    terminal.type("/threads nobody" + ENTER)
    terminal.wait_for("no thread named nobody(?s:.*)\nsomething-else> /threads nobody")
    terminal.type("\x15/threads older" + ENTER)
    terminal.wait_for("continuing older\nolder>")
    terminal.type("two" + ENTER)
    terminal.wait_for("ack: two\nresumed")
    assert prompts(cli, "older") == ["one", "two"]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["../t"], 2, "cannot be a thread's name"),
        (["-c"], 2, "no threads yet"),
        (["t", "-c"], 2, "cannot be given together"),
        (["t", "--agent", "nobody"], 2, "nobody"),
        (["t", "--cwd", "/nowhere"], 2, "/nowhere"),
        (["t", "--instructions", "-"], 2, "cannot come from stdin"),
    ],
)
def test_what_cannot_be_a_chat_is_refused_before_a_prompt(
    cli: Any, chat: Chat, args: list[str], code: int, message: str
) -> None:
    terminal = chat(*args, ready=message)
    assert terminal.ended() == code
    assert "clew: " in terminal.text


def test_the_name_of_a_thread_cannot_control_the_terminal(cli: Any, chat: Chat) -> None:
    cli.run("ask", "-t", "t", "one")
    with sqlite3.connect(cli.stage.clew_home / "clew.db") as store:
        store.execute("UPDATE threads SET name = ?", ("a\x1b]52;c;ZXZpbA==\x07\x1b[2Jz",))
    store.close()
    terminal = chat("-c", ready="continuing a␛]52;c;ZXZpbA==␇␛\\[2Jz")
    terminal.wait_for("a␛]52;c;ZXZpbA==␇␛\\[2Jz · claude")


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["no colour", "dumb"])
def test_it_works_without_colours_and_on_a_dumb_terminal(cli: Any, chat: Chat, environ: dict[str, str]) -> None:
    terminal = chat("t", **environ)
    terminal.wait_until_it_takes_keys()
    terminal.type("Hello" + ENTER)
    terminal.wait_for("ack: Hello\nfresh: " + AGAIN)
    terminal.wait_until_it_takes_keys()
    terminal.type(CTRL_D)
    assert terminal.ended() == 0


def test_without_a_terminal_it_names_ask(cli: Any) -> None:
    done = cli.run("chat", "t", stdin="hello")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "clew: clew chat needs a terminal: stdin or stdout is none.\n"
        "  clew ask takes a prompt as an argument or on stdin.\n"
    )


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("/help", "help"),
        (" /new fix ", "new"),
        ("/quit", "exit"),
        ("/helpless", None),
        ("/usr/bin/x fails", None),
        ("/new\nlines", None),
        ("say /exit", None),
    ],
)
def test_only_whole_commands_are_the_chats_own(typed: str, name: str | None) -> None:
    found = own_command(typed)
    assert (found[0].name if found else None) == name
