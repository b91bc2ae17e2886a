"""`clew demo`: a tour that needs no account, no network and no setup, and leaves no files.

The same conversation is held twice against two scripted model APIs on loopback, each with its own prompt cache: once
with resumed sessions, once with the transcript in every prompt. The last lines compare what the two APIs charged.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from clew.cli.demo.scripted_conversation import EDIT, Exchange, exchanges, turn_number
from clew.cli.ui.printing import print_json
from clew.errors import AgentMissing

if TYPE_CHECKING:
    from clew.api.client import Client, Reply
    from clew.cli.demo.tour_display import TourDisplay
    from clew.testing.model.api import ModelApi
    from clew.testing.model.prompt_cache import CacheAccount

MODEL = "claude-sonnet-4-5"
STREAM_S = 0.25  # how long an answer takes to arrive, so that it is really streamed


@dataclass(frozen=True, slots=True)
class DemoAgent:
    path: Path
    about: str


@dataclass(frozen=True, slots=True)
class TourTurn:
    """One exchange: its reply, and what the model API charged for it."""

    number: int  # of the exchange
    exchange: Exchange
    reply: Reply
    account: CacheAccount
    edited: bool  # an earlier turn was edited just before this one

    @property
    def prompt_number(self) -> int:
        """The number of the prompt among the thread's turns, as `threads show` counts them. The answer is the next."""
        return turn_number(self.number)

    @property
    def units(self) -> float:
        """The price of the prompt, in uncached input tokens. The answers cost the same both ways."""
        return self.account.cost_units


@click.command()
@click.option("--agent-path", metavar="PATH", help="The Claude CLI to use.  [default: the one that is found]")
@click.option("--turns", type=click.IntRange(2, 20), default=5, show_default=True, help="The number of turns.")
@click.option("--json", "as_json", is_flag=True, help="Print one object instead of the tour.")
def demo(agent_path: str | None, turns: int, as_json: bool) -> int:
    """Run an offline tour with the Claude CLI if it is installed, a scripted model, and a temporary folder.

    It shows a first turn, turns that resume, an edit of an earlier turn, after which the session is rewound, and at the
    end what resuming saved, measured.
    """
    from clew.cli.demo.tour_display import TourDisplay

    display = TourDisplay(quiet=as_json)
    with _stoppable(), tempfile.TemporaryDirectory(prefix="clew-demo-", ignore_cleanup_errors=True) as folder:
        agent = find_agent(agent_path, Path(folder))
        display.introduce(agent.about)
        resumed, pasted = asyncio.run(_both_ways(Path(folder), agent, turns, display))
    if as_json:
        print_json(_object(agent, resumed, pasted))
    else:
        display.compare(resumed, pasted)
    return 0


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM and SIGHUP act like Ctrl-C: the agents are stopped and the folder is removed."""

    def stop(_number: int, frame: FrameType | None) -> None:
        interrupt = signal.getsignal(signal.SIGINT)  # asyncio installs its own handler while it runs
        (interrupt if callable(interrupt) else signal.default_int_handler)(signal.SIGINT, frame)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def find_agent(path: str | None, folder: Path) -> DemoAgent:
    from clew.api.agents import find_agent as find

    try:
        binary = find("claude", path, os.environ)
    except AgentMissing:
        if path is not None:
            raise
        from clew.testing import scripted_agent

        return DemoAgent(
            scripted_agent.install(folder / "bin"), "a scripted stand-in for the Claude CLI (none is installed)"
        )
    return DemoAgent(Path(binary.path), f"the Claude CLI (found by {binary.source})")


async def _both_ways(
    folder: Path, agent: DemoAgent, turns: int, display: TourDisplay
) -> tuple[list[TourTurn], list[TourTurn]]:
    """Holds both conversations at the same time. Only the first, which resumes, is shown.

    The second measures what the same conversation costs with the transcript in every prompt.
    """

    try:
        async with asyncio.TaskGroup() as both:  # not gather: it would not wait until the second has stopped its agent
            resumed = both.create_task(_converse(folder / "resume", agent, turns, display.show, resume=True))
            pasted = both.create_task(_converse(folder / "transcript", agent, turns, lambda _: None, resume=False))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None  # the user is shown only one error
    return resumed.result(), pasted.result()


async def _converse(
    folder: Path, agent: DemoAgent, turns: int, show: Callable[[TourTurn], None], *, resume: bool
) -> list[TourTurn]:
    from clew.api import client
    from clew.testing.model.api import ModelApi
    from clew.testing.model.scripts import Text
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
                api.script.append(Text(exchange.answer, chunks=25, delay_s=STREAM_S / 25))
                before = len(api.main_requests)
                thread = await opened.thread("tour", cwd=work)
                reply = await (await thread.ask(exchange.prompt, resume=resume, timeout_s=60))
                steps.append(TourTurn(number, exchange, reply, _charged(api, before), edited))
                show(steps[-1])
    return steps


async def _edit(opened: Client) -> None:
    thread = await opened.find("tour")
    prompts = [turn for turn in await thread.turns() if turn.role == "user"]
    await thread.edit(prompts[EDIT.of - 1].id, EDIT.text)


def _charged(api: ModelApi, before: int) -> CacheAccount:
    from clew.testing.model.prompt_cache import CacheAccount

    return sum((request.cache for request in api.main_requests[before:]), CacheAccount())


def _object(agent: DemoAgent, resumed: list[TourTurn], pasted: list[TourTurn]) -> dict[str, Any]:
    def totals(steps: list[TourTurn]) -> dict[str, Any]:
        return {
            "cost_units": sum(step.units for step in steps),
            "prompt_tokens": sum(step.account.prompt_tokens for step in steps),
            "cached_tokens": sum(step.account.read_tokens for step in steps),
            "cost_usd": sum(step.reply.cost_usd for step in steps),
            "turns": [{"prompt": step.exchange.prompt, **step.reply.to_json()} for step in steps],
        }

    resume, transcript = totals(resumed), totals(pasted)
    saved = 1 - resume["cost_units"] / transcript["cost_units"]
    return {"agent": str(agent.path), "resume": resume, "transcript": transcript, "saved_share": saved}
