"""The person at the terminal, asked for the agent: permissions and question forms.

Lines are read by the event loop itself (a terminal is readable when a line is complete), so nothing blocks and a
question that is withdrawn, or a run that is cancelled, simply stops listening. What an agent wrote is shown with its
control characters made visible: it must not be able to paint over what it asks for.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from clew.cli.output import harmless, one_line
from clew.core.permissions import Answer

if TYPE_CHECKING:
    from clew.cli.display import Display
    from clew.core.events import QuestionAsked

SHOWN_LINES = 14
SHOWN_CHARS = 1_500
DECLINED = "The user declined."
FORM_DECLINED = "The user did not answer the questions. Go on without them if you can."


class TerminalPerson:
    """Answers the agent's questions, one at a time."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._one_at_a_time = asyncio.Lock()

    @staticmethod
    def is_there() -> bool:
        return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    async def __call__(self, question: QuestionAsked) -> Answer:
        async with self._one_at_a_time:
            self._display.pause()
            _forget_typed_ahead()
            try:
                return await (_form(question) if question.is_form else _permission(question))
            finally:
                self._display.resume()


async def _permission(question: QuestionAsked) -> Answer:
    whole = described(question.input)
    shown = cut(whole)
    _say(click.style(f"{one_line(question.tool, 60)} asks for permission:", bold=True))
    _say(_indented(shown))
    choices = "y = yes, n = no, or say why not"
    if shown != whole:
        choices = f"{choices}, v = view all of it"
    while True:
        typed = await _ask(f"Allow it? ({choices}) ")
        match typed.lower():
            case "":
                continue
            case "y" | "yes":
                return Answer(allow=True)
            case "n" | "no":
                return Answer(allow=False, message=DECLINED)
            case "v" if shown != whole:
                _say(_indented(whole))
            case _:
                return Answer(allow=False, message=f"The user declined, and says: {typed}")


async def _form(question: QuestionAsked) -> Answer:
    answers: dict[str, str] = {}
    for item in question.input.get("questions") or ():
        if not isinstance(item, Mapping):
            continue
        text = str(item.get("question", ""))
        typed = await _form_item(item, text)
        if typed is None:
            return Answer(allow=False, message=FORM_DECLINED)
        answers[text] = typed
    return Answer(allow=True, answers=answers)


async def _form_item(item: Mapping[str, Any], text: str) -> str | None:
    labels = []
    _say(click.style(harmless(text), bold=True))
    for number, option in enumerate(item.get("options") or (), 1):
        option = option if isinstance(option, Mapping) else {"label": str(option)}
        labels.append(str(option.get("label", "")))
        about = one_line(str(option.get("description") or ""), 200)
        _say(f"  {number}. {harmless(labels[-1])}{f': {about}' if about else ''}")
    several = bool(item.get("multiSelect"))
    how = "numbers with commas between them" if several else "a number"
    while True:
        typed = await _ask(f"Your answer ({how}, or your own words; - to leave it open): ")
        if typed == "-":
            return None
        chosen = choose(typed, labels, several=several)
        if chosen:
            return chosen
        _say(f"  There are {len(labels)} options.")


def choose(typed: str, labels: list[str], *, several: bool) -> str | None:
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


async def _ask(prompt: str) -> str:
    click.echo(prompt, err=True, nl=False)
    return (await _read_line()).strip()


async def _read_line() -> str:
    """The next line that is typed. Raises EOFError when the person has gone."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    terminal = sys.stdin.fileno()
    loop.add_reader(terminal, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
        typed = os.read(terminal, 65_536)
    finally:
        loop.remove_reader(terminal)
    if not typed:
        raise EOFError
    return typed.decode("utf-8", "replace")


def _forget_typed_ahead() -> None:
    """A key that was pressed before the question was there is not an answer to it."""
    with contextlib.suppress(ImportError, OSError):
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
