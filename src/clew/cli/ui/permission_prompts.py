"""Asks the user at the terminal on behalf of the agent: for permissions, and for answers to forms.

What an agent wrote is shown with its control characters made visible, so that it cannot hide what it asks for. If the
run is cancelled, or the question is withdrawn, the prompt is cancelled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from clew.cli.ui.agent_questions import (
    DECLINED,
    FORM_DECLINED,
    FormQuestion,
    choose,
    form_questions,
    is_readable,
    raw_form,
)
from clew.cli.ui.formatting import harmless, one_line
from clew.cli.ui.tool_lines import indented, input_text, shortened
from clew.core.runs.permissions import Answer, refusal_without_person

if TYPE_CHECKING:
    from clew.cli.ui.run_display import RunDisplay
    from clew.cli.ui.terminal_input import TerminalInput
    from clew.core.runs.events import QuestionAsked

YES = ("y", "yes", "ok", "okay", "sure")
NO = ("n", "no")
ALL = ("a", "all")
VIEW = ("v", "view")
EXPLAIN = ("", "?")
EXPLAIN_YES = "  y   allow this, once"
EXPLAIN_ALL = "  a   allow this, and everything else that this run asks permission for"
EXPLAIN_NO = """\
  n   no; the agent continues without it
  Anything else also means no, and the agent is shown what you typed."""
EXPLAIN_VIEW = "  v   show all of what it wants to do"


class PermissionPrompts:
    """Asks the user the agent's questions, one at a time.

    `of_own_run`: the run belongs to this command. For another command's run, the end of input is not an answer, and
    "all of this run" cannot be allowed.
    """

    def __init__(self, display: RunDisplay, terminal: TerminalInput, *, of_own_run: bool = True) -> None:
        self._display = display
        self._terminal = terminal
        self._of_own_run = of_own_run
        self._one_at_a_time = asyncio.Lock()
        self._allows_all = False  # the user allowed everything in this run; forms are still shown

    async def __call__(self, question: QuestionAsked) -> Answer:
        """Raises EOFError at the end of input if the run belongs to another command."""
        async with self._one_at_a_time:
            if self._allows_all and not question.is_form:
                return Answer(allow=True)
            self._display.begin_question()
            self._terminal.discard_typed_ahead()
            try:
                return await (self._form(question) if question.is_form else self._permission(question))
            except asyncio.CancelledError:
                self._display.drop_question()
                raise
            except EOFError:
                if not self._of_own_run:
                    _say("")
                    raise
                _say("\n(nobody answered: declined)")  # the newline that Enter would have echoed is missing
                return refusal_without_person(question)
            finally:
                self._display.end_question()

    async def _permission(self, question: QuestionAsked) -> Answer:
        whole = input_text(question.input)
        shown = shortened(whole)
        is_cut = shown != whole
        _say(click.style(f"{one_line(question.tool, 60)} asks for permission:", bold=True))
        _say(indented(shown))
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
                _say(indented(whole))
            else:
                return Answer(allow=False, message=f"The user declined, and says: {typed}")

    def _explanation(self, is_cut: bool) -> str:
        lines = [EXPLAIN_YES, *([EXPLAIN_ALL] if self._of_own_run else []), *([EXPLAIN_VIEW] if is_cut else [])]
        return "\n".join([*lines, EXPLAIN_NO])

    async def _form(self, question: QuestionAsked) -> Answer:
        answers: dict[str, str] = {}
        if not is_readable(question.input):
            for line in raw_form(question.input):
                _say(line)
        for asked in form_questions(question.input):
            typed = await self._form_question(asked)
            if typed is None:
                return Answer(allow=False, message=FORM_DECLINED)
            answers[asked.text] = typed
        return Answer(allow=True, answers=answers)

    async def _form_question(self, asked: FormQuestion) -> str | None:
        _say(click.style(harmless(asked.text), bold=True))
        for line in asked.option_lines():
            _say(line)
        how = "numbers with commas between them" if asked.several else "a number"
        while True:
            typed = await self._ask(f"Your answer ({how}, or your own words; - to leave it open): ")
            if typed == "-":
                return None
            chosen = choose(typed, asked.labels, several=asked.several)
            if chosen:
                return chosen
            _say(f"  There are {len(asked.labels)} options.")

    async def _ask(self, prompt: str) -> str:
        click.echo(prompt, err=True, nl=False)
        return (await self._terminal.read_line()).strip()


def _say(text: str) -> None:
    click.echo(text, err=True)
