"""Threads and forks for tests: each turn is compared with what the model was shown."""

from __future__ import annotations

from clew.api.client import Client, Reply, Thread
from clew.hosts.branching.fork import Forked, fork
from clew.testing.truth import TokenModel, expected


async def true_turn(thread: Thread, voice: TokenModel, words: str = "", **options: object) -> Reply:
    """Asks one turn, and checks that the model was shown each visible turn once, and nothing else."""
    history, prompt = await thread.turns(), voice.prompt(words)
    reply = await (await thread.ask(prompt, **options)).reply()  # type: ignore[arg-type]
    assert reply.status == "answered", reply.error
    agent = str(options.get("agent", thread.record.agent))
    assert voice.shown == expected(history, prompt, agent=agent, visibility=thread.record.visibility)
    return reply


async def rounds(thread: Thread, voice: TokenModel, count: int) -> None:
    for _ in range(count):
        await true_turn(thread, voice)


async def forked(client: Client, name: str = "t", new: str | None = None, **where: object) -> tuple[Thread, Forked]:
    made = await fork(client.engine, name, new, **where)  # type: ignore[arg-type]
    return await client.find(made.threads[0].id), made


async def texts(thread: Thread) -> list[str]:
    return [turn.text for turn in await thread.turns()]
