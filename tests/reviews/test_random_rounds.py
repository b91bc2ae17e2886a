"""Random ages, lost session files, models and switches: every round that may resume does; others have a reason."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from clew.api.client import Client
from clew.core.record import replace
from clew.core.reviews.review import RoundStatus
from clew.testing.model.scripts import Reply, Request, Text
from clew.testing.stage import MODEL, Stage
from reviews.reviewer import answer, follow, repository, start

ROUNDS = 30
MODELS = [MODEL, "claude-opus-4-5", "claude-haiku-4-5"]
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


@dataclass
class Session:
    """What the test knows about a model's session."""

    path: Path
    used_at: float


class World:
    """The clock, the sessions, and what the next round must do."""

    def __init__(self, stage: Stage, client: Client) -> None:
        self.stage = stage
        self.sessions: dict[str, Session] = {}
        self.now = client.engine.context.clock()
        client.engine.context = replace(client.engine.context, clock=lambda: self.now)

    def expected(self, model: str, *, off: bool, rejects: bool) -> str | None:
        """Why the next round is fresh; None: it resumes. The order is that of the decision's guards."""
        known = self.sessions.get(model)
        if off:
            return "disabled"
        if known is None:
            return "no_pin"
        if self.now - known.used_at > DAY_S:
            return "expired"
        if not known.path.exists():
            return "session_missing"
        return "rejected" if rejects else None

    def ran(self, model: str, fresh: bool) -> None:
        if fresh:
            id = self.stage.launches[-1].session_id
            [path] = [path for path in self.stage.session_files() if path.stem == id]
            self.sessions[model] = Session(path, self.now)
        self.sessions[model].used_at = self.now


def happen(world: World, chance: random.Random) -> None:
    """Between two rounds time passes, and sometimes a session file is lost."""
    world.now += chance.choice([1.0, 60.0, HOUR_S, 3 * HOUR_S, 9 * HOUR_S, 13 * HOUR_S, 23.9 * HOUR_S, 24.1 * HOUR_S])
    if world.sessions and chance.random() < 0.25:
        world.sessions[chance.choice(sorted(world.sessions))].path.unlink(missing_ok=True)


def tokens(stage: Stage) -> list[str]:
    """The messages and answers of the rounds, in the order in which the model saw them."""
    return re.findall(r"(?:said|seen)-\d{3}", "\n".join(text for _, text in stage.shown))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.rest) for seed in (1, 2))])
async def test_every_round_that_may_resume_does_and_every_other_has_its_reason(scripted: Stage, seed: int) -> None:
    chance = random.Random(seed)
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("n = 0\n")
    number = 1

    def reply(request: Request) -> Reply | None:
        return Text(answer(summary=f"seen-{number:03d}")) if request.is_main else None

    scripted.api.reply = reply
    reasons: Counter[str | None] = Counter()
    async with scripted.open() as client:
        world = World(scripted, client)
        first = await start(client, repo, focus="said-001")
        world.ran(MODEL, fresh=True)
        for number in range(2, ROUNDS + 1):
            happen(world, chance)
            (repo / "a.py").write_text(f"n = {number}\n")
            model, off, rejects = chance.choice(MODELS), chance.random() < 0.1, chance.random() < 0.15
            expected = world.expected(model, off=off, rejects=rejects)
            scripted.fault(*([{"do": "reject", "on": "resume"}] if rejects else []))
            done = await follow(
                client, first.review_id, f"said-{number:03d}", model=model, resume=False if off else None
            )
            assert (done.status, done.reason) == (RoundStatus.DONE, expected), f"round {number}, {model}"
            assert (done.session_resumed, done.fallback) == (expected is None, expected == "rejected")
            assert sorted(tokens(scripted)) == sorted(
                [f"{word}-{n:03d}" for n in range(1, number) for word in ("said", "seen")] + [f"said-{number:03d}"]
            ), "the model was shown every round once, and nothing else"
            world.ran(model, fresh=expected is not None)
            reasons[expected] += 1
        measures = await client.reviews.measures()
        state = await client.reviews.find(first.review_id)
    assert (measures.rounds, measures.follow_ups) == (ROUNDS, ROUNDS - 1)
    assert measures.resumed == reasons.pop(None)
    assert dict(measures.misses) == reasons
    assert len(measures.expiry_ages_s) == reasons["expired"] and all(age > DAY_S for age in measures.expiry_ages_s)
    assert measures.fallbacks == reasons["rejected"]
    assert all(earlier.ended_at <= later.started_at for earlier, later in pairwise(state.rounds) if earlier.ended_at)


async def test_within_a_day_only_a_lost_file_or_a_new_model_prevents_a_resume(scripted: Stage) -> None:
    """With one model and pauses below a day, the resume rate is one."""
    chance = random.Random(7)
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("n = 0\n")
    scripted.api.reply = lambda request: Text(answer()) if request.is_main else None
    async with scripted.open() as client:
        world = World(scripted, client)
        first = await start(client, repo)
        for number in range(12):
            world.now += chance.uniform(0, DAY_S - 1)
            (repo / "a.py").write_text(f"n = {number + 1}\n")
            assert (await follow(client, first.review_id)).reason is None
        assert (await client.reviews.measures()).resume_rate == 1.0
