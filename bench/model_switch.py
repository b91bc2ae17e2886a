"""What a first turn on another model costs with a copy of the session and with the transcript, in token units.

The other model has nothing of the conversation in its cache, so it pays for everything that it is shown. A copy holds
the tool calls and their results as well as the texts; a transcript has only the texts. Costs are counted, as in `cost`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from bench.conversations import Continuation, Conversation, Kind, conversation
from bench.report import Check, Column, Result, Table
from bench.timing import tell
from clew.api.reply import Reply
from clew.api.thread import Thread
from clew.testing.stage import CODEX_MODEL, MODEL

LENGTHS = (10, 20)
QUICK_LENGTHS = (3,)
TURNS_AFTER = 3  # on the other model, with the first one
# From a model to others. Claude's CLI gives Opus 5.5 a shorter system prompt and fewer tools than the two of 4.5.
NEWER = "claude-opus-5-5"
SWITCHES = (
    ("claude", MODEL, ("claude-opus-4-5", NEWER)),
    ("claude", NEWER, (MODEL,)),
    ("codex", CODEX_MODEL, ("gpt-5.5-codex-mini",)),
)


@dataclass(frozen=True, slots=True)
class Switched:
    """One conversation that continues on another model, both ways."""

    kind: Kind
    model: str  # the other one
    turns: int
    copy: Continuation
    transcript: Continuation

    def ratio(self, turns: int) -> float:
        return self.copy.cost(turns) / self.transcript.cost(turns)


def measure(quick: bool) -> Result:
    tell("  conversations with the real CLIs, each continued on another model both ways")
    kinds = [(Kind(agent, tools, model), others) for agent, model, others in SWITCHES for tools in (False, True)]
    lengths = QUICK_LENGTHS if quick else LENGTHS
    chosen = kinds[:1] if quick else kinds
    return result([row for kind, others in chosen for row in asyncio.run(_switched(kind, others, lengths))])


async def _switched(kind: Kind, others: tuple[str, ...], lengths: tuple[int, ...]) -> list[Switched]:
    with conversation(kind) as held:
        await held.build(lengths)
        return [await _both(held, model, turns) for model in others for turns in lengths]


async def _both(held: Conversation, model: str, turns: int) -> Switched:
    async def on_other_model(thread: Thread) -> Reply:
        return await (await thread.ask(held.prompt(), model=model))

    changes = (on_other_model,) * TURNS_AFTER
    copied = await held.continued(turns, changes, model_switch="copy")
    transcript = await held.continued(turns, changes, model_switch="transcript")
    if not copied.resumed or transcript.resumed:
        raise RuntimeError(f"{held.kind.name} did not go as it should: {copied.reason}, {transcript.reason}")
    return Switched(held.kind, model, turns, copied, transcript)


def result(found: list[Switched]) -> Result:
    rows = [
        (
            each.kind.name,
            f"{each.kind.model} → {each.model}",
            each.turns,
            each.transcript.cost(1),
            each.copy.cost(1),
            each.ratio(1),
            each.ratio(TURNS_AFTER),
            each.transcript.results_shown,
            each.copy.results_shown,
            each.transcript.named,
            each.copy.named,
        )
        for each in found
    ]
    columns = [
        Column("session"),
        Column("models"),
        Column("turns before", "d"),
        Column("transcript", ",.0f"),
        Column("copy", ",.0f"),
        Column("copy ÷ transcript", ".1%"),
        Column(f"{TURNS_AFTER} turns, copy ÷ transcript", ".1%"),
        Column("tool results shown, transcript", "d"),
        Column("tool results shown, copy", "d"),
        Column("told to be the first model, transcript", "d"),
        Column("told to be the first model, copy", "d"),
    ]
    wrong = sum(each.copy.wrong_turns + each.transcript.wrong_turns for each in found)
    checks = [Check("turns in which the model was not shown the thread, each turn once", wrong, 0, timed=False)]
    if with_tools := [1 / each.ratio(1) for each in found if each.kind.tools]:  # if this fails, the default is wrong
        checks.append(Check("transcript ÷ copy with tool results, the dearest", max(with_tools), 1, timed=False))
    title = (
        "Cost of a first turn on another model, in token units (400-character prompts, 1,500-character replies, input)"
    )
    return Result("model_switch", [Table(title, columns, rows)], checks)
