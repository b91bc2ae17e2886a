"""What a thread's permissions decide without asking a person.

The agent's own rules come first (its adapter turns `edits` and `read-only` into launch flags). This module is about the
requests that the agent still sends to its host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

from clew.core.record import Record
from clew.core.runs.events import QuestionAsked
from clew.core.runs.tool_rules import ToolRule, covers
from clew.core.thread import Permissions


class Scope(StrEnum):
    """What a permission is given for."""

    ONCE = "once"  # this request
    RUN = "run"  # this and every later request of the run, until the run ends; forms are still asked
    THREAD = "thread"  # what the request's rule says, in this and every later run of the thread


class Answer(Record):
    """The answer to an agent's question, by a person or by the thread's permissions."""

    allow: bool
    message: str = ""  # on a refusal: a sentence that the agent can act on
    answers: Mapping[str, str] | None = None  # to a form, by question
    scope: Scope = Scope.ONCE  # of a permission that was given: what else it allows


READ_ONLY_REFUSAL = (
    "This use of {tool} is declined: the conversation is read-only, within its directory. Answer from what you can "
    "read, or say what you would do and let the user do it."
)
NOBODY_REFUSAL = (
    "Nobody is there to allow {tool}. Go on without it if you can; otherwise end your answer with what you need, "
    "so that the user can allow it or do it and ask you again."
)
NOBODY_FOR_FORM = (
    "Nobody is there to answer. Choose the most sensible option yourself and say which one and why; "
    "or put the questions to the user in your answer."
)


def answer_by_policy(
    permissions: Permissions, question: QuestionAsked, allowed_tools: Sequence[str] = ()
) -> Answer | None:
    """The answer that the thread's permissions give; None: a person must be asked.

    `allowed_tools` are tool names, or a name with a pattern of its command: `Bash(git log*)`.
    """
    if question.is_form:
        return None
    if permissions is Permissions.ALL or any(_allows(tool, question) for tool in allowed_tools):
        return Answer(allow=True)
    if permissions is Permissions.READ_ONLY:
        return Answer(allow=False, message=READ_ONLY_REFUSAL.format(tool=question.tool))
    return None


def answer_by_rules(question: QuestionAsked, rules: Sequence[ToolRule]) -> Answer | None:
    """The answer that the rules of the thread give, where its permissions give none; None: a person must be asked."""
    wanted = None if question.is_form else question.rule
    return Answer(allow=True) if wanted is not None and any(covers(rule, wanted) for rule in rules) else None


def _allows(tool: str, question: QuestionAsked) -> bool:
    name, opened, pattern = tool.partition("(")
    if name != question.tool:
        return False
    if not opened:
        return True
    command = question.input.get("command")
    return isinstance(command, str) and _is_plain(command) and fnmatchcase(command, pattern.removesuffix(")"))


def _is_plain(command: str) -> bool:
    """Whether this is a single command: an allowed beginning must not be followed by another command."""
    return not any(mark in command for mark in ("\n", "\r", ";", "&", "|", "`", "$(", "${", "<", ">"))


def declined_message(question: QuestionAsked, permissions: Permissions, allowed_by: str = "--permissions") -> str:
    """The message to the user about a declined question. It says what would allow it."""
    if question.is_form:
        return "The agent asked a question, and nobody was there to answer."
    if permissions is Permissions.READ_ONLY:
        return f"{question.tool} was declined: the thread is read-only, within its directory."
    return f"{question.tool} was declined: nobody was there to allow it (see {allowed_by})."


def cannot_ask_message(agent: str) -> str:
    """The message to the user when the thread's permissions are `ask` and the agent cannot ask."""
    return (
        f"{agent} cannot ask, so it may read and not change anything. "
        "Give the thread other permissions (edits or all) to let it work."
    )


def refusal_without_person(question: QuestionAsked) -> Answer:
    """The refusal that is sent to the agent when there is no person to ask."""
    if question.is_form:
        return Answer(allow=False, message=NOBODY_FOR_FORM)
    return Answer(allow=False, message=NOBODY_REFUSAL.format(tool=question.tool))
