"""A repository to review, and a reviewer with scripted answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.api.client import Client
from clew.core.reviews.review import ReviewRound
from clew.hosts.reviews.reviews import ReviewSpec, RoundOptions
from clew.testing.model.scripts import Reply, Request, Text, newest_user_text
from clew.testing.stage import MODEL


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@localhost", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def repository(folder: Path, files: dict[str, str] | None = None) -> Path:
    """A repository with one commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in (files or {"a.py": "def a():\n    return 1\n", "b.py": "b = 2\n"}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def finding(title: str = "It returns the wrong number", **more: Any) -> dict[str, Any]:
    return {
        "severity": "high",
        "file": "a.py",
        "line": 2,
        "title": title,
        "detail": "It should be two.",
        "suggestion": "Return 2.",
    } | more


def answer(
    findings: Sequence[dict[str, Any]] = (), earlier: Sequence[dict[str, Any]] = (), summary: str = "Looked at it."
) -> str:
    return json.dumps({"summary": summary, "findings": list(findings), "earlier": list(earlier)})


class Reviewer:
    """Gives the scripted answers and stores the prompts. When no answer is left, it finds nothing."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, request: Request) -> Reply | None:
        if not request.is_main:
            return None
        self.asked.append(newest_user_text(request.messages))
        return Text(self.answers.pop(0) if self.answers else answer())


async def start(client: Client, folder: Path, **more: Any) -> ReviewRound:
    """Runs the first round."""
    return await (await client.reviews.start(ReviewSpec(str(folder), "claude", MODEL, **more))).finish()


async def follow(client: Client, review_id: str, message: str = "", **more: Any) -> ReviewRound:
    """Runs the next round."""
    return await (await client.reviews.follow(review_id, RoundOptions(message, **more))).finish()
