"""A review as SARIF 2.1.0: valid by its schema, whatever the review holds."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urljoin

import pytest

from clew.api.reviews import ReviewState, review_shape, sarif
from clew.core.ids import ThreadId
from clew.core.reviews.review import (
    Finding,
    FindingState,
    FindingVerdict,
    Review,
    ReviewAnswer,
    ReviewRound,
    RoundStatus,
    Severity,
    numbered,
)
from clew.core.runs.run import Owner
from clew.hosts.reviews.reviews import review_thread
from reviews.sarif_schema import check_sarif

pytestmark = pytest.mark.process  # `make unit` does not fetch the schema
TOP = "/home/me/my shop"


def found(title: str = "Wrong", **more: Any) -> Finding:
    given = {"severity": Severity.HIGH, "file": "src/a.py", "line": 2, "detail": "It should be two."} | more
    return Finding(id="", title=title, **given)


def round_of(number: int, findings: list[Finding] | None = None, already: int = 0, **more: Any) -> ReviewRound:
    earlier = more.pop("earlier", ())
    answer = None if findings is None else ReviewAnswer("Looked.", numbered(findings, already, number), tuple(earlier))
    given = {"head_commit": "c0ffee", "started_at": 1e9, "ended_at": 1e9 + 60, "status": RoundStatus.DONE} | more
    return ReviewRound(
        "2026-11-15-001", number, agent="claude", model="m", owner=Owner("h", 1, 1.0), answer=answer, **given
    )


def exported(*rounds: ReviewRound, **more: Any) -> Any:
    review = Review("2026-11-15-001", ThreadId("t"), TOP, **more)
    state = ReviewState(review, review_thread(ThreadId("t"), "review", TOP, "claude", "m", 1e9), rounds)
    return check_sarif(sarif(review_shape(state, {}).to_json()))


def test_a_finding_is_a_result_with_its_place_and_its_level() -> None:
    run = exported(round_of(1, [found(suggestion="Return 2.")]), focus="numbers", base="main")
    [result] = run["results"]

    assert (result["ruleId"], result["ruleIndex"], result["level"]) == ("review/high", 0, "error")
    assert result["message"]["text"] == "Wrong.\n\nIt should be two.\n\nSuggestion: Return 2."
    assert result["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "src/a.py", "uriBaseId": "SRCROOT"},
                "region": {"startLine": 2},
            }
        }
    ]
    assert (result["baselineState"], "suppressions" in result) == ("new", False)
    assert result["properties"] | {"finding": "F1", "reviewId": "2026-11-15-001", "round": 1} == result["properties"]
    assert run["originalUriBaseIds"] == {"SRCROOT": {"uri": "file:///home/me/my%20shop/"}}
    assert run["automationDetails"] == {"id": "clew/review/2026-11-15-001"}
    assert run["versionControlProvenance"][0]["revisionId"] == "c0ffee"
    assert run["tool"]["driver"]["name"] == "Clew" and "informationUri" not in run["tool"]["driver"]
    assert run["properties"]["focus"] == "numbers"


def test_each_severity_has_its_level_and_its_rule() -> None:
    run = exported(round_of(1, [found(severity=severity) for severity in reversed(Severity)]))
    levels = {each["ruleId"]: each["level"] for each in run["results"]}
    assert levels == {
        "review/critical": "error",
        "review/high": "error",
        "review/medium": "warning",
        "review/low": "note",
        "review/info": "note",
    }
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        rule = rules[result["ruleIndex"]]
        assert (rule["id"], rule["defaultConfiguration"]["level"]) == (result["ruleId"], result["level"])


def test_fixed_withdrawn_and_open_findings_differ_and_keep_their_fingerprints() -> None:
    first = round_of(1, [found("One"), found("Two"), found("Three")])
    verdicts = [
        FindingVerdict("F1", FindingState.FIXED, "It is."),
        FindingVerdict("F2", FindingState.WITHDRAWN, "It was intended."),
    ]
    before = exported(first)["results"]
    after = exported(first, round_of(2, [found("Four"), found("Three")], 3, earlier=verdicts))["results"]

    assert [each["baselineState"] for each in before] == ["new"] * 3
    assert [each["baselineState"] for each in after] == ["absent", "unchanged", "unchanged", "new", "new"]
    assert [each.get("suppressions") for each in after[:3]] == [
        None,
        [{"kind": "external", "status": "accepted", "justification": "It was intended."}],
        None,
    ]
    prints = [each["partialFingerprints"]["clewFinding/v1"] for each in after]
    assert prints[:3] == [each["partialFingerprints"]["clewFinding/v1"] for each in before]
    assert len(set(prints)) == 5, "two findings with the same words are two"


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("a b/é#?.py", "a b/é#?.py"),
        ("c:d.py", "c:d.py"),
        ("./x/../y.py", "y.py"),
        (f"{TOP}/z.py", "z.py"),
        ("b\udce9d.py", None),
        ("h\ud83dlf.py", "h?lf.py"),
    ],
)
def test_the_path_of_a_file_is_quoted(file: str, uri: str | None) -> None:
    [result] = exported(round_of(1, [found(file=file)]))["results"]
    quoted = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert quoted.isascii() and not set(quoted) & set(" #?:")
    assert quoted == "b%E9d.py" if uri is None else unquote(quoted) == uri
    assert urljoin("file:///r/", quoted).startswith("file:///r/")


@pytest.mark.parametrize("file", ["../out.py", "/etc/passwd", "..", "", None])
def test_a_finding_outside_the_work_tree_or_about_the_whole_has_no_location(file: str | None) -> None:
    [result] = exported(round_of(1, [found(file=file, line=None)]))["results"]
    assert result["locations"] == []
    assert result["properties"].get("file") == (file or None)


def test_words_that_mean_something_in_a_message_are_escaped() -> None:
    [result] = exported(round_of(1, [found(detail="Use {0}, item['x'], {} and [this](http://evil).")]))["results"]
    assert result["message"]["text"].endswith("Use {{0}}, item['x'], {} and \\[this](http://evil).")


def test_rounds_are_invocations_and_a_failed_one_says_why() -> None:
    failed = round_of(2, status=RoundStatus.FAILED, error="It timed out.", error_code="timeout", head_commit=None)
    running = round_of(3, status=RoundStatus.RUNNING, ended_at=None)
    run = exported(round_of(1, []), failed, running)

    assert [each["executionSuccessful"] for each in run["invocations"]] == [True, False]
    assert run["invocations"][0]["endTimeUtc"] == "2001-09-09T01:47:40.000Z"
    assert run["invocations"][1]["toolExecutionNotifications"][0]["message"]["text"] == "It timed out."
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])


def test_a_review_without_rounds_is_valid() -> None:
    run = exported()
    assert (run["results"], run["invocations"], "versionControlProvenance" in run) == ([], [], False)
