"""An explanation of a turn: the exact prompt on stdout, everything else on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from clew.cli.ui.formatting import agent_words, dollars, harmless, plural
from clew.cli.ui.printing import note
from clew.core.costs.forecast import Forecast
from clew.core.explanation import Explanation, StandingNote, outside_words
from clew.core.images import in_words
from clew.core.runs.run import IN_TERMINAL

LABEL_CHARS = 11
STANDING = {
    StandingNote.SENT: "the instructions",
    StandingNote.REPLACED: "the new instructions",
    StandingNote.REMOVED: "a note that the instructions no longer apply",
}


def print_explanation(told: Explanation) -> None:
    for label, words in _fields(told):
        note(f"{label:<{LABEL_CHARS}}{harmless(words)}")
    note("Nothing was run. Tokens and prices are estimates.")
    print_prompt(told.prompt or "")


def print_prompt(prompt: str) -> None:
    """Byte for byte in a pipe or a file; on a terminal, with control characters made visible, and as whole lines."""
    if sys.stdout.isatty():
        sys.stdout.write(harmless(prompt))
        sys.stdout.write("" if prompt.endswith("\n") else "\n")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(prompt.encode("utf-8", "replace"))
    sys.stdout.flush()


def _fields(told: Explanation) -> Iterator[tuple[str, str]]:
    yield "thread", f"{told.thread} (new)" if told.new_thread else told.thread
    yield "agent", agent_words(told.agent, told.model or "(its default model)")
    yield "decision", told.words
    if told.session_id is not None:
        yield "session", told.session_id
    if told.outside_turns:
        yield "outside", outside_words(told.outside_turns)
    if told.rules:
        yield "rules", ", ".join(told.rules)
    if told.waits_for is not None:
        in_terminal = told.waits_for == IN_TERMINAL
        ahead = "The thread is in use in a terminal" if in_terminal else f"The run {told.waits_for} is ahead"
        yield "queue", f"{ahead}: the prompt would wait. The decision is made when it starts."
    if told.unfinished is not None:
        yield (
            "crash",
            f"The run {told.unfinished} was left unfinished. It is ended first, which may change the decision.",
        )
    yield "sent", _sent(told)
    if told.images:
        yield "images", f"{in_words(told.images)}; their price is not in the estimates"
    if told.held_tokens is not None:
        yield "held", _held(told, told.held_tokens)
    yield "expected", _forecast(told.expected)
    if told.with_transcript is not None:
        yield (
            "instead",
            f"the whole transcript ({told.transcript_chars:,} characters): {_forecast(told.with_transcript)}",
        )


def _sent(told: Explanation) -> str:
    what = "as catch-up" if told.resumes else "as the transcript"
    parts = [
        STANDING[StandingNote(told.standing)] if told.standing in STANDING else "",
        f"{plural(told.turns_sent, 'turn')} {what}" if told.turns_sent else "",
        f"{plural(told.turns_left_out, 'earlier turn')} left out" if told.turns_left_out else "",
        "the new prompt",
    ]
    return f"{plural(told.prompt_chars, 'character')}: {', '.join(part for part in parts if part)}"


def _held(told: Explanation, tokens: int) -> str:
    size = f"{'' if told.held_is_measured else 'about '}{plural(tokens, 'token')} in the session"
    cached = "probably still in the cache" if told.is_cached else "the cache's life has passed, so they are read anew"
    return f"{size}, {cached}"


def _forecast(forecast: Forecast) -> str:
    tokens = f"about {forecast.cached_tokens:,} cached and {forecast.new_tokens:,} new tokens"
    price = "no price is known" if forecast.cost_usd is None else f"about {dollars(forecast.cost_usd)}"
    return f"{tokens}, {price}, without the answer"
