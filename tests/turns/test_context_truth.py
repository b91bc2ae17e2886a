"""Law 1 under random scripts: whatever happens to a thread, the model is shown its visible history, each turn once.

The random machine runs on the scripted agent; a fixed set of scripts runs on the real CLI as well.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from clew.core.history import Visibility
from clew.errors import UsageLimit
from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.model.refusals import BROKEN_SESSIONS, ApiRefusal
from clew.testing.stage import SUBSCRIPTION, Stage
from turns.world import AGENTS, MODELS, Other, World

agents = st.sampled_from(AGENTS)
models = st.sampled_from(MODELS)
places = st.integers(min_value=0, max_value=30)
crashes = st.sampled_from(
    [
        {"do": "crash_before_init", "signal": 9},
        {"do": "crash_after_init", "signal": 9},
        {"do": "crash_after_init", "signal": 9, "saved": False},
        {"do": "crash_mid_text", "signal": 9},
        {"do": "no_result"},
        {"do": "lie_success_empty"},
        {"do": "lie_session_id"},
        {"do": "unsaved"},
    ]
)
failures = st.sampled_from(
    [
        "!fail 429 rate_limit_error slow down",
        "!fail 401 authentication_error no",
        "!fail 529 overloaded_error busy",
        BROKEN_SESSIONS[0].directive,
        "!toolong",
    ]
)


class Conversation(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self._runner = self._stack.enter_context(asyncio.Runner())
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        api = self._stack.enter_context(ModelApi())
        self.stage = Stage(folder, api, scripted_agent.install(folder / "agent"))
        self.stage.account = SUBSCRIPTION  # its usage limits have a reset time
        self._opened = self.stage.open(adapters=[Other()])
        self._client = self._runner.run(self._opened.__aenter__())
        self._stack.callback(lambda: self._runner.run(self._opened.__aexit__(None, None, None)))

    @initialize(visibility=st.sampled_from(list(Visibility)))
    def begin(self, visibility: Visibility) -> None:
        self.world = self._runner.run(World.make(self.stage, self._client, visibility))

    def teardown(self) -> None:
        left = self.stage.processes()
        self._stack.close()
        assert not left, "no process is left"

    def turn_at(self, place: int, *, of_user: bool = False):  # type: ignore[no-untyped-def]
        turns = self._runner.run(self.world.user_turns() if of_user else self.world.thread.turns())
        return turns[place % len(turns)] if turns else None

    @rule(agent=agents, model=models, fresh=st.booleans(), standing=st.sampled_from([None, None, "Be brief."]))
    def ask(self, agent: str, model: str, fresh: bool, standing: str | None) -> None:
        reply = self._runner.run(self.world.ask(agent, model, fresh=fresh, standing=standing))
        assert reply.status == "answered"

    @rule(count=st.integers(min_value=1, max_value=3))
    def talk(self, count: int) -> None:
        """A straight conversation: from the second turn on it must resume."""
        for number in range(count):
            reply = self._runner.run(self.world.ask())
            assert number == 0 or reply.session_resumed

    @rule(agent=agents, fault=crashes, words=st.sampled_from(["", "slowly"]))
    def ask_and_crash(self, agent: str, fault: dict[str, object], words: str) -> None:
        self.stage.fault(fault)
        self._runner.run(self.world.ask(agent, words=words))
        self.stage.fault()

    @rule(agent=agents, failure=failures)
    def ask_and_fail(self, agent: str, failure: str) -> None:
        self._runner.run(self.world.ask(agent, words=f"\n{failure}"))

    @rule(agent=agents, in_s=st.integers(min_value=60, max_value=7 * 86_400))
    def ask_and_meet_a_limit(self, agent: str, in_s: int) -> None:
        resets_at = int(time.time()) + in_s
        reply = self._runner.run(self.world.ask(agent, words=f"\n!limit {resets_at}"))
        assert isinstance(reply.error, UsageLimit) and reply.error.resets_at == resets_at
        assert self._runner.run(self.world.ask(agent)).status == "answered"

    @rule(agent=agents, refusal=st.sampled_from(BROKEN_SESSIONS))
    def ask_and_have_the_history_refused(self, agent: str, refusal: ApiRefusal) -> None:
        reply = self._runner.run(self.world.ask(agent, refused=refusal.api))
        assert (reply.status, reply.fallback) in (("answered", True), ("answered", False))
        assert reply.reason == "poisoned" if reply.fallback else not reply.session_resumed

    @rule(agent=agents)
    def ask_and_cancel(self, agent: str) -> None:
        reply = self._runner.run(self.world.ask(agent, words="slowly", cancel_at_text=True))
        assert reply.status == "cancelled"

    @rule(agent=agents)
    def ask_and_be_rejected(self, agent: str) -> None:
        self.stage.fault({"do": "reject", "on": "resume"})
        reply = self._runner.run(self.world.ask(agent))
        self.stage.fault()
        assert reply.status == "answered"

    @precondition(lambda self: hasattr(self, "world"))
    @rule(place=places)
    def edit(self, place: int) -> None:
        if turn := self.turn_at(place):
            self._runner.run(self.world.edit(turn))

    @rule(place=places)
    def truncate(self, place: int) -> None:
        if turn := self.turn_at(place):
            self._runner.run(self.world.truncate(turn))

    @rule(place=places)
    def retry(self, place: int) -> None:
        turn = self.turn_at(place, of_user=True)
        if turn is not None and "!" not in turn.text:
            self._runner.run(self.world.retry(turn))

    @rule(place=places)
    def delete_session(self, place: int) -> None:
        self.world.delete_session(place)

    @rule(place=places)
    def use_plain_cli(self, place: int) -> None:
        self.world.use_plain_cli(place)


def machine(examples: int, steps: int, *, derandomize: bool) -> None:
    run_state_machine_as_test(
        Conversation,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=derandomize,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.process
@pytest.mark.timeout(400)
def test_context_is_true_under_random_scripts() -> None:
    machine(examples=25, steps=12, derandomize=True)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_context_is_true_under_long_random_scripts() -> None:
    machine(examples=int(os.environ.get("CLEW_SOAK_EXAMPLES", "300")), steps=40, derandomize=False)


async def switching(world: World) -> None:
    await world.ask()
    await world.ask("other")
    await world.ask()
    await world.ask(model=MODELS[1])
    await world.ask()
    await world.ask("other", fresh=True)
    await world.ask()


async def editing(world: World) -> None:
    for _ in range(3):
        await world.ask()
    turns = await world.thread.turns()
    await world.edit(turns[0])
    await world.ask()
    await world.edit((await world.thread.turns())[-1])
    await world.ask()
    await world.truncate((await world.thread.turns())[3])
    await world.ask()
    await world.retry((await world.user_turns())[1])
    await world.ask()


async def failing(world: World) -> None:
    await world.ask()
    await world.ask(words="\n!fail 429 rate_limit_error slow down")
    assert (await world.ask()).session_resumed, "a usage limit keeps the session"
    await world.ask(words="\n!fail 401 authentication_error no")
    assert (await world.ask()).session_resumed, "so does a refused key"
    await world.ask(words=f"\n{BROKEN_SESSIONS[0].directive}")
    poisoned = await world.ask()
    assert not poisoned.session_resumed
    await world.ask()


async def refused(world: World) -> None:
    """The API refuses the history, with each error text that the CLI rewords and with one that it does not."""
    await world.ask()
    for refusal in BROKEN_SESSIONS[:4]:
        reply = await world.ask(refused=refusal.api)
        assert (reply.status, reply.reason, reply.fallback) == ("answered", "poisoned", True), refusal.api.message
    assert (await world.ask()).session_resumed, "the new session is as good as any"


async def stopping(world: World) -> None:
    await world.ask()
    await world.ask(words="slowly", cancel_at_text=True)
    await world.ask()
    await world.ask(words="slowly", cancel_at_text=True)
    await world.ask(words="slowly", cancel_at_text=True)
    await world.ask()


async def taking_back(world: World) -> None:
    """The session holds a part of a stopped answer that the thread no longer has."""
    await world.ask()
    await world.ask(words="slowly", cancel_at_text=True)
    await world.truncate((await world.thread.turns())[-1])
    assert not (await world.ask()).session_resumed
    await world.ask(words="slowly", cancel_at_text=True)
    await world.edit((await world.thread.turns())[-1])
    assert not (await world.ask()).session_resumed
    await world.ask()


async def losing(world: World) -> None:
    await world.ask()
    world.delete_session(0)
    gone = await world.ask()
    assert gone.reason == "session_missing"
    world.use_plain_cli(0)
    diverged = await world.ask()
    assert diverged.reason == "session_diverged"
    assert (await world.ask()).session_resumed


@pytest.mark.pairwise
@pytest.mark.parametrize("visibility", list(Visibility))
@pytest.mark.parametrize("script", [switching, editing, failing, refused, stopping, taking_back, losing])
async def test_context_is_true_in_a_fixed_script(stage: Stage, script, visibility: Visibility) -> None:  # type: ignore[no-untyped-def]
    async with stage.open(adapters=[Other()]) as client:
        await script(await World.make(stage, client, visibility))
