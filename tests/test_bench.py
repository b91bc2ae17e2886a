"""The benches that need no real agent are run in their short form, so that a broken one is noticed.

`jobs` takes too long even in its short form, and `startup` only measures commands that other tests run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.rest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", ["decision", "store", "sessions", "threads", "push", "delivery", "hooks"])
def test_quick_bench_measures_something(name: str) -> None:
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
