"""How the tour is printed. rich leaves the colours out in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from clew.cli.demo.scripted_conversation import EDIT, turn_number
from clew.cli.ui.formatting import harmless, one_line
from clew.cli.ui.run_display import meaning, resumed_words

if TYPE_CHECKING:
    from clew.cli.demo.demo import TourTurn

ANSWER_CHARS = 320
ANSWER_LINES = 6
WIDTH = 100
NUMBER_WIDTH = 8  # the room for the number after a bar


class TourDisplay:
    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(highlight=False, quiet=quiet)
        self._console.width = min(self._console.width, WIDTH)

    def introduce(self, agent: str) -> None:
        self._console.print()
        self._console.print("Clew keeps the conversation with a coding agent.", style="bold")
        self._console.print(f"An offline tour with {agent},", style="dim")
        self._console.print(
            "a scripted model on 127.0.0.1, and a temporary folder that is removed afterwards.", style="dim"
        )

    def show(self, step: TourTurn) -> None:
        rows = Table.grid(padding=(0, 1))
        rows.add_column(width=2, justify="right", style="bold")
        rows.add_column(width=7)
        rows.add_column()
        if step.edited:
            edited = turn_number(EDIT.of)
            said = f"your second prompt (turn {edited}) now reads: {EDIT.text}"
            rows.add_row("", Text("edit", style="magenta"), Text(said))
            rows.add_row("", "", Text(f"clew threads edit tour {edited} …", style="dim"))
            rows.add_row("", "", "")
        number = step.prompt_number
        rows.add_row(str(number), Text("you", style="cyan"), Text(step.exchange.prompt))
        rows.add_row(str(number + 1), Text("claude", style="green"), Text(beginning(step.reply.text)))
        rows.add_row("", "", _how(step))
        self._console.print()
        self._console.print(rows)

    def compare(self, resumed: list[TourTurn], pasted: list[TourTurn]) -> None:
        """What the same conversation cost both ways, as the two model APIs charged it."""
        table = Table.grid(padding=(0, 2))
        for _ in range(4):
            table.add_column(justify="right")
        table.add_row("", Text("shown to the model"), Text("from the cache"), Text("cost"), style="dim")
        for name, steps in (("transcript every turn", pasted), ("resumed by Clew", resumed)):
            shown = sum(step.account.prompt_tokens for step in steps)
            cached = sum(step.account.read_tokens for step in steps)
            table.add_row(name, f"{shown:,}", f"{cached:,}", Text(f"{_units(steps):,.0f}", style="bold"))
        self._console.print()
        self._console.print("What resuming saved", style="bold", end="")
        self._console.print("  measured, by the model APIs' own prompt-cache accounts", style="dim")
        self._console.print(table)
        self._console.print("Costs are in token units (1 = one uncached input token).", style="dim")
        self._console.print()
        self._bars(pasted, resumed)
        self._console.print()
        self._console.print(_verdict(resumed, pasted))
        self._console.print('Next: clew ask "…", clew ask -c "…", clew doctor', style="dim", markup=False)
        self._console.print()

    def _bars(self, pasted: list[TourTurn], resumed: list[TourTurn]) -> None:
        """The cost of each follow-up. The first turn fills the cache and costs the same both ways."""
        largest = max((step.units for step in (*pasted[1:], *resumed[1:])), default=0.0) or 1.0
        rows = Table.grid(padding=(0, 1))
        width = (self._console.width - 8) // 2
        rows.add_column(width=4, justify="right")
        rows.add_column(width=width)
        rows.add_column(width=width)
        rows.add_row("turn", Text("transcript"), Text("resumed"), style="dim")
        for theirs, ours in zip(pasted[1:], resumed[1:], strict=True):
            colour = "green" if ours.reply.session_resumed else "yellow"
            bars = [
                _bar(step.units, (width - NUMBER_WIDTH) * step.units / largest, hue)
                for step, hue in ((theirs, "red"), (ours, colour))
            ]
            rows.add_row(str(ours.prompt_number), *bars)
        self._console.print(rows)


def beginning(answer: str) -> str:
    """The first lines of the answer. Lines are kept whole, so that lists and code keep their shape."""
    lines = harmless(answer).splitlines()
    kept: list[str] = []
    for line in lines[:ANSWER_LINES]:
        if kept and sum(map(len, kept)) + len(line) > ANSWER_CHARS:
            break
        kept.append(line if kept or len(line) <= ANSWER_CHARS else one_line(line, ANSWER_CHARS))
    if len(kept) == len(lines):
        return "\n".join(kept)
    while not kept[-1].strip():
        kept.pop()
    return "\n".join([*kept, "…"])


def _how(step: TourTurn) -> Text:
    reply, account = step.reply, step.account
    line = Text()
    if reply.session_resumed:
        rest = resumed_words(reply.reason, reply.rewound_to).removeprefix("resumed")
        line.append("resumed", style="bold green").append(rest)
    else:
        line.append("fresh", style="bold yellow").append(f": {meaning(reply.reason)}")
    tokens = f" · {account.prompt_tokens:,} tokens shown, {account.read_tokens:,} of them from the cache"
    return line.append(tokens, style="dim")


def _bar(units: float, length: float, colour: str) -> Text:
    return Text("━" * max(1, round(length)), style=colour).append(f" {units:,.0f}", style="default")


def _verdict(resumed: list[TourTurn], pasted: list[TourTurn]) -> Text:
    pairs = [(ours, theirs) for ours, theirs in zip(resumed, pasted, strict=True) if ours.reply.session_resumed]
    turn = _saved([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
    line = Text(f"A resumed turn cost {turn:.0%} less", style="bold green")
    line.append(" than the same turn with the transcript; ", style="default not bold")
    line.append(f"all {len(resumed)} turns {_saved(resumed, pasted):.0%} less", style="bold green")
    edit = ", and the one after the edit" if any(step.edited for step in resumed) else ""
    words = f", including the first one, which fills the cache{edit}. The saving grows with every turn."
    return line.append(words, style="default not bold")


def _saved(ours: list[TourTurn], theirs: list[TourTurn]) -> float:
    return 1 - _units(ours) / (_units(theirs) or 1.0)


def _units(steps: list[TourTurn]) -> float:
    return sum(step.units for step in steps)
