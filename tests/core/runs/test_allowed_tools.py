"""Tools that are allowed by name, or by a pattern of their command."""

from __future__ import annotations

import pytest

from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import Answer, answer_by_policy
from clew.core.thread import Permissions


def asked(tool: str, command: object = None) -> QuestionAsked:
    return QuestionAsked("q", tool, {} if command is None else {"command": command}, is_form=False)


@pytest.mark.parametrize(
    ("allowed", "question", "allows"),
    [
        ("WebFetch", asked("WebFetch"), True),
        ("WebFetch", asked("WebFetcher"), False),
        ("Bash(git log*)", asked("Bash", "git log --oneline"), True),
        ("Bash(git log*)", asked("Bash", "git push"), False),
        ("Bash(git log*)", asked("Bash", "git log; rm -rf x"), False),
        ("Bash(git log*)", asked("Bash", "git log | sh"), False),
        ("Bash(git log*)", asked("Bash", "git log $(touch x)"), False),
        ("Bash(git log*)", asked("Bash", "git log\ntouch x"), False),
        ("Bash(git log*)", asked("Bash", "git log > x"), False),
        ("Bash(git log*)", asked("Bash", 5), False),
        ("Bash(git log*)", asked("Bash"), False),
        ("Bash", asked("Bash", "anything; at all"), True),
    ],
)
def test_what_is_allowed_by_name(allowed: str, question: QuestionAsked, allows: bool) -> None:
    answer = answer_by_policy(Permissions.EDITS, question, (allowed,))
    assert answer == (Answer(allow=True) if allows else None)


def test_a_form_is_never_answered_by_a_list_of_tools() -> None:
    form = QuestionAsked("q", "AskUserQuestion", {}, is_form=True)
    assert answer_by_policy(Permissions.EDITS, form, ("AskUserQuestion",)) is None
