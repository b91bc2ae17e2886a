"""Which tests `make unit`, `make test` and `make test-all` run. A pytest plugin; `tests/conftest.py` loads it.

    unit    tests that start no process
    test    these, the tests with the scripted agent, and the tests with real components that are marked `always`
    rest    what `make test-all` adds: all other tests with a real component, and those marked `rest`
    soak    only `make soak`: long random runs, and the pairs that `pairwise` leaves out of `rest`

A test's lane follows from its fixtures and marks, so that a new test gets the right one automatically. A test of the
unit lane that starts a process fails with a message that says so.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

# Names of fixtures and parameters that use a real component: the CLIs, PostgreSQL, an S3 server, Chromium.
REAL = frozenset({"real", "both_real", "codex", "codex_house", "postgres", "s3", "browser"})
# Also those with a model API: their tests start an agent, a daemon or a command.
STARTS_PROCESSES = REAL | {"api"}
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
    """Not used around a test's teardown: after a worker's last test, the servers of all its tests are stopped there."""
    return NoProcess() if item.get_closest_marker(UNIT) else nullcontext()


def mark(items: Iterable[pytest.Item]) -> None:
    for item in items:
        if _is_left_out_pair(item):
            item.add_marker(SOAK)
        if item.get_closest_marker(SOAK) is not None:
            continue
        wanted = names(item)
        if wanted & REAL and item.get_closest_marker(ALWAYS) is None:
            item.add_marker(REST)
        elif not wanted & STARTS_PROCESSES and not any(
            item.get_closest_marker(each) for each in (REST, ALWAYS, PROCESS)
        ):
            item.add_marker(UNIT)


def names(item: pytest.Item) -> set[str]:
    """What a test uses: its fixtures, its parameters that name a real component, and its marks."""
    call = getattr(item, "callspec", None)
    words = {each for each in call.params.values() if isinstance(each, str)} if call is not None else set()
    return {*getattr(item, "fixturenames", ()), *(words & REAL), *(each.name for each in item.iter_markers())}


def _is_left_out_pair(item: pytest.Item) -> bool:
    """A test marked `pairwise` on a real agent: here each value of its two parameters is tried once; the other
    combinations are in the soak lane."""
    if item.get_closest_marker(PAIRWISE) is None or not names(item) & REAL:
        return False
    more, fewer = sorted((each.args for each in item.iter_markers("parametrize")), key=lambda args: -len(args[1]))
    place, other = (_place(item, *args) for args in (more, fewer))
    return other != place % len(fewer[1])


def _place(item: pytest.Item, given: str | Sequence[str], values: Sequence[Any]) -> int:
    """The index of the test's value among the parameter's values."""
    names = given.split(",") if isinstance(given, str) else given
    wanted = tuple(item.callspec.params[name.strip()] for name in names)  # type: ignore[attr-defined]
    choices = [getattr(value, "values", value if len(names) > 1 else (value,)) for value in values]
    return [tuple(each) for each in choices].index(wanted)


class NoProcess:
    """While a test of the unit lane runs, starting a process fails the test."""

    def __init__(self) -> None:
        self._start: Callable[..., Any] = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def __enter__(self) -> None:
        subprocess.Popen._execute_child = _refuse  # type: ignore[attr-defined]

    def __exit__(self, *_: object) -> None:
        subprocess.Popen._execute_child = self._start  # type: ignore[attr-defined]


def _refuse(process: subprocess.Popen[Any], *_: object, **__: object) -> None:
    process._child_created = False  # type: ignore[attr-defined]
    pytest.fail("the test starts a process: mark it with pytest.mark.process, then make unit leaves it out")
