"""Checks a SARIF log against the schema of SARIF 2.1.0, which `make sarif` fetches."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

from jsonschema import Draft4Validator

SCHEMA = Path(sys.prefix) / "sarif-2.1.0.json"


@functools.cache
def _validator() -> Draft4Validator:
    assert SCHEMA.is_file(), f"{SCHEMA} is missing: `make sarif` fetches it."
    schema = json.loads(SCHEMA.read_text())
    Draft4Validator.check_schema(schema)
    return Draft4Validator(schema, format_checker=Draft4Validator.FORMAT_CHECKER)


def check_sarif(log: Any) -> Any:
    """The only run of a valid log."""
    wrong = [f"{error.json_path}: {error.message}" for error in _validator().iter_errors(log)]
    assert not wrong, wrong[:5]
    [run] = log["runs"]
    return run
