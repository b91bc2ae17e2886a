"""Bad input gets one clear line, a hint and exit code 2. Never a traceback."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage
from cli.conftest import COMMAND, TIMEOUT_S

pytestmark = pytest.mark.process

BAD = [
    pytest.param(["threads", "show", "nobody"], "There is no thread named nobody.", id="unknown thread"),
    pytest.param(["threads", "show", "tale"], "There is no thread named tale.", id="a name nearly right"),
    pytest.param(["threads", "edit", "tales", "zzzz", "x"], "'zzzz' is not a turn of tales.", id="bad turn id"),
    pytest.param(["threads", "truncate", "tales", ""], "'' is not a turn of tales: give", id="empty turn id"),
    pytest.param(["threads", "retry", "tales", "zzz"], "'zzz' is not a turn of tales: give", id="retry of no turn"),
    pytest.param(["threads", "delete", "nobody", "--yes"], "There is no thread named nobody.", id="delete nobody"),
    pytest.param(["threads", "delete", "tales"], "Deleting needs a confirmation.", id="delete without a yes"),
    pytest.param(["threads", "list", "--limit", "0"], "Invalid value for '--limit'", id="bad limit"),
    pytest.param(
        ["threads", "list", "--here", "--cwd", "."], "--cwd and --here cannot be given together", id="two directories"
    ),
    pytest.param(["runs", "show", "zzz"], "'zzz' is not a run.", id="unknown run"),
    pytest.param(["runs", "cancel"], "No run was named.", id="no run named"),
    pytest.param(["runs", "cancel", "--thread", "tales"], "No run is active in tales.", id="nothing to cancel"),
    pytest.param(["runs", "cancel", "x", "--thread", "tales"], "Give an ID or --thread, not both.", id="two runs"),
    pytest.param(["threads", "edit", "tales", "zzz", ""], "The new text is empty.", id="empty text"),
    pytest.param(["asks", "x"], "No such command 'asks'. Did you mean ask?", id="a command nearly right"),
    pytest.param(["threads", "lst"], "No such command 'lst'. Did you mean list?", id="a subcommand nearly right"),
    pytest.param(["stats", "--since", "soon"], "--since soon is not a duration.", id="bad since"),
    pytest.param(["ask", "--timeout", "soon", "x"], "--timeout soon is not a duration.", id="bad duration"),
    pytest.param(["threads", "list", "--older-than", "7x"], "--older-than 7x is not a duration.", id="bad age"),
    pytest.param(["threads", "list", "--newer-than", "none"], "--newer-than none is not a duration.", id="no age"),
    pytest.param(["threads", "clean", "--older-than", "0"], "0 is not a duration above zero", id="age zero"),
    pytest.param(["threads", "list", "--agent", "hal"], "There is no agent 'hal'.", id="list of no agent"),
    pytest.param(["threads", "search", "x", "--agent", "hal"], "There is no agent 'hal'.", id="search of no agent"),
    pytest.param(["threads", "list", "--project", "/no/where"], "/no/where is not a directory.", id="no project"),
    pytest.param(["sessions", "list", "--project", "/no/where"], "/no/where is not a directory.", id="none either"),
    pytest.param(["threads", "search", " "], "There are no words to search for.", id="search for nothing"),
    pytest.param(["threads", "import", "nix.clew"], "nix.clew does not exist.", id="import of nothing"),
    pytest.param(["threads", "import", "."], ". is not a file.", id="import of a directory"),
    pytest.param(["threads", "import", "/dev/null"], "/dev/null is not a file.", id="import of a device"),
    pytest.param(
        ["threads", "export", "tales", "--redact", "--with-secrets"], "--with-secrets keeps them", id="two minds"
    ),
    pytest.param(
        ["threads", "export", "tales", "--recipient", "age1nobody"], "age1nobody is not a key", id="no recipient's key"
    ),
    pytest.param(
        ["threads", "export", "tales", "--passphrase-file", "/nowhere"], "/nowhere cannot be read", id="no passphrase"
    ),
    pytest.param(["sessions", "adopt", "zzzz"], "'zzzz' is not a session", id="unknown session"),
    pytest.param(["sessions", "adopt"], "No session was named.", id="no session named"),
    pytest.param(["sessions", "adopt", "zz", "--all"], "Ids and --all cannot be given together.", id="ids and all"),
    pytest.param(["threads", "list", "--limit"], "Option '--limit' requires an argument.", id="option without value"),
    pytest.param(["threads", "list", "--limit", "x"], "'x' is not a whole number.", id="no number"),
    pytest.param(["ask", "--timeout", "-5s", "x"], "is not a duration", id="negative duration"),
    pytest.param(["ask", ""], "The prompt is empty.", id="empty prompt"),
    pytest.param(["ask", " \n\t "], "The prompt is empty.", id="blank prompt"),
    pytest.param(["ask"], "The prompt is empty.", id="empty stdin"),
    pytest.param(["ask", "--instructions", "/nowhere/x.md", "x"], "/nowhere/x.md cannot be read", id="missing file"),
    pytest.param(["ask", "--instructions", ".", "x"], ". cannot be read: Is a directory.", id="a directory as file"),
    pytest.param(["ask", "--instructions", "-"], "cannot both come from stdin", id="stdin twice"),
    pytest.param(["ask", "--cwd", "/nowhere/at/all", "x"], "/nowhere/at/all is not a directory.", id="no directory"),
    pytest.param(["ask", "-t", "../../etc", "x"], "'../../etc' cannot be a thread's name.", id="bad name"),
    pytest.param(["ask", "-t", "", "x"], "'' cannot be a thread's name.", id="empty name"),
    pytest.param(["ask", "-t", "a", "-c", "x"], "-t and -c cannot be given together.", id="two threads"),
    pytest.param(["ask", "-c", "--cwd", "/", "x"], "This directory has no threads yet.", id="no thread to continue"),
    pytest.param(["ask", "--agent", "hal", "x"], "There is no agent 'hal'.", id="unknown agent"),
    pytest.param(["ask", "--permissions", "al", "x"], "'al' is not one of", id="abbreviated permissions"),
    pytest.param(["ask", "--perm", "all", "x"], "No such option '--perm'", id="abbreviated option"),
    pytest.param(["ask", "--visibility", "own", "-t", "tales", "x"], "tales is shared", id="visibility afterwards"),
    pytest.param(["ask", "one", "two"], "Got unexpected extra argument", id="prompt without quotes"),
    pytest.param(["frobnicate"], "No such command 'frobnicate'.", id="unknown command"),
    pytest.param(["completion", "tcsh"], "'tcsh' is not one of", id="unknown shell"),
    pytest.param(["completion"], "Missing argument", id="no shell"),
    pytest.param(["demo", "--turns", "1"], "Invalid value for '--turns'", id="too short a tour"),
]


@pytest.fixture(scope="module")
def cli_with_thread(tmp_path_factory: pytest.TempPathFactory, cli_type: Any) -> Iterator[Any]:
    """The command line with one thread in its store. No test changes it."""
    folder = tmp_path_factory.mktemp("cli_with_thread")
    with ModelApi() as api:
        cli = cli_type(Stage(folder, api, scripted_agent.install(folder / "agent")))
        cli.run("ask", "-t", "tales", "hello")
        yield cli
        cli.close()


@pytest.mark.parametrize(("args", "words"), BAD)
def test_one_line_and_a_hint(cli_with_thread: Any, args: list[str], words: str) -> None:
    _is_refused(cli_with_thread.run(*args), words)


@pytest.mark.parametrize(
    ("stdin", "words"),
    [
        pytest.param(b"\xff\xfe\x00garbage\x80", "stdin is not UTF-8 text (byte 0).", id="not text"),
        pytest.param(b"\x7fELF\x00\x01\x02", "stdin is not text: it contains NUL bytes.", id="binary"),
        pytest.param(b"x" * 10_000_001, "The prompt has 10,000,001 characters", id="far too long"),
    ],
)
def test_garbage_on_stdin(cli: Any, stdin: bytes, words: str) -> None:
    _is_refused(cli.run("ask", stdin=stdin), words)


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        pytest.param("agent = ", "cannot be read", id="broken file"),
        pytest.param("colour = 'red'", "there is no setting 'colour'", id="unknown setting"),
        pytest.param("modle = 'm'", "there is no setting 'modle' (did you mean model?).", id="misspelt setting"),
        pytest.param(f"timeout = 0x{'f' * 5000}", "timeout = a number that is too long", id="number without end"),
        pytest.param("timeout = 'soon'", "timeout = 'soon'", id="bad value"),
        pytest.param("permissions = 'al'", "is not one of ask, edits, read-only, all", id="abbreviated"),
        pytest.param("\udc80", "cannot be read", id="not UTF-8"),
    ],
)
def test_a_bad_config_file(cli: Any, toml: str, words: str) -> None:
    cli.stage.clew_home.mkdir(mode=0o700)
    (cli.stage.clew_home / "clew.toml").write_bytes(toml.encode("utf-8", "surrogateescape"))
    for command in (["ask", "x"], ["config", "show"], ["threads", "list"]):
        _is_refused(cli.run(*command), words)


def test_a_work_directory_may_not_widen_permissions(cli: Any) -> None:
    (cli.stage.work / "clew.toml").write_text("permissions = 'all'")

    done = cli.run("ask", "-t", "t", '!tool Bash {"command": "touch made"}')

    assert done.code == 0
    assert done.err.count("permissions cannot be set by a work directory") == 1
    assert not (cli.stage.work / "made").exists()
    assert cli.run("threads", "show", "t", "--json").json["permissions"] == "ask"
    assert "cannot be set by a work directory" in cli.run("config", "show").err


@pytest.mark.parametrize(
    ("variable", "value"),
    [("CLEW_MAX_AGENTS", "many"), ("CLEW_ENABLE_RESUME", "perhaps"), ("CLEW_CONFIG", "/nowhere.toml")],
)
def test_a_bad_variable(cli: Any, variable: str, value: str) -> None:
    _is_refused(cli.run("ask", "x", **{variable: value}), value)


@pytest.mark.parametrize("args", [["threads", "list"], ["doctor"], ["config", "show"]], ids=" ".join)
def test_a_directory_that_was_deleted(cli: Any, args: list[str]) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND, *args],
        env=cli.environ(),
        cwd=cli.stage.work,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "clew: The current directory no longer exists.\n  Change to another one.\n"


def test_the_hint_names_the_command_that_was_called(cli_with_thread: Any) -> None:
    assert "Try clew threads list --help." in cli_with_thread.run("threads", "list", "--limit").err


def test_a_usage_error_is_an_object_with_json(cli: Any) -> None:
    assert cli.run("threads", "show", "nobody", "--json").json["error"]["code"] == "not_found"
    assert cli.run("sessions", "adopt", "zzzz", "--json").json["error"]["code"] == "not_found"
    asked = cli.run("ask", "--json", "--nonsense")
    assert (asked.code, asked.json["error"]["code"], asked.json["thread"]) == (2, "usage", None)


@pytest.mark.parametrize("named", [["-t", "tales"], ["-ttales"], ["--thread", "tales"], ["--thread=tales"]])
def test_an_error_without_a_run_names_the_thread_that_was_given(cli_with_thread: Any, named: list[str]) -> None:
    assert cli_with_thread.run("ask", "--json", *named, "").json["thread"] == "tales"


def test_a_retry_without_a_run_names_its_thread(cli_with_thread: Any) -> None:
    assert cli_with_thread.run("threads", "retry", "--json", "tales", "zzz").json["thread"] == "tales"


def test_bad_input_creates_no_thread(cli: Any) -> None:
    for args in (["ask", ""], ["ask", "--agent", "hal", "x"], ["ask", "--cwd", "/nowhere/at/all", "x"]):
        cli.run(*args)

    assert cli.run("threads", "list", "--json").json == []


def _is_refused(done: Any, words: str) -> None:
    assert done.code == 2, done
    assert done.out == ""
    lines = [line for line in done.err.splitlines() if not line.startswith("to delete: ")]
    assert lines[0].startswith("clew: ")
    assert words in lines[0]
    assert len(lines) == 2, "and what to do"
    assert lines[1].startswith("  ")
    assert "Traceback" not in done.err
