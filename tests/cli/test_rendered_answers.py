"""`clew ask` on a terminal of a certain size: the answer, the lines of tools and the status line share its screen."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from clew.testing.model.scripts import Text, ToolUse
from turns.outside.terminal import Terminal

WORDS = " ".join(f"word{number}" for number in range(40))
ANSWER = f"# Title\n\n- **bold** {WORDS}\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```python\nx = 1\n```"


def screen(cli: Any, *args: str, columns: int, **environ: str) -> str:
    command = [sys.executable, "-m", "clew.cli", *args]
    with Terminal(command, cli.environ(**environ), cli.stage.work, columns=columns) as terminal:
        assert terminal.ended() == 0
        terminal.wait_for(r"tokens \(")
        return terminal.text


@pytest.mark.rest
@pytest.mark.parametrize("columns", [60, 120])
def test_an_answer_is_rendered(cli: Any, columns: int) -> None:
    cli.api.script.extend([ToolUse("Bash", {"command": "echo hi"}), Text(ANSWER)])
    shown = screen(cli, "ask", "-t", "t", "--permissions", "all", "go", columns=columns).splitlines()
    start = shown.index("Title")
    assert shown[start - 1] == "· Bash echo hi"
    assert shown[start + 1] == "" and shown[start + 2].startswith("• bold word0 ")
    assert all(line.startswith("  word") for line in shown[start + 3 : shown.index("a │ b") - 1])
    rows = shown[shown.index("a │ b") :]
    assert rows[:4] == ["a │ b", "──┼──", "1 │ 2", ""] and rows[4].startswith("─── python ──")
    assert rows[5] == "x = 1" and set(rows[6]) == {"─"} and rows[7].startswith("fresh: ")
    assert cli.turns("t")[-1]["text"] == ANSWER, "the thread keeps what was written"


@pytest.mark.rest
@pytest.mark.parametrize(
    ("args", "environ"), [(["--plain"], {}), ([], {"CLEW_PLAIN": "true"})], ids=["option", "setting"]
)
def test_a_plain_answer_is_as_it_was_written(cli: Any, args: list[str], environ: dict[str, str]) -> None:
    cli.api.script.append(Text("# Title\n**bold**"))
    assert "# Title\n**bold**\nfresh: " in screen(cli, "ask", *args, "go", columns=60, **environ)
