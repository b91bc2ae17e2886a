"""`make mutations` reports what no test notices, and does not mistake its own errors for a failed test."""

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

print(mutations.unnoticed([mutations.Mutant(module, f"{module} unbroken", nothing) for module in mutations.FUNCTIONS]))
mutations.unnoticed([mutations.Mutant("outcome", "an impossible break", impossible)])
"""


def test_unnoticed_breaks_are_reported_and_a_break_that_cannot_be_made_is_an_error() -> None:
    environ = {"PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([sys.executable, "-c", TRIES], env=environ, capture_output=True, text=True, timeout=250)
    modules = ["decision", "history", "outcome", "pins", "session"]
    assert sorted(ast.literal_eval(done.stdout)) == [f"{module} unbroken" for module in modules]
    assert "the tests did not run with an impossible break: exit status 70" in done.stderr
