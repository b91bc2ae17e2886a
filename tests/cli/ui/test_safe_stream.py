"""The stream before a terminal: colours pass, and nothing else that controls it."""

from __future__ import annotations

import io
import sys

import pytest

from clew.cli.ui.safe_stream import guarded, unguarded
from cli.ui.markdown.window import Window


def written(text: str) -> str:
    with Window() as window:
        guarded(window).write(text)
        return window.getvalue()


@pytest.mark.parametrize("colour", ["\x1b[0m", "\x1b[m", "\x1b[1m", "\x1b[2;36m", "\x1b[91m", "\x1b[22m"])
def test_colours_pass(colour: str) -> None:
    assert written(f"{colour}x\ty\n") == f"{colour}x\ty\n"


@pytest.mark.parametrize(
    "driving",
    [
        *("\x1b[2J", "\x1b[8m", "\x1b[1;8m", "\x1b[48;5;1m", "\x1b[41m", "\x1b[1;1H", "\x1b]52;c;aGk=\x07", "\x1bc"),
        *("\x9b2J", "\x9d0;x\x9c", "\x90q", "\r", "\b", "\x07", "\x7f", "\u202e", "\u2066", "\ufeff"),
    ],
)
def test_everything_else_becomes_visible(driving: str) -> None:
    shown = written(f"a{driving}b")
    assert shown[0] + shown[-1] == "ab" and driving[0] not in shown
    assert shown[1] in "␛␍␈␇�"


def test_a_pipe_gets_what_is_written_and_the_stream_below_can_be_had() -> None:
    pipe = io.StringIO()
    assert guarded(pipe) is pipe and unguarded(pipe) is pipe
    with Window() as window:
        stream = guarded(window)
        assert unguarded(stream) is window and (stream.isatty(), stream.encoding) == (True, "utf-8")
        stream.writelines(["\x1b[2J", "x"])
        print("\x1b[2J", file=stream)
        assert window.getvalue() == "␛[2Jx␛[2J\n"


def test_the_standard_streams_of_a_command_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    from clew.cli import main

    with Window() as window:
        monkeypatch.setattr(sys, "stdout", window)
        monkeypatch.setattr(sys, "stderr", window)
        assert main.main(["--version"]) == 0
        print("\x1b[2J")
        print("\x1b[2J", file=sys.stderr)
        assert window.getvalue().count("␛[2J") == 2 and "\x1b" not in window.getvalue()
