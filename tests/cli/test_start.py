"""Start-up: help texts, lazy imports, completion, the reference and the version."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import clew
from clew.cli import reference
from clew.cli.commands import TABLE
from clew.cli.commands import cli as root

pytestmark = pytest.mark.process

HEAVY = (
    "asyncio",
    "rich",
    "prompt_toolkit",
    "sqlite3",
    "msgspec",
    "clew.api.client",
    "clew.engine",
    "clew.store",
    "clew.cli.ask",
    "tomllib",
)

# In a pipe, a turn that succeeds asks nobody and uses no other surface, host or agent.
NOT_FOR_A_TURN = {
    *(
        "rich",
        "prompt_toolkit",
        "ssl",
        "tomllib",
        "clew.core.spelling",
        "tempfile",
        "shutil",
        "random",
        "psutil",
        "http",
        "email",
    ),
    *(
        "clew.cli.error_report",
        "clew.cli.ui.permission_prompts",
        "clew.cli.ui.agent_questions",
        "clew.cli.ui.status_line",
        "clew.core.costs.savings",
        "clew.core.expansion.command_file",
        "clew.core.secrets.redaction",
        "clew.engine.warm.session",
        "_hashlib",
    ),
    *(
        "clew.agents.codex",
        "clew.engine.durable.worker",
        "clew.git.checkpoints",
        "clew.server",
        "clew.store.database.dialect",
    ),
    *(f"clew.hosts.{host}" for host in ("branching", "hooks", "jobs", "pairs", "reviews", "transfer")),
}
OWN_MODULES = 126  # of a turn. Each further module adds 0.1 to 0.5 ms to every answer


def modules_after(args: list[str], **options: Any) -> set[str]:
    """The modules that a process has imported after it ran the command."""
    code = f"import sys; from clew.cli.main import main; main({args!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **options)
    return set(done.stderr.split())


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            yield from commands(found, (*path, name))


@pytest.mark.parametrize("path", list(commands(root)), ids=" ".join)
def test_every_command_has_a_help(path: tuple[str, ...]) -> None:
    command: click.Command = root
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_the_short_helps_in_the_table_are_of_commands_that_exist() -> None:
    for name, (_, short) in TABLE.items():
        command = root.get_command(click.Context(root), name)
        assert command is not None
        assert short.endswith(".")


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["nonsense"]])
def test_nothing_heavy_is_imported_before_a_command_is_called(args: list[str]) -> None:
    assert not modules_after(args) & set(HEAVY)


@pytest.mark.parametrize("command", ["ask", "threads", "runs", "stats", "doctor", "config", "completion"])
def test_the_help_of_a_command_loads_neither_the_client_nor_rich(command: str) -> None:
    assert not modules_after([command, "--help"]) & {"asyncio", "rich", "sqlite3", "msgspec", "clew.api.client"}


def has_code(name: str) -> bool:
    """False for a package whose `__init__` holds only a docstring: importing it takes hardly any time."""
    path = Path(clew.__file__).parent.joinpath(*name.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return len(ast.parse(file.read_text()).body) > 1


@pytest.mark.rest
def test_a_follow_up_in_a_pipe_loads_what_a_turn_needs_and_no_more(cli: Any) -> None:
    cli.run("ask", "-t", "tales", "hi")

    loaded = modules_after(["ask", "-t", "tales", "and?"], env=cli.environ(), cwd=cli.stage.work)

    own = {name for name in loaded if name.partition(".")[0] == "clew" and has_code(name)}
    assert len(cli.api.main_requests) == 2, "both were answered"
    assert loaded & NOT_FOR_A_TURN == set()
    assert "clew.api.client" in own and len(own) <= OWN_MODULES, sorted(own)


def test_the_reference_is_not_stale() -> None:
    assert reference.TARGET.read_text(encoding="utf-8") == reference.text(), "run python -m clew.cli.reference"


def test_every_exit_code_is_documented() -> None:
    assert [code for code, _, _ in reference.exit_codes()] == sorted(reference.MEANINGS)


def test_the_version(cli: Any) -> None:
    assert cli.run("--version").out == f"clew {clew.__version__}\n"


def test_python_m_clew_is_clew() -> None:
    done = subprocess.run([sys.executable, "-m", "clew", "--version"], capture_output=True, text=True, check=True)

    assert done.stdout == f"clew {clew.__version__}\n"


def test_without_a_command_it_shows_its_help(cli: Any) -> None:
    done = cli.run()

    assert done.code == 2
    assert "Usage: clew" in done.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(cli: Any, shell: str) -> None:
    done = cli.run("completion", shell)

    assert done.code == 0
    assert "_CLEW_COMPLETE" in done.out


def test_completion_knows_commands_and_threads(cli: Any) -> None:
    def complete(words: str) -> list[str]:
        position = str(len(words.split()) - 1)
        done = cli.run(_CLEW_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=position)
        return [line.partition(",")[2] for line in done.out.splitlines() if line]

    assert complete("clew thr") == ["threads"]
    assert complete("clew ask -t ta") == []
    cli.run("ask", "-t", "tales", "hello")
    assert complete("clew ask -t ta") == ["tales"]
