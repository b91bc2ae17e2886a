"""Asks the user at the terminal on behalf of the agent: for permissions, and for answers to forms.

What an agent wrote is shown with its control characters made visible, so that it cannot hide what it asks for. If the
run is cancelled, or the question is withdrawn, the prompt is cancelled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from clew.cli.ui.agent_questions import (
    TEXT_CHARS,
    FormQuestion,
    choose,
    form_questions,
    is_readable,
    raw_form,
)
from clew.cli.ui.edit_lines import edit_lines, is_cut
from clew.cli.ui.formatting import harmless, joined, one_line
from clew.cli.ui.tool_lines import indented, input_text, shortened
from clew.core.runs.choices import DECLINED, FORM_DECLINED, RUN, THREAD, choices_for, declined_because
from clew.core.runs.permissions import Answer, Scope, refusal_without_person
from clew.core.runs.proposed_edits import NEW_FILE

if TYPE_CHECKING:
    from clew.cli.ui.run_display import RunDisplay
    from clew.cli.ui.terminal_input import TerminalInput
    from clew.core.runs.events import QuestionAsked
    from clew.core.runs.tool_rules import ToolRule

SYNONYMS = {
    "y": ("y", "yes", "ok", "okay", "sure", "once"),
    "a": ("a", "all"),
    "t": ("t", "always", "thread"),
    "n": ("n", "no"),
}
VIEW = ("v", "view")
EXPLAIN = ("", "?")
IN_DIFF = frozenset({"file_path", "notebook_path", "old_string", "new_string", "content", "new_source"})
IN_WHOLE_DIFF = frozenset({"replace_all", "edits"})  # a diff against the file shows what they do
HEADER_CHARS = 60
COMMAND_LINES = 200  # a command is shown whole, unless it is longer than this …
COMMAND_CHARS = 20_000  # … or this
MAX_CHOICE_CHARS = 300  # of a choice's label: a rule names a path or a command


class PermissionPrompts:
    """Asks the user the agent's questions, one at a time.

    `of_own_run`: the run belongs to this command. For another command's run, the end of input is not an answer.
    """

    def __init__(self, display: RunDisplay, terminal: TerminalInput, *, of_own_run: bool = True) -> None:
        self._display = display
        self._terminal = terminal
        self._of_own_run = of_own_run
        self._one_at_a_time = asyncio.Lock()
        self._given: list[tuple[Scope, ToolRule | None]] = []  # for more than once; the engine knows it a moment later

    async def __call__(self, question: QuestionAsked) -> Answer:
        """Raises EOFError at the end of input if the run belongs to another command."""
        known = len(self._given)
        async with self._one_at_a_time:
            if not question.is_form and self._was_given(question, since=known):
                return Answer(allow=True)
            self._display.begin_question()
            self._terminal.set_typed_ahead_aside()
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

    def _was_given(self, question: QuestionAsked, *, since: int) -> bool:
        """Whether the user has allowed this too, while it waited for its turn."""
        return any(
            scope is Scope.RUN or (question.rule is not None and rule == question.rule)
            for scope, rule in self._given[since:]
        )

    async def _permission(self, question: QuestionAsked) -> Answer:
        request = ShownRequest(question)
        _say(click.style(f"{one_line(question.tool, 60)} asks for permission:", bold=True))
        _say(indented("\n".join(request.lines(whole=False))))
        offered = choices_for(question.rule, has_run=question.has_run)
        for choice in offered:
            _say(f"  {choice.key or '…'}  {one_line(choice.label, MAX_CHOICE_CHARS)}")
        keys = [choice.key for choice in offered if choice.key]
        view = ", v views all" if request.is_cut else ""
        while True:
            typed = await self._ask(f"Allow it? ({'/'.join(keys)}{view}, ? explains, or why not): ")
            word = typed.lower()
            chosen = next((each for each in offered if each.key and word in SYNONYMS[each.key]), None)
            if chosen is not None:
                if chosen.scope is not Scope.ONCE:
                    self._given.append((chosen.scope, question.rule))
                return Answer(chosen.allow, "" if chosen.allow else DECLINED, scope=chosen.scope)
            if word in {*SYNONYMS[RUN.key], *SYNONYMS[THREAD.key]}:
                _say(f"  This can be allowed once{', or for all of this run' if question.has_run else ' only'}.")
            elif word in EXPLAIN:
                for choice in offered:
                    _say(f"  {choice.key or 'anything else'}  {choice.meaning}")
            elif word in VIEW and request.is_cut:
                _say(indented("\n".join(request.lines(whole=True))))
            else:
                return Answer(allow=False, message=declined_because(typed))

    async def _form(self, question: QuestionAsked) -> Answer:
        answers: dict[str, str] = {}
        if not is_readable(question.input):
            for line in raw_form(question.input):
                _say(line)
        asked = form_questions(question.input)
        for number, each in enumerate(asked, 1):
            typed = await self._form_question(each, f"{number} of {len(asked)}" if len(asked) > 1 else "")
            if typed is None:
                return Answer(allow=False, message=FORM_DECLINED)
            answers[each.text] = typed
        if len(asked) > 1:
            for each in asked:
                _say(f"  {one_line(each.header or each.text, TEXT_CHARS)}: {one_line(answers[each.text], TEXT_CHARS)}")
        return Answer(allow=True, answers=answers)

    async def _form_question(self, asked: FormQuestion, place: str) -> str | None:
        head = joined(place, one_line(asked.header, HEADER_CHARS))
        if head:
            _say(head)
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


class ShownRequest:
    """What a tool wants to do: a diff of its edits, its command as it is, or its whole input."""

    def __init__(self, question: QuestionAsked) -> None:
        self._edits = question.edits
        self._command = ""
        rest = dict(question.input)
        if self._edits:
            is_whole = all(edit.note in ("", NEW_FILE) for edit in self._edits)
            hidden = IN_DIFF | IN_WHOLE_DIFF if is_whole else IN_DIFF
            rest = {name: value for name, value in rest.items() if name not in hidden}
        elif isinstance(rest.get("command"), str) and rest["command"].strip():
            self._command = harmless(rest.pop("command"))
        self._rest = input_text(rest) if rest or not (self._edits or self._command) else ""

    @property
    def is_cut(self) -> bool:
        return is_cut(self._edits) or self._shown_command != self._command or shortened(self._rest) != self._rest

    @property
    def _shown_command(self) -> str:
        return shortened(self._command, COMMAND_LINES, COMMAND_CHARS)

    def lines(self, *, whole: bool) -> list[str]:
        lines = [line for edit in self._edits for line in edit_lines(edit, whole=whole)]
        command = self._command if whole else self._shown_command
        lines += [f"{'$' if number == 0 else ' '} {line}" for number, line in enumerate(command.splitlines())]
        return [*lines, *(self._rest if whole else shortened(self._rest)).splitlines()]


def _say(text: str) -> None:
    click.echo(text, err=True)
