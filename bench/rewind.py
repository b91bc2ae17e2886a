"""What an edit and a retry cost when the session is rewound and when it is fresh, with the real CLIs, in token units.

The same 20-turn conversation is changed in three ways, each once with `rewind = true` and once with `rewind = false`.
Costs are counted, as in `cost`: of the turn after the change, and of two more. A rewound session keeps its tool results
and reads them in every later turn; a fresh session has only the texts. So what is cheaper at first need not stay so.
The later turns call no tool: a real agent may have to read files again that a fresh session does not remember.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from bench.conversations import PAUSE_S, Change, Continuation, Conversation, Kind, conversation
from bench.report import Check, Column, Result, Table
from bench.timing import tell
from clew.api.reply import Reply
from clew.api.thread import Thread
from clew.core.history import Role
from clew.testing.stage import CODEX_MODEL, MODEL

TURNS, EDITED = 20, 10
QUICK_TURNS, QUICK_EDITED = 4, 2
TURNS_AFTER, QUICK_AFTER = 3, 2  # with the one after the change
LIMIT = 1.0  # while the cache is valid, a rewind must not cost more than a fresh session
MODELS = {"claude": MODEL, "codex": CODEX_MODEL}
KINDS = tuple(Kind(agent, tools, model) for agent, model in MODELS.items() for tools in (False, True))
QUICK_KINDS = KINDS[:1]


@dataclass(frozen=True, slots=True)
class Compared:
    """One change of one conversation, both ways."""

    kind: Kind
    change: str
    fresh: Continuation
    rewound: Continuation
    is_limited: bool

    def ratio(self, turns: int) -> float:
        return self.rewound.cost(turns) / self.fresh.cost(turns)

    @property
    def turns(self) -> int:
        """How many turns were made, with the one after the change."""
        return len(self.fresh.accounts)


def measure(quick: bool) -> Result:
    tell("  conversations with the real CLIs, each continued both ways")
    return result([row for kind in (QUICK_KINDS if quick else KINDS) for row in asyncio.run(_compared(kind, quick))])


async def _compared(kind: Kind, quick: bool) -> list[Compared]:
    turns, edited, after = (QUICK_TURNS, QUICK_EDITED, QUICK_AFTER) if quick else (TURNS, EDITED, TURNS_AFTER)
    with conversation(kind) as held:
        await held.build((turns,))
        changes = {
            f"edit turn {edited} of {turns}, ask": _editing(held, edited),
            f"retry turn {turns} of {turns}": _retrying(turns),
            f"retry turn {edited} of {turns}": _retrying(edited),
        }
        found = [await _both(held, name, change, turns, after) for name, change in changes.items()]
        if not quick:
            name, change = next(iter(changes.items()))
            found.append(await _both(held, f"{name} ten minutes later", change, turns, after, pause_s=PAUSE_S))
        tell(f"  {kind.name}: {len(found)} changes")
        return found


async def _both(
    held: Conversation, name: str, change: Change, turns: int, after: int, *, pause_s: float = 0.0
) -> Compared:
    async def next_turn(thread: Thread) -> Reply:
        return await (await thread.ask(held.prompt()))

    changes = (change, *[next_turn] * (after - 1))
    rewound = await held.continued(turns, changes, pause_s=pause_s, rewind=True)
    fresh = await held.continued(turns, changes, pause_s=pause_s, rewind=False)
    if not rewound.resumed or fresh.resumed:
        raise RuntimeError(f"{name} did not go as it should: {rewound.reason}, {fresh.reason}")
    return Compared(held.kind, name, fresh, rewound, is_limited=not pause_s)


def _editing(held: Conversation, number: int) -> Change:
    """Rewords a prompt, and asks the next one."""

    async def edit(thread: Thread) -> Reply:
        turn = await _prompt(thread, number)
        await thread.edit(turn, held.prompt())
        return await (await thread.ask(held.prompt()))

    return edit


def _retrying(number: int) -> Change:
    async def retry(thread: Thread) -> Reply:
        return await (await thread.retry(await _prompt(thread, number)))

    return retry


async def _prompt(thread: Thread, number: int) -> str:
    return [turn.id for turn in await thread.turns() if turn.role is Role.USER][number - 1]


def result(found: list[Compared]) -> Result:
    rows = [
        (
            each.kind.name,
            each.change,
            each.fresh.cost(1),
            each.rewound.cost(1),
            each.ratio(1),
            each.ratio(each.turns),
            each.fresh.read_share(1),
            each.rewound.read_share(1),
            each.fresh.results_shown,
            each.rewound.results_shown,
        )
        for each in found
    ]
    columns = [
        Column("session"),
        Column("change"),
        Column("fresh", ",.0f"),
        Column("rewound", ",.0f"),
        Column("rewound ÷ fresh", ".1%"),
        Column(f"{found[0].turns} turns, rewound ÷ fresh", ".1%"),
        Column("read from cache, fresh", ".0%"),
        Column("read from cache, rewound", ".0%"),
        Column("tool results shown, fresh", "d"),
        Column("tool results shown, rewound", "d"),
    ]
    wrong = sum(each.fresh.wrong_turns + each.rewound.wrong_turns for each in found)
    dearest = max(each.ratio(1) for each in found if each.is_limited)
    checks = [
        Check("rewound ÷ fresh while the cache is valid, the dearest", dearest, LIMIT, timed=False),
        Check("turns in which the model was not shown the thread, each turn once", wrong, 0, timed=False),
    ]
    title = "Cost of the turn after a change, in token units (400-character prompts, 1,500-character replies, input)"
    return Result("rewind", [Table(title, columns, rows)], checks)
