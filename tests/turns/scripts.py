"""Scripts of steps on a thread, made from a seed: the same on the scripted agent and on the real one.

A script is data: the settings, and for each step a function of this module with its arguments. A failure names them.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from clew.core.history import Turn, Visibility
from clew.core.record import Record
from clew.testing.model.refusals import BROKEN_SESSIONS
from clew.testing.stage import Stage
from turns.world import AGENTS, MODELS, World

FAILURES = (
    "!fail 429 rate_limit_error slow down",
    "!fail 401 authentication_error no",
    "!fail 529 overloaded_error busy",
    BROKEN_SESSIONS[0].directive,
    "!toolong",
)

Arguments = dict[str, Any]
Do = Callable[..., Awaitable[None]]


class Step(Record):
    do: Do
    arguments: Arguments

    def __str__(self) -> str:
        return f"{self.do.__name__}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


class Script(Record):
    seed: int
    visibility: Visibility
    rewind: bool
    model_switch: str
    warm: bool  # agents are kept between two turns
    steps: tuple[Step, ...]


BEGINNING = 3  # turns with which a script begins, so that there is something to change


def script(seed: int, length: int = 14) -> Script:
    chance = random.Random(seed)
    chosen = chance.choices(list(STEPS), [weight for weight, _ in STEPS.values()], k=length - BEGINNING)
    return Script(
        seed,
        chance.choice(list(Visibility)),
        rewind=chance.random() < 0.85,
        model_switch=chance.choice(("transcript", "copy")),
        warm=bool(seed % 2),
        steps=tuple(Step(do, STEPS[do][1](chance)) for do in (*[continue_] * BEGINNING, *chosen)),
    )


async def play(stage: Stage, played: Script) -> World:
    """Carries the script out; the world checks every ask."""
    opened = World.open(
        stage, played.visibility, rewind=played.rewind, model_switch=played.model_switch, warm=played.warm
    )
    async with opened as world:
        for number, step in enumerate(played.steps, start=1):
            try:
                await step.do(world, **step.arguments)
            except Exception as error:
                error.add_note(f"in step {number} of {played.seed}: {', '.join(map(str, played.steps[:number]))}")
                raise
    return world


# --- the steps: first what is asked in Clew


async def ask(world: World, agent: str, model: str, fresh: bool, standing: str | None) -> None:
    reply = await world.ask(agent, model, fresh=fresh, standing=standing)
    assert reply.status == "answered", reply.error


async def continue_(world: World) -> None:
    """The plain case: the same agent and model as ever."""
    reply = await world.ask()
    assert reply.status == "answered", reply.error


async def ask_with_tools(world: World, agent: str) -> None:
    reply = await world.ask(agent, words=f"\n{world.read_in_parallel}")
    assert reply.status == "answered", reply.error


async def ask_and_fail(world: World, agent: str, failure: str) -> None:
    await world.ask(agent, words=f"\n{failure}")


async def ask_and_have_the_history_refused(world: World, agent: str, number: int) -> None:
    reply = await world.ask(agent, refused=BROKEN_SESSIONS[number].api)
    assert reply.status == "answered", reply.error


async def ask_and_stop(world: World, agent: str, at_once: bool) -> None:
    reply = await world.ask(agent, words="slowly", cancel_at_text=not at_once, kill_at_text=at_once)
    assert reply.status == "cancelled", reply.error


async def edit(world: World, place: int) -> None:
    if turn := at(place, await world.thread.turns()):
        await world.edit(turn)


async def truncate(world: World, place: int) -> None:
    if turn := at(place, await world.thread.turns()):
        await world.truncate(turn)


async def retry(world: World, place: int) -> None:
    if turn := at(place, await world.user_turns()):
        await world.retry(turn)


# --- what is done outside


async def use_plain_cli(world: World, session: int, count: int, model: str) -> None:
    world.use_plain_cli(session, count=count, model=model)


async def use_tools_outside(world: World, session: int, writes: bool) -> None:
    world.use_plain_cli(session, tools=world.write_a_file if writes else world.read_in_parallel)


async def go_back_outside(world: World, session: int, place: int) -> None:
    world.go_back_outside(session, place)


async def compact_outside(world: World, session: int) -> None:
    world.compact_outside(session)


async def delete_session(world: World, session: int) -> None:
    world.delete_session(session)


def at(place: int, turns: Sequence[Turn]) -> Turn | None:
    """The turn at this place, counted from the last one."""
    return turns[-1 - place % len(turns)] if turns else None


# --- how often each step is chosen, and its arguments


def recent(chance: random.Random) -> int:
    """A place, counted from the newest: mostly a small one, because a change far back leaves little to resume."""
    return int(chance.expovariate(0.4))


def agent(chance: random.Random) -> str:
    return chance.choice((AGENTS[0], *AGENTS))


def model(chance: random.Random) -> str:
    return chance.choice((MODELS[0], *MODELS))


STEPS: dict[Do, tuple[int, Callable[[random.Random], Arguments]]] = {
    ask: (
        3,
        lambda chance: {
            "agent": agent(chance),
            "model": model(chance),
            "fresh": chance.random() < 0.15,
            "standing": chance.choice([None, None, "Be brief."]),
        },
    ),
    continue_: (4, lambda chance: {}),
    ask_with_tools: (1, lambda chance: {"agent": agent(chance)}),
    ask_and_fail: (1, lambda chance: {"agent": agent(chance), "failure": chance.choice(FAILURES)}),
    ask_and_have_the_history_refused: (1, lambda chance: {"agent": agent(chance), "number": chance.randrange(4)}),
    ask_and_stop: (2, lambda chance: {"agent": agent(chance), "at_once": chance.random() < 0.5}),
    edit: (4, lambda chance: {"place": recent(chance)}),
    truncate: (2, lambda chance: {"place": recent(chance)}),
    retry: (2, lambda chance: {"place": recent(chance)}),
    use_plain_cli: (
        3,
        lambda chance: {"session": recent(chance), "count": chance.randint(1, 3), "model": model(chance)},
    ),
    use_tools_outside: (1, lambda chance: {"session": recent(chance), "writes": chance.random() < 0.5}),
    go_back_outside: (3, lambda chance: {"session": recent(chance), "place": recent(chance)}),
    compact_outside: (2, lambda chance: {"session": recent(chance)}),
    delete_session: (1, lambda chance: {"session": recent(chance)}),
}
