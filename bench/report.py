"""The result of a measurement, and its three forms: Markdown, JSON, and the marked part of bench/README.md.

Tables contain raw values; a column says how they are shown. Nothing here depends on what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

README = Path(__file__).parent / "README.md"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    format: str = ""  # a format spec for numbers; texts are shown unchanged


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Check:
    """A limit and the measured value."""

    what: str
    measured: float
    limit: float
    timed: bool  # a busy machine may exceed the limit, so that is reported but not an error

    @property
    def passed(self) -> bool:
        return self.measured <= self.limit


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    tables: Sequence[Table]
    checks: Sequence[Check] = ()
    notes: Sequence[str] = field(default=())


def to_json(result: Result) -> dict[str, Any]:
    tables = [
        {"title": table.title, "rows": [dict(zip(_names(table), row, strict=True)) for row in table.rows]}
        for table in result.tables
    ]
    checks = [{**asdict(check), "passed": check.passed} for check in result.checks]
    return {"name": result.name, "tables": tables, "checks": checks, "notes": list(result.notes)}


def to_markdown(result: Result) -> str:
    parts = [_table(table) for table in result.tables]
    parts += [_check(check) for check in result.checks]
    parts += list(result.notes)
    return "\n\n".join(parts)


def rewrite(result: Result, readme: Path = README) -> None:
    """Replaces the text between the measurement's markers. Raises ValueError when they are missing."""
    text = readme.read_text("utf-8")
    begin, end = f"<!-- {result.name}: begin -->", f"<!-- {result.name}: end -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"{readme.name} has no markers for {result.name}")
    block = f"{begin}\n\n{to_markdown(result)}\n\n{end}"
    readme.write_text(pattern.sub(lambda _: block, text), "utf-8")


def _names(table: Table) -> list[str]:
    return [column.name for column in table.columns]


def _table(table: Table) -> str:
    header = f"| {' | '.join(_names(table))} |"
    rule = f"| {' | '.join('---:' if column.format else '---' for column in table.columns)} |"
    rows = [
        f"| {' | '.join(_cell(value, column.format) for value, column in zip(row, table.columns, strict=True))} |"
        for row in table.rows
    ]
    return "\n".join([f"**{table.title}**", "", header, rule, *rows])


def _cell(value: Any, spec: str) -> str:
    if value is None:
        return "–"
    return format(value, spec) if isinstance(value, int | float) else str(value)


def _check(check: Check) -> str:
    verdict = "pass" if check.passed else ("over the limit in this run" if check.timed else "FAIL")
    return f"Limit: {check.what} ≤ {check.limit:g}. Measured {check.measured:.3f}: **{verdict}**."
