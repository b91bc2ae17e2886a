"""Reads a clew.toml, the user's own or a work directory's. This module is loaded only when there is one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.config.settings import TABLES, TABLES_OF_OTHERS, Value, known_values, put, setting_of, unknown_keys
from clew.errors import ConfigError


def of_user(path: Path) -> dict[str, Value]:
    """The settings of the user's own file. A mistake in it is an error."""
    return known_values([(name, value) for name, value in _read(path) if not _is_of_others(name)], str(path))


def of_project(path: Path) -> tuple[dict[str, Value], tuple[str, ...]]:
    """The settings of a work directory's file, and a message for each mistake in it, which must not stop a command."""
    try:
        given = _read(path)
    except ConfigError as error:
        return {}, (error.message,)
    values: dict[str, Value] = {}
    ignored: dict[str, None] = {}  # the messages in order, each once
    wrong: set[str] = set()
    if unknown := [name for name, _ in given if setting_of(name) is None and not _is_of_others(name)]:
        ignored[f"{path}: {unknown_keys(unknown)}"] = None
    for name, value in given:
        setting = setting_of(name)
        if setting is not None and setting.in_project:
            try:
                put(values, setting, value, str(path))
            except ConfigError as error:
                ignored[error.message] = None
                wrong.add(setting.name)
        elif setting is not None or _is_of_others(name):
            what = setting.name if setting is not None else name.partition(".")[0]
            ignored[f"{path}: {what} cannot be set by a work directory; set it in your own clew.toml."] = None
    return {name: value for name, value in values.items() if name not in wrong}, tuple(ignored)


def table_of(path: Path, name: str) -> dict[str, Any]:
    """A table of the file that is read by another package; {}: there is none."""
    found = _parsed(path).get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: {name} is not a table.", hint="Correct or remove it.")
    return found


def _is_of_others(name: str) -> bool:
    return name.partition(".")[0] in TABLES_OF_OTHERS


def _read(path: Path) -> list[tuple[str, Any]]:
    try:
        return _flat(_parsed(path))
    except RecursionError as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="Correct or remove it.") from error


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not TOML, a too long number
        raise ConfigError(f"{path} cannot be read: {error}", hint="Correct or remove it.") from error


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        name = f"{prefix}{key}"
        is_table = isinstance(value, dict) and (value or name in TABLES)  # an empty, unknown table is reported
        found += _flat(value, f"{name}.") if is_table else [(name, value)]
    return found
