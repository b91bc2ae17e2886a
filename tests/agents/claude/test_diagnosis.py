"""How failures are classified: by every known text, by structure before wording, and never by the model's own text."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from clew.agents.claude.diagnosis import diagnose
from clew.core.outcome import Diagnosis, Outcome
from clew.testing.model.refusals import BROKEN_SESSIONS

TEXTS = [
    (Outcome.REJECTED, "No conversation found with session ID: 0a1b"),
    (Outcome.REJECTED, "Error: --resume requires a valid session ID when used with --print"),
    (Outcome.REJECTED, "This conversation is from a different directory."),
    *((Outcome.POISONED, refusal.reported) for refusal in BROKEN_SESSIONS),
    (Outcome.POISONED, "API Error: 400 Could not process image"),  # from a CLI that does not remove it
    (Outcome.OVERFLOW, "Prompt is too long"),
    (Outcome.OVERFLOW, "Prompt is too long · the request is ~210000 tokens (limit 200000)"),
    (Outcome.OVERFLOW, "Context limit reached · /compact or /clear to continue"),
    (Outcome.USAGE_LIMIT, "Claude AI usage limit reached|1760000000"),
    (Outcome.USAGE_LIMIT, "You've hit your limit · resets 4:50am (Europe/Rome)"),
    (Outcome.USAGE_LIMIT, 'API Error: 429 {"type":"error","error":{"type":"rate_limit_error","message":"…"}}'),
    (Outcome.USAGE_LIMIT, "API Error: Request rejected (429) · This may be a temporary capacity issue"),
    (Outcome.OVERLOADED, "API Error: Repeated 529 Overloaded errors"),
    (Outcome.AUTH, "Invalid API key · Fix external API key"),
    (Outcome.AUTH, "Not logged in · Please run /login"),
    (Outcome.AUTH, "OAuth token has expired. Please obtain a new token or refresh your existing token."),
    (Outcome.AUTH, "Failed to authenticate. API Error: 401 nope"),
    (Outcome.BILLING, "Credit balance is too low"),
    (Outcome.NETWORK, "API Error: Unable to connect to API (ConnectionRefused)"),
]


def failed(text: str = "", **more: Any) -> dict[str, Any]:
    """An API error as the CLI reports it: subtype success, is_error true."""
    return {"type": "result", "subtype": "success", "is_error": True, "num_turns": 1, "result": text, **more}


def synthetic(text: str = "", **more: Any) -> dict[str, Any]:
    message = {"model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "message": message, "is_api_error_message": True, **more}


def look(result: Any = None, said: Any = None, *, resumed: bool = True, stderr: str = "") -> Diagnosis:
    return diagnose(result, said, resumed=resumed, stderr=stderr)


@pytest.mark.parametrize(("outcome", "text"), TEXTS)
class TestTexts:
    def test_in_the_result(self, outcome: Outcome, text: str) -> None:
        found = look(failed(text))
        assert (found.answered, found.outcome, found.message) == (False, outcome, text[:500].strip())

    def test_among_the_errors(self, outcome: Outcome, text: str) -> None:
        assert look({**failed(), "result": None, "num_turns": 3, "errors": [text]}).outcome is outcome

    def test_in_a_synthetic_message_with_no_result(self, outcome: Outcome, text: str) -> None:
        assert look(None, synthetic(text)).outcome is outcome

    def test_on_stderr_alone(self, outcome: Outcome, text: str) -> None:
        assert look(stderr=f"{text}\n").outcome is outcome

    def test_in_the_models_own_text_of_a_success_it_means_nothing(self, outcome: Outcome, text: str) -> None:
        found = look({**failed(text), "is_error": False, "api_error_status": None}, synthetic("old"), stderr=text)
        assert found == Diagnosis(answered=True)


class TestSuccess:
    def test_an_api_error_status_is_not_a_success_even_without_is_error(self) -> None:
        assert not look({**failed(), "is_error": False, "api_error_status": 500}).answered

    def test_a_missing_result_is_not_a_success(self) -> None:
        assert look() == Diagnosis(answered=False)


class TestStructureBeforeWording:
    """When the wording (a network error) and the structure disagree, the structure counts."""

    WORDING = "API Error: Unable to connect to API"

    @pytest.mark.parametrize(
        ("fields", "outcome"),
        [
            ({"terminal_reason": "prompt_too_long"}, Outcome.OVERFLOW),
            ({"terminal_reason": "image_error"}, Outcome.MEDIA_REMOVED),
            ({"subtype": "error_max_turns"}, Outcome.OUR_LIMIT),
            ({"subtype": "error_max_budget_usd"}, Outcome.OUR_LIMIT),
            ({"api_error_status": 401}, Outcome.AUTH),
            ({"api_error_status": 403}, Outcome.AUTH),
            ({"api_error_status": 429}, Outcome.USAGE_LIMIT),
            ({"api_error_status": 529}, Outcome.OVERLOADED),
            ({"subtype": "error_during_execution", "num_turns": 0, "duration_api_ms": 0}, Outcome.REJECTED),
        ],
    )
    def test_in_the_result(self, fields: dict[str, Any], outcome: Outcome) -> None:
        assert look(failed(self.WORDING, **fields)).outcome is outcome

    @pytest.mark.parametrize(
        ("fields", "outcome"),
        [
            ({"error": "authentication_failed"}, Outcome.AUTH),
            ({"error": "billing_error"}, Outcome.BILLING),
            ({"error": "billing_error", "api_error_status": 403}, Outcome.BILLING),
            ({"error": "model_not_found", "api_error_status": 404}, Outcome.WRONG_MODEL),
            ({"api_error": "tool_history_mismatch"}, Outcome.POISONED),
            ({"api_error": "media_removed"}, Outcome.MEDIA_REMOVED),
            ({"error": "rate_limit"}, Outcome.USAGE_LIMIT),
            ({"error": "overloaded"}, Outcome.OVERLOADED),
            ({"api_error_status": 429}, Outcome.USAGE_LIMIT),
        ],
    )
    def test_in_the_synthetic_message(self, fields: dict[str, Any], outcome: Outcome) -> None:
        assert look(failed(self.WORDING), synthetic(self.WORDING, **fields)).outcome is outcome

    def test_a_400_is_classified_by_its_wording_because_it_can_be_anything(self) -> None:
        text = "API Error: 400 messages: text content blocks must be non-empty"
        said = synthetic(text, api_error_status=400, error="invalid_request")
        assert look(failed(text, api_error_status=400), said).outcome is Outcome.POISONED
        assert look(failed("API Error: 400 something new", api_error_status=400)).outcome is None


class TestRejection:
    STRUCTURE: ClassVar = {"subtype": "error_during_execution", "num_turns": 0, "duration_api_ms": 0, "is_error": True}

    def test_a_fresh_attempt_cannot_be_rejected_by_structure(self) -> None:
        assert look(dict(self.STRUCTURE), resumed=False).outcome is None

    @pytest.mark.parametrize("fields", [{"num_turns": 1}, {"duration_api_ms": 10}, {"subtype": "success"}])
    def test_a_resume_that_reached_the_model_was_not_rejected(self, fields: dict[str, Any]) -> None:
        assert look({**self.STRUCTURE, **fields}).outcome is None


class TestWords:
    def test_the_message_is_one_short_line(self) -> None:
        found = look(failed("  first \nsecond"))
        assert found.message == "first"
        assert len(look(failed("x" * 5000)).message) == 500

    def test_an_unknown_failure_has_no_class(self) -> None:
        assert look(failed("the moon is full")).outcome is None

    @pytest.mark.parametrize(
        ("text", "resets_at"),
        [
            ("Claude AI usage limit reached|1760000000", 1_760_000_000.0),
            ("You've hit your limit · resets 4:50am (Europe/Rome)", None),
            ("Prompt is too long", None),
        ],
    )
    def test_the_reset_time_of_a_limit_is_read_from_the_text(self, text: str, resets_at: float | None) -> None:
        assert look(failed(text)).resets_at == resets_at
