"""Shows a pair to the user: orders and reports as they arrive, and on a terminal a status line with the progress."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from clew.cli.ui.formatting import harmless, joined, plural, price
from clew.cli.ui.printing import print_json, say, shown_markdown
from clew.cli.ui.run_display import RunDisplay, usage_words
from clew.core.pairs.pair import (
    PairAsked,
    PairEvent,
    PairOrdered,
    PairPart,
    PairRunEvent,
    PairSaved,
    PairWarned,
    PairWorked,
)
from clew.core.runs import events

if TYPE_CHECKING:
    from clew.api.pairs import PairState


class PairDisplay(RunDisplay):
    """Prints whole orders and reports on stdout, or with `as_json` one event per line."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__("its session", as_json=True)  # "resuming its session": the line already names the part
        self._as_json = as_json
        self._round, self._of = 0, 0
        self._who = "instructor"
        self._phase = "starting"
        self._tokens = 0
        self._cost_usd = 0.0

    def count_from(self, state: PairState) -> None:
        """Adds the tokens and the cost before this command, which the closing line counts too."""
        self._tokens = state.usage.shown_tokens + state.usage.output_tokens
        self._cost_usd = state.cost_usd

    def line(self) -> str:
        """`round 2 of 10 · worker · running Bash: make test · 22,135 tokens · $0.0123`"""
        place = f"round {self._round} of {self._of} · {self._who}" if self._round else ""
        used = f"{self._tokens:,} tokens · {price(self._cost_usd, used=True)}" if self._tokens else ""
        return joined(place, self._phase, used)

    def show_pair_event(self, event: PairEvent) -> None:
        if self._as_json:
            self._print(event)
        match event:
            case PairAsked():
                self._asked(event)
            case PairRunEvent():
                self.show(event.event)
            case PairOrdered():
                self._ordered(event)
            case PairWorked():
                self._say(f"{_head(event.round, PairPart.WORKER)}:\n{_text(event.text)}")
            case PairSaved():
                self._doing("saved")
            case PairWarned():
                self.note(f"warning: {harmless(' '.join(event.message.split()))}")

    def show(self, event: events.Event) -> None:
        match event:
            case events.TextStreamed():
                self._doing("answering")
            case events.RunEnded():
                self._tokens += event.usage.shown_tokens + event.usage.output_tokens
                self._cost_usd += event.cost_usd
                self._doing("reading the answer")
        super().show(event)

    def _asked(self, event: PairAsked) -> None:
        self._round, self._of, self._who = event.round, event.of, event.part.value
        if self._status is None:
            who = f"{event.part}{f' ({event.model})' if event.model else ''}"
            self.note(harmless(f"round {event.round} of {event.of}: {who}"))
        self._doing("starting")

    def _ordered(self, event: PairOrdered) -> None:
        order = event.order
        what = "done" if not order.should_continue else "correct" if order.needs_correction else "do"
        self._say(f"{_head(event.round, PairPart.INSTRUCTOR)}, {what}:\n{_text(order.instruction)}")

    def _say(self, text: str) -> None:
        if self._as_json:
            return
        self._clear_line()
        say(text)
        sys.stdout.flush()
        self._doing("continuing")

    def _print(self, event: PairEvent) -> None:
        from clew.api.pairs import event_json

        self._clear_line()
        print_json(event_json(event), in_line=True)

    def _doing(self, what: str) -> None:
        self._phase = what
        super()._doing(self.line())


def _head(number: int, part: PairPart) -> str:
    return f"round {number}, {part}"


def _text(text: str) -> str:
    """An order or a report. In a pipe, too, its control characters are visible."""
    return shown_markdown(harmless(text or "(nothing)"), indent="  ")


def closing_line(state: PairState) -> str:
    """`pair fix-login · finished · 3 rounds · 22,135 tokens (22,087 cached) · $0.0070`"""
    # Not all rounds need be in the store: a state file of an older tool has only its last one.
    status, rounds = state.status.value.replace("_", " "), plural(state.pair.number, "round")
    return joined(f"pair {state.pair.name}", status, rounds, usage_words(state.usage, state.cost_usd))
