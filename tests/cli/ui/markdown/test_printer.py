"""The printer on a terminal: what it redraws, and what happens when something else is printed in between."""

from __future__ import annotations

import io
import re

import pytest

from calls import count_calls
from clew.cli.ui.answer_printer import AnswerPrinter, answer_printer
from clew.cli.ui.markdown.printer import MarkdownPrinter
from clew.cli.ui.printing import shown_markdown
from cli.ui.markdown.window import Window, printed

PARAGRAPH = " ".join(f"word{number}" for number in range(40))


def test_the_first_characters_are_shown_at_once_and_nothing_is_erased_while_words_come() -> None:
    with Window() as window:
        printer = MarkdownPrinter(window)
        printer.piece("Hel")
        assert window.shown == "Hel"
        printer.piece("lo **wor")
        assert window.shown == "Hello wor", "markup is drawn as if it were closed"
        printer.piece(f"ld** {PARAGRAPH}\n\n")
        assert "\x1b[1A" not in window.getvalue()


def test_only_the_end_of_a_long_answer_is_ever_erased() -> None:
    """Whatever has scrolled out of the screen stays as it is."""
    text = f"{PARAGRAPH}\n\n" * 5 + "| a | b |\n|---|---|\n" + "| cell | cell |\n" * 60 + "*x " * 400
    with printed(text) as whole, printed(*text, rows=8) as streamed:
        assert streamed.shown == whole.shown
        erased = [found.count("\x1b[1A") for found in re.findall(r"\r(?:\x1b\[\dA|\x1b\[2K)+", streamed.getvalue())]
        assert 0 < max(erased) < 8


@pytest.mark.parametrize("before", ["", "- ", "> ", "```\n", "| a |\n|---|\n| "])
def test_a_status_line_in_the_middle_loses_nothing(before: str) -> None:
    text = f"{before}one two **three** four"
    for place in range(len(text)):
        with printed(text) as whole, Window() as window:
            printer = MarkdownPrinter(window)
            printer.piece(text[:place])
            printer.break_line()
            assert printer.at_line_start
            window.write("[1]\n")
            printer.message(text)
            assert re.findall("[a-z]", window.shown) == re.findall("[a-z]", whole.shown), window.shown


def test_messages_are_separated_and_a_withdrawn_one_stays() -> None:
    with Window() as window:
        printer = MarkdownPrinter(window)
        printer.message("first")
        printer.piece("sec")
        assert printer.withdraw() and not printer.withdraw()
        printer.message("third")
        assert printer.start_over()
        assert not printer.start_over()
        printer.message("fourth\r\nline")
        printer.end()
        assert window.shown == "first\n\nsec\n\nthird\n\nfourth\nline"


@pytest.mark.parametrize("rows", [24, 6])
@pytest.mark.parametrize("columns", [40, 60, 100])
def test_nothing_is_lost_when_the_window_changes_its_size(columns: int, rows: int) -> None:
    with Window() as window:
        printer = MarkdownPrinter(window)
        half = len(PARAGRAPH) // 2
        for character in PARAGRAPH[:half]:
            printer.piece(character)
        window.resize(columns, rows)
        printer.message(PARAGRAPH)
        words = re.findall(r"word\d+", re.sub(r"\s", "", window.shown))  # the terminal itself breaks old lines anywhere
        assert list(dict.fromkeys(words)) == PARAGRAPH.split()


@pytest.mark.parametrize(
    "text",
    [
        "word **bold** `code` [a](b) ",
        "- item **x**\n",
        "```python\n" + "x = 1\n\n" * 20_000,
        "| a | b |\n|---|---|\n" + "| a | b |\n" * 20_000,
        *("*x ", "```", "[", "> ", "a" * 50_000),
    ],
    ids=lambda text: text[:12].strip(),
)
def test_a_piece_costs_as_much_after_a_long_answer_as_at_its_beginning(text: str) -> None:
    def calls(chars: int) -> int:
        whole = (text * chars)[:chars]
        with Window() as window:
            printer = MarkdownPrinter(window)
            pieces = [whole[start : start + 60] for start in range(0, chars, 60)]
            return count_calls(lambda: [printer.piece(piece) for piece in pieces])

    once, more = calls(5_000), calls(10_000)
    assert more < once * 3


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {}])
def test_the_text_is_printed_as_it_is_where_it_cannot_be_drawn(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    out = Window() if environ else io.StringIO()
    printer = answer_printer(out)
    assert isinstance(printer, AnswerPrinter)
    printer.message("**a**\x1b")
    assert out.getvalue() == ("**a**␛" if environ else "**a**\x1b")
    out.close()


def test_a_complete_text_is_rendered_with_an_indent(monkeypatch: pytest.MonkeyPatch) -> None:
    with Window() as window:
        monkeypatch.setattr("sys.stdout", window)
        monkeypatch.setenv("NO_COLOR", "1")
        assert shown_markdown(f"# A\n\n- {PARAGRAPH}", indent="  ").splitlines()[:4] == [
            "  A",
            "",
            "  • word0 word1 word2 word3 word4 word5 word6 word7 word8",
            "    word9 word10 word11 word12 word13 word14 word15 word16",
        ]
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert shown_markdown("# A\n\n- *b*", indent="  ") == "  # A\n\n  - *b*"
    assert shown_markdown("# A\x1b\n") == "# A\x1b\n"
