"""What a prompt would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from clew.api.wire.images import Image, images
from clew.api.wire.shape import Doc, Money, Shape

if TYPE_CHECKING:
    from clew.core.explanation import Explanation as ExplanationRecord


class Forecast(Shape):
    """An estimate of what a turn's first request reads, without the answer."""

    cached_tokens: Annotated[int, Doc("Read from the cache")]
    new_tokens: Annotated[int, Doc("Not read from the cache")]
    cost_usd: Annotated[Money | None, Doc("Null: no price is known")]


class Explanation(Shape):
    """What a prompt would do: the decision, the exact prompt, and estimates of the price."""

    thread: str
    new_thread: bool
    agent: str
    model: Annotated[str | None, Doc("Null: the agent's default, which is not known before its first run")]
    resumes: bool
    reason: Annotated[
        str | None, Doc("Why it starts a fresh session, or why it rewinds or copies one; null: it resumes one as it is")
    ]
    words: Annotated[str, Doc("The decision as a sentence")]
    session_id: Annotated[str | None, Doc("The session that is resumed; null: a fresh one")]
    copies: Annotated[bool, Doc("It continues in a copy of the session, which stays as it is")]
    rewound_to: Annotated[
        int | None, Doc("The number of the turn to which the session is rewound; null: it is not rewound")
    ]
    outside_turns: Annotated[int, Doc("Turns that were made outside Clew: they come into the thread first")]
    rules: Annotated[tuple[str, ...], Doc("The files of the project's rules that the agent is shown")]
    prompt: Annotated[str | None, Doc("The exact text that the agent would be sent; null: no prompt was given")]
    prompt_chars: int
    turns_sent: Annotated[int, Doc("Turns in the prompt, as catch-up or as the transcript")]
    turns_left_out: Annotated[int, Doc("Earlier turns that did not fit")]
    standing: Annotated[str | None, Doc("`sent`, `replaced`, `removed` or `known`; null: there are no instructions")]
    transcript_chars: Annotated[int, Doc("The length of what a fresh session would be sent")]
    held_tokens: Annotated[int | None, Doc("What the session holds; null: a fresh one")]
    held_is_measured: bool
    is_cached: Annotated[bool, Doc("What the session holds is expected in the cache")]
    expected: Forecast
    with_transcript: Annotated[Forecast | None, Doc("The transcript instead; null: it is what would be sent")]
    waits_for: Annotated[str | None, Doc("The run that it would wait for; `?`: a terminal has the thread")]
    unfinished: Annotated[str | None, Doc("A run that a crash left unfinished, which is ended first")]
    images: Annotated[list[Image], Doc("Sent with the prompt; their price is not in the estimates")]


class ChangePreview(Shape):
    edit: str
    truncate: str
    retry: Annotated[str | None, Doc("Null for an agent's turn, which cannot be retried")]


class SessionPreview(Explanation):
    """Whether the next turn resumes a session, and what it would send and cost."""

    after_change: ChangePreview | None


def explanation(told: ExplanationRecord) -> Explanation:
    return Explanation.of(told, **_forecasts(told))


def session_preview(told: ExplanationRecord, change: Mapping[str, str] | None) -> SessionPreview:
    """`change` says what an edit, a truncate and a retry of a turn would do."""
    after = None if change is None else ChangePreview(change["edit"], change["truncate"], change.get("retry"))
    return SessionPreview.of(told, **_forecasts(told), after_change=after)


def _forecasts(told: ExplanationRecord) -> dict[str, Any]:
    other = told.with_transcript
    return {
        "expected": Forecast.of(told.expected),
        "with_transcript": None if other is None else Forecast.of(other),
        "images": images(told.images),
    }
