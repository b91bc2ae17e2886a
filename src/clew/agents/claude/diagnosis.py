"""What went wrong, read from the end of Claude's stream: by structure first, by wording second.

The CLI gives most API errors a code of its own (`api_error`, `error`) and its own wording; docs/agents.md has the table
of the API's messages and what the CLI makes of them. A 400 without a code has the API's wording. The wording is matched
only in what the CLI itself says (an error result, a synthetic message, stderr), never in the model's text. The texts
were seen in practice; a new text is a new line here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from clew.agents.wording import first_line, last_line, outcome_of
from clew.core.outcome import Diagnosis, Outcome

_BY_TERMINAL_REASON = {
    "prompt_too_long": Outcome.OVERFLOW,
    "context_limit": Outcome.OVERFLOW,
    "image_error": Outcome.MEDIA_REMOVED,
}
_BY_SUBTYPE = {"error_max_turns": Outcome.OUR_LIMIT, "error_max_budget_usd": Outcome.OUR_LIMIT}
_BY_STATUS = {401: Outcome.AUTH, 403: Outcome.AUTH, 429: Outcome.USAGE_LIMIT, 529: Outcome.OVERLOADED}
_BY_API_ERROR = {  # the most specific codes
    "tool_history_mismatch": Outcome.POISONED,
    "autocompact_thrashing": Outcome.OVERFLOW,
    "media_removed": Outcome.MEDIA_REMOVED,
    "usage_limit_reached": Outcome.USAGE_LIMIT,
    "model_requires_usage_credits": Outcome.BILLING,
    "long_context_credits_required": Outcome.BILLING,
    "api_key_auth_disabled": Outcome.AUTH,
    "invalid_credential_header": Outcome.AUTH,
    "org_disabled_credential": Outcome.AUTH,
    "provider_credentials": Outcome.AUTH,
    "stored_login_refused": Outcome.AUTH,
    "connection_failed": Outcome.NETWORK,
    "stream_idle_timeout": Outcome.NETWORK,
}
_BY_ERROR = {
    "authentication_failed": Outcome.AUTH,
    "billing_error": Outcome.BILLING,
    "model_not_found": Outcome.WRONG_MODEL,
    "rate_limit": Outcome.USAGE_LIMIT,
    "overloaded": Outcome.OVERLOADED,
}

_BY_WORDING = (
    (
        Outcome.REJECTED,
        (
            r"No conversation found with session ID",
            r"--resume requires a valid session ID",
            r"This conversation is from a different directory",
            r"No message found with message\.uuid of",
            r"unknown option '--resume-session-at",
        ),
    ),
    (
        Outcome.POISONED,
        (
            r"API Error: 400 messages(?:\.\d+[\w.]*)?: ",  # any error that the API finds in the messages
            r"API Error: 400 due to tool use concurrency issues",
            r"API Error: 400 orphaned tool_result in conversation history",
            r"API Error: 400 duplicate tool_use ID in conversation history",
            r"`?tool_use`? ids were found without `?tool_result`?",
            r"unexpected `?tool_use_id`?",
            r"Expected `?thinking`? or `?redacted_thinking`?, but found",
            r"blocks in the latest assistant message cannot be modified",
            r"Invalid `?signature`? in `?thinking`? block",
            r"text content blocks must be non-empty",
            r"cache_control cannot be set for empty text blocks",
            r"The conversation must end with a user message",
            r"Could not process image",
        ),
    ),
    (
        Outcome.OVERFLOW,
        (r"Prompt is too long", r"Context limit reached", r"exceeds? (?:the )?context (?:window|limit)"),
    ),
    (
        Outcome.USAGE_LIMIT,
        (
            r"usage limit reached",
            r"You've hit your (?:\w+ )?limit",
            r"rate_limit_error",
            r"API Error: Request rejected \(429\)",
            r"reached your specified API usage limits",
        ),
    ),
    (Outcome.OVERLOADED, (r"Repeated 529 Overloaded", r"overloaded_error", r"API Error: 5\d\d")),
    (
        Outcome.AUTH,
        (
            r"Invalid API key",
            r"Not logged in",
            r"Please run /login",
            r"OAuth token has expired",
            r"Failed to authenticate",
            r"belongs to a disabled organization",
        ),
    ),
    (Outcome.BILLING, (r"Credit balance is too low",)),
    (Outcome.WRONG_MODEL, (r"There's an issue with the selected model",)),
    (
        Outcome.NETWORK,
        (
            r"Unable to connect to API",
            r"Connection error",
            r"ECONNREFUSED",
            r"ECONNRESET",
            r"ENOTFOUND",
            r"fetch failed",
        ),
    ),
)
_EPOCH = r"limit reached\|(\d{9,})"
_DATE = r"regain access on (\d{4}-\d\d-\d\d) at (\d\d:\d\d) UTC"
_TOO_LITTLE = "Not enough messages to compact"  # the CLI's own answer to /compact
_NOT_THE_ACCOUNTS = "not your usage limit"  # in the text of a 429 that is about the service, not the account


def diagnose(
    result: Mapping[str, Any] | None,
    said: Mapping[str, Any] | None,
    *,
    resumed: bool,
    stderr: str,
    resets_at: float | None = None,
) -> Diagnosis:
    """`result` is the result line and `said` the CLI's last synthetic error message, if there were any.

    `resets_at`: when the limit resets that the CLI last reported as reached.
    """
    if result is not None and not result.get("is_error") and not result.get("api_error_status"):
        if result.get("num_turns") == 0:
            said_itself = first_line(str(result.get("result", ""))) if result.get("local_command") else ""
            if said_itself.startswith(_TOO_LITTLE):
                return Diagnosis(answered=True)
            return Diagnosis(answered=False, message=said_itself or "the agent did not pass the prompt on to the model")
        return Diagnosis(answered=True)
    words = _words(result, said, stderr)
    outcome = _by_structure(result or {}, said or {}, resumed=resumed) or outcome_of(words, _BY_WORDING)
    if outcome is Outcome.USAGE_LIMIT and _NOT_THE_ACCOUNTS in words:
        outcome = Outcome.OVERLOADED
    return Diagnosis(
        answered=False,
        outcome=outcome,
        message=first_line(_words(result, said, "")) or last_line(stderr),
        resets_at=(resets_at or _resets_at(words)) if outcome is Outcome.USAGE_LIMIT else None,
    )


def _resets_at(words: str) -> float | None:
    """When a limit resets, if the text gives an epoch time, or both date and time."""
    epoch = re.search(_EPOCH, words)
    if epoch:
        return float(epoch.group(1))
    date = re.search(_DATE, words)
    if date is None:
        return None
    from calendar import timegm
    from time import strptime

    try:
        return float(timegm(strptime(" ".join(date.groups()), "%Y-%m-%d %H:%M")))
    except ValueError:
        return None


def _by_structure(result: Mapping[str, Any], said: Mapping[str, Any], *, resumed: bool) -> Outcome | None:
    found = (
        _BY_TERMINAL_REASON.get(str(result.get("terminal_reason")))
        or _BY_SUBTYPE.get(str(result.get("subtype")))
        or _BY_API_ERROR.get(str(result.get("api_error") or said.get("api_error")))
    )
    if found:
        return found
    never_called = result.get("num_turns") == 0 and not result.get("duration_api_ms")
    if resumed and result.get("subtype") == "error_during_execution" and never_called:
        return Outcome.REJECTED
    status = result.get("api_error_status") or said.get("api_error_status")
    by_error = _BY_ERROR.get(str(said.get("error")))
    if by_error is Outcome.BILLING:
        return by_error  # regardless of the HTTP status
    return _BY_STATUS.get(status, by_error) if isinstance(status, int) else by_error


def _words(result: Mapping[str, Any] | None, said: Mapping[str, Any] | None, stderr: str) -> str:
    """Everything that the CLI itself said about the failure, the most specific first."""
    words = []
    if result is not None:
        errors = result.get("errors")
        words += [str(error) for error in errors] if isinstance(errors, list) else []
        words.append(str(result.get("result") or ""))
    if said is not None:
        message = said.get("message")
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, list):
            words += [str(block.get("text", "")) for block in content if isinstance(block, dict)]
    words.append(stderr)
    return "\n".join(word for word in words if word.strip())
