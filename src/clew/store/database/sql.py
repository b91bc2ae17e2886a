"""Loads the `.sql` files: named queries, and numbered migrations.

A query is a block that begins with `-- name: its_name` and more comments, and ends with a semicolon. Parameters are
written `:name`; this module converts them for a driver that has another syntax. Queries and migrations for one database
only are in a folder with its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent.parent

Style = Literal["named", "pyformat"]  # sqlite3 takes :name, psycopg %(name)s

FOLDERS: dict[Style, str] = {"named": "sqlite", "pyformat": "postgres"}

NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)


@cache
def own_queries(style: Style) -> Mapping[str, str]:
    """The queries of the store. They are read once: a process that is forked for a command has them already."""
    return queries(style)


def queries(style: Style, folder: Path = HERE / "queries") -> dict[str, str]:
    """Every named query of the folder, with the parameter syntax of the driver."""
    found: dict[str, str] = {}
    for file in sorted((*folder.glob("*.sql"), *folder.glob(f"{FOLDERS[style]}/*.sql"))):
        _, *parts = NAME.split(file.read_text("utf-8"))
        for name, block in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"two queries are named {name}")
            found[name] = spell(_COMMENT.sub("", block).strip().removesuffix(";"), style)
    return found


def spell(query: str, style: Style) -> str:
    if style == "named":
        return query
    return _PARAMETER.sub(r"%(\1)s", query.replace("%", "%%"))


def migrations(folder: Path = HERE / "migrations") -> list[Path]:
    """The migration files in order; file number n migrates to version n."""
    return sorted(folder.glob("[0-9]*.sql"))


def latest_version() -> int:
    """The schema version of this code."""
    return len(migrations())


def statements(file: Path, style: Style | None = None) -> list[str]:
    """The statements of a migration, and after them those for that database only.

    They are split, because drivers differ in how they run several statements at once.
    """
    own = file.parent / FOLDERS[style] / file.name if style is not None else None
    return [*_split(file), *(_split(own) if own is not None and own.is_file() else ())]


def _split(file: Path) -> list[str]:
    text = _COMMENT.sub("", file.read_text("utf-8"))
    return [statement.strip() for statement in re.split(r";[ \t]*$", text, flags=re.MULTILINE) if statement.strip()]
