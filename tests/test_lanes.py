"""The lanes: a test's fixtures and marks decide in which lane it runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lanes

TESTS = Path(__file__).parent


def test_a_unit_test_that_starts_a_process_fails() -> None:
    with lanes.NoProcess(), pytest.raises(pytest.fail.Exception, match="mark it with"):
        subprocess.run([sys.executable, "-c", ""])


SERVER = """
import subprocess, sys, pytest

@pytest.fixture(scope="session")
def server():
    yield
    subprocess.run([sys.executable, "-c", ""], check=True)

@pytest.mark.process
def test_with_the_server(server): pass
def test_plain(): pass
"""


@pytest.mark.process
def test_a_server_may_be_stopped_after_a_unit_test(pytester: Any) -> None:
    pytester.makepyfile(SERVER)
    done = pytester.runpytest_inprocess("-q", "-p", "lanes", "-p", "no:cacheprovider", "-p", "no:asyncio")
    done.assert_outcomes(passed=2)


LANES = """
import pytest

@pytest.fixture
def api(): pass

@pytest.fixture
def postgres(): pass

@pytest.fixture(params=["scripted", pytest.param("real", marks=pytest.mark.real)])
def stage(request, api): pass

def test_plain(): pass
def test_with_an_agent(stage): pass
def test_with_a_database(postgres): pass

@pytest.mark.always
def test_with_a_database_always(postgres): pass

@pytest.mark.process
def test_with_a_process(): pass

@pytest.mark.rest
def test_that_takes_long(): pass

@pytest.mark.rest
@pytest.mark.soak
def test_that_takes_very_long(): pass

@pytest.mark.parametrize("where", ["sqlite", "postgres"])
def test_of_both(where): pass

@pytest.mark.pairwise
@pytest.mark.parametrize("one", ["a", "b", "c"])
@pytest.mark.parametrize("two", ["x", "y"])
def test_pairs(stage, one, two): pass

@pytest.mark.pairwise
@pytest.mark.parametrize(("one", "two"), [("a", 1), ("b", 2)])
@pytest.mark.parametrize("three", ["x", "y"])
def test_tuples(stage, one, two, three): pass
"""


def collected(pytester: Any, which: str) -> set[str]:
    said = pytester.runpytest_inprocess(
        "--collect-only", "-q", "-m", which, "-p", "lanes", "-p", "no:cacheprovider", "-p", "no:asyncio"
    )
    return {line.partition("::test_")[2] for line in said.outlines if "::" in line}


def test_a_lane_follows_from_fixtures_and_marks(pytester: Any) -> None:
    pytester.makepyfile(LANES)
    assert collected(pytester, "unit") == {"plain", "of_both[sqlite]"}
    pairs = {f"pairs[scripted-{two}-{one}]" for one in "abc" for two in "xy"}
    pairs |= {f"tuples[scripted-{three}-{one}]" for one in ("a-1", "b-2") for three in "xy"}
    agent = {"with_an_agent[scripted]"}
    assert collected(pytester, "not rest and not soak") == {
        "plain",
        "of_both[sqlite]",
        "with_a_database_always",
        "with_a_process",
        *agent,
        *pairs,
    }
    assert collected(pytester, "rest and not soak") == {
        "with_an_agent[real]",
        "with_a_database",
        "that_takes_long",
        "of_both[postgres]",
        *("pairs[real-x-a]", "pairs[real-y-b]", "pairs[real-x-c]"),
        *("tuples[real-x-a-1]", "tuples[real-y-b-2]"),
    }
    assert collected(pytester, "soak") == {
        "that_takes_very_long",
        *("pairs[real-y-a]", "pairs[real-x-b]", "pairs[real-y-c]"),
        *("tuples[real-y-a-1]", "tuples[real-x-b-2]"),
    }


# Prints the real components of the tests that pytest selects: the names of their fixtures and parameters.
COMPONENTS = """
import sys, pytest

class Printer:
    def pytest_collection_finish(self, session):
        import lanes
        print("components:", *{name for item in session.items for name in lanes.names(item) & lanes.REAL})

sys.exit(pytest.main(sys.argv[1:], plugins=[Printer()]))
"""


@pytest.mark.process
def test_make_test_has_every_real_component() -> None:
    files = [path for path in sorted(TESTS.rglob("test_*.py")) if "mark.always" in path.read_text()]
    lane = ["--collect-only", "-q", "-m", "always and not rest and not soak", "-p", "no:cacheprovider"]
    command = [sys.executable, "-c", COMPONENTS, *lane, *map(str, files)]
    done = subprocess.run(
        command, cwd=TESTS.parent, env={"PYTHONPATH": str(TESTS)}, capture_output=True, text=True, timeout=120
    )
    [line] = [line for line in done.stdout.splitlines() if line.startswith("components:")]
    assert {"real", "codex", "postgres", "s3", "browser"} <= set(line.split()[1:]), done.stdout + done.stderr
