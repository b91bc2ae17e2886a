"""Every error message with which the API refuses a request, sent through the real CLI: its text, and Clew's outcome.

One process handles all turns of an agent: after a refused prompt the next one can be sent.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.agents.adapter import Binary, LaunchProfile, StreamResult
from clew.agents.claude import Claude
from clew.agents.claude.stream import ClaudeReader
from clew.core.outcome import Outcome
from clew.core.thread import Permissions, Trust
from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.model.refusals import CLAUDE_REFUSALS, ApiRefusal
from clew.testing.stage import MODEL, real_claude, scrubbed_environ

pytestmark = pytest.mark.process

DOCS = Path(__file__).parents[2] / "docs" / "agents.md"


class RunningAgent:
    """One running CLI that answers turn after turn."""

    def __init__(self, folder: Path, api: ModelApi, binary: Path, **environ: str) -> None:
        adapter, found = Claude(), Binary(str(binary), "test")
        given = scrubbed_environ(folder, api.url) | {"CLAUDE_CODE_MAX_RETRIES": "0"} | environ
        texts = [
            subprocess.run(command, env=given, capture_output=True, text=True, timeout=60, check=True).stdout
            for command in adapter.probe_commands(found)
        ]
        launch = LaunchProfile(
            "6f1d0c52-3a2b-4c7e-9d3e-0a1b2c3d4e5f", False, MODEL, Permissions.ASK, Trust.USER, str(folder)
        )
        command = adapter.command(found, adapter.abilities(*texts), launch)
        self._process = subprocess.Popen(
            command, env=given, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def turn(self, text: str) -> tuple[StreamResult, list[dict[str, Any]]]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"type": "user", "message": {"role": "user", "content": text}}).encode() + b"\n")
        stdin.flush()
        reader, lines = ClaudeReader(), []
        for line in stdout:
            reader.feed(line)
            lines.append(json.loads(line))
            if reader.finished:
                break
        return reader.result(resumed=True, exit_status=None, stderr=""), lines

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait(60)
            assert self._process.stdout is not None
            self._process.stdout.close()


@pytest.fixture(scope="module", params=["scripted", pytest.param("real", marks=pytest.mark.real)])
def agent_process(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    folder = tmp_path_factory.mktemp("refusals")
    binary = real_claude() if request.param == "real" else scripted_agent.install(folder / "agent")
    with ModelApi() as api:
        agent = RunningAgent(folder, api, binary)
        yield agent
        agent.close()


@pytest.mark.parametrize("refusal", CLAUDE_REFUSALS, ids=lambda refusal: refusal.api.message[:40])
def test_error_message_of_the_api_is_reported_and_recognised(agent_process: RunningAgent, refusal: ApiRefusal) -> None:
    result, lines = agent_process.turn(refusal.directive)
    [said] = [line for line in lines if line.get("is_api_error_message")]
    assert said["message"]["content"][0]["text"].startswith(refusal.reported)
    assert refusal.code in (said.get("api_error"), said.get("error"), None)
    assert (result.diagnosis.answered, result.diagnosis.outcome) == (False, refusal.outcome)
    assert result.diagnosis.message.startswith(refusal.reported[:500])


def test_limit_of_the_api_that_names_a_date_resets_then(agent_process: RunningAgent) -> None:
    [refusal] = [each for each in CLAUDE_REFUSALS if "regain access" in each.api.message]
    result, _ = agent_process.turn(refusal.directive)
    assert result.diagnosis.resets_at == 1_796_083_200.0, "2026-12-01 at 00:00 UTC"


@pytest.mark.parametrize("kind", ["scripted", pytest.param("real", marks=pytest.mark.real)])
def test_limit_of_a_subscription_says_when_it_resets(tmp_path: Path, api: ModelApi, kind: str) -> None:
    binary = real_claude() if kind == "real" else scripted_agent.install(tmp_path / "agent")
    agent = RunningAgent(tmp_path, api, binary, ANTHROPIC_API_KEY="", CLAUDE_CODE_OAUTH_TOKEN="dummy")
    try:
        result, lines = agent.turn("!limit 4102444800")
        [event] = [line for line in lines if line["type"] == "rate_limit_event"]
        assert event["rate_limit_info"]["status"] == "rejected"
        assert (result.diagnosis.outcome, result.diagnosis.resets_at) == (Outcome.USAGE_LIMIT, 4_102_444_800.0)
        assert result.diagnosis.message.startswith("You've hit your 5-hour limit · resets")
        result, _ = agent.turn("!limit")
        assert result.diagnosis.outcome is Outcome.OVERLOADED, "the text says that it is not the account's limit"
        assert result.diagnosis.resets_at is None
    finally:
        agent.close()


def test_documentation_has_every_error_message() -> None:
    """docs/agents.md has a row for each, with the CLI's text and Clew's outcome."""
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("| ")]
    cells = {tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]) for row in rows}
    for refusal in CLAUDE_REFUSALS:
        said = "the same" if refusal.cli_text is None else refusal.cli_text
        assert (refusal.api.message, said, str(refusal.outcome)) in {row[:3] for row in cells}, refusal.api.message
