"""Questions of agents, what a person can answer, and what has been allowed for good."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from clew.api.wire.shape import Doc, Shape, Time
from clew.core.runs import choices
from clew.core.runs.question import QuestionState

if TYPE_CHECKING:
    from clew.core.runs.proposed_edits import ProposedEdit as ProposedEditRecord
    from clew.core.runs.question import Question as QuestionRecord
    from clew.core.runs.tool_rules import ToolRule as ToolRuleRecord

Scope = Literal["once", "run", "thread"]


class ToolRule(Shape):
    """What later runs of a thread may do without asking."""

    tool: str
    kind: Literal["command", "folder", "file", "host", "tool", "input"]
    value: Annotated[str, Doc("The command, folder, file, host, or input as JSON")]
    cwd: Annotated[str, Doc("The work directory for which it was given: in another one it allows nothing")]
    words: Annotated[str, Doc("All that it allows, in words")]


class Choice(Shape):
    """One of the answers to a request for permission."""

    name: Literal["once", "run", "thread", "no", "no-and-why"]
    label: str
    meaning: Annotated[str, Doc("One sentence")]
    allow: bool
    scope: Annotated[Scope, Doc("Of a permission")]
    says_why: Annotated[bool, Doc("It needs a message to the agent")]


class Question(Shape):
    """A question of an agent that waits for a person."""

    id: str
    run_id: str
    thread_id: str
    tool: str
    input: dict[str, Any]
    is_form: Annotated[bool, Doc("It asks for answers, not for permission")]
    choices: Annotated[list[Choice], Doc("What can be answered; of a form: none")]
    rule: Annotated[ToolRule | None, Doc("What the scope `thread` would allow; null: it cannot be given")]
    state: Literal["open", "answered", "withdrawn"]
    asked_at: Time
    answered_at: Time | None
    allowed: bool | None
    live: Annotated[bool, Doc("False: its run has ended, and a message to the resumed session carries the answer")]


class AnsweredQuestion(Question):
    follow_up_run_id: Annotated[str | None, Doc("The run that carries the answer, if the run that asked has ended")]


class ProposedEdit(Shape):
    """What a tool that asks for permission would change in one file."""

    path: Annotated[str, Doc("As the agent wrote it")]
    lines: Annotated[list[str], Doc("The hunks of a unified diff, without the names of the files")]
    note: Annotated[str, Doc('What to know of the diff; "": it is against the file as it is now')]
    omitted: Annotated[int, Doc("How many more lines the diff has")]


class ProposedEdits(Shape):
    items: list[ProposedEdit]


def question(record: QuestionRecord, *, live: bool) -> Question:
    """A question with a reply counts as answered, also before its agent got the reply."""
    reply = None if record.state is not QuestionState.OPEN else record.reply
    rule = record.tool_rule
    offered = () if record.is_form else choices.choices_for(rule)
    return Question.of(
        record,
        input=dict(record.input),
        choices=[Choice.of(each) for each in offered],
        rule=None if rule is None else tool_rule(rule),
        state=record.state if reply is None else QuestionState.ANSWERED,
        allowed=record.allowed if reply is None else reply.allow,
        live=live,
    )


def tool_rule(record: ToolRuleRecord) -> ToolRule:
    return ToolRule.of(record)


def answered_question(record: QuestionRecord, follow_up_run_id: str | None) -> AnsweredQuestion:
    return AnsweredQuestion.of(question(record, live=follow_up_run_id is None), follow_up_run_id=follow_up_run_id)


def proposed_edits(found: Sequence[ProposedEditRecord]) -> ProposedEdits:
    return ProposedEdits(items=[ProposedEdit.of(each) for each in found])
