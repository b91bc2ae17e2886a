"""Prints the output of commands: answers, tables and objects on stdout, notes on stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from clew.cli.ui.formatting import CONTROL_CHARACTERS, harmless
from clew.core.costs.usage import MONEY_DIGITS

PLAIN = "clew.plain"  # the key in click's context


def note(text: str) -> None:
    """Prints a line for the user on stderr, separate from the answer."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        pass  # if nobody reads stderr, the command continues


def dim(text: str) -> str:
    """The text, dimmed if stderr shows colours."""
    return f"\x1b[2m{text}\x1b[0m" if sys.stderr is not None and has_colours(sys.stderr) else text


def shows_markdown(stream: TextIO) -> bool:
    """Whether Markdown is rendered there: on a terminal that can draw it, unless --plain was given."""
    encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
    return stream.isatty() and os.environ.get("TERM") != "dumb" and encoding == "utf8" and not _is_plain()


def be_plain() -> None:
    """Markdown is not rendered in this command: --plain was given, or the setting is on."""
    import click

    context = click.get_current_context(silent=True)
    if context is not None:
        context.find_root().meta[PLAIN] = True


def _is_plain() -> bool:
    import click

    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().meta.get(PLAIN))


def shown_markdown(text: str, *, indent: str = "") -> str:
    """Markdown for stdout: rendered where `shows_markdown` says so, else as it is; every line is indented.

    It may hold colours, so it must not be made harmless once more.
    """
    if shows_markdown(sys.stdout):
        from clew.cli.ui.markdown.text import rendered

        return rendered(text, sys.stdout, indent=indent)
    lines = for_terminal(text).splitlines() if indent else []
    return "\n".join(f"{indent}{line}".rstrip() for line in lines) if indent else for_terminal(text)


def has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def say(text: str = "") -> None:
    """Prints a line of the command's output on stdout."""
    sys.stdout.write(f"{text}\n")


def say_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Prints a line for each field, with its label and its words. A field without words is left out."""
    for label, words in fields:
        if words:
            say(f"{label:<11}{words}")


def say_block(label: str, lines: Iterable[str]) -> None:
    """Prints lines with one label, which appears only on the first line."""
    say_fields((label if place == 0 else "", line) for place, line in enumerate(lines))


def print_json(value: Any, *, in_line: bool = False) -> None:
    """Prints a JSON value: indented on a terminal unless `in_line`, else on one line. Amounts of money are rounded.

    On a terminal, control characters are escaped; the value stays the same.
    """
    text = json_text(_rounded(value), indent=2 if sys.stdout.isatty() and not in_line else None)
    if sys.stdout.isatty():
        text = re.sub(CONTROL_CHARACTERS, lambda match: json.dumps(match.group())[1:-1], text)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def json_text(value: Any, *, indent: int | None) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate: agents sometimes cut a character in half
        return json.dumps(value, indent=indent)
    return text


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: round(each, MONEY_DIGITS) if key.endswith("_usd") and isinstance(each, float) else _rounded(each)
            for key, each in value.items()
        }
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def for_terminal(text: str) -> str:
    """The text for stdout: unchanged in a pipe, harmless on a terminal."""
    return harmless(text) if sys.stdout.isatty() else text
