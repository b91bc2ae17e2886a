"""A text that is streamed in any pieces ends up on the screen as if it had been printed at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cli.ui.markdown.window import printed

WORDS = (
    "word",
    "a",
    "longer_words",
    "日本語",
    "👩‍🚀",
    "é",
    "x" * 70,
    "`code`",
    "**bold**",
    "*it* is",
    "**two words**",
    "~~no~~",
)
ODD = (
    "**",
    "*",
    "`",
    "``",
    "[",
    "](",
    "[a](b c)",
    "![p](q.png)",
    "<b>",
    "&amp;",
    "\\",
    "_",
    "|",
    "\x1b[31m",
    "\t",
    "&#13;",
)
BEGINNINGS = (
    "",
    "",
    "",
    "- ",
    "* ",
    "1. ",
    "  - ",
    "   ",
    "     ",
    "> ",
    "> - ",
    "# ",
    "### ",
    "```",
    "```python",
    "~~~",
    "| ",
    "---",
    "|-|-|",
    "| --- | --- |",
)

lines = st.builds(
    lambda beginning, words, end: beginning + " ".join(words) + end,
    st.sampled_from(BEGINNINGS),
    st.lists(st.sampled_from(WORDS + ODD), max_size=12),
    st.sampled_from(("", "", " |", "  ", "\r")),
)
texts = st.lists(st.one_of(lines, st.just("")), max_size=14).map("\n".join) | st.text(max_size=60)


def cut(text: str, places: Sequence[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[one:other] for one, other in pairwise(ends)]


@given(texts, st.lists(st.integers(0, 2000), max_size=12), st.sampled_from([(20, 6), (60, 24), (120, 40)]))
def test_pieces_do_not_matter(text: str, places: list[int], size: tuple[int, int]) -> None:
    columns, rows = size
    with (
        printed(text, columns=columns, rows=rows) as whole,
        printed(*cut(text, places), columns=columns, rows=rows) as streamed,
    ):
        assert streamed.shown == whole.shown


@given(texts, st.sampled_from([20, 60]))
def test_single_characters_do_not_matter(text: str, columns: int) -> None:
    with printed(text, columns=columns) as whole, printed(*text, columns=columns) as streamed:
        assert streamed.shown == whole.shown
