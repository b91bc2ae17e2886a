"""Shows a replay to the user: both answers to each prompt, side by side if the terminal is wide enough."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence

from clew.api.branching import (
    LiveReplay,
    ReplayAnswer,
    ReplayAnswered,
    ReplayAsking,
    Replayed,
    ReplayEvent,
    ReplayRound,
    ReplayRunEvent,
)
from clew.cli.ui.formatting import agent_words, harmless, one_line, plural, price
from clew.cli.ui.printing import say
from clew.cli.ui.run_display import RunDisplay
from clew.cli.ui.tool_lines import indented
from clew.core.costs.usage import NO_USAGE
from clew.core.runs import events

SIDE_BY_SIDE_COLUMNS = 110  # a narrower terminal shows the answers one below the other
PROMPT_CHARS = 300
NOTHING = "(no answer)"


class ReplayDisplay(RunDisplay):
    """Prints whole answers on stdout; with `as_json`, stdout stays empty until the final object is printed."""

    def __init__(self, live: LiveReplay, *, as_json: bool) -> None:
        super().__init__(live.thread.agent, as_json=True)
        self._quiet = as_json
        self._count = live.count
        self._names = [agent_words(thread.agent, thread.model) for thread in (live.old, live.thread)]
        self._number = 0

    def show_replay_event(self, event: ReplayEvent) -> None:
        match event:
            case ReplayAsking():
                self._number = event.number
                if self._status is None:  # with as_json the answers are not printed, so the prompt is shown here
                    prompt = f": {one_line(event.prompt, 70)}" if self._quiet else ""
                    self.note(f"asking round {event.number} of {self._count}{prompt}")
                self._doing("starting")
            case ReplayRunEvent():
                self.show(event.event)
            case ReplayAnswered() if not self._quiet:
                self._clear_line()
                self._show(event.answers)
                sys.stdout.flush()

    def show(self, event: events.Event) -> None:
        if isinstance(event, events.TextStreamed):
            self._doing("answering")
        super().show(event)

    def _doing(self, what: str) -> None:
        super()._doing(f"round {self._number} of {self._count} · {what}" if self._number else what)

    def _show(self, round_: ReplayRound) -> None:
        say(f"round {round_.number} of {self._count}: {one_line(round_.prompt, PROMPT_CHARS)}\n")
        sides = [_side(answer, name) for answer, name in zip((round_.before, round_.after), self._names, strict=True)]
        width = shutil.get_terminal_size().columns
        if sys.stdout.isatty() and width >= SIDE_BY_SIDE_COLUMNS:
            _side_by_side(sides, width)
        else:
            for name, text in sides:
                say(f"{name}:\n{indented(text)}\n")


def _side(answer: ReplayAnswer | None, name: str) -> tuple[str, str]:
    """Who answered, and the answer, with its control characters made visible."""
    if answer is None:
        return name, NOTHING
    text = harmless(answer.text) + ("\n(cut off)" if answer.partial else "")
    return agent_words(answer.agent, answer.model), text


def _side_by_side(sides: Sequence[tuple[str, str]], width: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2), expand=True)
    for _ in sides:
        table.add_column(ratio=1, overflow="fold")
    table.add_row(*(Text(name, style="bold") for name, _ in sides))
    table.add_row(*(Text(text) for _, text in sides))
    console = Console(file=sys.stdout, width=width, highlight=False)
    console.print(table)
    console.print()


def sums(done: Replayed) -> Iterator[str]:
    """A line for each thread: `fix-login: 3 answers · 22,135 tokens (22,087 cached) · $0.0123 · 12.3 s`."""
    for name, totals in ((done.old.name, done.before), (done.thread.name, done.after)):
        usage = totals.usage
        parts = [f"{name}: {plural(totals.answers, 'answer')}"]
        if totals.cut_off:
            parts[0] += f" and {totals.cut_off:,} cut off"
        if usage != NO_USAGE:
            tokens = usage.shown_tokens + usage.output_tokens
            parts.append(f"{tokens:,} tokens ({usage.cache_read_input_tokens:,} cached)")
            unpriced = f", {totals.unpriced:,} without a price" if totals.cost_usd and totals.unpriced else ""
            parts.append(price(totals.cost_usd or 0.0, used=True) + unpriced)
        if totals.seconds is not None:
            parts.append(f"{totals.seconds:.1f} s")
        yield " · ".join(parts)
