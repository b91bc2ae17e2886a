"""What an event would start, what a sweep removed, and what a check of the settings found."""

from __future__ import annotations

from typing import Annotated, Any

from clew.api.wire.shape import Doc, Permissions, Shape


class PlannedHookJob(Shape):
    """A job that an event would start."""

    key: Annotated[str, Doc("The session key", example="boss:charles/peon:4")]
    agent: Annotated[str, Doc("Its name in the settings")]
    cli: Annotated[str, Doc("The agent's CLI: `claude`, `codex`, …")]
    model: str | None
    permissions: Permissions
    rule: Annotated[int, Doc("The number of the rule in the settings, from 1")]
    rule_command: Annotated[str | None, Doc("The command that the rule needs, such as `/boss`")]
    command: Annotated[str | None, Doc("The text after the command")]
    work_tree: str
    resumes: Annotated[bool, Doc("Whether the session of the key would be resumed")]
    reason: Annotated[str | None, Doc("Why it would not be resumed")]
    turns_sent: Annotated[int, Doc("Earlier turns of the thread that are in the prompt of a fresh session")]
    jobs_before: Annotated[int, Doc("Unfinished jobs of the same key: they may change the session")]
    comment: Annotated[bool, Doc("Whether its final answer would be posted as a comment")]
    prompt: Annotated[str, Doc("Exactly as it would be sent, except for the marks of the fences, which are random")]


class HookPreview(Shape):
    """What an event would start. Nothing was stored."""

    event: Annotated[dict[str, Any] | None, Doc("As Clew would store it; null: Clew does not handle its kind")]
    why: Annotated[str | None, Doc("Why nothing would be done; null: something would")]
    planned: list[PlannedHookJob]
    dropped: Annotated[list[str], Doc("The keys whose sessions would end, and whose work trees would be removed")]


class SweptHookKey(Shape):
    """A session that was dropped, or a work tree without a session that was removed."""

    key: str
    why: str
    tree: Annotated[str | None, Doc("What became of its work tree")]
    session: Annotated[bool, Doc("false: the session was gone before, and only its work tree was left")]


class HookSweepResult(Shape):
    """The result of a sweep."""

    dry_run: Annotated[bool, Doc("Nothing was changed: this is what would be")]
    items: list[SweptHookKey]


class HookCheckItem(Shape):
    what: str
    words: str


class HookCheck(Shape):
    """A check of the settings of hooks, of each template, and of this machine."""

    ok: Annotated[bool, Doc("Nothing would fail when an event arrives")]
    good: list[HookCheckItem]
    warnings: Annotated[list[str], Doc("What may be a mistake")]
    problems: Annotated[list[str], Doc("What would fail")]
