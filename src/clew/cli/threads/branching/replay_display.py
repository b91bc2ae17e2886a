"""A replay as a person sees it: both answers to each prompt, side by side where there is room for it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clew.cli.display import Display
from clew.cli.output import harmless, one_line, plural, price, say
from clew.core import events
from clew.core.usage import NO_USAGE
from clew.hosts.replaying import Answered, Answers, Asking, Heard, LiveReplay, ReplayEvent, Said

if TYPE_CHECKING:
    from clew.core.usage import Usage

WIDE = 110  # columns
PROMPT_CHARS = 300
NOTHING = "(no answer)"


class ReplayDisplay(Display):
    """Whole answers on stdout; with `as_json` nothing there before the one object."""

    def __init__(self, live: LiveReplay, *, as_json: bool) -> None:
        super().__init__(live.thread.agent, as_json=True)
        self._quiet = as_json
        self._count = live.count
        self._names = _who(live.old.agent, live.old.model), _who(live.thread.agent, live.thread.model)
        self._number = 0

    def tell(self, event: ReplayEvent) -> None:
        match event:
            case Asking():
                self._number = event.number
                if self._status is None:  # the prompt itself stands over its answers, unless nothing is shown of them
                    prompt = f": {one_line(event.prompt, 70)}" if self._quiet else ""
                    self.note(f"asking round {event.number} of {self._count}{prompt}")
                self._doing("starting")
            case Heard():
                self.show(event.event)
            case Answered() if not self._quiet:
                self._clear_line()
                self._show(event.answers)
                sys.stdout.flush()

    def show(self, event: events.Event) -> None:
        if isinstance(event, events.TextStreamed):
            self._doing("answering")
        super().show(event)

    def _doing(self, what: str) -> None:
        super()._doing(f"round {self._number} of {self._count} · {what}" if self._number else what)

    def _show(self, answers: Answers) -> None:
        say(f"round {answers.number} of {self._count}: {one_line(answers.prompt, PROMPT_CHARS)}\n")
        sides = [_worded(said, name) for said, name in zip((answers.before, answers.after), self._names, strict=True)]
        width = shutil.get_terminal_size().columns
        if sys.stdout.isatty() and width >= WIDE:
            _side_by_side(sides, width)
        else:
            for name, text in sides:
                indented = "\n".join(f"  {line}".rstrip() for line in text.splitlines())
                say(f"{name}:\n{indented}\n")


def _worded(said: Said | None, name: str) -> tuple[str, str]:
    """Who said it, and what; nothing in it can drive the terminal."""
    if said is None:
        return name, NOTHING
    text = harmless(said.text) + ("\n(cut off)" if said.partial else "")
    return _who(said.agent, said.model), text


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


def _who(agent: str, model: str | None) -> str:
    return one_line(" ".join(part for part in (agent, model) if part), 80)


def sums(live: LiveReplay, answers: Sequence[Answers]) -> Iterator[str]:
    """What the answers took: `fix-login: 3 answers · 22,135 tokens (22,087 cached) · $0.0123 · 12.3 s`, for each."""
    for name, sum_ in zip((live.old.name, live.thread.name), _sums(answers), strict=True):
        usage: Usage = sum_["usage"]
        parts = [f"{name}: {plural(sum_['answers'], 'answer')}"]
        if sum_["cut_off"]:
            parts[0] += f" and {sum_['cut_off']:,} cut off"
        if usage != NO_USAGE:
            tokens = usage.shown_tokens + usage.output_tokens
            parts.append(f"{tokens:,} tokens ({usage.cache_read_input_tokens:,} cached)")
            unpriced = f", {sum_['unpriced']:,} without a price" if sum_["cost_usd"] and sum_["unpriced"] else ""
            parts.append(price(sum_["cost_usd"] or 0.0, used=True) + unpriced)
        if sum_["seconds"] is not None:
            parts.append(f"{sum_['seconds']:.1f} s")
        yield " · ".join(parts)


def _sums(answers: Sequence[Answers]) -> Iterator[dict[str, Any]]:
    """Of both threads; what is not known is not counted."""
    for said in ([each.before for each in answers], [each.after for each in answers]):
        known = [each for each in said if each is not None]
        times = [each.seconds for each in known if each.seconds is not None]
        costs = [each.cost_usd for each in known if each.cost_usd is not None]
        yield {
            "answers": sum(not each.partial for each in known),
            "cut_off": sum(each.partial for each in known),
            "usage": sum((each.usage for each in known), NO_USAGE),
            "cost_usd": sum(costs) if costs else None,
            "unpriced": len(known) - len(costs),
            "seconds": sum(times) if times else None,
        }


def as_object(live: LiveReplay, answers: Sequence[Answers]) -> dict[str, Any]:
    before, after = (sum_ | {"usage": sum_["usage"].as_dict()} for sum_ in _sums(answers))
    error = live.error
    return {
        "name": live.thread.name,
        "id": live.thread.id,
        "of": [{"id": live.old.id, "name": live.old.name}],
        "agent": live.thread.agent,
        "model": live.thread.model,
        "permissions": live.thread.permissions,
        "cwd": live.thread.cwd,
        "prompts": live.count,
        "rounds": [
            {
                "number": each.number,
                "prompt": each.prompt,
                "before": each.before.as_dict() if each.before is not None else None,
                "after": each.after.as_dict() if each.after is not None else None,
            }
            for each in answers
        ],
        "before": before,
        "after": after,
        "error": None if error is None else {"code": error.code, "message": error.message, "hint": error.hint},
    }
