"""What "always in this thread" allows: the rule of each request, and what a rule covers."""

from __future__ import annotations

import posixpath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.runs.choices import CHOICES, choices_for
from clew.core.runs.events import QuestionAsked, from_body, to_body
from clew.core.runs.permissions import Scope, answer_by_rules
from clew.core.runs.proposed_edits import ProposedEdit
from clew.core.runs.tool_rules import MAX_RULES, RuleKind, ToolRule, covers, rule_for, with_rule

CWD = "/srv/me/repo"
LINKS = {f"{CWD}/out": "/etc"}


def resolve(path: str) -> str:
    if "\0" in path:
        raise ValueError("embedded null byte")
    whole = posixpath.normpath(posixpath.join(CWD, path))
    for link, target in LINKS.items():
        if whole.startswith(f"{link}/"):
            return target + whole[len(link) :]
    return whole


def rule(tool: str, **given: Any) -> ToolRule | None:
    return rule_for(tool, given, CWD, resolve)


def bash(command: str) -> ToolRule:
    made = rule("Bash", command=command)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("tool", "asked", "kind", "value"),
    [
        ("Bash", {"command": "npm test"}, "command", "npm test"),
        ("Bash", {"command": "a && b | c; $(d)", "description": "x"}, "command", "a && b | c; $(d)"),
        ("Bash", {"command": "ls", "dangerouslyDisableSandbox": True}, "input", None),
        ("Edit", {"file_path": f"{CWD}/src/a.py"}, "folder", CWD),
        ("Write", {"file_path": "src/a.py"}, "folder", CWD),
        ("MultiEdit", {"file_path": f"{CWD}/a", "edits": []}, "folder", CWD),
        ("NotebookEdit", {"notebook_path": f"{CWD}/a.ipynb"}, "folder", CWD),
        ("Edit", {"file_path": f"{CWD}/.git/hooks/pre-commit"}, "file", f"{CWD}/.git/hooks/pre-commit"),
        ("Edit", {"file_path": f"{CWD}/a/.env"}, "file", f"{CWD}/a/.env"),
        ("Edit", {"file_path": f"{CWD}/out/passwd"}, "file", "/etc/passwd"),
        ("Write", {"file_path": f"{CWD}/../other/a"}, "file", "/srv/me/other/a"),
        ("Write", {"file_path": f"{CWD}-not/a"}, "file", f"{CWD}-not/a"),
        ("Read", {"file_path": "/srv/docs/api/a.md"}, "folder", "/srv/docs/api"),
        ("Read", {"file_path": "/etc/passwd"}, "file", "/etc/passwd"),
        ("Read", {"file_path": "/home/me/a.md"}, "file", "/home/me/a.md"),
        ("Read", {"file_path": "/home/me/.ssh/config"}, "file", "/home/me/.ssh/config"),
        ("Read", {"file_path": "/srv/me/a.md"}, "file", "/srv/me/a.md"),
        ("WebFetch", {"url": "https://Example.com:8080/a?b#c", "prompt": "x"}, "host", "example.com:8080"),
        ("WebSearch", {"query": "x"}, "tool", ""),
        ("mcp__db__query", {"sql": "x"}, "tool", ""),
        ("Skill", {"b": 1, "a": "x"}, "input", '{"a": "x", "b": 1}'),
    ],
)
def test_the_rule_of_a_request_is_as_narrow_as_its_tool_allows(
    tool: str, asked: dict[str, Any], kind: str, value: str | None
) -> None:
    made = rule_for(tool, asked, CWD, resolve)
    assert made is not None
    assert (made.tool, made.kind, made.cwd) == (tool, kind, CWD)
    if value is not None:
        assert made.value == value


@pytest.mark.parametrize(
    ("tool", "asked"),
    [
        ("WebFetch", {"url": "https://evil.example\\@good.example/"}),
        ("WebFetch", {"url": "https://user@good.example/"}),
        ("WebFetch", {"url": "https://good.example\n.evil.example/"}),
        ("WebFetch", {"url": "file:///etc/passwd"}),
        ("WebFetch", {"url": 5}),
        ("Write", {"file_path": "~/.bashrc"}),
        ("Write", {"file_path": " /etc/passwd"}),
        ("Edit", {"file_path": "a\0b"}),
        ("Edit", {"file_path": "a\x1b[2K"}),
        ("Edit", {"file_path": ["a"]}),
        ("Edit", {}),
        ("Bash", {"command": "x" * 10_001}),
        ("mcp__\x1b[2K", {}),
        ("", {}),
    ],
)
def test_what_cannot_be_named_exactly_can_only_be_allowed_once(tool: str, asked: dict[str, Any]) -> None:
    assert rule_for(tool, asked, CWD, resolve) is None


@pytest.mark.parametrize(
    "other",
    [
        "git status; rm -rf x",
        "git status && rm -rf x",
        "git status\nrm -rf x",
        "git status $(rm -rf x)",
        " git status",
        "git status ",
        "git statusx",
        "git *",
    ],
)
def test_an_allowed_command_allows_no_other(other: str) -> None:
    assert covers(bash("git status"), bash("git status"))
    assert not covers(bash("git status"), bash(other))
    assert not covers(bash("git *"), bash("git status")), "a rule is no pattern"


@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30))
def test_a_command_is_covered_by_itself_alone(one: str, other: str) -> None:
    assert covers(bash(one), bash(other)) is (one == other)


def test_a_folder_covers_what_is_below_it_and_not_its_neighbours() -> None:
    docs = rule("Read", file_path="/srv/docs/api/a.md")
    assert docs is not None
    for path, allowed in (
        ("/srv/docs/api/b.md", True),
        ("/srv/docs/api/v1/c.md", True),
        ("/srv/docs/api/.git/config", False),
        ("/srv/docs/api-old/b.md", False),
        ("/srv/docs/b.md", False),
    ):
        wanted = rule("Read", file_path=path)
        assert wanted is not None
        assert covers(docs, wanted) is allowed, path


def test_a_rule_holds_for_its_tool_and_its_work_directory_only() -> None:
    edit, write = rule("Edit", file_path="a"), rule("Write", file_path="a")
    assert edit is not None and write is not None
    assert not covers(edit, write)
    moved = rule_for("Bash", {"command": "make clean"}, "/srv/other/repo", resolve)
    assert moved is not None
    assert not covers(bash("make clean"), moved)


def test_rules_are_kept_once_and_a_wider_one_replaces_what_it_covers() -> None:
    narrow, wide = rule("Read", file_path="/srv/docs/api/v1/a"), rule("Read", file_path="/srv/docs/api/a")
    assert narrow is not None and wide is not None
    rules = with_rule(with_rule((), narrow), bash("ls"))
    assert with_rule(rules, wide) == (bash("ls"), wide)
    assert with_rule((wide,), narrow) == (wide,)
    many: tuple[ToolRule, ...] = ()
    for number in range(MAX_RULES + 5):
        many = with_rule(many, bash(f"echo {number}"))
    assert len(many) == MAX_RULES
    assert (many[0].value, many[-1].value) == ("echo 5", f"echo {MAX_RULES + 4}")


def test_the_words_of_a_rule_say_all_that_it_allows() -> None:
    assert bash("npm test").words == "Bash(npm test)"
    assert bash("a\nb").words == "Bash with exactly this command"
    assert bash("x" * 201).words == "Bash with exactly this command", "it is not shown cut"
    assert bash("ls \u202ex").words == "Bash with exactly this command"
    for kind in RuleKind:
        assert ToolRule("T", kind, "value", CWD).words


def test_there_are_five_choices_with_a_key_and_a_sentence_each() -> None:
    assert [choice.name for choice in CHOICES] == ["once", "run", "thread", "no", "no-and-why"]
    assert [choice.key for choice in CHOICES] == ["y", "a", "t", "n", ""]
    assert [choice.scope for choice in CHOICES if choice.allow] == list(Scope)
    assert [choice.name for choice in CHOICES if choice.says_why] == ["no-and-why"]
    assert all(choice.meaning.endswith(".") for choice in CHOICES)
    [always] = [choice for choice in choices_for(bash("npm test")) if choice.scope is Scope.THREAD]
    assert always.label == "always in this thread: Bash(npm test)"
    assert [choice.name for choice in choices_for(None)] == ["once", "run", "no", "no-and-why"]
    assert [choice.name for choice in choices_for(None, has_run=False)] == ["once", "no"]


def test_rules_answer_no_form_and_no_question_without_a_rule() -> None:
    rules = (bash("ls"),)
    asked = QuestionAsked("q", "Bash", {"command": "ls"}, is_form=False, rule=bash("ls"))
    assert answer_by_rules(asked, rules) is not None
    assert answer_by_rules(asked, ()) is None
    assert answer_by_rules(asked.replace(rule=None), rules) is None
    assert answer_by_rules(asked.replace(is_form=True), rules) is None


def test_what_only_the_asked_person_is_shown_is_not_stored_with_the_event() -> None:
    asked = QuestionAsked("q", "Edit", {}, is_form=False, rule=bash("ls"), edits=(ProposedEdit("a", ("+secret",)),))
    body = to_body(asked)
    assert body.keys() == {"question_id", "tool", "input", "is_form", "tool_id"}
    assert from_body("question_asked", body) == QuestionAsked("q", "Edit", {}, is_form=False)
