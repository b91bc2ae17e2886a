"""For Schemathesis: what is meant to be valid names a directory, an agent and a job that are there, so that it gets
inside. The job is one that is over: the events of one that waits for a worker never end."""

from __future__ import annotations

import os
from typing import Any

import schemathesis
from schemathesis import GenerationMode
from schemathesis.core.parameters import ParameterLocation


@schemathesis.hook
def map_case(_context: Any, case: Any) -> Any:
    body = case.body
    if isinstance(body, dict) and case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
        if body.get("cwd") is not None:
            body["cwd"] = os.environ["FUZZ_CWD"]
        if body.get("agent") is not None:
            body["agent"] = "claude"
    if case.operation.path == "/api/jobs/{job}/events" and _is_well_formed(case):
        case.path_parameters = {"job": os.environ["FUZZ_JOB"]}
    return case


def _is_well_formed(case: Any) -> bool:
    """Its path is; other parts may be wrong on purpose."""
    made = case.meta.components.get(ParameterLocation.PATH) if case.meta is not None else None
    return made is None or made.mode is GenerationMode.POSITIVE
