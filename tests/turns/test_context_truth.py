"""Laws 1 and 3 under random scripts: whatever happens to a thread, the model is shown its visible history, each turn
once, and a session is resumed exactly when that is allowed.

The random machine runs on the scripted agent. Scripts from fixed seeds, and some that were written by hand, run on the
real CLI as well. `World` checks both laws on every ask.
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
from conftest import make_stage
from turns.scripts import FAILURES, play, script
from turns.world import AGENTS, MODELS, World

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
failures = st.sampled_from(FAILURES)
SEEDS, SEEDS_OF_A_TEST = 60, 5


class Conversation(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self._runner = self._stack.enter_context(asyncio.Runner())
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        api = self._stack.enter_context(ModelApi())
        self.stage = Stage(folder, api, scripted_agent.install(folder / "agent"))
        self.stage.account = SUBSCRIPTION  # its usage limits have a reset time

    @initialize(
        visibility=st.sampled_from(list(Visibility)),
        rewind=st.sampled_from([True, True, True, False]),
        model_switch=st.sampled_from(["transcript", "copy"]),
        warm=st.booleans(),
    )
    def begin(self, visibility: Visibility, rewind: bool, model_switch: str, warm: bool) -> None:
        opened = World.open(self.stage, visibility, rewind=rewind, model_switch=model_switch, warm=warm)
        self.world = self._runner.run(opened.__aenter__())
        self._stack.callback(lambda: self._runner.run(opened.__aexit__(None, None, None)))

    def teardown(self) -> None:
        kept = self._runner.run(self.world.kept_agents())
        left = self.stage.processes()
        self._stack.close()
        assert {*left} <= {*kept}, "no process is left but those that are kept"
        assert not self.stage.processes(), "they have ended with their client"

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

    @rule(agent=agents)
    def ask_with_tools(self, agent: str) -> None:
        reply = self._runner.run(self.world.ask(agent, words=f"\n{self.world.read_in_parallel}"))
        assert reply.status == "answered"

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
        assert reply.status == "answered"
        assert not reply.fallback or reply.reason == "poisoned"

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
        if turn := self.turn_at(place, of_user=True):
            self._runner.run(self.world.retry(turn))

    @rule(place=places)
    def delete_session(self, place: int) -> None:
        self.world.delete_session(place)

    @rule(session=places, count=st.integers(min_value=1, max_value=3), model=models)
    def use_plain_cli(self, session: int, count: int, model: str) -> None:
        self.world.use_plain_cli(session, count=count, model=model)

    @rule(session=places, writes=st.booleans())
    def use_tools_in_the_plain_cli(self, session: int, writes: bool) -> None:
        tools = self.world.write_a_file if writes else self.world.read_in_parallel
        self.world.use_plain_cli(session, tools=tools)

    @rule(session=places, place=places)
    def go_back_outside(self, session: int, place: int) -> None:
        self.world.go_back_outside(session, place)

    @rule(session=places)
    def compact_outside(self, session: int) -> None:
        self.world.compact_outside(session)


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


@pytest.mark.rest
@pytest.mark.parametrize("agent", ["scripted", pytest.param("real", marks=pytest.mark.real)])
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_OF_A_TEST))
async def test_context_is_true_in_scripts_from_fixed_seeds(tmp_path: Path, agent: str, first: int) -> None:
    for seed in range(first, first + SEEDS_OF_A_TEST):
        with ModelApi() as api, make_stage(agent, tmp_path / str(seed), api) as stage:
            await play(stage, script(seed))


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


async def refused_in_a_copy(world: World) -> None:
    """The tools that were called before the session was rewound do not prevent the fallback: this turn called none."""
    await world.ask(words=f"\n{world.read_in_parallel}")
    await world.ask()
    await world.edit((await world.user_turns())[1])
    reply = await world.ask(refused=BROKEN_SESSIONS[0].api)
    assert (reply.status, reply.reason, reply.fallback) == ("answered", "poisoned", True)


async def stopping(world: World) -> None:
    await world.ask()
    await world.ask(words="slowly", cancel_at_text=True)
    await world.ask()
    await world.ask(words="slowly", cancel_at_text=True)
    await world.ask(words="slowly", cancel_at_text=True)
    await world.ask()


async def taking_back(world: World) -> None:
    """The session holds a part of a stopped answer that the thread no longer has: it is rewound to before it."""
    await world.ask()
    await world.ask(words="slowly", cancel_at_text=True)
    await world.truncate((await world.thread.turns())[-1])
    assert (await world.ask()).session_resumed
    await world.ask(words="slowly", cancel_at_text=True)
    await world.edit((await world.thread.turns())[-1])
    assert (await world.ask()).session_resumed
    await world.ask()


async def going_on_outside(world: World) -> None:
    """What was said in the plain CLI comes in with the next ask, whoever is asked, also after a run was stopped."""
    await world.ask()
    await world.ask("other", words="slowly", cancel_at_text=True)
    world.use_plain_cli(0, count=2, model=MODELS[1])
    world.use_plain_cli(1, tools=world.read_in_parallel)
    await world.ask()
    world.use_plain_cli(0, tools=world.write_a_file)
    await world.ask("other")
    await world.ask()
    world.compact_outside(0)
    assert (await world.ask()).session_resumed
    world.use_plain_cli(0)
    assert (await world.ask()).session_resumed


async def branching_off(world: World) -> None:
    for _ in range(3):
        await world.ask()
    world.go_back_outside(0, 1)
    branched = await world.ask()
    assert branched.reason == "session_diverged"
    await world.ask()
    world.go_back_outside(0, 0)
    await world.edit((await world.user_turns())[-1])
    assert not (await world.ask()).session_resumed, "an older session does not replace one that branched off"


async def losing(world: World) -> None:
    await world.ask()
    world.delete_session(0)
    gone = await world.ask()
    assert gone.reason == "session_missing"
    world.use_plain_cli(0)
    followed = await world.ask()
    assert followed.session_resumed and "2 turns were made outside" in followed.warnings[0]
    assert (await world.ask()).session_resumed


async def test_context_is_true_without_following(scripted: Stage) -> None:
    async with World.open(scripted, Visibility.SHARED, follow_moves=False) as world:
        await world.ask()
        world.use_plain_cli(0)
        assert (await world.ask()).reason == "session_diverged"
        assert (await world.ask()).session_resumed


async def test_context_is_true_without_resumes(scripted: Stage) -> None:
    async with World.open(scripted, Visibility.SHARED, enable_resume=False) as world:
        assert [(await world.ask()).reason for _ in range(2)] == ["disabled", "disabled"]


@pytest.mark.pairwise
@pytest.mark.parametrize("visibility", list(Visibility))
@pytest.mark.parametrize(
    "written",
    [
        *(switching, editing, failing, refused, refused_in_a_copy),
        *(stopping, taking_back, losing, going_on_outside, branching_off),
    ],
)
async def test_context_is_true_in_a_fixed_script(stage: Stage, written, visibility: Visibility) -> None:  # type: ignore[no-untyped-def]
    async with World.open(stage, visibility, warm=True) as world:
        await written(world)


async def test_a_straight_conversation_has_one_agent(stage: Stage) -> None:
    async with World.open(stage, Visibility.SHARED, warm=True) as world:
        for _ in range(4):
            await world.ask()
        assert (world.warm, len(stage.launches)) == (3, 1)


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_check_fails_when_a_session_is_resumed_against_the_law(scripted: Stage, allowed: bool) -> None:
    """The client may rewind a session and the ledger does not know it, or the other way round."""
    async with scripted.open(rewind=not allowed) as client:
        world = await World.make(scripted, client, Visibility.SHARED, rewind=allowed)
        await world.ask()
        await world.ask()
        await world.edit((await world.user_turns())[1])
        with pytest.raises(AssertionError, match="law 3"):
            await world.ask()
