"""How failures are classified, and what is not a failure."""

from __future__ import annotations

from clew.core.outcome import Outcome
from clew.testing.adapter_contract.subject import Check, Subject, turn


async def failures_are_classified(subject: Subject) -> None:
    first = await turn(subject, "!say one")
    for directive, outcome in (
        ("!fail 429 rate_limit_error slow down", Outcome.USAGE_LIMIT),
        ("!fail 401 authentication_error invalid x-api-key", Outcome.AUTH),
        ("!fail 529 overloaded_error Overloaded", Outcome.OVERLOADED),
    ):
        said = await turn(subject, directive, resume=first.session_id)
        assert said.outcome is outcome, directive
        assert said.result is not None
        assert said.result.diagnosis.message
    again = await turn(subject, "!say two", resume=first.session_id)
    assert again.text == "two", "none of them harms the session"


async def poisoned_history_is_recognised(subject: Subject) -> None:
    first = await turn(subject, "!say one")
    directive = f"!fail 400 invalid_request_error {subject.directives.poison}"
    said = await turn(subject, directive, resume=first.session_id)
    assert said.outcome is Outcome.POISONED


async def full_context_is_recognised(subject: Subject) -> None:
    first = await turn(subject, "!say one")
    said = await turn(subject, "!toolong", resume=first.session_id)
    assert not said.answered
    assert said.outcome is Outcome.OVERFLOW


async def error_texts_of_the_model_are_no_errors(subject: Subject) -> None:
    said = await turn(
        subject,
        "!say Prompt is too long. No conversation found with session ID: x. Invalid API key. "
        "Error: thread/resume failed: no rollout found for thread id x. ran out of room in the model's context window",
    )
    assert said.answered


async def long_lines_and_answers_arrive_whole(subject: Subject) -> None:
    said = await turn(subject, f"!big {1_500_000}")
    assert len(said.text) >= 1_500_000
    assert said.answered


CHECKS: tuple[Check, ...] = (
    failures_are_classified,
    poisoned_history_is_recognised,
    full_context_is_recognised,
    error_texts_of_the_model_are_no_errors,
    long_lines_and_answers_arrive_whole,
)
