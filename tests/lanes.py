"""Which tests `make unit`, `make test` and `make test-all` run. A pytest plugin; `tests/conftest.py` loads it.

    unit    starts no process
    test    all of that, what the scripted agent shows, and the tests marked `always` with each real component
    rest    what `make test-all` adds: every other test with a real component, and what is marked `rest`
    soak    `make soak` alone: long random runs, and the pairs that `pairwise` leaves out of `rest`

A test's lane follows from its fixtures and marks, so that a new test is in the right one by itself. A test of the unit
lane that starts a process fails, and says so.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

# Each stands for a real component: the Claude and Codex CLIs, PostgreSQL, an S3 server, Chromium.
REAL = frozenset({"real", "both_real", "codex", "codex_house", "postgres", "s3", "browser"})
# Each brings a model API, and with it an agent, a daemon or a command.
STARTS = REAL | {"api"}
UNIT, REST, SOAK, ALWAYS, PROCESS, PAIRWISE = "unit", "rest", "soak", "always", "process", "pairwise"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with _lane(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with _lane(item):
        return (yield)


def _lane(item: pytest.Item) -> AbstractContextManager[None]:
    """Not around a test's teardown: after a worker's last test, the servers of all its tests are stopped there."""
    return NoProcess() if item.get_closest_marker(UNIT) else nullcontext()


def mark(items: Iterable[pytest.Item]) -> None:
    for item in items:
        if _is_one_pair_too_many(item):
            item.add_marker(SOAK)
        if item.get_closest_marker(SOAK) is not None:
            continue
        wanted = names(item)
        if wanted & REAL and item.get_closest_marker(ALWAYS) is None:
            item.add_marker(REST)
        elif not wanted & STARTS and not any(item.get_closest_marker(each) for each in (REST, ALWAYS, PROCESS)):
            item.add_marker(UNIT)


def names(item: pytest.Item) -> set[str]:
    """What a test asks for: its fixtures, the words it is parametrized with, its marks."""
    call = getattr(item, "callspec", None)
    words = {each for each in call.params.values() if isinstance(each, str)} if call is not None else set()
    return {*getattr(item, "fixturenames", ()), *(words & REAL), *(each.name for each in item.iter_markers())}


def _is_one_pair_too_many(item: pytest.Item) -> bool:
    """A test marked `pairwise` on a real agent: each value of its two parameters is enough here; the rest is soak."""
    if item.get_closest_marker(PAIRWISE) is None or not names(item) & REAL:
        return False
    more, fewer = sorted((each.args for each in item.iter_markers("parametrize")), key=lambda args: -len(args[1]))
    place, other = (_place(item, *args) for args in (more, fewer))
    return other != place % len(fewer[1])


def _place(item: pytest.Item, given: str | Sequence[str], values: Sequence[Any]) -> int:
    """Which of the values it has."""
    names = given.split(",") if isinstance(given, str) else given
    wanted = tuple(item.callspec.params[name.strip()] for name in names)  # type: ignore[attr-defined]
    told = [getattr(value, "values", value if len(names) > 1 else (value,)) for value in values]
    return [tuple(each) for each in told].index(wanted)


class NoProcess:
    """While a test of the unit lane runs, whoever starts a process is told that this is not the place."""

    def __init__(self) -> None:
        self._start: Callable[..., Any] = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def __enter__(self) -> None:
        subprocess.Popen._execute_child = _refuse  # type: ignore[attr-defined]

    def __exit__(self, *_: object) -> None:
        subprocess.Popen._execute_child = self._start  # type: ignore[attr-defined]


def _refuse(process: subprocess.Popen[Any], *_: object, **__: object) -> None:
    process._child_created = False  # type: ignore[attr-defined]
    pytest.fail("it starts a process: mark it with pytest.mark.process, then make unit leaves it out")
