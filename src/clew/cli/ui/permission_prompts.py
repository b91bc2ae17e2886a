"""The person at the terminal, asked for the agent: permissions and question forms.

What an agent wrote is shown with its control characters made visible: it must not be able to paint over what it asks
for. A run that is cancelled, or a question that is withdrawn, cancels the asking.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from clew.cli.output import harmless, one_line
from clew.cli.questions import Item, as_it_came, is_readable, items
from clew.core.permissions import Answer, nobody

if TYPE_CHECKING:
    from clew.cli.display import Display
    from clew.cli.keyboard import Keyboard
    from clew.core.events import QuestionAsked

SHOWN_LINES = 14
SHOWN_CHARS = 1_500
YES = ("y", "yes", "ok", "okay", "sure")
NO = ("n", "no")
ALL = ("a", "all")
VIEW = ("v", "view")
EXPLAIN = ("", "?")
EXPLAIN_YES = "  y   the agent may do this, once"
EXPLAIN_ALL = "  a   this, and whatever else it asks permission for in this run"
EXPLAIN_NO = """\
  n   no; the agent goes on without it
  Anything else is a no as well, and the agent is told what you typed."""
EXPLAIN_VIEW = "  v   show all of what it wants to do"
DECLINED = "The user declined."
FORM_DECLINED = "The user did not answer the questions. Go on without them if you can."


class TerminalPerson:
    """Answers the agent's questions, one at a time.

    `of_own_run`: the run is this command's. Else silence is no answer, and there is no run whose rest could be allowed.
    """

    def __init__(self, display: Display, keyboard: Keyboard, *, of_own_run: bool = True) -> None:
        self._display = display
        self._keyboard = keyboard
        self._of_own_run = of_own_run
        self._one_at_a_time = asyncio.Lock()
        self._allows_all = False  # was said once in this run; forms are still asked

    async def __call__(self, question: QuestionAsked) -> Answer:
        """Raises EOFError when the person has gone, and the run is another command's."""
        async with self._one_at_a_time:
            if self._allows_all and not question.is_form:
                return Answer(allow=True)
            self._display.begin_question()
            self._keyboard.forget_typed_ahead()
            try:
                return await (self._form(question) if question.is_form else self._permission(question))
            except asyncio.CancelledError:
                self._display.drop_question()
                raise
            except EOFError:
                if not self._of_own_run:
                    _say("")
                    raise
                _say("\n(nobody answered: declined)")  # nobody pressed Enter either
                return nobody(question)
            finally:
                self._display.end_question()

    async def _permission(self, question: QuestionAsked) -> Answer:
        whole = described(question.input)
        shown = cut(whole)
        is_cut = shown != whole
        _say(click.style(f"{one_line(question.tool, 60)} asks for permission:", bold=True))
        _say(_indented(shown))
        rest = ", [a]ll of this run" if self._of_own_run else ""
        view = ", [v]iew all of it" if is_cut else ""
        while True:
            typed = await self._ask(f"Allow it? [y]es{rest}, [n]o{view}; anything else declines with that reason: ")
            word = typed.lower()
            if word in YES:
                return Answer(allow=True)
            if word in ALL and self._of_own_run:
                self._allows_all = True
                return Answer(allow=True)
            if word in NO:
                return Answer(allow=False, message=DECLINED)
            if word in EXPLAIN:
                _say(self._explanation(is_cut))
            elif word in VIEW and is_cut:
                _say(_indented(whole))
            else:
                return Answer(allow=False, message=f"The user declined, and says: {typed}")

    def _explanation(self, is_cut: bool) -> str:
        lines = [EXPLAIN_YES, *([EXPLAIN_ALL] if self._of_own_run else []), *([EXPLAIN_VIEW] if is_cut else [])]
        return "\n".join([*lines, EXPLAIN_NO])

    async def _form(self, question: QuestionAsked) -> Answer:
        answers: dict[str, str] = {}
        if not is_readable(question.input):
            for line in as_it_came(question.input):
                _say(line)
        for item in items(question.input):
            typed = await self._form_item(item)
            if typed is None:
                return Answer(allow=False, message=FORM_DECLINED)
            answers[item.text] = typed
        return Answer(allow=True, answers=answers)

    async def _form_item(self, item: Item) -> str | None:
        _say(click.style(harmless(item.text), bold=True))
        for line in item.options():
            _say(line)
        how = "numbers with commas between them" if item.several else "a number"
        while True:
            typed = await self._ask(f"Your answer ({how}, or your own words; - to leave it open): ")
            if typed == "-":
                return None
            chosen = choose(typed, item.labels, several=item.several)
            if chosen:
                return chosen
            _say(f"  There are {len(item.labels)} options.")

    async def _ask(self, prompt: str) -> str:
        click.echo(prompt, err=True, nl=False)
        return (await self._keyboard.read_line()).strip()


def choose(typed: str, labels: Sequence[str], *, several: bool) -> str | None:
    """The labels that the numbers stand for, or the person's own words; None: ask again."""
    parts = [part for part in typed.replace(",", " ").split() if part]
    if not parts:
        return None
    if not all(part.isascii() and part.isdigit() for part in parts):
        return typed
    numbers = [int(part) for part in parts]
    if (not several and len(numbers) > 1) or any(not 1 <= number <= len(labels) for number in numbers):
        return None
    return ", ".join(labels[number - 1] for number in dict.fromkeys(numbers))


def described(given: Mapping[str, Any]) -> str:
    """A tool's input for a person: one value a line, long texts as they are."""
    parts = []
    for key, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = harmless(text)
        parts.append(f"{harmless(key)}: {text}" if "\n" not in text else f"{harmless(key)}:\n{_indented(text)}")
    return "\n".join(parts) or "(no input)"


def cut(text: str) -> str:
    lines = text.splitlines()
    kept = "\n".join(lines[:SHOWN_LINES])[:SHOWN_CHARS]
    if len(kept) == len(text):
        return text
    return f"{kept}\n… {len(text) - len(kept):,} more characters"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _say(text: str) -> None:
    click.echo(text, err=True)
