"""How Markdown looks on a terminal."""

from __future__ import annotations

import re
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.cli.ui.markdown.printer import MarkdownPrinter
from cli.ui.markdown.window import Window, printed

PROSE = " ".join(f"word{number}" for number in range(60))
MARKUP = "# Title\n\nSome **bold** and `code`.\n\n```python\ndef f():\n    return 1\n```\n"


def shown(text: str, columns: int = 60) -> str:
    with printed(textwrap.dedent(text), columns=columns) as window:
        return window.shown


@pytest.mark.parametrize("columns", [60, 120])
@pytest.mark.parametrize("before", ["", "- ", "12. ", "> ", "> - ", "- a\n  - "])
def test_words_are_not_cut_at_the_margin(columns: int, before: str) -> None:
    lines = shown(before + PROSE, columns).splitlines()
    assert re.findall(r"word\d+", "\n".join(lines)) == PROSE.split()
    assert max(map(len, lines)) > columns - 12, "the lines are filled"


def test_lists_keep_their_numbers_and_hang() -> None:
    text = """\
    3. one two three four five
       - six seven eight nine
         ten
       - [x] done
    4. eleven

       twelve
    - thirteen
    """
    assert shown(text, 20) == textwrap.dedent("""\
        3. one two three
           four five
           • six seven eight
             nine
             ten
           • [x] done
        4. eleven

           twelve
        • thirteen""")


def test_code_is_as_it_was_written_without_an_indent() -> None:
    """So that it can be copied. A line that is too long is broken by the terminal alone."""
    line = "x = " + "y" * 70
    text = f"Run:\n\n```sh\n\tmake  test\n\n  {line}\n```\nDone.\n"
    with printed(text) as window:
        assert f"\n\tmake  test\n\n  {line}\n" in re.sub(r"\x1b\[[\d;]*m", "", window.getvalue())
        assert window.shown.splitlines()[2].startswith("─── sh ───")


def test_code_that_is_not_closed_ends_with_its_message() -> None:
    with Window() as window:
        printer = MarkdownPrinter(window)
        printer.message("```\n*a*")
        printer.message("*b*")
        assert window.shown.splitlines()[1:2] + window.shown.splitlines()[-2:] == ["*a*", "", "b"]


def test_a_table_fits_the_terminal() -> None:
    text = f"| Name | N |\n|:---|--:|\n| {PROSE[:80]} | 7 |\n| `日本` **x** | 12 |\n"
    assert shown(text, 40) == textwrap.dedent("""\
        Name                               │  N
        ───────────────────────────────────┼───
        word0 word1 word2 word3 word4      │  7
        word5 word6 word7 word8 word9      │
        word10 word11 word12               │
        日本 x                             │ 12""")


def test_a_table_with_too_many_columns_is_shown_row_by_row() -> None:
    head, row = ("|" + "".join(f" {word}{number:02}longer |" for number in range(12)) for word in ("h", "c"))
    text = shown(f"{head}\n|{'---|' * 12}\n{row}\n")
    assert text.splitlines()[:2] == ["h00longer: c00longer", "h01longer: c01longer"]


def test_links_and_images_are_plain_text() -> None:
    with printed('[the docs](http://127.0.0.1/a "t") <http://127.0.0.1/b> ![a *cat*](cat.png)') as window:
        assert window.shown.replace("\n", " ") == (
            'the docs (http://127.0.0.1/a "t") http://127.0.0.1/b [image: a cat](cat.png)'
        )
        assert "\x1b]" not in window.getvalue()


@pytest.mark.parametrize(
    "text", ["<b>x</b> <!-- y -->", "[bold]x[/bold]", "a snake_case_name", "5 * 3 * 2", "[1]: http://x", "2020. was"]
)
def test_what_is_no_markup_stays(text: str) -> None:
    assert shown(f"text\n{text}") == f"text\n{text}"


def test_colours_can_be_switched_off_and_the_layout_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with printed(MARKUP) as window:
        assert "\x1b[1;4mTitle\x1b[0m" in window.getvalue()
        assert "\x1b[94mdef\x1b[0m" in window.getvalue()
        coloured = window.shown
    monkeypatch.setenv("NO_COLOR", "1")
    with printed(MARKUP) as window:
        assert "\x1b" not in window.getvalue()
        assert window.shown == coloured


@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=12), max_size=8),
    st.sampled_from(["", "```\n", "| a |\n|-|\n| "]),
)
def test_only_colours_and_the_own_redraw_control_the_terminal(pieces: list[str], before: str) -> None:
    driving = "\x1b]52;c;aGk=\x07\x9b2J\u202e\r&#27;&#x9b;&#13;&#x202e;\x1b[8m"
    with printed(before, *pieces, driving, *pieces) as window:
        left = re.sub(
            r"\x1b\[(?:[\d;]*m|1A)|\r?\x1b\[2K|\r(?=\x1b\[2K)", "", window.getvalue().replace("\r\x1b", "\x1b")
        )
        assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\x1b\\[8m", left) is None
