"""Damage to an agent's session file, and to the disk that it is on."""

from __future__ import annotations

import random
import shlex
from collections.abc import Callable
from pathlib import Path

from clew.testing.stage import Stage
from clew.testing.truth import tokens

# Runs before the agent: limits the size of its files (in blocks of 512 bytes), or makes a folder read-only.
HEAD = """\
[ -f {limit} ] && ulimit -f "$(cat {limit})"
[ -f {read_only} ] && exec unshare --mount sh -c \\
  'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"' "$(cat {read_only})" {binary} "$@"
"""


class Disk:
    """The disk of the agents' homes, as their launchers simulate it."""

    def __init__(self, stage: Stage) -> None:
        self._limit = stage.folder / "limit"
        self._read_only = stage.folder / "read-only"
        for launcher in filter(None, (stage.binary, stage.codex)):
            *head, last = launcher.read_text().splitlines()
            binary = shlex.split(last)[1]
            given = {"limit": self._limit, "read_only": self._read_only, "binary": binary}
            words = HEAD.format(**{name: shlex.quote(str(value)) for name, value in given.items()})
            launcher.write_text("\n".join([*head, f"{words}{last}", ""]))

    def full_after(self, n_bytes: int) -> None:
        """Limits the size of a file, which a program notices as a full disk."""
        self._limit.write_text(str(n_bytes // 512 + 1))

    def only_readable(self, folder: Path) -> None:
        self._read_only.write_text(str(folder))

    def well(self) -> None:
        self._limit.unlink(missing_ok=True)
        self._read_only.unlink(missing_ok=True)


def _changed(path: Path, dice: random.Random, change: Callable[[str, str], str | None]) -> None:
    """Changes one of the answers in the file, in every line that contains it."""
    lines = path.read_text(errors="replace").splitlines(keepends=True)
    answers = sorted({token for line in lines for token in tokens(line) if token.startswith("a")})
    if not answers:
        return
    token = dice.choice(answers)
    made = [change(line, token) if token in tokens(line) else line for line in lines]
    path.write_text("".join(line for line in made if line is not None))


def blanked(path: Path, dice: random.Random) -> None:
    _changed(path, dice, lambda line, _: " " * (len(line) - 1) + "\n")


def dropped(path: Path, dice: random.Random) -> None:
    _changed(path, dice, lambda line, _: None)


def altered(path: Path, dice: random.Random) -> None:
    """An altered text of the same length."""
    _changed(path, dice, lambda line, token: line.replace(token, f"f{token[1:]}"))


def lengthened(path: Path, dice: random.Random) -> None:
    _changed(path, dice, lambda line, token: line.replace(token, f"f77{token[1:]}"))


def cut_short(path: Path, dice: random.Random) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[: dice.randrange(len(raw) + 1)])


def deleted(path: Path, dice: random.Random) -> None:
    path.unlink()


KINDS = (blanked, dropped, altered, lengthened, cut_short, deleted)
