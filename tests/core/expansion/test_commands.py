"""What counts as a slash command, and what the file of one says."""

from __future__ import annotations

import shlex
from contextlib import suppress

import pytest

from clew.core.expansion.command_file import FileSyntax, fill_blocks, parse, permits, run_tools, shell_blocks, words
from clew.core.expansion.invocation import BUILT_IN, CLEAR, COMPACT, Invocation, invocation_in, session_command
from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import answer_by_policy
from clew.core.thread import Permissions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/fix", Invocation("fix", "")),
        ("/fix the bug ", Invocation("fix", "the bug")),
        ("/git:commit -m\nx", Invocation("git:commit", "-m\nx")),
        ("/usr/bin/x fails", None),
        ("/ alone", None),
        ("//", None),
        (" /fix", None),
        ("see /fix", None),
        ("/" + "a" * 101, None),
        ("/-x", None),
    ],
)
def test_a_command_begins_the_text_and_is_no_path(text: str, expected: Invocation | None) -> None:
    assert invocation_in(text) == expected


def test_two_commands_act_on_the_thread_and_are_not_refused_as_built_in() -> None:
    assert session_command("/clear") == Invocation(CLEAR, "")
    assert session_command("/compact the tests") == Invocation(COMPACT, "the tests")
    assert session_command("/clear/x") is None
    assert not {CLEAR, COMPACT} & BUILT_IN.keys()


def filled(body: str, arguments: str, syntax: FileSyntax = FileSyntax.CLAUDE) -> str:
    texts, commands = fill_blocks(parse(body), syntax, arguments, {})
    return "|".join([*texts, *commands])


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [  # as the plain CLI 2.1.325 does
        ("all $ARGUMENTS 1=$1 2=$2 0=$0", 'big "two words" x', 'all big "two words" x 1=two words 2=x 0=big'),
        ("$ARGUMENTS[0] $ARGUMENTS[1]", "a b", "a b"),
        ("Hello $1 $2", "only", "Hello $1 $2\n\nARGUMENTS: only"),
        ("no placeholder\n", "some args", "no placeholder\n\nARGUMENTS: some args"),
        ("no placeholder\n", "", "no placeholder\n"),
        ("q \\$1 $10 $ARGUMENTS", "a b", "q $1 $10 a b"),
        ("---\narguments: [a, b]\n---\nnamed $a $b $abc", "q r", "named q r $abc"),
        ("it is $ARGUMENTS", "don't", "it is don't"),
        ("$ARGUMENTS", "!`touch x` $0", "!`touch x` $0"),  # an argument is neither a block nor a placeholder
    ],
)  # fmt: skip
def test_placeholders_are_filled_as_in_the_plain_cli(body: str, arguments: str, expected: str) -> None:
    assert filled(body, arguments) == expected


def test_a_prompt_of_codex_counts_from_one() -> None:
    assert filled("$1 $2 $ARGUMENTS $$1 $NAME", "a b NAME=z", FileSyntax.CODEX) == "a b a b NAME=z $1 z"


def test_shell_blocks_are_found_only_after_a_blank_and_get_the_arguments() -> None:
    body = "x!`no` and !`git log $0` ! `no`\n```!\none\ntwo\n```\n```\n!`in code too`\n```"
    texts, commands = fill_blocks(parse(body), FileSyntax.CLAUDE, "v1", {})
    assert commands == ["git log v1", "one\ntwo", "in code too"]
    assert len(texts) == len(commands) + 1


def test_frontmatter_is_read_and_removed() -> None:
    file = parse(
        '\ufeff---\r\ndescription: "Says: hello"\nallowed-tools:\n  - Bash(git add:*)\n  - Edit\n---\r\nBody\n'
    )
    assert (file.body, file.description) == ("Body\n", "Says: hello")
    assert file.allowed_tools == ("Bash(git add:*)", "Edit")
    assert parse("---\nuser-invocable: false\n---\nx").for_user is False
    assert parse("# Title\n\nx").description == "Title"
    assert parse("---\nnot closed").body == "---\nnot closed"


@pytest.mark.parametrize(
    ("tools", "command", "expected"),
    [
        ("Bash(git add:*)", "git add x", True),
        ("Bash(git add:*)", "git add", True),
        ("Bash(git add:*)", "git addx", False),
        ("Bash(git add:*)", "git add x; rm -rf ~", False),
        ("Bash(git add:*)", "git add $(rm x)", False),
        ("Bash(git add:*)", "git add `rm x`", False),
        ("Bash(git add:*)", "git add x > y", False),
        ("Bash(git add:*)", "git add x & rm y", False),
        ("Bash(git add:*)", "git add x\nrm y", False),
        ("Bash(git add", "rm y", False),  # a parenthesis that is not closed
        ("[Bash(git commit -m 'a, b':*), Read]", "rm y", False),
        ("Bash(git log:*)", "git log >/dev/nullx", False),
        ("Bash(git log:*), Bash(head:*)", "git log 2>/dev/null | head -5", True),
        ("Bash", "anything; at all", True),
        ("Bash(git log:*)  # never Bash", "rm y", False),
        ("\n  - Bash(git log:*)\n  # - Bash\n  - Read # Bash", "rm y", False),
        ("# Bash", "rm y", False),
        ("'Bash' # any", "rm y", True),
        ("[Read, Bash] # and nothing else", "rm y", True),
        ("Edit", "ls", False),
        ("", "ls", False),
    ],
)
def test_a_shell_block_needs_allowed_tools_for_each_of_its_parts(tools: str, command: str, expected: bool) -> None:
    assert permits(parse(f"---\nallowed-tools: {tools}\n---\n").allowed_tools, command) is expected


@pytest.mark.parametrize(("command", "allowed"), [("git add x", True), ("git add x && rm y", False), ("rm x", False)])
def test_the_tools_of_a_command_are_what_the_permissions_of_a_run_understand(command: str, allowed: bool) -> None:
    question = QuestionAsked("q", "Bash", {"command": command}, is_form=False)
    answer = answer_by_policy(Permissions.ASK, question, run_tools(("Bash(git add:*)", "Edit")))
    assert (answer is not None and answer.allow) is allowed


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("a b\nc", ["a", "b", "c"]),
        ("""'a b' "c \\"d\\" \\\\ \\x" e\\ f""", ["a b", 'c "d" \\ \\x', "e f"]),
        ("a'b'\"c\" ''", ["abc", ""]),
        ("it's", ["it's"]),
        ('a "b', ["a", '"b']),
        ("a\\", ["a\\"]),
    ],
)
def test_arguments_are_the_words_of_a_shell(arguments: str, expected: list[str]) -> None:
    assert words(arguments) == expected
    with suppress(ValueError):
        assert shlex.split(arguments) == expected


@pytest.mark.parametrize("arguments", ["a" * 3_000_000, "'" + "a" * 3_000_000, '"' + "\\" * 3_000_001])
def test_a_word_may_be_long(arguments: str) -> None:
    """`shlex` would take a minute."""
    assert words(arguments) == [arguments]


@pytest.mark.parametrize("text", ["```!\n" * 40_000, f"---\nallowed-tools: {'a(' * 100_000}\n---\n"])
def test_a_hostile_file_of_a_command_is_read_once(text: str) -> None:
    file = parse(text)
    assert (file.allowed_tools, shell_blocks(file.body)) == ((), ())
