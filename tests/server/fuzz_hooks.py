"""For Schemathesis: requests that are meant to be valid name an existing directory, agent, job and review, so that they
reach the code behind the validation. The job has ended: the event stream of a waiting job never ends."""

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
        if body.get("project") is not None:
            body["project"] = os.environ["FUZZ_CWD"]
        if case.operation.path == "/api/reviews":
            _fix_review(body)
        _fix_branching(case, body)
        if case.operation.path.startswith("/api/remotes/"):
            body["url"] = f"file://{os.environ['FUZZ_CWD']}/remote"  # no other machine is asked
        if case.operation.path == "/api/archives/clean":
            body["dry_run"] = True  # the review must not be archived
        if case.operation.path == "/api/archives" and body.get("thread") == os.environ["FUZZ_KEPT"]:
            body["thread"] = "nobody"
    if case.operation.path == "/api/jobs/{job}/events" and _is_well_formed(case):
        case.path_parameters = {"job": os.environ["FUZZ_JOB"]}
    if (
        case.operation.path == "/api/jobs/{job}/retry"
        and (case.path_parameters or {}).get("job") == os.environ["FUZZ_JOB"]
    ):
        case.path_parameters = {"job": "nobody"}  # the job must not be started again
    if case.method.upper() == "DELETE" and (case.path_parameters or {}).get("thread") == os.environ["FUZZ_KEPT"]:
        case.path_parameters = {**case.path_parameters, "thread": "nobody"}  # the review must not be deleted
    if case.method.upper() == "DELETE" and str((case.query or {}).get("dry_run")).lower() == "true":
        case.query.pop("dry_run")  # Schemathesis would expect that what was deleted is gone
    if "{review}" in case.operation.path and _is_well_formed(case):
        case.path_parameters = {**case.path_parameters, "review": os.environ["FUZZ_REVIEW"]}
    return case


def _fix_review(body: dict[str, Any]) -> None:
    """Makes it a first round, or the next one of the existing review."""
    if body.get("previous_review_id") is not None:
        body["previous_review_id"] = os.environ["FUZZ_REVIEW"]
        for name in ("cwd", "paths", "base", "scope", "focus"):
            body.pop(name, None)
        return
    body["cwd"] = os.environ["FUZZ_REPO"]
    for name in ("message", "base", "paths", "scope"):
        body.pop(name, None)


def _fix_branching(case: Any, body: dict[str, Any]) -> None:
    """Makes it a replay or a merge of existing threads."""
    if case.operation.path == "/api/threads/{thread}/replay" and _is_well_formed(case):
        case.path_parameters = {"thread": os.environ["FUZZ_KEPT"]}
        if body.get("with_agent") is not None:
            body["with_agent"] = "claude"
    if case.operation.path == "/api/merge":
        body["a"], body["b"] = os.environ["FUZZ_KEPT"], os.environ["FUZZ_OTHER"]


def _is_well_formed(case: Any) -> bool:
    """Whether its path is; other parts may be wrong on purpose."""
    made = case.meta.components.get(ParameterLocation.PATH) if case.meta is not None else None
    return made is None or made.mode is GenerationMode.POSITIVE
