"""Follow-ups that cannot resume their session: the round succeeds with the whole history, and has a reason."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clew.api.client import Client
from clew.core.record import replace
from clew.core.reviews.review import ReviewRound, RoundStatus
from clew.testing.stage import MODEL, Stage
from reviews.reviewer import Reviewer, answer, finding, follow, repository, start

OTHER_MODEL = "claude-opus-4-5"
DAY_S = 86_400.0
# What a model without a session must be shown: the first round, its answer, and what is new.
WHOLE = ("+    return 3", '"title": "It returns the wrong number"', "-    return 3\n+    return 2", "Mended.")


@asynccontextmanager
async def reviewed(stage: Stage, **opened: Any) -> AsyncIterator[tuple[Client, Path, ReviewRound]]:
    """A review with one round, and a change after it."""
    repo = repository(stage.work / "repo")
    (repo / "a.py").write_text("def a():\n    return 3\n")
    stage.api.reply = Reviewer(answer([finding()]))
    async with stage.open(**opened) as client:
        first = await start(client, repo)
        assert first.status is RoundStatus.DONE
        (repo / "a.py").write_text("def a():\n    return 2\n")
        yield client, repo, first


def age(client: Client, by_s: float) -> None:
    """Lets this much time pass."""
    before = client.engine.context.clock
    client.engine.context = replace(client.engine.context, clock=lambda: before() + by_s)


def assert_missed(stage: Stage, round_: ReviewRound, reason: str, *, fallback: bool = False) -> None:
    assert (round_.status, round_.reason) == (RoundStatus.DONE, reason)
    assert (round_.session_resumed, round_.fallback) == (False, fallback)
    assert stage.launches[-1].resumes is None
    shown = stage.shown
    assert [role for role, _ in shown] == ["user"], "a fresh session begins with one message"
    for text in WHOLE:
        assert shown[0][1].count(text) == 1, f"{text!r} is not shown once"


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG)
    return caplog


def assert_quiet(stage: Stage, quiet: pytest.LogCaptureFixture) -> None:
    """Nothing is logged above DEBUG."""
    loud = [record for record in quiet.records if record.levelno > logging.DEBUG and record.name.startswith("clew")]
    assert [record.getMessage() for record in loud] == []
    ids = [path.stem for path in stage.session_files()]
    above = [record.getMessage() for record in quiet.records if record.levelno > logging.DEBUG]
    assert ids and not [line for line in above for each in ids if each in line]


async def test_a_deleted_session_file_leads_to_a_fresh_round(stage: Stage, quiet: pytest.LogCaptureFixture) -> None:
    async with reviewed(stage) as (client, repo, first):
        [path] = stage.session_files()
        path.unlink()
        spawned = len(stage.launches)
        second = await follow(client, first.review_id, "Mended.")
        assert_missed(stage, second, "session_missing")
        assert len(stage.launches) == spawned + 1, "nothing is spawned in vain"
        (repo / "b.py").write_text("b = 3\n")
        third = await follow(client, first.review_id)
        assert third.session_resumed, "the new session is continued"
    assert_quiet(stage, quiet)


async def test_an_empty_session_file_leads_to_a_fresh_round(stage: Stage, quiet: pytest.LogCaptureFixture) -> None:
    async with reviewed(stage) as (client, _, first):
        [path] = stage.session_files()
        path.write_bytes(b"")
        assert_missed(stage, await follow(client, first.review_id, "Mended."), "session_missing")
    assert_quiet(stage, quiet)


async def test_a_session_that_the_agent_does_not_know_leads_to_a_fresh_round(
    stage: Stage, quiet: pytest.LogCaptureFixture
) -> None:
    """Its file disappears between the decision and the spawn."""
    async with reviewed(stage) as (client, repo, first):
        [path] = stage.session_files()
        shebang, *rest = stage.binary.read_text().splitlines()
        hide = f"case \"$*\" in *--resume=*) rm -f '{path}';; esac"
        stage.binary.write_text("\n".join([shebang, hide, *rest]) + "\n")
        spawned = len(stage.launches)
        second = await follow(client, first.review_id, "Mended.")
        assert_missed(stage, second, "rejected", fallback=True)
        assert len(stage.launches) == spawned + 2, "one resume, one fallback"
        assert second.runs == 1, "the round is one run all the same"
        measures = await client.reviews.measures()
        assert (measures.follow_ups, measures.fallbacks, dict(measures.misses)) == (1, 1, {"rejected": 1})
        (repo / "b.py").write_text("b = 3\n")
        assert (await follow(client, first.review_id)).session_resumed
    assert_quiet(stage, quiet)


async def test_a_session_older_than_a_day_leads_to_a_fresh_round(stage: Stage, quiet: pytest.LogCaptureFixture) -> None:
    async with reviewed(stage) as (client, repo, first):
        age(client, DAY_S + 60)
        second = await follow(client, first.review_id, "Mended.")
        assert_missed(stage, second, "expired")
        assert second.session_age_s is not None and DAY_S < second.session_age_s < DAY_S + 600
        age(client, DAY_S - 600)
        (repo / "b.py").write_text("b = 3\n")
        third = await follow(client, first.review_id)
        assert third.session_resumed, "a day counts from the last time it was used"
        measures = await client.reviews.measures()
        assert measures.expiry_ages_s == (second.session_age_s,)
    assert_quiet(stage, quiet)


async def test_the_setting_limits_the_age_of_a_session(scripted: Stage) -> None:
    async with reviewed(scripted, **{"reviews.max_age": "1h"}) as (client, repo, first):
        age(client, 3000)
        assert (await follow(client, first.review_id, "Mended.")).session_resumed
        age(client, 3700)
        (repo / "b.py").write_text("b = 3\n")
        assert (await follow(client, first.review_id)).reason == "expired"


async def test_a_general_age_limit_applies_to_reviews_too(scripted: Stage) -> None:
    async with reviewed(scripted, max_age="10m") as (client, _, first):
        age(client, 700)
        assert_missed(scripted, await follow(client, first.review_id, "Mended."), "expired")


async def test_each_model_has_its_own_session(stage: Stage, quiet: pytest.LogCaptureFixture) -> None:
    async with reviewed(stage) as (client, repo, first):
        second = await follow(client, first.review_id, "Mended.", model=OTHER_MODEL)
        assert_missed(stage, second, "no_pin")
        assert second.model == OTHER_MODEL
        other = stage.launches[-1].session_id
        (repo / "b.py").write_text("b = 3\n")
        third = await follow(client, first.review_id, "And this.", model=MODEL)
        assert third.session_resumed and third.model == MODEL
        assert stage.launches[-1].resumes == stage.launches[0].session_id
        assert stage.prompt.count("Mended.") == 1, "it is told what the other one was"
        assert stage.prompt.count("-    return 3\n+    return 2") == 1
        fourth = await follow(client, first.review_id, "So?", model=OTHER_MODEL)
        assert fourth.session_resumed and stage.launches[-1].resumes == other
        state = await client.reviews.find(first.review_id)
        sessions = await client.reviews.sessions(state)
        assert sessions == {MODEL: stage.launches[0].session_id, OTHER_MODEL: other}
    assert_quiet(stage, quiet)


async def test_a_second_opinion_needs_no_change(scripted: Stage) -> None:
    """When the first model is asked again, it is shown the round of the second one."""
    async with reviewed(scripted) as (client, _, first):
        await follow(client, first.review_id, "Mended.")
        assert (await follow(client, first.review_id, model=OTHER_MODEL)).reason == "no_pin"
        back = await follow(client, first.review_id)
        assert (back.model, back.session_resumed) == (MODEL, True)


@pytest.mark.parametrize("way", ["setting", "environment", "flag"])
async def test_rounds_are_fresh_when_resume_is_switched_off(
    stage: Stage, way: str, quiet: pytest.LogCaptureFixture
) -> None:
    opened: dict[str, Any] = {
        "setting": {"enable_resume": False},
        "environment": {"environ": {"CLEW_ENABLE_RESUME": "false"}},
        "flag": {},
    }[way]
    async with reviewed(stage, **opened) as (client, repo, first):
        off = {"resume": False} if way == "flag" else {}
        assert_missed(stage, await follow(client, first.review_id, "Mended.", **off), "disabled")
        if way == "flag":
            (repo / "b.py").write_text("b = 3\n")
            assert (await follow(client, first.review_id)).session_resumed, "once is once"
    assert_quiet(stage, quiet)


async def test_a_session_that_branched_off_elsewhere_is_not_resumed(scripted: Stage) -> None:
    """Somebody went back to before the round's answer in the plain CLI, and asked something else there."""
    async with reviewed(scripted) as (client, _, first):
        [path] = scripted.session_files()
        line = '{"type":"user","uuid":"u","message":{"role":"user","content":"in between"},"parentUuid":null}\n'
        chosen = '{"type":"last-prompt","leafUuid":"u","explicit":true}\n'
        path.write_text(path.read_text() + line + chosen)
        assert_missed(scripted, await follow(client, first.review_id, "Mended."), "session_diverged")


async def test_after_a_temporary_failure_the_session_is_resumed(scripted: Stage) -> None:
    """If the model is overloaded, the round fails and the session is kept."""
    async with reviewed(scripted) as (client, _, first):
        scripted.fault({"do": "error_result", "text": "Overloaded", "status": 529, "error_type": "overloaded_error"})
        failed = await follow(client, first.review_id, "Mended.")
        assert (failed.status, failed.session_resumed) == (RoundStatus.FAILED, True)
        scripted.fault()
        third = await follow(client, first.review_id, "Now?")
        assert (third.status, third.session_resumed) == (RoundStatus.DONE, True)
