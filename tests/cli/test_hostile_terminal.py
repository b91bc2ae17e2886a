"""Whatever an agent, a file, a forge or a thread contains: on a terminal it can neither move the cursor, set the title,
write to the clipboard nor hide text. The test looks at what `clew` writes to a pseudo-terminal, view by view."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clew.testing.model.scripts import Reply, Request, Text, newest_user_text
from clew.testing.stage import MODEL
from hooks.project import HookProject, event
from pairs.couple import Couple, order
from reviews.reviewer import Reviewer, answer, finding, git, repository

pytestmark = pytest.mark.usefixtures("columns")

# Erases the screen, hides text, writes to the clipboard, makes a link, sets the title, begins a device string; the same
# in C1 characters; turns the direction of the text, cannot be seen, overwrites the line, moves back, rings.
DRIVING = (
    "\x1b[2J\x1b[1;1H\x1b[8m\x1b[31m\x1b]52;c;aGk=\x07\x1b]8;;http://127.0.0.1/\x1b\\\x1b]0;title\x07\x1bPq\x1b\\\x1bc"
    "\x9b2J\x9d52;c;aGk=\x9c\x90q\u202e\u2066\u200b\xad\u3164\rOVER\b\x07\x7f"
)
HOSTILE = f"HOSTILE{DRIVING}END"
FILE = HOSTILE.replace("/", "")
# What Clew's own views write: colours, and the status line with its cursor.
COLOUR = r"\x1b\[(?:0|[1-4]|9|3[0-79]|9[0-7])?(?:;(?:[1-4]|9|3[0-79]|9[0-7]))*m"
STATUS = r"\x1b\[\?25[lh]|\r?(?:\x1b\[2K|\x1b\[1A)"
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\xad\U000e0000-\U000e007f]"
)


ANSWER = "# X\n\n- X `X` [X](X) ![X](X) **X**\n\n| X |\n|---|\n\n> X\n\n```X\nX\n```".replace("X", HOSTILE)


def hostile_answer(request: Request) -> Reply | None:
    """The model's answer to whatever is not a directive."""
    asked = newest_user_text(request.messages)
    return None if not request.is_main or "!tool" in asked or "!fail" in asked else Text(ANSWER)


def check(shown: str) -> None:
    left = re.sub(rf"{COLOUR}|{STATUS}|\r(?=\n)|\r$", "", shown)
    found = CONTROL.search(left)
    assert found is None, f"{left[max(0, found.start() - 200) : found.end() + 40]!r}"
    for colour in re.finditer(COLOUR, shown):
        assert not shown[: colour.start()].endswith("␛[8m"), "a colour of the text's own"


def view(cli: Any, *args: str, hostile: bool = True, typed: tuple[str, str] | None = None, **environ: str) -> str:
    """What a command shows on a terminal. `hostile`: some of it was written by others."""
    terminal = cli.terminal(*args, **environ)
    before = ""
    if typed is not None:
        before = terminal.read_until(typed[0])
        terminal.type(typed[1])
    _, shown = terminal.end()
    shown = before + shown
    assert not hostile or "HOSTILE" in shown or "OVER" in shown, f"clew {' '.join(args)} shows nothing of it:\n{shown}"
    check(shown)
    return str(shown)


@pytest.mark.rest
def test_threads_and_runs(cli: Any) -> None:
    cli.api.reply = hostile_answer
    folder = cli.stage.work / FILE
    folder.mkdir()
    (cli.stage.work / "standing").write_text(HOSTILE)
    ask = ("ask", "-t", "t", "--cwd", str(folder), "--instructions", str(cli.stage.work / "standing"))
    view(cli, *ask, f"say {HOSTILE}")
    view(cli, *ask, "--plain", f"say {HOSTILE}")
    view(cli, *ask, "--explain", f"say {HOSTILE}")
    view(cli, *ask, "--json", f"say {HOSTILE}")
    view(cli, *ask, "--permissions", "all", "!tool Bash " + json.dumps({"command": f"echo {HOSTILE!r}"}))
    form = {
        "questions": [{"question": HOSTILE, "header": "H", "options": [{"label": HOSTILE, "description": HOSTILE}]}]
    }
    view(cli, *ask, f"!tool AskUserQuestion {json.dumps(form)}", typed=(r"leave it open\): ", "-\n"))
    asks = (*ask, "--permissions", "ask")
    view(cli, *asks, f"!tool Bash {json.dumps({'command': f'touch {HOSTILE}'})}", typed=(r"why not\): ", "n\n"))
    view(cli, *ask, f"!fail 400 invalid_request_error {HOSTILE}")
    view(cli, "threads", "retry", "t", "1")
    cli.run("ask", "-t", "u", f"say {HOSTILE}")
    for words in (
        ["show", "t"],
        ["list"],
        ["search", "HOSTILE"],
        ["diff", "t", "u"],
        ["edit", "t", "1", HOSTILE, "--dry-run"],
        ["fork", "t", "v"],
        ["merge", "t", "u", "w"],
        ["sync", "t"],
        ["replay", "u", "--with-model", MODEL],
        ["show", HOSTILE],
        ["export", "t", "--output", str(folder / "t.clew")],
        ["import", str(folder / "t.clew"), "--dry-run"],
        ["import", str(folder)],
        ["archive", "w"],
        ["archives"],
        ["push", str(folder), "t"],
        ["push", HOSTILE, "t"],
        ["pull", str(folder)],
        ["set", "t", "--model", HOSTILE],
    ):
        view(cli, "threads", *words, hostile=words[0] in ("show", "list", "search", "diff", "replay", "export"))
    for words in (["list"], ["show", cli.run("runs", "list", "--json").json[0]["id"]], ["watch", HOSTILE]):
        view(cli, "runs", *words, hostile=words[0] == "watch")
    for words in (["sessions", "list"], ["sessions", "adopt", "--dry-run", "--all"], ["stats"], ["doctor"]):
        view(cli, *words, hostile=False, CLEW_AGENTS_CODEX_PATH=str(folder / "codex"))


def test_settings_and_errors(cli: Any) -> None:
    (cli.stage.work / "clew.toml").write_text(f"model = {json.dumps(HOSTILE)}\n{json.dumps(HOSTILE)} = 1\n")
    view(cli, "config", "show")
    view(cli, "config", "show", "--json")
    view(cli, "doctor")
    view(cli, HOSTILE)
    view(cli, "ask", f"--{HOSTILE}")
    view(cli, "ask", "--cwd", HOSTILE, "x")
    view(cli, "ask", "-t", HOSTILE, "x")
    view(cli, "ask", "--instructions", HOSTILE, "x")
    view(cli, "threads", "list", CLEW_CONFIG=f"/{HOSTILE}")


@pytest.mark.rest
def test_reviews(cli: Any) -> None:
    repo = repository(cli.stage.work)
    (repo / FILE).write_text(HOSTILE)
    git(repo, "add", "-A")
    hostile = finding(HOSTILE, file=FILE, detail=HOSTILE, suggestion=HOSTILE)
    cli.api.reply = Reviewer(
        answer([hostile], summary=HOSTILE), answer([], [{"id": "F1", "state": "fixed", "note": HOSTILE}])
    )
    view(cli, "review", "start", "--focus", HOSTILE)
    view(cli, "review", "follow", "latest", HOSTILE)
    view(cli, "review", "show", "latest")
    view(cli, "review", "list", hostile=False)
    view(cli, "review", "export", "latest", hostile=False)


@pytest.mark.rest
def test_jobs(cli: Any) -> None:
    cli.api.reply = hostile_answer
    view(cli, "jobs", "submit", "x", "--key", HOSTILE)
    view(cli, "jobs", "submit", f"say {HOSTILE}", "--wait", hostile=False, typed=("queued", "\x03"))
    cli.run("jobs", "submit", f"say {HOSTILE}")
    cli.run("work", "--until-idle")
    for words in (["list"], ["show", "latest"], ["watch", "latest"], ["logs", "latest"], ["show", HOSTILE]):
        view(cli, "jobs", *words)


@pytest.mark.rest
def test_pairs(cli: Any) -> None:
    couple = Couple(cli.stage, rounds=1)
    couple.orders.append(order(HOSTILE))
    couple.reports.append(HOSTILE)
    view(cli, "pair", f"u1z {HOSTILE}", "--name", "build")
    view(cli, "pair", "--list-sessions", hostile=False)
    view(cli, "pair", "--session", HOSTILE, "x")


@pytest.mark.rest
def test_hooks(cli: Any, columns: int) -> None:
    cli.api.reply = hostile_answer
    HookProject(cli.stage)
    path, stranger = Path(cli.stage.work) / "event.json", Path(cli.stage.work) / "stranger.json"
    for file, actor in ((path, "alice"), (stranger, HOSTILE)):
        given = {**event().as_dict(), "title": HOSTILE, "body": HOSTILE, "text": HOSTILE, "actor": actor}
        file.write_text(json.dumps({key: value for key, value in given.items() if value not in ("", None)}))
    view(cli, "hooks", "check", hostile=False)
    view(cli, "hooks", "fire", str(path), "--dry-run")
    view(cli, "hooks", "fire", str(path), "--wait")
    view(cli, "hooks", "fire", str(stranger))
    view(cli, "hooks", "events", hostile=columns == 120)  # in a narrow terminal the actor is left out
    view(cli, "hooks", "sessions", hostile=False)
