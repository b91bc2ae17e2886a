"""`make mutations` tells what no test notices, and does not take its own faults for a test that noticed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.rest]

TESTS = Path(__file__).parent
TRIES = """
import mutations

def nothing(tree): pass
def impossible(tree): raise LookupError("it is not there")

print(mutations.unnoticed([mutations.Mutant(module, f"{module} as it is", nothing) for module in mutations.FUNCTIONS]))
mutations.unnoticed([mutations.Mutant("outcome", "an impossible break", impossible)])
"""


def test_what_no_test_notices_is_told_and_a_break_that_cannot_be_made_is_a_fault() -> None:
    environ = {"PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([sys.executable, "-c", TRIES], env=environ, capture_output=True, text=True, timeout=250)
    assert sorted(ast.literal_eval(done.stdout)) == ["decision as it is", "outcome as it is", "pins as it is"]
    assert "the tests did not run with an impossible break: exit status 70" in done.stderr
