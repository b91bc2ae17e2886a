"""The cost of a resumed follow-up, by the bench: the real CLI and the figures of the prompt cache, no clock."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.real
def test_a_resumed_follow_up_costs_half_of_the_full_prompt_and_a_fifth_of_a_long_one() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--json", "reviews"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [result] = json.loads(done.stdout)["results"]
    limits = [(check["limit"], check["measured"]) for check in result["checks"]]
    assert [limit for limit, _ in limits] == [0.5, 0.2]
    assert all(0 < measured <= limit for limit, measured in limits)
    costs, times = result["tables"]
    for table in (costs, times):
        assert [row["lines of the diff"] for row in table["rows"]] == [400, 4000]
    assert all(row["read from cache, resumed"] > row["read from cache, full"] for row in costs["rows"])
    assert all(row["resumed ÷ full"] > 0 for row in times["rows"]), "told; how large it is, is the machine's affair"
