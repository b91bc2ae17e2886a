"""Writes docs/cli.md out of the code: `python -m clew.cli.reference`. A test fails when the file is stale."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from clew import config, errors
from clew.cli.commands import cli
from clew.cli.output import say
from clew.core.decision import MEANING

WIDTH = 100
PLACE = Path(__file__).parents[3] / "docs" / "cli.md"

INTRODUCTION = """\
# The command line

Written by `python -m clew.cli.reference` (`make docs`): change the code, not this file.

Answers and tables go to stdout, everything else to stderr. With `--json` stdout gets exactly one JSON value, also after
an error: `clew ask` and `clew threads retry` then print the object of a reply with its `error`, `clew review start` and
`follow` that of a round that failed, the other commands `{"error": {"code", "message", "hint"}}`. Only `clew runs watch
--json`, `clew jobs watch --json` and `clew pair --json` print more: one event a line, and the object of the job or the
pair last.
An error is one line, and a second one that says what to do.
"""

REPLY = """\
## The object of `ask --json`

| key | meaning |
| --- | --- |
| `thread`, `run` | the thread's name, the run's id; when there was no run: the name that was given, null |
| `agent`, `model` | who answered |
| `status` | `answered`, `cancelled`, `timed_out`, `failed`; null: there was no run |
| `text` | the answer, or what there was of it |
| `session_id`, `session_resumed` | the agent's session, and whether it was resumed |
| `reason` | why it was not: see below; null when resumed |
| `fallback` | the first attempt failed, and a fresh session followed in the same run |
| `usage` | `input_tokens` (uncached), `output_tokens`, `cache_read_input_tokens`, `cache_creation_input_tokens` |
| `cost_usd` | of this run, as the agent reports it, to six decimals as everywhere |
| `error` | null, or `code`, `message` and `hint` |
| `warnings` | sentences |
"""

ROUND = """\
## The object of `review start --json` and `review follow --json`

| key | meaning |
| --- | --- |
| `id`, `round` | the review's id, the number of the round |
| `status` | `done`, `failed` |
| `agent`, `model` | who reviewed |
| `session_resumed`, `reason`, `fallback` | as of a reply |
| `summary` | two or three sentences; null when the round failed |
| `findings` | the new ones: `id`, `severity`, `file`, `line`, `title`, `detail`, `suggestion`, `round`, `state`, … |
| `earlier` | verdicts on the ones before: `id`, `state` (`open`, `fixed`, `withdrawn`), `note` |
| `message` | your reply |
| `base_commit`, `head_commit` | what was compared with, and where the repository stood |
| `files` | what differs: `path`, `status`, `added`, `removed`, `old_path`, `left_out` (why it was not shown whole) |
| `changed_since` | files that are not as they were in the round before |
| `run_id`, `runs` | the newest run; two when an answer had to be asked for again |
| `usage`, `cost_usd` | of all its runs |
| `prompt_chars`, `transcript_chars` | what was sent, and what the whole transcript would have been |
| `error` | null, or `code`, `message` and `hint` |
| `started_at`, `ended_at` | times |

Before there is a round, an error is printed as by the other commands.
"""

VARIABLES = """\
Besides these, `CLEW_HOME` is the folder of the store (default: `$XDG_STATE_HOME/clew`, else `~/.local/state/clew`),
`CLEW_CONFIG` names your `clew.toml` (default: the one in `CLEW_HOME`, else `$XDG_CONFIG_HOME/clew/clew.toml`, else
`~/.config/clew/clew.toml`), `CLEW_PASSPHRASE` opens and closes exported threads, and `CLEW_DEBUG=1` shows the
traceback of an internal error.
"""


def text() -> str:
    parts = [INTRODUCTION, *_commands(), REPLY, ROUND, _reasons(), _exit_codes(), _settings()]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _commands() -> Iterator[str]:
    root = click.Context(cli, info_name="clew", terminal_width=WIDTH)
    yield "## Commands\n"
    yield _help(cli, root)
    for name in cli.list_commands(root):
        command = cli.get_command(root, name)
        assert command is not None
        yield from _with_subcommands(command, root, name)


def _with_subcommands(command: click.Command, parent: click.Context, name: str) -> Iterator[str]:
    ctx = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH)
    yield f"### {ctx.command_path}\n"
    yield _help(command, ctx)
    if isinstance(command, click.Group):
        for inner in command.list_commands(ctx):
            found = command.get_command(ctx, inner)
            assert found is not None
            yield from _with_subcommands(found, ctx, inner)


def _help(command: click.Command, ctx: click.Context) -> str:
    ctx.help_option_names = ["-h", "--help"]
    return f"```text\n{command.get_help(ctx)}\n```"


def _reasons() -> str:
    rows = [f"| `{reason}` | {words} |" for reason, words in MEANING.items()]
    return "\n".join(["## Why a turn started fresh\n", "| reason | meaning |", "| --- | --- |", *rows])


def _exit_codes() -> str:
    rows = ["| 0 | – | answered, done |"]
    rows += [f"| {code} | {names} | {meaning} |" for code, names, meaning in exit_codes()]
    return "\n".join(["## Exit codes\n", "| code | errors | meaning |", "| --- | --- | --- |", *rows])


def exit_codes() -> list[tuple[int, str, str]]:
    """From the error tree: the code, the names of the errors, the meaning of the one that the code is for."""
    by_code: dict[int, list[type[errors.ClewError]]] = {}
    for kind in _kinds(errors.ClewError):
        by_code.setdefault(kind.exit_code, []).append(kind)
    return [(code, _named(kinds), MEANINGS[code]) for code, kinds in sorted(by_code.items())]


def _named(kinds: list[type[errors.ClewError]]) -> str:
    """Each code once: a host may have an error of its own under one of these."""
    return ", ".join(dict.fromkeys(f"`{kind.code}`" for kind in kinds))


def _kinds(kind: type[errors.ClewError]) -> Iterator[type[errors.ClewError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _kinds(inner)


MEANINGS = {
    1: "no answer came, or something unexpected; `pair`: the rounds are used up; `doctor`: a problem was found",
    2: "what was asked cannot be done as asked: a bad option, name, setting or prompt",
    3: "the agent's binary was not found",
    4: "the agent is not logged in, or its key is refused",
    5: "the account's usage limit is reached",
    6: "our wall-clock or idle limit ended the run",
    7: "stopped: by Ctrl-C, `kill` or `clew runs cancel`",
    8: "another run is going on in the thread, and `--no-wait` was given; or a round in the review, or the pair",
    9: "the store cannot be read or written",
    10: "the account has no credit left",
}


def _settings() -> str:
    rows = []
    for setting in config.TABLE:
        project = "yes" if setting.in_project else "no"
        meaning = f"{setting.help}; also `{setting.alias}`" if setting.alias else setting.help
        cells = (f"`{setting.name}`", f"`{setting.variable}`", _default(setting.default), project, meaning)
        rows.append(f"| {' | '.join(cells)} |")
    head = [
        "## Settings\n",
        "Flags over `CLEW_*` over a `clew.toml` in the work directory over your own `clew.toml` over defaults. The one",
        "in the work directory belongs to whoever wrote the repository, so it may set only what can neither run code",
        "nor widen permissions; anything else in it is left out, with a warning. Durations are `90s`, `30m`, `1h30m`,",
        "`7d`, a bare number of seconds, or `none`.\n",
        "| setting | variable | default | in a work directory | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*head, *rows, "", VARIABLES])


def _default(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{config.as_duration(value)}`" if isinstance(value, float) else f"`{value}`"


def main() -> int:
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text(text(), encoding="utf-8")
    say(f"wrote {PLACE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
