"""What went wrong, read from the end of Codex's stream.

`codex exec` gives no error code: a failed turn is one line of text, a refused resume a line on stderr. The wording is
matched only there, never in what the model said. The texts are those of the real binary; a new text is a new line here.
"""

from __future__ import annotations

import json
import re
import time

from clew.agents.wording import first_line, last_line, outcome_of
from clew.core.outcome import Diagnosis, Outcome

MINUTE_S = 60.0

_BY_WORDING = (
    (
        Outcome.POISONED,
        (
            r"No tool output found for",
            r"No tool call found for",
            r"was provided without its required",
            r"invalid_encrypted_content",
            r"image data you provided does not represent a valid image",
        ),
    ),
    (
        Outcome.OVERFLOW,
        (
            r"ran out of room in the model's context window",
            r"context_length_exceeded",
            r"exceeds the context window",
            r"Input exceeds the maximum length",
        ),
    ),
    (
        Outcome.USAGE_LIMIT,
        (
            r"hit your usage limit",
            r"rate limit",
            r"429 Too Many Requests",
        ),
    ),
    (Outcome.BILLING, (r"Quota exceeded", r"insufficient_quota", r"To use Codex with your ChatGPT plan")),
    (
        Outcome.WRONG_MODEL,
        (r"The model `[^`]*` does not exist", r"model is not supported when using Codex", r"model_not_found"),
    ),
    (
        Outcome.AUTH,
        (
            r"401 Unauthorized",
            r"403 Forbidden",
            r"Missing environment variable",
            r"not logged in",
            r"log ?in again",
            r"sign in again",
            r"refresh token",
        ),
    ),
    (
        Outcome.OVERLOADED,
        (r"experiencing high demand", r"at capacity", r"status:? 5\d\d", r"overloaded"),
    ),
    (
        Outcome.NETWORK,
        (
            r"Connection failed",
            r"error sending request",
            r"stream disconnected",
            r"timeout waiting",
            r"Reconnecting",
        ),
    ),
)
_REFUSED = re.compile(
    r"thread/(?:resume|fork) failed|no rollout found for thread id|already has an active writer", re.IGNORECASE
)
# "try again at 4:45 AM." (today), or "try again at Nov 20th, 2026 6:22 PM.", in the machine's local time.
_AGAIN_AT = re.compile(r"try again at (?:(\w{3}) (\d{1,2})\w{2}, (\d{4}) )?(\d{1,2}:\d\d [AP]M)", re.IGNORECASE)
_ERROR_LINE = re.compile(r"^(?:Error\b.*|.*\bERROR\b.*|No prompt provided.*|Failed to .*)$", re.MULTILINE)


def diagnose(
    *,
    wanted: str | None,
    thread: str | None,
    completed: bool,
    said: str,
    stderr: str,
    forked: bool = False,
    now: float = 0.0,
) -> Diagnosis:
    """`wanted` is the session to be resumed, `thread` the one that Codex reports, `said` its own text about a failure.

    `forked`: Codex continues in a copy of the wanted session, with another id. `now` is the current
    time: Codex writes a time of today without the date.
    """
    if wanted is not None and thread is not None and (thread == wanted) is forked:
        return Diagnosis(answered=False, outcome=Outcome.REJECTED, message="codex started another session instead")
    if completed:
        return Diagnosis(answered=True)
    errors = _ERROR_LINE.findall(stderr)
    if wanted is not None and thread is None and any(_REFUSED.search(line) for line in errors):
        return Diagnosis(answered=False, outcome=Outcome.REJECTED, message=last_line(errors[-1]))
    words = said or "\n".join(errors)
    outcome = outcome_of(words, _BY_WORDING)
    return Diagnosis(
        answered=False,
        outcome=outcome,
        message=_plain(said) or last_line("\n".join(errors)) or last_line(stderr),
        resets_at=resets_at(words, now) if outcome is Outcome.USAGE_LIMIT else None,
    )


def resets_at(words: str, now: float) -> float | None:
    """When a limit resets, as an epoch time. Codex gives no seconds, so it is the end of that minute."""
    found = _AGAIN_AT.search(words)
    if found is None:
        return None
    month, day, year, time_of_day = found.groups()
    date = f"{month} {day} {year}" if month else time.strftime("%b %d %Y", time.localtime(now))
    try:
        return time.mktime(time.strptime(f"{date} {time_of_day}", "%b %d %Y %I:%M %p")) + MINUTE_S
    except (ValueError, OverflowError):
        return None


def _plain(said: str) -> str:
    """The message of a refused request, which Codex prints as the API's own JSON."""
    try:
        body = json.loads(said)
        found = body["detail"] if "detail" in body else body["error"]["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        found = said
    return first_line(str(found))
