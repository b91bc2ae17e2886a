"""The inline markup of a paragraph that grows: emphasis, code, links and images.

The source is cut into segments: at each space outside markup, so that most are single words. A segment is final as
soon as it is cut. Markup that is not closed within MAX_OPEN characters is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from clew.cli.ui.formatting import harmless
from clew.cli.ui.markdown.rows import PLAIN, Span, combined, style

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from rich.style import Style

MAX_OPEN = 500  # characters of markup that is not closed
MAX_MARKS = 60  # in markup that is not closed: more are not drawn before it is
RULES = ("escape", "backticks", "emphasis", "strikethrough", "link", "image", "autolink", "entity", "newline")
STYLES = {
    "strong": "bold",
    "em": "italic",
    "s": "strike",
    "code_inline": "cyan",
    "link": "underline",
    "address": "blue",
    "image": "italic",
}

_SPECIAL = re.compile(r"[\\`*_~\[\]()\s]")
_MARKUP = re.compile(r"[\\`*_~\[\]<&]")
_RUN = {mark: re.compile(re.escape(mark) + "+") for mark in "`*_~"}


class Passage:
    def __init__(self) -> None:
        self._text = ""  # the source from the last cut on
        self._at = 0  # up to here it was looked at
        self._cut = 0  # behind the last space outside markup
        self._code = 0  # the length of the run of backticks that opened code
        self._open: list[str] = []  # the marks that are open

    @property
    def rest(self) -> str:
        """What is not cut yet."""
        return self._text

    def feed(self, text: str) -> Iterator[str]:
        """The segments that are complete now."""
        self._text += text
        yield from self._segments(final=False)

    def end(self) -> Iterator[str]:
        """The rest, at the end of the paragraph."""
        yield from self._segments(final=True)
        if self._text:
            yield self._text
        self._reset(len(self._text))

    def closed(self) -> str:
        """The rest, with what closes the markup that is open in it. An empty text: there is too much of it to look at
        with every piece."""
        if len(self._open) > MAX_MARKS:
            return ""
        words = self._text.rstrip()
        marks = "".join(reversed([mark for mark in self._open if mark in "*_~"]))
        ending = "`" * self._code or marks
        if not ending or words.endswith(("*", "_", "~", "`", "\\")):
            return self._text
        return words + ending + self._text[len(words) :]

    def _segments(self, *, final: bool) -> Iterator[str]:
        while self._at < len(self._text):
            if self._at >= MAX_OPEN:
                yield self._forced()
                continue
            if not self._step(final=final):
                return
            if self._cut:
                yield self._text[: self._cut]
                self._reset(self._cut)
        if self._at >= MAX_OPEN:
            yield self._forced()

    def _forced(self) -> str:
        """Too much has been open for too long."""
        space = max(self._text.rfind(blank, 0, MAX_OPEN) for blank in " \n\t")
        segment = self._text[: space + 1 or MAX_OPEN]
        self._reset(len(segment))
        return segment

    def _reset(self, cut: int) -> None:
        self._text = self._text[cut:]
        self._at = self._cut = self._code = 0
        self._open.clear()

    def _step(self, *, final: bool) -> bool:
        """Looks at what comes next. False: it cannot be told before more has come."""
        pattern = _RUN["`"] if self._code else _SPECIAL
        found = pattern.search(self._text, self._at, MAX_OPEN)
        if found is None:
            self._at = min(len(self._text), MAX_OPEN)
            return True
        mark, start = found.group()[0], found.start()
        run = _RUN[mark].match(self._text, start, MAX_OPEN) if mark in _RUN else None
        end = run.end() if run is not None else start + 1
        if end == len(self._text) < MAX_OPEN and not mark.isspace() and not final:
            return False
        self._at = end
        self._take(mark, start, end)
        return True

    def _take(self, mark: str, start: int, end: int) -> None:
        inside = self._open[-1] if self._open else ""
        if self._code:
            self._code = 0 if end - start == self._code else self._code
        elif mark.isspace():
            self._cut = 0 if self._open else end
        elif mark == "\\":
            self._at = end + 1
        elif mark == "`":
            self._code = end - start
        elif inside == "(":
            if mark == "(":
                self._open.append("(")
            elif mark == ")":
                self._open.pop()
        elif mark == "[":
            self._open.append("[")
        elif mark == "]":
            self._bracket(end)
        elif mark in "*_~":
            self._emphasis(mark, start, end)

    def _bracket(self, end: int) -> None:
        if "[" not in self._open:
            return
        while self._open.pop() != "[":
            pass
        if self._text[end : end + 1] == "(":
            self._open.append("(")
            self._at = end + 1

    def _emphasis(self, mark: str, start: int, end: int) -> None:
        """A run of marks closes what is open, or opens more: the rules of CommonMark."""
        before, after = self._text[start - 1 : start] or " ", self._text[end : end + 1] or " "
        left = not after.isspace() and (after.isalnum() or not before.isalnum())
        right = not before.isspace() and (before.isalnum() or not after.isalnum())
        opens = left and (mark != "_" or not right or not before.isalnum())
        closes = right and (mark != "_" or not left or not after.isalnum())
        count = end - start
        if mark == "~" and count != 2:
            return
        while closes and count and mark in self._open:
            while self._open.pop() != mark:
                pass
            count -= 1
        if opens:
            self._open.extend(mark * count)


def spans_of(source: str, base: Style = PLAIN) -> list[Span]:
    """The source as styled text. HTML and whatever is not closed stays as it was written."""
    if _MARKUP.search(source) is None:
        return [(harmless(source), base)]
    words = source.strip()
    before, _, after = source.partition(words) if words else (source, "", "")
    tokens = _parser().parseInline(words)[0].children or []
    return [(before, base), *_styled(tokens, base), (after, base)]


def _styled(tokens: Sequence[Token], base: Style) -> Iterator[Span]:
    styles = [base]
    links: list[tuple[str, str]] = []  # the address and the title of each link that is open
    said = [""]  # the text of that link so far
    for token in tokens:
        name = token.type.removesuffix("_open").removesuffix("_close")
        if token.nesting == 1:
            styles.append(combined(styles[-1], style(STYLES[name])))
            if name == "link":
                links.append((str(token.attrs.get("href", "")), str(token.attrs.get("title", ""))))
                said.append("")
        elif token.nesting == -1:
            styles.pop()
            if name == "link":
                (address, title), words = links.pop(), said.pop()
                yield from _address(address if address != words else "", title, styles[-1])
        elif token.type == "image":
            alternative = "".join(each.content for each in token.children or [])
            words = " ".join(part for part in ("[image:", alternative) if part)
            image = combined(styles[-1], style(STYLES["image"]))
            yield _printable(f"{words}]", image)
            yield from _address(str(token.attrs.get("src", "")), str(token.attrs.get("title", "")), styles[-1], gap="")
        elif token.type in ("softbreak", "hardbreak"):
            yield "\n", styles[-1]
        else:
            shown = combined(styles[-1], style(STYLES[name])) if name in STYLES else styles[-1]
            said[-1] += token.content
            yield _printable(token.content, shown)


def _address(address: str, title: str, base: Style, *, gap: str = " ") -> Iterator[Span]:
    """A link is shown as text and address: no sequence makes it a link of the terminal's."""
    words = " ".join(part for part in (address, f'"{title}"' if title else "") if part)
    if words:
        yield f"{gap}(", base
        yield _printable(words, combined(base, style(STYLES["address"])))
        yield ")", base


def _printable(text: str, shown: Style) -> Span:
    """An entity such as `&#13;` may stand for a character that controls the terminal."""
    return harmless(text).replace("\n", " "), shown


_made: list[MarkdownIt] = []


def _parser() -> MarkdownIt:
    if not _made:
        from markdown_it import MarkdownIt

        _made.append(MarkdownIt("zero").enable(list(RULES)))
        _made[0].normalizeLink = lambda url: url  # type: ignore[method-assign]  # shown as it was written
    return _made[0]
