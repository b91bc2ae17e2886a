"""Where a test run's time goes: the time and the CPU time of each test, and the processes that it started.

    CLEW_TEST_COST=/tmp/cost .venv/bin/pytest -n 4 -p cost …     writes a line for each test
    .venv/bin/python tests/cost.py /tmp/cost                     adds them up: by what they start, by folder, by file

CPU time is that of the test's own process and of the children that it waited for. The children of the launcher and the
fork server are counted only when these end; only the operating system's process accounting can attribute them to tests.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

import process_record

FILE = os.environ.get("CLEW_TEST_COST", "")
MOST_ROWS = 40


def _kind(args: Any) -> str:
    """The program's name; for Python, with what it runs."""
    words = [os.fsdecode(each) for each in ([args] if isinstance(args, str | bytes | os.PathLike) else args)]
    name = Path(words[0]).name if words else "?"
    if name.startswith("python"):
        return " ".join(["python", *(Path(word).name for word in words[1:3])])[:40]
    return name if os.sep in words[0] or name in ("git", "sh", "bash") else "clew"


def _used() -> tuple[float, float]:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    began, before = time.monotonic(), _used()
    try:
        return (yield)
    finally:
        own, children = (after - earlier for after, earlier in zip(_used(), before, strict=True))
        started = Counter(_kind(one.words) for one in process_record.started() if one.test == item.nodeid)
        row = [item.nodeid, time.monotonic() - began, own, children, started]
        with Path(f"{FILE}.{os.getpid()}").open("a") as file:
            file.write(json.dumps(row) + "\n")


def main(file: str) -> None:
    rows = [json.loads(line) for each in Path(file).parent.glob(f"{Path(file).name}.*") for line in each.open()]
    starts: Counter[str] = Counter()
    for row in rows:
        starts.update(row[4])
    print(f"{len(rows)} tests")
    _table("by what they start", rows, lambda row: ", ".join(sorted(row[4])) or "nothing")
    _table("by folder", rows, lambda row: "/".join(row[0].split("::")[0].split("/")[:2]))
    _table("by file", rows, lambda row: row[0].split("::")[0])
    _table("by test", rows, lambda row: row[0])
    print("\nstarted by the tests' own processes")
    for name, count in starts.most_common(MOST_ROWS):
        print(f"{count:7} {name}")


def _table(title: str, rows: Iterable[Any], key: Callable[[Any], str]) -> None:
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0, 0.0])
    for row in rows:
        for place, each in enumerate((1, row[1], row[2], row[3])):
            sums[key(row)][place] += each
    print(f"\n{title:70} {'tests':>6} {'wall s':>8} {'own CPU s':>10} {'children':>9}")
    for name, (count, wall, own, children) in sorted(sums.items(), key=lambda item: -sum(item[1][2:]))[:MOST_ROWS]:
        print(f"{name[:70]:70} {count:6.0f} {wall:8.1f} {own:10.1f} {children:9.1f}")


if __name__ == "__main__":
    main(sys.argv[1])
