"""Sessions of mcp-claude-reviewer, whole files as that tool writes them: every field of its types, in its order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ID = "2025-07-01-003"
DIFF = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def a():\n-    return 1\n+    return 3\n"

REQUEST: dict[str, Any] = {
    "summary": "Added a discount to the cart.",
    "relevant_docs": ["docs/design.md", "docs/cart.md"],
    "focus_areas": ["numbers", "error handling"],
    "test_command": "npm test",
}
COMMENT: dict[str, Any] = {
    "type": "specific",
    "file": "a.py",
    "line": 2,
    "severity": "critical",
    "category": "bug",
    "comment": "It returns the wrong number. Every order costs three.\nSee the caller in b.py.",
    "suggested_fix": "Return 2.",
}
GENERAL: dict[str, Any] = {
    "type": "general",
    "severity": "suggestion",
    "category": "missing_feature",
    "comment": "Consider a test for an empty cart",
}
FIRST: dict[str, Any] = {
    "review_id": ID,
    "timestamp": "2025-07-01T10:05:00.000Z",
    "status": "needs_changes",
    "round": 1,
    "design_compliance": {
        "follows_architecture": False,
        "major_violations": [
            {
                "issue": "The cart knows the customer",
                "description": "The design keeps the two apart.",
                "impact": "major",
                "recommendation": "Pass the discount in.",
            }
        ],
    },
    "comments": [COMMENT, GENERAL],
    "missing_requirements": [
        {
            "requirement": "Discounts need an end date",
            "design_doc_reference": "docs/design.md#discounts",
            "severity": "minor",
        }
    ],
    "summary": {
        "design_violations": 1,
        "critical_issues": 1,
        "major_issues": 0,
        "minor_issues": 0,
        "suggestions": 1,
    },
    "test_results": {
        "passed": False,
        "summary": "1 of 12 tests failed",
        "failing_tests": ["cart › empty"],
        "coverage": "92%",
    },
    "overall_assessment": "needs_changes",
    "__claudeSessionId": "11111111-1111-4111-8111-111111111111",
    "__claudeModel": "opus",
}
SECOND: dict[str, Any] = {
    "review_id": ID,
    "timestamp": "2025-07-01T11:00:00.000Z",
    "status": "approved",
    "round": 2,
    "design_compliance": {"follows_architecture": True, "major_violations": []},
    "comments": [GENERAL],
    "missing_requirements": [],
    "summary": {
        "design_violations": 0,
        "critical_issues": 0,
        "major_issues": 0,
        "minor_issues": 0,
        "suggestions": 1,
    },
    "test_results": {"passed": None, "summary": "No test command was provided"},
    "overall_assessment": "lgtm",
    "__claudeSessionId": "22222222-2222-4222-8222-222222222222",
    "__claudeModel": "opus",
}
SESSION: dict[str, Any] = {
    "review_id": ID,
    "created_at": "2025-07-01T10:00:00.000Z",
    "updated_at": "2025-07-01T11:00:01.000Z",
    "status": "merged",
    "rounds": [FIRST, SECOND],
    "request": REQUEST,
    "claudeSessionIds": {"opus": "22222222-2222-4222-8222-222222222222"},
}
NOTES = "All is well now."


def as_file(body: Any) -> bytes:
    """As JSON.stringify(body, null, 2) writes it."""
    return json.dumps(body, indent=2, ensure_ascii=False).encode()


def session_files(**changes: Any) -> dict[str, bytes]:
    """All files of a closed session. `changes` are fields of session.json."""
    return {
        "session.json": as_file(SESSION | changes),
        "request.json": as_file(REQUEST),
        "changes.diff": DIFF.encode(),
        "round-1/review.json": as_file(FIRST),
        "round-2/review.json": as_file(SECOND),
        "final-notes.txt": NOTES.encode(),
    }


def session_folder(project: Path, **changes: Any) -> Path:
    """The folder of a session in a project, with the tool's pointer to the newest one."""
    folder = project / ".reviews" / "sessions" / ID
    for name, content in session_files(**changes).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (project / ".reviews" / "latest.json").write_bytes(as_file({"review_id": ID}))
    return folder
