"""A clew.toml, the user's own or a work directory's. Loaded only when there is one."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.config.settings import TABLES, TABLES_OF_OTHERS, Value, known_values, put, setting_of, unknown_keys
from clew.errors import ConfigError


def of_user(path: Path) -> dict[str, Value]:
    """The user's own file: a mistake in it is an error."""
    return known_values([(name, value) for name, value in _read(path) if not _is_of_others(name)], str(path))


def of_project(path: Path) -> tuple[dict[str, Value], tuple[str, ...]]:
    """A work directory's file: what is wrong in it is left out and said. It must not stop anybody."""
    try:
        given = _read(path)
    except ConfigError as error:
        return {}, (error.message,)
    values: dict[str, Value] = {}
    ignored: dict[str, None] = {}  # in order, each once
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
    """One of the tables that are no settings, as it stands; {}: there is none."""
    found = _parsed(path).get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: {name} is no table.", hint="Correct or remove it.")
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
    except (OSError, ValueError, RecursionError) as error:  # ValueError: no UTF-8, no TOML, a number without end
        raise ConfigError(f"{path} cannot be read: {error}", hint="Correct or remove it.") from error


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        name = f"{prefix}{key}"
        is_table = isinstance(value, dict) and (value or name in TABLES)  # one that is empty and unknown is a mistake
        found += _flat(value, f"{name}.") if is_table else [(name, value)]
    return found
