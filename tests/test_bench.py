"""Most benches are run in their short form, so that a broken one is noticed.

`jobs`, `backlog`, `reviews`, `cost` and `overhead` take too long even in their short form, and `startup` only measures
commands that other tests run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.rest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "name", ["decision", "store", "sessions", "session_read", "threads", "push", "delivery", "idle", "hooks"]
)
def test_quick_bench_measures_something(name: str) -> None:
    run_quick_bench(name)


@pytest.mark.real
@pytest.mark.parametrize("name", ["rewind", "model_switch", "rules"])
def test_quick_bench_with_the_real_cli_shows_each_turn_once(name: str) -> None:
    """A turn that is not shown, or shown twice, exceeds a limit of these benches."""
    run_quick_bench(name)


@pytest.mark.real
def test_quick_bench_with_the_real_cli_has_an_answer_from_every_way() -> None:
    """A way that does not answer the prompt, or leaves a process running, ends the bench with an error."""
    run_quick_bench("warm")


def run_quick_bench(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--json", name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert name in done.stdout
    assert json.loads(done.stdout)
