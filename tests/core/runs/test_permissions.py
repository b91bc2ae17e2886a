"""What a thread's permissions decide, what a refusal says, and a thread's name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import Answer, answer_by_policy, declined_message, refusal_without_person
from clew.core.thread import NAME, Permissions, name_from

TOOL = QuestionAsked("q", "Bash", {"command": "ls"}, is_form=False)
FORM = QuestionAsked("q", "AskUserQuestion", {"questions": []}, is_form=True)


@pytest.mark.parametrize(
    ("permissions", "allow"),
    [(Permissions.ASK, None), (Permissions.EDITS, None), (Permissions.READ_ONLY, False), (Permissions.ALL, True)],
)
def test_permissions_decide_about_a_tool(permissions: Permissions, allow: bool | None) -> None:
    answer = answer_by_policy(permissions, TOOL)
    assert (answer.allow if answer else None) is allow


@pytest.mark.parametrize("permissions", Permissions)
def test_a_form_is_always_for_a_person(permissions: Permissions) -> None:
    assert answer_by_policy(permissions, FORM) is None


def test_every_refusal_is_a_sentence_that_the_agent_can_act_on() -> None:
    read_only = answer_by_policy(Permissions.READ_ONLY, TOOL)
    assert read_only is not None
    for answer, word in (
        (read_only, "Bash"),
        (refusal_without_person(TOOL), "Bash"),
        (refusal_without_person(FORM), "option"),
    ):
        assert not answer.allow
        assert answer.answers is None
        assert word in answer.message
        assert answer.message.endswith(".")
        assert "{" not in answer.message


def test_a_read_only_refusal_is_true_of_a_tool_that_may_read_elsewhere() -> None:
    """Reading is allowed within the thread's directory, so the message does not say that the tool is not available."""
    question = QuestionAsked("q", "Read", {"file_path": "/etc/hostname"}, is_form=False)
    answer = answer_by_policy(Permissions.READ_ONLY, question)
    assert answer is not None and not answer.allow
    for said in (answer.message, declined_message(question, Permissions.READ_ONLY)):
        assert "Read" in said and "read-only" in said and "directory" in said
        assert "not available" not in said


def test_all_allows_without_a_message() -> None:
    assert answer_by_policy(Permissions.ALL, TOOL) == Answer(allow=True)


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("Fix the login bug, please", "fix-the-login-bug"),
        ("  Hello\nWORLD  ", "hello-world"),
        ("../../etc/passwd", "etc-passwd"),
        ("", "thread"),
        ("日本語", "thread"),
        ("a" * 100, "a" * 40),
        ("aaaaaaaaaa bbbbbbbbbb cccccccccc ddddddd eee", "aaaaaaaaaa-bbbbbbbbbb-cccccccccc-ddddddd"),
    ],
)
def test_a_name_comes_from_the_prompts_first_words(prompt: str, name: str) -> None:
    assert name_from(prompt) == name


@given(st.text())
def test_a_name_is_always_a_legal_one(prompt: str) -> None:
    assert NAME.match(name_from(prompt))


@pytest.mark.parametrize("name", ["", "-a", ".a", "a/b", "a b", "a" * 81, "a\n", "é"])
def test_names_that_are_not_legal(name: str) -> None:
    assert not NAME.match(name)
