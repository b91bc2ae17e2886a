"""How Codex's error texts are classified. The texts are the real binary's."""

from __future__ import annotations

import time

import pytest

from clew.agents.codex.diagnosis import diagnose
from clew.core.outcome import Diagnosis, Outcome

SESSION = "01a1deea-df82-76f2-9bd3-794707014e7d"
OTHER = "01a1deeb-4184-7843-8684-7b5ff15bbc2f"

SAID = [
    (
        "unexpected status 401 Unauthorized: Incorrect API key provided, url: http://127.0.0.1:1/v1/responses",
        Outcome.AUTH,
    ),
    ("unexpected status 403 Forbidden: nope, url: http://127.0.0.1:1/v1/responses", Outcome.AUTH),
    ("Missing environment variable: `OPENAI_API_KEY`.", Outcome.AUTH),
    ("exceeded retry limit, last status: 429 Too Many Requests", Outcome.USAGE_LIMIT),
    ("Quota exceeded. Check your plan and billing details.", Outcome.BILLING),
    ("To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.", Outcome.BILLING),
    (
        "unexpected status 404 Not Found: The model `gpt-nope` does not exist or you do not have access to it., url: "
        "http://127.0.0.1:1/v1/responses",
        Outcome.WRONG_MODEL,
    ),
    (
        '{"detail": "The \'gpt-nope\' model is not supported when using Codex with a ChatGPT account."}',
        Outcome.WRONG_MODEL,
    ),
    (
        "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit "
        "https://chatgpt.com/settings/usage to purchase more credits or try again later.",
        Outcome.USAGE_LIMIT,
    ),
    ("rate limit exceeded: Rate limit reached. Please try again in 1s.", Outcome.USAGE_LIMIT),
    ("We’re currently experiencing high demand, which may cause temporary errors.", Outcome.OVERLOADED),
    ("Selected model is at capacity. Please try a different model.", Outcome.OVERLOADED),
    (
        "unexpected status 529 <unknown status code>: Overloaded, url: http://127.0.0.1:1/v1/responses",
        Outcome.OVERLOADED,
    ),
    ("Connection failed: error sending request", Outcome.NETWORK),
    ("stream disconnected before completion: oops", Outcome.NETWORK),
    (
        "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before "
        "retrying.",
        Outcome.OVERFLOW,
    ),
    ('{"error": {"code": "context_length_exceeded", "message": "Your input is too long"}}', Outcome.OVERFLOW),
    ('{"error": {"code": "x", "message": "No tool output found for function call call_1."}}', Outcome.POISONED),
    ("Invalid prompt", None),
]


def end(said: str = "", stderr: str = "", *, wanted: str | None = SESSION, thread: str | None = SESSION) -> Diagnosis:
    return diagnose(wanted=wanted, thread=thread, completed=False, said=said, stderr=stderr)


@pytest.mark.parametrize(("said", "outcome"), SAID)
def test_text_of_a_failed_turn(said: str, outcome: Outcome | None) -> None:
    found = end(said)
    assert (found.answered, found.outcome) == (False, outcome)
    assert found.message
    assert "{" not in found.message, "the API's JSON is not shown to people"


@pytest.mark.parametrize(
    "line",
    [
        f"Error: thread/resume: thread/resume failed: no rollout found for thread id {SESSION} (code -32600)",
        f"Error: thread/resume: thread/resume failed: thread {SESSION} already has an active writer (code -32600)",
        "Error: thread/resume: thread/resume failed: failed to read thread: rollout at /x is empty (code -32603)",
        f"Error: thread/fork: thread/fork failed: no rollout found for thread id {SESSION} (code -32600)",
    ],
)
def test_refused_resume_is_rejected(line: str) -> None:
    noise = "WARNING: proceeding, even though we could not create PATH aliases"
    found = end(stderr=f"{noise}\n{line}", thread=None)
    assert (found.outcome, found.message) == (Outcome.REJECTED, line)
    assert end(stderr=line, wanted=None, thread=None).outcome is None, "it was not started to resume a session"


def test_an_answer_from_another_session_is_rejected() -> None:
    found = diagnose(wanted=SESSION, thread=OTHER, completed=True, said="", stderr="")
    assert (found.answered, found.outcome) == (False, Outcome.REJECTED)
    assert diagnose(wanted=SESSION, thread=SESSION, completed=True, said="", stderr="").answered
    assert diagnose(wanted=None, thread=OTHER, completed=True, said="", stderr="").answered


def test_a_copy_has_another_id() -> None:
    own = diagnose(wanted=SESSION, thread=OTHER, completed=True, said="", stderr="", forked=True)
    assert own.answered
    same = diagnose(wanted=SESSION, thread=SESSION, completed=True, said="", stderr="", forked=True)
    assert (same.answered, same.outcome) == (False, Outcome.REJECTED), "it continued the original"


def test_prompt_that_is_too_long_for_its_input_is_an_overflow() -> None:
    line = "Error: turn/start: turn/start failed: Input exceeds the maximum length of 1048576 characters. (code -32602)"
    assert end(stderr=line).outcome is Outcome.OVERFLOW


def test_other_lines_on_stderr_are_not_classified() -> None:
    assert end(stderr="mcp server says: usage limit, 401 Unauthorized").outcome is None
    assert end(stderr="something\nlast line").message == "last line"


USED_UP = "You’ve hit your usage limit. Visit https://chatgpt.com/settings/usage to purchase more credits or try again"


@pytest.mark.parametrize(
    ("words", "date"),
    [
        ("at 4:45 AM.", (2026, 11, 16, 4, 46)),  # today: only the time of day
        ("at 11:05 PM.", (2026, 11, 16, 23, 6)),
        ("at Nov 20th, 2026 6:22 PM.", (2026, 11, 20, 18, 23)),
        ("at Dec 1st, 2026 12:00 AM.", (2026, 12, 1, 0, 1)),
        ("later.", None),
        ("at 25:99 AM.", None),
    ],
)
def test_limit_resets_at_the_end_of_the_minute_that_codex_names(words: str, date: tuple[int, ...] | None) -> None:
    now = time.mktime((2026, 11, 16, 3, 15, 0, 0, 0, -1))
    found = diagnose(wanted=None, thread=SESSION, completed=False, said=f"{USED_UP} {words}", stderr="", now=now)
    assert found.outcome is Outcome.USAGE_LIMIT
    assert found.resets_at == (None if date is None else time.mktime((*date, 0, 0, 0, -1)))
