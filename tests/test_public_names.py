"""The public surface: the names that `import clew` offers, and the modules that it does not import."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import clew

pytestmark = pytest.mark.process

PUBLIC = [
    "AgentError",
    "AgentFailed",
    "AgentMissing",
    "AgentRetried",
    "Answer",
    "Answered",
    "AttemptStarted",
    "AuthFailed",
    "BillingFailed",
    "Busy",
    "Cancelled",
    "ClewError",
    "Client",
    "Compacted",
    "ConfigError",
    "Conflict",
    "Event",
    "Explanation",
    "FellBack",
    "ImageContent",
    "MessageSaid",
    "NotFound",
    "Permissions",
    "Person",
    "Question",
    "QuestionAnswered",
    "QuestionAsked",
    "QuestionWithdrawn",
    "Reply",
    "Run",
    "RunEnded",
    "RunQueued",
    "Scope",
    "SecretFound",
    "SessionStarted",
    "StoreError",
    "TextStreamed",
    "TextWithdrawn",
    "Thread",
    "TimedOut",
    "TokensCounted",
    "ToolFinished",
    "ToolStarted",
    "Trust",
    "Turn",
    "Usage",
    "UsageError",
    "UsageLimit",
    "Warned",
    "WrongModel",
    "open",
    "session_key",
    "__version__",
]


def test_the_public_names_are_these_and_no_others() -> None:
    assert clew.__all__ == PUBLIC
    assert dir(clew) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_can_be_imported_under_its_own_name(name: str) -> None:
    value = getattr(clew, name)
    assert value is not None
    assert name == "Person" or getattr(value, "__name__", name) == name  # Person is an alias of a function type


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = clew.nonsense  # type: ignore[attr-defined]


def test_every_event_and_error_is_public() -> None:
    events = importlib.import_module("clew.core.runs.events")
    errors = importlib.import_module("clew.errors")
    assert {cls.__name__ for cls in events.KINDS.values()} <= set(PUBLIC)
    assert {name for name, value in vars(errors).items() if isinstance(value, type)} <= set(PUBLIC)


@pytest.mark.parametrize("heavy", ["asyncio", "sqlite3", "msgspec", "click", "rich"])
def test_importing_clew_does_not_import(heavy: str) -> None:
    code = f"import clew, sys; sys.exit({heavy!r} in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(clew.__file__).parent / "py.typed").is_file()


async def test_a_keyword_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    """A wrong name for `permissions` must not create a thread with the default permissions."""
    async with clew.open(tmp_path / "home", environ={"HOME": str(tmp_path)}) as client:
        thread = await client.thread("t", cwd=tmp_path, permissions="read-only")
        wrong: dict[str, Any] = {"permission": "read-only"}
        for call in (
            client.thread("t", **wrong),
            client.thread("new", **wrong),
            client.new_thread("new", **wrong),
            thread.change(**wrong),
            thread.ask("hello", **wrong),
            client.views.page(**wrong),
            client.views.threads(**wrong),
            client.views.search("hello", **wrong),
        ):
            with pytest.raises(TypeError, match="permission"):
                await call
        assert [each.name for each in await client.threads()] == ["t"]


async def test_a_run_that_continues_after_a_limit_cannot_be_given_another_agent_or_session(tmp_path: Path) -> None:
    """It continues in the session of the limited run, so an option that contradicts this must not be ignored."""
    async with clew.open(tmp_path / "home", environ={"HOME": str(tmp_path)}) as client:
        thread = await client.thread("t", cwd=tmp_path)
        others: list[dict[str, Any]] = [{"fresh_session": True}, {"agent": "codex"}, {"instructions": "x"}]
        for other in others:
            with pytest.raises(TypeError, match=next(iter(other))):
                await thread.continue_after_limit("a run", **other)
