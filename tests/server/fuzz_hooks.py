"""For Schemathesis: what is meant to be valid names a directory and an agent that are there, so that it gets inside."""

from __future__ import annotations

import os
from typing import Any

import schemathesis
from schemathesis import GenerationMode


@schemathesis.hook
def map_case(_context: Any, case: Any) -> Any:
    body = case.body
    if isinstance(body, dict) and case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
        if body.get("cwd") is not None:
            body["cwd"] = os.environ["FUZZ_CWD"]
        if body.get("agent") is not None:
            body["agent"] = "claude"
    return case
