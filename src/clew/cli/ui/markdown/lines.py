"""What a line of Markdown begins: which lists and quotes it belongs to, and what is in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from clew.core.record import Record

Kind = Literal["text", "heading", "rule", "fence", "table", "code"]

CODE_INDENT = 4
MAX_LINE = 2_000  # characters. A line that is longer is text
MAX_DEPTH = 20  # lists and quotes in each other. What is deeper is text

_RULER = re.compile(r"([-*_])[ \t]*(?:\1[ \t]*){2,}")
_ITEM = re.compile(r"([-+*]|\d{1,9}[.)])(?:[ \t]+|$)")
_HEADING = re.compile(r"(#{1,6})(?:[ \t]+|$)")
_FENCE = re.compile(r"(`{3,})([^`]*)|(~{3,})(.*)")
_UNDECIDED = re.compile(r"[-+*_=\s]*|\d{1,9}(?:[.)][ \t]*)?|#{1,6}|`{1,2}|`{3,}[^`]*|~+|~{3,}.*|\|.*")


class Container(Record):
    """A list item or a quote that is open."""

    marker: str  # `>`, `-`, `12.`
    start: int  # columns before the marker, in what contains it
    indent: int  # columns before what belongs to the item, in what contains it

    @property
    def is_quote(self) -> bool:
        return self.marker == ">"


class Opening(Record):
    """The beginning of a line."""

    matched: int  # how many of the containers that are open the line belongs to
    containers: tuple[Container, ...]  # that it opens in them
    kind: Kind
    text: str  # what follows
    mark: str = ""  # of a heading or a fence
    indent: int = 0  # of a fence


def opening(line: str, containers: Sequence[Container], *, in_text: bool, final: bool) -> Opening | None:
    """What the line begins. `in_text`: a paragraph is open, which it may continue.

    None: more of the line must be known. `final`: there is no more of it. A line that is too long is text.
    """
    matched, rest = _within(_spaces(line), containers)
    opened: list[Container] = []
    while True:
        indent = len(rest) - len(rest.lstrip(" "))
        words = rest[indent:]
        if not final and len(line) < MAX_LINE and _UNDECIDED.fullmatch(words):
            return None
        in_list = bool(opened) or any(not each.is_quote for each in containers)
        if len(containers) + len(opened) >= MAX_DEPTH:
            break
        if words.startswith(">") and indent < CODE_INDENT:
            opened.append(Container(">", indent, indent + 1))
            rest = words[1:].removeprefix(" ")
            continue
        item = _item(words, in_text=in_text and not opened and matched == len(containers), in_list=in_list)
        if item is None or (indent >= CODE_INDENT and not in_list) or _RULER.fullmatch(words.rstrip()):
            break
        while not opened and matched < len(containers) and indent >= containers[matched].start + 2:
            if containers[matched].is_quote:
                break
            matched += 1  # below an item, but not as far below it as its text is
        blanks = len(item.group()) - len(item[1])
        opened.append(Container(item[1], indent, indent + len(item[1]) + (blanks if 0 < blanks < 5 else 1)))
        rest = words[item.end() :]
    found = _leaf(matched, tuple(opened), rest, indent, in_text=in_text and not opened)
    if len(line) >= MAX_LINE and found.kind not in ("text", "heading"):
        return Opening(matched, tuple(opened), "text", words)
    return found


def without_indent(line: str, indent: int) -> str:
    """The line without as many spaces at its beginning, if it has them."""
    line = _spaces(line) if line.startswith((" ", "\t")) and indent else line
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]


def within_quotes(line: str, containers: Sequence[Container]) -> str | None:
    """The line of a code block without the marks of the quotes that it is in. None: it is not in them."""
    for container in containers:
        if not container.is_quote:
            line = without_indent(line, container.indent)
        elif line.lstrip().startswith(">"):
            line = line.lstrip()[1:].removeprefix(" ")
        else:
            return None
    return line


def _within(line: str, containers: Sequence[Container]) -> tuple[int, str]:
    """How many of the containers the line belongs to, and the rest of it."""
    for matched, container in enumerate(containers):
        indent = len(line) - len(line.lstrip(" "))
        if container.is_quote:
            if indent >= CODE_INDENT or not line[indent:].startswith(">"):
                return matched, line
            line = line[indent + 1 :].removeprefix(" ")
        elif indent >= container.indent:
            line = line[container.indent :]
        else:
            return matched, line
    return len(containers), line


def _item(words: str, *, in_text: bool, in_list: bool) -> re.Match[str] | None:
    """The marker of a list item. In a paragraph, `2020. ` at the beginning of a line does not begin a list."""
    found = _ITEM.match(words)
    if found is None or not in_text:
        return found
    begins = found[1] in "-+*" or in_list or found[1][:-1] == "1"
    return found if begins and words[found.end() :].strip() else None


def _leaf(matched: int, opened: tuple[Container, ...], rest: str, indent: int, *, in_text: bool) -> Opening:
    words = rest.lstrip(" ")
    heading, fence = _HEADING.match(words), _FENCE.fullmatch(words)
    if indent >= CODE_INDENT:
        kind: Kind = "text" if in_text or opened or matched else "code"
        return Opening(matched, opened, kind, rest[CODE_INDENT:] if kind == "code" else words)
    if heading is not None:
        return Opening(matched, opened, "heading", words[heading.end() :], heading[1])
    if fence is not None:
        mark, about = (fence[1], fence[2]) if fence[1] else (fence[3], fence[4])
        return Opening(matched, opened, "fence", about.strip(), mark, indent)
    if _RULER.fullmatch(words.rstrip()):
        return Opening(matched, opened, "rule", "")
    return Opening(matched, opened, "table" if words.startswith("|") else "text", words)


def _spaces(line: str) -> str:
    """The line with spaces for the tabs at its beginning."""
    words = line.lstrip(" \t")
    return line[: len(line) - len(words)].expandtabs(4) + words
