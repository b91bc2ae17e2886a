"""Skills: the prompts for events, as templates in one folder for each agent.

    skills/boss/issue.opened.full.md      for a fresh session: the whole skill
    skills/boss/issue.opened.delta.md     for a resumed session: only what is new
    skills/boss/default.full.md           for events without a template of their own; and default.delta.md

Templates are Jinja2, in its sandbox. Text from the forge is marked: a single line is in quotation marks, a longer text
is between fence lines with a random mark. A template cannot remove the marks by accident. All such text is data, except
a command or a review of a person with write access (`core.hooks.hook.meaning`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from clew.core.hooks.hook import CLEAN_UP, KINDS, Forge, HookAgent, HookEvent, Match, Meaning, Rule, matches, meaning
from clew.core.hooks.prompts import note, quoted
from clew.core.hooks.settings import HookSettings
from clew.core.prompts import fenced
from clew.errors import ConfigError

TEMPLATE_MAX_CHARS = 200_000
PROMPT_MAX_CHARS = 400_000


class SkillForm(StrEnum):
    FULL = "full"
    DELTA = "delta"


class ForgeText:
    """A text from the forge. It keeps its marks, whatever a template does with it."""

    def __init__(self, text: str, mark: str, limit: int, *, block: bool, meaning: Meaning = Meaning.DATA) -> None:
        self._text = text.replace("\r\n", "\n")
        self._mark = mark
        self._limit = limit
        self._block = block
        self._meaning = meaning

    def __str__(self) -> str:
        if not self._text.strip():
            return "(nothing)"
        return self._fence() if self._block else quoted(self._text)

    __repr__ = __str__  # a list prints its items with __repr__

    def __html__(self) -> str:
        return str(self)

    def __lt__(self, other: object) -> bool:
        return self._text < (other._text if isinstance(other, ForgeText) else str(other))

    def cut(self, length: int) -> ForgeText:
        """A shorter text that is still marked."""
        return ForgeText(_cut(self._text, length), self._mark, self._limit, block=self._block, meaning=self._meaning)

    def __bool__(self) -> bool:
        return bool(self._text.strip())

    def __len__(self) -> int:
        return len(self._text)

    def __eq__(self, other: object) -> bool:
        return self._text == (other._text if isinstance(other, ForgeText) else other)

    def __hash__(self) -> int:
        return hash(self._text)

    def _fence(self) -> str:
        text = self._text
        if len(text) > self._limit:
            text = f"{text[: self._limit]}\n[{len(text) - self._limit:,} characters left out here]"
        return f"\n{fenced(text, self._mark, self._meaning)}\n"


def _truncate(value: Any, length: int = 255, *_: Any, **__: Any) -> Any:
    """Replaces Jinja2's own filter, which would slice the text and lose its marks."""
    return value.cut(length) if isinstance(value, ForgeText) else _cut(str(value), length)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: max(0, length - 1)]}…"


def _to_string(value: Any) -> Any:
    return value if isinstance(value, ForgeText) else str(value)


class Skills:
    """The templates of all agents."""

    def __init__(self, settings: HookSettings, new_mark: Callable[[], str] = lambda: os.urandom(8).hex()) -> None:
        self._settings = settings
        self._new_mark = new_mark
        self._environment = ImmutableSandboxedEnvironment(
            undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False
        )
        self._environment.filters |= {"truncate": _truncate, "string": _to_string}

    def check(self) -> list[str]:
        """What is missing or broken, one line each, so that it is found before an event arrives."""
        found: dict[str | None, None] = {}
        for rule in self._settings.rules:
            agent = self._settings.agent(rule.agent)
            if agent is not None:
                found |= {self._problem(agent, kind, form): None for kind in kinds_of(rule) for form in SkillForm}
        return [problem for problem in found if problem is not None]

    def _problem(self, agent: HookAgent, kind: str, form: SkillForm) -> str | None:
        try:
            for event, match in _examples(agent.name, kind):
                self.render(agent, event, match, form)
        except ConfigError as error:
            return error.message
        return None

    def render(self, agent: HookAgent, event: HookEvent, match: Match, form: SkillForm) -> str:
        """The prompt for the event. Raises ConfigError for a template that is missing or broken."""
        path = self._path(agent, event.kind, form)
        mark = self._new_mark()
        try:
            source = path.read_text("utf-8")
            if len(source) > TEMPLATE_MAX_CHARS:
                raise ConfigError(f"{path} is longer than {TEMPLATE_MAX_CHARS:,} characters.")
            text = self._environment.from_string(source).render(self._variables(agent, event, match, mark))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}.") from error
        except (TemplateError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
            line = getattr(error, "lineno", None)
            raise ConfigError(
                f"{path}{f', line {line}' if line else ''}: {error}.",
                hint="docs/hooks.md lists what a template can use.",
            ) from error
        if not text.strip():
            raise ConfigError(f"{path} is empty for {event.kind}.")
        if len(text) > PROMPT_MAX_CHARS:
            raise ConfigError(f"{path} makes a prompt of {len(text):,} characters; the limit is {PROMPT_MAX_CHARS:,}.")
        shown = meaning(match, event)
        if f"<<<{shown} {mark}" not in text.lower():
            shown = Meaning.DATA  # the template does not contain the text
        return f"{text.strip()}\n\n{note(shown, match, event, mark)}"

    def _path(self, agent: HookAgent, kind: str, form: SkillForm) -> Path:
        folder = Path(agent.skills)
        for name in (kind, "default"):
            path = folder / f"{name}.{form}.md"
            if path.is_file():
                return path
        raise ConfigError(
            f"{agent.name} has no {form} text for {kind}: there is no {folder / f'{kind}.{form}.md'}, "
            f"and no default.{form}.md.",
            hint="clew hooks check lists all that are missing.",
        )

    def _variables(self, agent: HookAgent, event: HookEvent, match: Match, mark: str) -> dict[str, Any]:
        limit = self._settings.text_limit
        new = meaning(match, event)  # the meaning of the text, or of the description if there is no text
        is_task = new is Meaning.TASK

        def line(text: str | None) -> ForgeText:
            return ForgeText(text or "", mark, limit, block=False)

        def block(text: str, meaning: Meaning) -> ForgeText:
            return ForgeText(text, mark, limit, block=True, meaning=meaning)

        return {
            "agent": agent.name,
            "event": event.kind,
            "happened": KINDS[event.kind],
            "repo": event.repo,
            "number": event.number,
            "is_pull": event.kind.startswith("pull."),
            "from_fork": event.from_fork,
            "is_task": is_task,
            "is_feedback": new is Meaning.FEEDBACK,
            "actor": line(event.actor),
            "author": line(event.author),
            "title": line(event.title),
            "body": block(event.body, Meaning.DATA if event.text else new),
            "text": block(event.text, new),
            "command": block(match.command or "", new) if is_task else line(match.command),
            "labels": [line(label) for label in event.labels],
            "label": line(event.label),
            "assignee": line(event.assignee),
            "reviewer": line(event.reviewer),
            "branch": line(event.branch),
            "base": line(event.base),
            "url": line(event.url),
            "comment_path": line(event.comment_path),
            "comment_line": event.comment_line,
        }


def kinds_of(rule: Rule) -> Iterable[str]:
    """The kinds of events that the rule may match, without clean-up events: they wake no agent."""
    found = [kind for kind in KINDS if matches(Rule(rule.agent, rule.events), _example(kind)) is not None]
    return [kind for kind in found if kind not in CLEAN_UP]


def _examples(agent: str, kind: str) -> list[tuple[HookEvent, Match]]:
    """Events that exercise a template's branches: a full event, an empty one, a command, a review."""
    plain, command = Rule(agent, (kind,)), Rule(agent, (kind,), command="/command")
    return [
        (_example(kind), Match(plain, "words")),
        (_example(kind, filled=False), Match(plain, "words")),
        (_example(kind), Match(command, "words", by_writer=True)),
        (_example(kind), Match(plain, by_writer=True)),
    ]


def _example(kind: str, *, filled: bool = True) -> HookEvent:
    if not filled:
        return HookEvent(Forge.GITHUB, "0", kind, "owner/name", 1, "somebody")
    return HookEvent(
        forge=Forge.GITHUB,
        delivery="0",
        kind=kind,
        repo="owner/name",
        number=1,
        actor="somebody",
        title="A long title " * 30,
        body="A long body.\n" * 400,
        text="A long text.\n" * 400,
        author="somebody",
        labels=("label", "another"),
        label="label",
        assignee="somebody",
        reviewer="somebody",
        branch="branch",
        base="main",
        url="https://forge.example/1",
        comment_path="a.py",
        comment_line=1,
    )
