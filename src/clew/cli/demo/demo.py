"""`clew demo`: a tour that needs no account, no network and no set-up, and leaves nothing behind.

The same conversation is held twice against two scripted model APIs on loopback, each with its own prompt cache: once
with sessions resumed, once with the transcript pasted every time. Their accounts are what the last lines compare.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from clew.cli.output import print_json
from clew.cli.tour import EDIT, Exchange, exchanges
from clew.errors import AgentMissing

if TYPE_CHECKING:
    from clew.cli.tour_guide import TourGuide
    from clew.client import Client, Reply
    from clew.testing.model_api import ModelApi
    from clew.testing.prompt_cache import CacheAccount

MODEL = "claude-sonnet-4-5"
TYPING_S = 0.25  # an answer's time on the wire, so that streaming is really streamed


@dataclass(frozen=True, slots=True)
class Agent:
    path: Path
    about: str


@dataclass(frozen=True, slots=True)
class Step:
    """One turn, as it went and as the model API charged it."""

    number: int
    exchange: Exchange
    reply: Reply
    account: CacheAccount
    edited: bool  # an earlier turn was changed just before

    @property
    def units(self) -> float:
        """The price of the prompt, in ordinary input tokens. The answers cost the same either way."""
        return self.account.cost_units


Watcher = Callable[[Step], Awaitable[None]]


@click.command()
@click.option("--agent-path", metavar="PATH", help="A Claude CLI to use.  [default: looked for]")
@click.option("--turns", type=click.IntRange(2, 20), default=5, show_default=True, help="Turns of the conversation.")
@click.option("--json", "as_json", is_flag=True, help="Print one object instead of the tour.")
def demo(agent_path: str | None, turns: int, as_json: bool) -> int:
    """A five-turn tour, offline: the real Claude CLI if there is one, a scripted model, a temporary folder.

    It shows a first turn, turns that resume, an edit of an earlier turn that forces a fresh start, and ends with what
    resume saved, measured.
    """
    from clew.cli.tour_guide import TourGuide

    guide = TourGuide(quiet=as_json)
    with _stoppable(), tempfile.TemporaryDirectory(prefix="clew-demo-", ignore_cleanup_errors=True) as folder:
        agent = find_agent(agent_path, Path(folder))
        guide.introduce(agent.about)
        resumed, pasted = asyncio.run(_both_ways(Path(folder), agent, turns, guide))
    if as_json:
        print_json(_object(agent, resumed, pasted))
    else:
        guide.compare(resumed, pasted)
    return 0


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Being told to end is as Ctrl-C: the agents are stopped and the folder goes."""

    def stop(_number: int, frame: FrameType | None) -> None:
        interrupt = signal.getsignal(signal.SIGINT)  # asyncio has its own while it runs
        (interrupt if callable(interrupt) else signal.default_int_handler)(signal.SIGINT, frame)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def find_agent(path: str | None, folder: Path) -> Agent:
    from clew.wiring import Adapters

    try:
        binary = Adapters()["claude"].find(path, os.environ)
    except AgentMissing:
        if path is not None:
            raise
        from clew.testing import scripted_agent

        return Agent(
            scripted_agent.install(folder / "bin"), "a scripted stand-in for the Claude CLI (none is installed)"
        )
    return Agent(Path(binary.path), f"the Claude CLI (found by {binary.source})")


async def _both_ways(folder: Path, agent: Agent, turns: int, guide: TourGuide) -> tuple[list[Step], list[Step]]:
    """Side by side: the second conversation is only there to be charged."""

    async def shown(step: Step) -> None:
        guide.show(step)

    async def unseen(_step: Step) -> None:
        pass

    try:
        async with asyncio.TaskGroup() as both:  # not gather: that one does not wait for the second to stop its agent
            resumed = both.create_task(_converse(folder / "resume", agent, turns, shown, resume=True))
            pasted = both.create_task(_converse(folder / "transcript", agent, turns, unseen, resume=False))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None  # one line tells it
    return resumed.result(), pasted.result()


async def _converse(folder: Path, agent: Agent, turns: int, watch: Watcher, *, resume: bool) -> list[Step]:
    from clew import client
    from clew.testing.model_api import ModelApi
    from clew.testing.scripts import Text
    from clew.testing.stage import scrubbed_environ

    work = folder / "work"
    work.mkdir(parents=True)
    flags: dict[str, Any] = {"agents.claude.path": str(agent.path), "model": MODEL}
    steps = []
    with ModelApi() as api:
        async with client.open(folder / "clew", environ=scrubbed_environ(folder, api.url), **flags) as opened:
            for number, exchange in enumerate(exchanges(turns), 1):
                edited = number == EDIT.before
                if edited:
                    await _edit(opened)
                api.script.append(Text(exchange.answer, chunks=25, delay_s=TYPING_S / 25))
                before = len(api.main_requests)
                thread = await opened.thread("tour", cwd=work)
                reply = await (await thread.ask(exchange.prompt, resume=resume, timeout_s=60))
                steps.append(Step(number, exchange, reply, _charged(api, before), edited))
                await watch(steps[-1])
    return steps


async def _edit(opened: Client) -> None:
    thread = await opened.find("tour")
    prompts = [turn for turn in await thread.turns() if turn.role == "user"]
    await thread.edit(prompts[EDIT.of - 1].id, EDIT.text)


def _charged(api: ModelApi, before: int) -> CacheAccount:
    from clew.testing.prompt_cache import CacheAccount

    return sum((request.cache for request in api.main_requests[before:]), CacheAccount())


def _object(agent: Agent, resumed: list[Step], pasted: list[Step]) -> dict[str, Any]:
    def side(steps: list[Step]) -> dict[str, Any]:
        return {
            "cost_units": sum(step.units for step in steps),
            "prompt_tokens": sum(step.account.prompt_tokens for step in steps),
            "cached_tokens": sum(step.account.read_tokens for step in steps),
            "cost_usd": sum(step.reply.cost_usd for step in steps),
            "turns": [{"prompt": step.exchange.prompt, **step.reply.to_json()} for step in steps],
        }

    resume, transcript = side(resumed), side(pasted)
    saved = 1 - resume["cost_units"] / transcript["cost_units"]
    return {"agent": str(agent.path), "resume": resume, "transcript": transcript, "saved_share": saved}
