"""The error messages with which the model APIs refuse a request, and what the real CLIs make of each.

The Messages API's messages are from its documentation and from practice. `cli_text` is what Claude Code 2.1.325 reports
to its host, `code` the `api_error` or `error` that comes with it. Codex shows the Responses API's messages unchanged.
The adapter's tests send each of them through the real CLI, and docs/agents.md has this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from clew.core.outcome import Outcome
from clew.testing.model.replies import FINAL, Fail

INVALID: Final = "invalid_request_error"
CALL: Final = "toolu_01A09q90qw90lq917835lq9"


@dataclass(frozen=True)
class ApiRefusal:
    """One error message of an API, and the outcome that Clew makes of it."""

    api: Fail
    outcome: Outcome
    cli_text: str | None = None  # the CLI's own text; None: `API Error: 400` and the API's message
    code: str | None = None  # the CLI's own error code, if it has one

    @property
    def directive(self) -> str:
        """A directive that makes the scripted model refuse with this message."""
        return f"!fail {self.api.status} {self.api.type} {self.api.message}"

    @property
    def reported(self) -> str:
        """How the CLI's report begins: some texts continue with the model or the address."""
        return self.cli_text or f"API Error: {self.api.status} {self.api.message}"


def _invalid(message: str) -> Fail:
    return Fail(400, INVALID, message, FINAL)


def _broken(message: str, cli_text: str | None = None, code: str | None = None) -> ApiRefusal:
    return ApiRefusal(_invalid(message), Outcome.POISONED, cli_text, code)


BROKEN_SESSIONS: Final = (
    _broken(
        f"messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: {CALL}. Each "
        "`tool_use` block must have a corresponding `tool_result` block in the next message.",
        "API Error: 400 due to tool use concurrency issues.",
        "tool_history_mismatch",
    ),
    _broken(
        f"messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {CALL}. Each `tool_result` "
        "block must have a corresponding `tool_use` block in the previous message.",
        "API Error: 400 orphaned tool_result in conversation history.",
        "tool_history_mismatch",
    ),
    _broken(
        "messages.5.content.1: `tool_use` ids must be unique",
        "API Error: 400 duplicate tool_use ID in conversation history.",
        "tool_history_mismatch",
    ),
    _broken(
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. When `thinking` is "
        "enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of "
        "`tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid "
        "this requirement, disable `thinking`. Please consult our documentation at "
        "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
    ),
    _broken("messages.1.content.0: Invalid `signature` in `thinking` block"),
    _broken(
        "messages.5.content.1: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
        "modified. These blocks must remain as they were in the original response."
    ),
    _broken("messages: text content blocks must be non-empty"),
    _broken("messages.2.content.0.text: cache_control cannot be set for empty text blocks"),
    _broken("messages.4: all messages must have non-empty content except for the optional final assistant message"),
    _broken("messages.9.content.0.tool_use.input: Input should be a valid dictionary"),
    _broken("messages: final assistant content cannot end with trailing whitespace"),
    _broken("This model does not support assistant message prefill. The conversation must end with a user message."),
)

OTHER_REFUSALS: Final = (
    ApiRefusal(
        _invalid("messages.2.content.1.image.source.base64: Could not process image"),
        Outcome.MEDIA_REMOVED,
        "API Error: an image in the conversation could not be processed and was removed. Re-read the file with a "
        "different approach if you still need it.",
        "media_removed",
    ),
    ApiRefusal(
        _invalid("messages.1.content.0.image.source.base64: image exceeds 5 MB maximum: 6123456 bytes > 5242880 bytes"),
        Outcome.MEDIA_REMOVED,
        "Image was too large. Try resizing the image or using a different approach.",
    ),
    ApiRefusal(
        _invalid("messages.2.content.0.pdf.source.base64.data: The PDF specified was not valid."),
        Outcome.MEDIA_REMOVED,
        "The PDF file was not valid. Try converting it to text first (e.g., pdftotext).",
    ),
    ApiRefusal(
        Fail(413, "request_too_large", "Request exceeds the maximum size", FINAL),
        Outcome.MEDIA_REMOVED,
        "Request too large (max 32MB). Accumulated images and attachments in the conversation pushed the request over "
        "the limit. Remove older images or compact the conversation.",
    ),
    ApiRefusal(_invalid("prompt is too long: 210000 tokens > 200000 maximum"), Outcome.OVERFLOW, "Prompt is too long"),
    ApiRefusal(
        _invalid(
            "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length or "
            "`max_tokens` and try again"
        ),
        Outcome.OVERFLOW,
        "Prompt is too long",
    ),
    ApiRefusal(
        _invalid(
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or "
            "purchase credits."
        ),
        Outcome.BILLING,
        "Credit balance is too low",
        "billing_error",
    ),
    ApiRefusal(
        Fail(404, "not_found_error", "model: claude-nonexistent-9", FINAL),
        Outcome.WRONG_MODEL,
        "There's an issue with the selected model (",
        "model_not_found",
    ),
    ApiRefusal(
        _invalid("This organization has been disabled."),
        Outcome.AUTH,
        "Your ANTHROPIC_API_KEY belongs to a disabled organization · Update or unset the environment variable",
        "org_disabled_credential",
    ),
    ApiRefusal(
        Fail(401, "authentication_error", "invalid x-api-key", FINAL),
        Outcome.AUTH,
        "Invalid API key · Fix external API key",
        "authentication_failed",
    ),
    ApiRefusal(
        _invalid(
            "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."
        ),
        Outcome.USAGE_LIMIT,
    ),
    ApiRefusal(
        Fail(
            429,
            "rate_limit_error",
            "This request would exceed your account's rate limit. Please try again later.",
            FINAL,
        ),
        Outcome.USAGE_LIMIT,
        "API Error: Request rejected (429) · This request would exceed your account's rate limit. "
        "Please try again later.",
        "rate_limit",
    ),
    ApiRefusal(
        Fail(529, "overloaded_error", "Overloaded", FINAL),
        Outcome.OVERLOADED,
        "API Error: 529 Overloaded",
    ),
    ApiRefusal(
        Fail(500, "api_error", "Internal server error", FINAL),
        Outcome.OVERLOADED,
        "API Error: 500 Internal server error. This is a server-side issue, usually temporary",
        "server_error",
    ),
)

CLAUDE_REFUSALS: Final = (*BROKEN_SESSIONS, *OTHER_REFUSALS)
