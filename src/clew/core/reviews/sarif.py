"""A review as a SARIF 2.1.0 log, for code scanning services and editors.

The log is made from the review's JSON object (docs/http.md), because secrets are blanked there first: a URI or a
fingerprint that was made before could not be blanked any more.

The whole review is one run of SARIF. Its rounds are the run's invocations, its findings the results. Each result says
how it differs from the rounds before the last one (`baselineState`): a fixed finding is `absent`. A withdrawn finding
is suppressed.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote_from_bytes

from clew.core.reviews.review import FindingState, RoundStatus, Severity

MEDIA_TYPE = "application/sarif+json"
VERSION = "2.1.0"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "SRCROOT"  # the usual name of the directory that locations are relative to
FINGERPRINT = "clewFinding/v1"

LEVELS = {
    Severity.CRITICAL: "error",
    Severity.HIGH: "error",
    Severity.MEDIUM: "warning",
    Severity.LOW: "note",
    Severity.INFO: "note",
}
_MEANING = {
    Severity.CRITICAL: "Data loss, a vulnerability, or nothing works.",
    Severity.HIGH: "Wrong in ordinary use.",
    Severity.MEDIUM: "Wrong in edge cases, or hard to maintain.",
    Severity.LOW: "A small fault.",
    Severity.INFO: "Worth knowing; nothing needs to be done.",
}
# In a message, {0} stands for an argument, and [words](address) is a link. A finding's text has neither.
_PLACEHOLDER = re.compile(r"\{(\d+)\}")
_LINK = re.compile(r"\[(?=[^\[\]]*\]\()")


def sarif_log(review: Mapping[str, Any], version: str) -> dict[str, Any]:
    """`review` is the JSON object of the review, `version` that of Clew."""
    return {"$schema": SCHEMA, "version": VERSION, "runs": [_run(review, version)]}


def _run(review: Mapping[str, Any], version: str) -> dict[str, Any]:
    used = [severity for severity in Severity if any(each["severity"] == severity for each in review["findings"])]
    rounds = review["rounds"]
    run = {
        "tool": {"driver": {"name": "Clew", "version": version, "rules": [_rule(severity) for severity in used]}},
        "automationDetails": {"id": f"clew/review/{review['id']}"},
        "originalUriBaseIds": {ROOT: {"uri": _file_uri(review["cwd"])}},
        "invocations": [_invocation(each) for each in rounds if each["status"] != RoundStatus.RUNNING],
        "results": _results(review, used),
        "properties": {
            "reviewId": review["id"],
            "round": review["round"],
            **{key: review[key] for key in ("scope", "base", "paths", "focus") if review[key]},
        },
    }
    heads = [each["head_commit"] for each in rounds if each["head_commit"]]
    if heads:
        run["versionControlProvenance"] = [
            {"repositoryUri": _file_uri(review["cwd"]), "revisionId": heads[-1], "mappedTo": {"uriBaseId": ROOT}}
        ]
    return run


def _rule(severity: Severity) -> dict[str, Any]:
    """A reviewer has no list of rules, so that a finding's severity stands for its rule."""
    return {
        "id": _rule_id(severity),
        "name": f"ReviewFinding{severity.value.capitalize()}",
        "shortDescription": {"text": f"A finding of a review, of severity {severity.value}."},
        "fullDescription": {"text": _MEANING[severity]},
        "defaultConfiguration": {"level": LEVELS[severity]},
    }


def _rule_id(severity: Severity) -> str:
    return f"review/{severity.value}"


def _invocation(round_: Mapping[str, Any]) -> dict[str, Any]:
    shown = {key: round_[key] for key in ("round", "agent", "model", "summary", "message") if round_[key]}
    made: dict[str, Any] = {"executionSuccessful": round_["status"] == RoundStatus.DONE, "properties": shown}
    for name, key in (("startTimeUtc", "started_at"), ("endTimeUtc", "ended_at")):
        if round_[key] is not None:
            made[name] = round_[key]
    if round_["error"] is not None:
        made["toolExecutionNotifications"] = [
            {"level": "error", "message": {"text": _message(round_["error"]["message"])}}
        ]
    return made


def _results(review: Mapping[str, Any], used: Sequence[Severity]) -> list[dict[str, Any]]:
    seen: Counter[str] = Counter()
    results = []
    for finding in review["findings"]:
        digest = _digest(finding)
        seen[digest] += 1
        fingerprints = {FINGERPRINT: f"{digest}:{seen[digest]}"}
        results.append(_result(review, finding, used) | {"partialFingerprints": fingerprints})
    return results


def _result(review: Mapping[str, Any], finding: Mapping[str, Any], used: Sequence[Severity]) -> dict[str, Any]:
    severity, state = Severity(finding["severity"]), FindingState(finding["state"])
    about = {"reviewId": review["id"], "finding": finding["id"], "severity": severity.value, "round": finding["round"]}
    about |= {"state": state.value, "stateRound": finding["state_round"]}
    about |= {key: finding[key] for key in ("suggestion", "note", "file") if finding[key]}
    made: dict[str, Any] = {
        "ruleId": _rule_id(severity),
        "ruleIndex": used.index(severity),
        "level": LEVELS[severity],
        "message": {"text": _message(_words(finding))},
        "locations": _locations(review, finding),
        "baselineState": _baseline_state(review, finding, state),
        "properties": about,
    }
    if state is FindingState.WITHDRAWN:
        suppression = {"kind": "external", "status": "accepted"}
        if finding["note"]:
            suppression["justification"] = finding["note"]
        made["suppressions"] = [suppression]
    return made


def _baseline_state(review: Mapping[str, Any], finding: Mapping[str, Any], state: FindingState) -> str:
    if state is FindingState.FIXED:
        return "absent"
    return "new" if finding["round"] == review["round"] else "unchanged"


def _words(finding: Mapping[str, Any]) -> str:
    """The title first: where space is limited, viewers show the first sentence."""
    title, detail = finding["title"], finding["detail"]
    sentence = title if title.endswith((".", "!", "?")) else f"{title}."
    parts = [detail] if detail.startswith(title) else [sentence, detail]
    if finding["suggestion"]:
        parts.append(f"Suggestion: {finding['suggestion']}")
    return "\n\n".join(parts)


def _message(text: str) -> str:
    return _LINK.sub(r"\\[", _PLACEHOLDER.sub(r"{{\1}}", text))


def _locations(review: Mapping[str, Any], finding: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Empty for a finding about the whole, and for a file outside the work tree: it is named in the properties."""
    path = _inside(review["cwd"], finding["file"] or "")
    if path is None:
        return []
    location: dict[str, Any] = {"artifactLocation": {"uri": _quoted(path), "uriBaseId": ROOT}}
    if finding["line"]:
        location["region"] = {"startLine": finding["line"]}
    return [{"physicalLocation": location}]


def _inside(top: str, file: str) -> str | None:
    """The path relative to the work tree. A reviewer names a file as it likes."""
    path = posixpath.normpath(posixpath.join(top, file))
    root = top.rstrip("/") + "/"
    return path.removeprefix(root) if file and path.startswith(root) else None


def _digest(finding: Mapping[str, Any]) -> str:
    """Of what stays the same in all rounds, and in another review that finds the same: not the line, not the detail."""
    text = "\0".join((finding["file"] or "", " ".join(finding["title"].split())))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _file_uri(top: str) -> str:
    return f"file://{_quoted(top.rstrip('/'))}/"


def _quoted(path: str) -> str:
    """The path as part of a URI. The name of a file may be no valid UTF-8: its bytes are quoted as they are."""
    try:
        content = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        content = path.encode("utf-8", "replace")
    return quote_from_bytes(content, safe="/")
