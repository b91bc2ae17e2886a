"""The user docs: every Python example runs and prints what the page says, and the tables are complete."""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest

import clew
from clew import config
from clew.api.client import Client, Reply, Run, Thread
from clew.cli.commands import cli
from clew.core.decision import Reason
from clew.core.pins import MOVES
from clew.core.record import fields_of
from clew.core.runs.events import KINDS
from clew.core.runs.options import TurnOptions
from clew.core.runs.run import RunStatus
from clew.engine.faults import POINTS
from clew.testing import scripted_agent
from clew.testing.model import scripts
from clew.testing.model.scripts import Fail, Slow, Text, ToolUse
from clew.testing.stage import MODEL, Stage

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LIMIT_S = 100
EXPLANATIONS = {"python.md": "Explanation", "cli.md": "The object of `ask --explain --json`"}


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def blocks(text: str, language: str) -> Iterator[tuple[str, str]]:
    """(the heading above, the block), in order."""
    heading, opened, inside = "", "", list[str]()
    for line in text.splitlines():
        if line.startswith("```"):
            if opened == f"```{language}":
                yield heading, "\n".join(inside) + "\n"
            opened, inside = ("" if opened else line), []
        elif opened:
            inside.append(line)
        elif line.startswith("#"):
            heading = line.lstrip("# ")


def cells(text: str, column: int = 0) -> list[str]:
    """The words in backticks in that column of the text's tables."""
    rows = [line.split(" | ")[column] for line in text.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def section(text: str, heading: str) -> str:
    """From that heading to the next, without the examples."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", prose, re.M | re.S)
    assert found is not None, heading
    return found[1]


def run_script(code: str, folder: Path, environ: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.splitlines()


# docs/python.md: each example by its heading, with the model's replies and the expected output.

Example = tuple[Callable[[Stage], None], list[str]]


def _says(*replies: scripts.Reply) -> Callable[[Stage], None]:
    return lambda stage: stage.api.script.extend(replies)


def _refuses(stage: Stage) -> None:
    stage.api.default = Fail(401, "authentication_error", "invalid x-api-key", scripts.FINAL)


def _asks_three_times(stage: Stage) -> None:
    (stage.work / "Makefile").write_text("test:\n\t@echo all is well\n")
    options = [{"label": name, "description": name} for name in ("Fast", "Slow")]
    form = {"questions": [{"question": "Which?", "header": "Tests", "multiSelect": False, "options": options}]}
    stage.api.script.extend(
        [
            ToolUse("AskUserQuestion", form),
            ToolUse("Bash", {"command": "make test"}),
            ToolUse("Bash", {"command": "rm Makefile"}),
            Text("The tests pass."),
        ]
    )


def _asks_once(stage: Stage) -> None:
    (stage.work / "Makefile").write_text("test:\n\t@echo all is well\n")
    stage.api.script.extend([ToolUse("Bash", {"command": "make test"}), Text("The tests pass.")])


PYTHON_EXAMPLES: dict[str, Example] = {
    "A first run": (_says(Text("It is the cookie.", chunks=3)), ["It is the cookie.", "fresh: first_turn True"]),
    "clew.open": (_says(Text("Nothing.")), ["review-state 600.0 flag", f"read-only {MODEL}"]),
    "Thread": (
        _says(),
        [
            "True None",
            "False history_changed",
            "user 1: Call the port 9090.",
            "assistant 0: ack: Call the port 8080.",
            "user 0: Which port is it?",
            "assistant 0: ack: Which port is it?",
            "user 0: And now?",
            "assistant 0: ack: And now?",
            "6 turns archived",
        ],
    ),
    "Explanation": (
        _says(),
        [
            "first_turn sent None",
            "# Standing instructions",
            "",
            "Be brief.",
            "",
            "# New message",
            "",
            "Call the port 8080.",
            "Resumes the session and sends the new prompt alone.",
            "True True",
            "forced_fresh 2",
        ],
    ),
    "Run": (_says(Slow("word " * 2000, words_per_s=20)), ["cancelled True True"]),
    "A person": (
        _asks_three_times,
        [
            "asked: AskUserQuestion",
            "allowed",
            "asked: Bash",
            "allowed",
            "asked: Bash",
            "declined: Bash is not allowed here. Say what you would do.",
            "The tests pass.",
        ],
    ),
    "Questions of other processes": (
        _asks_once,
        ["Bash {'command': 'make test'}", "None", "The tests pass."],
    ),
    "Replay, compare, merge": (
        _says(*map(Text, ("It is 8080.", "8080", "Noted.", "8080"))),
        [
            "asking round 1 of 2",
            "round 1 of 2 is answered",
            "asking round 2 of 2",
            "round 2 of 2 is answered",
            "It is 8080. | Noted.",
            "8080 | 8080",
            "['same', 'changed', 'same', 'same'] False",
            "both 0 (4, 4)",
        ],
    ),
    "Modules": (_says(), ["True ['claude']", "ask default"]),
    "Sessions by key": (_says(), ["boss:charles/peon:4 None", "False []"]),
    "Moving threads": (
        _says(),
        [
            "progress reading fix-login",
            "ended ",
            "imported copy 2",
            "fix-login pushed",
            "nobody There is no thread named nobody.",
            "restored fix-login 1",
        ],
    ),
    "Errors": (
        _refuses,
        [
            "auth: claude is not logged in, or its key is refused: Invalid API key · Fix external API key",
            "Log in with the agent's own CLI, or set its key; the session is kept.",
            "failed AuthFailed 1",
        ],
    ),
    "An adapter of your own": (_says(), ["PIECES OF EIGHT.", "unsupported True"]),
}


@pytest.mark.parametrize("heading", PYTHON_EXAMPLES)
def test_python_example(scripted: Stage, heading: str) -> None:
    [code] = [code for above, code in blocks(page("python.md"), "python") if above == heading]
    prepare, printed = PYTHON_EXAMPLES[heading]
    prepare(scripted)
    assert run_script(code, scripted.work, {**scripted.environ, "CLEW_MODEL": MODEL}) == printed
    if heading == "A person":
        shown = "\n".join(text for _, text in scripted.api.main_requests[-1].shown_texts(tools=True))
        assert "Fast" in shown, "the form's answer reached the model"
        assert "all is well" in shown
        assert (scripted.work / "Makefile").exists(), "what was declined did not happen"


def test_every_python_example_is_run() -> None:
    assert [heading for heading, _ in blocks(page("python.md"), "python")] == list(PYTHON_EXAMPLES)


# docs/testing.md: blocks that name a file are tests for pytest, the others are scripts.

TESTING_BLOCKS = list(blocks(page("testing.md"), "python"))
TEST_FILES = {code.partition("\n")[0].removeprefix("# "): code for _, code in TESTING_BLOCKS if code.startswith("# ")}
TESTING_SCRIPTS = [code for _, code in TESTING_BLOCKS if not code.startswith("# ")]
PASSED = {
    "test_stage.py": 1,
    "test_two_agents.py": 1,
    "test_model.py": 1,
    "test_faults.py": 1,
    "test_truth.py": 1,
    "test_resumes.py": 1,
    "test_my_adapter.py": 21,
    "test_my_store.py": 30,
    "test_crash.py": 1,
}
PYTEST_INI = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


def run_pytest(folder: Path, name: str, code: str) -> tuple[int, str]:
    (folder / "pytest.ini").write_text(PYTEST_INI)
    (folder / "conftest.py").write_text(TEST_FILES["conftest.py"])
    (folder / name).write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(folder / "tmp"), name],
        cwd=folder,
        env={"HOME": str(folder), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.rest
@pytest.mark.parametrize("name", PASSED)
def test_testing_example(tmp_path: Path, name: str) -> None:
    code, said = run_pytest(tmp_path, name, TEST_FILES[name])
    assert code == 0, said
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None, said
    assert int(passed[1]) >= PASSED[name], said
    assert "skipped" not in said


@pytest.mark.rest
def test_testing_examples_can_fail(tmp_path: Path) -> None:
    changed = TEST_FILES["test_faults.py"].replace('"on": "resume"', '"on": "fresh"')
    assert changed != TEST_FILES["test_faults.py"]
    code, said = run_pytest(tmp_path, "test_faults.py", changed)
    assert code == 1, said
    assert "1 failed" in said


def test_every_testing_example_is_run() -> None:
    assert {*TEST_FILES} == {"conftest.py", *PASSED}
    assert len(TESTING_SCRIPTS) == 2


@pytest.mark.real
def test_real_cli_on_a_scripted_model(tmp_path: Path) -> None:
    said = run_script(TESTING_SCRIPTS[0], tmp_path, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert said == ["hello from the script", "('user', '!say hello from the script')"]


def test_model_for_a_shell(tmp_path: Path) -> None:
    [said] = run_script(TESTING_SCRIPTS[1], tmp_path, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert re.fullmatch(r"export ANTHROPIC_BASE_URL=http://127\.0\.0\.1:\d+ ANTHROPIC_API_KEY=dummy", said)


# The tables are complete.


def test_every_public_name_is_explained() -> None:
    known = set(re.findall(r"[A-Za-z_]+", page("python.md")))
    assert [name for name in clew.__all__ if name not in known and name != "__version__"] == []


def test_events_table_is_complete() -> None:
    rows = [line.split(" | ") for line in section(page("python.md"), "Events").splitlines() if line.startswith("| `")]
    documented = {row[0].strip("|` "): tuple(re.findall(r"`(\w+)`", row[1])) for row in rows}
    assert documented == {cls.__name__: fields_of(cls) for cls in KINDS.values()}


def test_reply_table_is_complete() -> None:
    assert tuple(cells(section(page("python.md"), "Reply"))) == fields_of(Reply)


def test_explanation_tables_are_complete() -> None:
    named = [cells(section(page(name), heading)) for name, heading in EXPLANATIONS.items()]
    assert [tuple(each) for each in named] == [fields_of(clew.Explanation)] * len(named)


@pytest.mark.parametrize(("heading", "cls"), [("Client", Client), ("Thread", Thread), ("Run", Run)])
def test_methods_tables_are_complete(heading: str, cls: type) -> None:
    documented = section(page("python.md"), heading)
    own = [name for name, _ in inspect.getmembers(cls) if not name.startswith("_")]
    assert [name for name in own if not re.search(rf"`(?:await )?(?:run\.)?{name}\b", documented)] == []


def test_options_of_ask_are_complete() -> None:
    options = TurnOptions._fields
    documented = {name.partition("=")[0] for name in cells(section(page("python.md"), "Thread"))}
    assert [name for name in options if name not in documented] == []


def test_directives_table_is_complete() -> None:
    documented = [
        name.split()[0] for name in cells(section(page("testing.md"), "The scripted model")) if name[0] == "!"
    ]
    assert documented == re.findall(r"^\| `(!\w+)", scripts.__doc__ or "", re.M)


def test_faults_table_is_complete() -> None:
    on_the_page = cells(section(page("testing.md"), "The scripted agent"))
    in_docstring = cells(re.sub(r" +\|", " |", scripted_agent.__doc__ or ""))
    faults = in_docstring[: in_docstring.index("unsaved") + 1]
    assert on_the_page == faults


def test_fault_points_are_complete() -> None:
    documented = section(page("testing.md"), "Dying at a named point")
    assert tuple(name for name in re.findall(r"`(\w+)`", documented) if name in POINTS) == POINTS


def test_words_name_the_states() -> None:
    rows = [line.split(" | ") for line in page("words.md").splitlines() if line.startswith("| `")]
    documented = {row[0].strip("|` "): set(re.findall(r"`(\w+)`", row[2])) for row in rows}
    assert documented == {state.value: {each.value for each in moves} for state, moves in MOVES.items()}
    ends = re.search(r"\| run \|.*It ends as (.*) \|", page("words.md"))
    assert ends is not None
    live = {RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING}
    assert {*re.findall(r"`(\w+)`", ends[1])} == {*RunStatus} - live


# docs/settings.md


def test_settings_example_sets_everything(tmp_path: Path) -> None:
    [(_, mine), (_, theirs)] = blocks(page("settings.md"), "toml")
    (tmp_path / "work").mkdir()
    (tmp_path / "clew.toml").write_text(mine)
    (tmp_path / "work" / "clew.toml").write_text(theirs)
    environ = {"HOME": str(tmp_path), "CLEW_HOME": str(tmp_path)}
    own = config.load(environ)
    assert [name for name, value in own.items() if value.source == "default"] == []
    assert (own.of("max_age"), own.of("timeout"), own.of("idle_timeout")) == (7 * 86400, 5400, 600)
    both = config.load(environ, tmp_path / "work")
    assert both.of("timeout") == 7200
    assert both.of("permissions") == "ask", "a work directory cannot widen permissions"
    assert any("permissions" in sentence for sentence in both.ignored)


def test_settings_page_says_what_a_work_directory_may_set() -> None:
    rows = section(page("settings.md"), "A work directory's clew.toml").splitlines()
    rows = [line for line in rows if line.startswith("| `")]
    may = {name for row in rows for name in re.findall(r"`([\w.]+)`", row.split(" | ")[0])}
    may_not = {name for row in rows for name in re.findall(r"`([\w.]+)`", row.split(" | ")[1])}
    assert may == {setting.name for setting in config.TABLE if setting.in_project}
    assert may_not == {setting.name for setting in config.TABLE if not setting.in_project}


def test_settings_page_names_every_variable_that_is_no_setting() -> None:
    documented = section(page("settings.md"), "Variables")
    rows = [line.split(" | ")[0] for line in documented.splitlines() if line.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(config.NO_SETTINGS)


def test_old_names_of_variables_are_named_once() -> None:
    everything = "".join(path.read_text("utf-8") for path in [*DOCS.rglob("*.md"), ROOT / "README.md"])
    assert [everything.count(f"`{name}`") for name in config.OLD_VARIABLES] == [1, 1, 1, 1]


async def test_archive_of_a_deleted_thread_holds_what_the_page_says(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await (await thread.ask("one"))
        first = (await thread.turns())[0]
        await thread.edit(first.id, "another")
        await thread.truncate(first.id)
        archive = (await thread.delete()).archive
    assert archive is not None
    assert archive.parent == scripted.clew_home / "archive"
    assert re.fullmatch(r"t-\d+-[0-9a-f]{8}\.json", archive.name)
    content: dict[str, Any] = json.loads(archive.read_text())
    assert list(content) == cells(section(page("settings.md"), "Deleted threads"))
    assert [row["text"] for row in content["turn_revisions"]] == ["one"]
    assert {row["archived_why"] for row in content["turns"]} == {"truncate"}


# All pages


PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
FOR_CONTRIBUTORS = [ROOT / "CONTRIBUTING.md", DOCS / "architecture.md", DOCS / "tests.md", *(DOCS / "adr").glob("*.md")]
PLACES = (ROOT, ROOT / "src/clew", ROOT / "src/clew/web/page")


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", FOR_CONTRIBUTORS, ids=lambda path: path.name)
def test_files_that_are_named_exist(path: Path) -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|sql|tsx?))`", path.read_text("utf-8"))
    assert [name for name in named if not any((place / name).exists() for place in PLACES)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!https://)([^)]+)\)", path.read_text("utf-8")):
        name, _, anchor = target.partition("#")
        there = (path.parent / name) if name else path
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_names_in_modules_exist() -> None:
    names = {name for path in DOCS.glob("*.md") for name in re.findall(r"`(clew(?:\.[a-z_]+)+\.\w+)", path.read_text())}
    assert "clew.api.jobs.view_job" in names
    for name in names - {"clew.db.lock", "clew.db.rescued"}:
        pkgutil.resolve_name(name)  # raises if there is none


def test_readme_example_compiles_and_the_rest_is_toml() -> None:
    [(_, code)] = blocks((ROOT / "README.md").read_text("utf-8"), "python")
    compile(code, "README.md", "exec")
    for _, example in blocks(page("settings.md"), "toml"):
        assert tomllib.loads(example)


def test_reasons_are_all_in_the_decision_page() -> None:
    assert {*cells(section(page("decision.md"), "Resume or fresh"))} >= {*Reason}


# README.md: its commands and its pictures

README = (ROOT / "README.md").read_text("utf-8")
README_COMMANDS = [
    command.strip()
    for _, block in blocks(README, "sh")
    for line in block.splitlines()
    for command in line.partition(" #")[0].split("|")
    if command.split()[:1] == ["clew"]
]
PICTURES = [ROOT / name for name in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)]
PICTURES_BYTES = 300_000


@pytest.mark.parametrize("command", README_COMMANDS)
def test_commands_of_the_readme_exist_with_their_options(command: str) -> None:
    found: click.Command = cli
    words = shlex.split(command)[1:]
    context = click.Context(found)
    while isinstance(found, click.Group) and words and (below := found.get_command(context, words[0])) is not None:
        found, words = below, words[1:]
        context = click.Context(found, parent=context)
    found.make_context("clew", words)  # raises for an option that does not exist


def test_targets_of_the_readme_are_in_the_makefile() -> None:
    targets = re.findall(r"^make ([a-z-]+)", "".join(block for _, block in blocks(README, "sh")), re.M)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert {"demo", "test"} <= set(targets)
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.M)] == []


def test_pictures_of_the_readme_are_small_and_refer_to_nothing() -> None:
    assert {path.name for path in PICTURES} == {"terminal.svg", "page.png"}
    assert sum(path.stat().st_size for path in PICTURES) <= PICTURES_BYTES
    svg = (DOCS / "pictures" / "terminal.svg").read_text("utf-8")
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert svg.count("://") == 1, "only the name space has an address"
    assert not re.search(r"<script|<image|<a |href|url\(|@import|@font-face|foreignObject", svg)
    page_png = (DOCS / "pictures" / "page.png").read_bytes()
    assert page_png.startswith(b"\x89PNG\r\n\x1a\n")
    assert b"tEXt" not in page_png
