"""Old review files: sessions are adopted by reading their files; without a session file nothing is resumed."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

import forkserver
from clew.api.reviews import import_file
from clew.core.reviews.review import findings_of
from clew.errors import Conflict, UsageError
from clew.hosts.reviews.reviews import RoundOptions
from clew.testing.stage import MODEL, Stage
from reviews.reviewer import Reviewer, answer, repository

OTHER = "claude-haiku-4-5"
ROUNDS = [
    {
        "round": 1,
        "request": "Please look at the numbers.",
        "review": {
            "summary": "One thing.",
            "findings": [{"severity": "major", "file": "a.py", "line": 2, "message": "It returns 1."}],
        },
    }
]


def in_the_plain_cli(stage: Stage, folder: Path, prompt: str, model: str = MODEL) -> str:
    """Makes a session that Clew does not know."""
    session = str(uuid.uuid4())
    words = ["-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]
    line = {"type": "user", "message": {"role": "user", "content": prompt}}
    subprocess.run(
        [str(stage.binary), *words, f"--session-id={session}", "--model", model],
        cwd=folder,
        env=stage.environ,
        input=json.dumps(line) + "\n",
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return session


def run_clew(stage: Stage, folder: Path, *words: str, environ: dict[str, str]) -> None:
    done = forkserver.run(*words, cwd=folder, env=stage.environ | environ)
    assert done.returncode == 0, done.stderr


def old_file(stage: Stage, **body: Any) -> Path:
    path = stage.folder / "old.json"
    path.write_text(json.dumps({"reviewId": "2025-07-01-003", "rounds": ROUNDS, **body}))
    return path


@pytest.mark.parametrize("shape", ["single", "by model"])
async def test_a_session_with_a_file_is_resumed(stage: Stage, shape: str) -> None:
    repo = repository(stage.work / "repo")
    session = in_the_plain_cli(stage, repo, "The whole old prompt: look at ALPHA.")
    (repo / "a.py").write_text("a = 2\n")
    ids = {"claudeSessionId": session} if shape == "single" else {"claudeSessionIds": {MODEL: session}}
    stage.api.reply = Reviewer(answer(earlier=[{"id": "F1", "state": "fixed"}]))
    async with stage.open(model=None) as client:
        done = await import_file(client, old_file(stage, **ids), str(repo))
        assert (done.review_id, done.rounds, list(done.sessions.values())) == ("2025-07-01-003", 1, [True])
        thread = await client.find("review-2025-07-01-003")
        assert next(turn.text for turn in await thread.turns()) == "The whole old prompt: look at ALPHA."
        after = await (await client.reviews.follow(done.review_id, RoundOptions("Mended."))).finish()
        assert (after.number, after.session_resumed, after.reason) == (2, True, None)
        assert stage.launches[-1].resumes == session
        told = [text for role, text in stage.shown if role == "user"]
        assert sum("ALPHA" in text for text in told) == 1, "nothing twice"
        assert "It returns 1." in told[-1] and "+a = 2" in told[-1]
        state = await client.reviews.find(done.review_id)
        assert [each.state for each in findings_of(state.rounds)] == ["fixed"]
        assert await client.reviews.sessions(state) == {MODEL: session}


async def test_each_models_session_is_resumed(stage: Stage) -> None:
    repo = repository(stage.work / "repo")
    sessions = {model: in_the_plain_cli(stage, repo, f"For {model}.", model) for model in (MODEL, OTHER)}
    (repo / "a.py").write_text("a = 2\n")
    stage.api.reply = Reviewer()
    async with stage.open(model=None) as client:
        done = await import_file(client, old_file(stage, claudeSessionIds=sessions), str(repo))
        assert done.sessions == {MODEL: True, OTHER: True}
        for model in (OTHER, MODEL):
            after = await (
                await client.reviews.follow(done.review_id, RoundOptions(f"To {model}.", model=model))
            ).finish()
            assert (after.session_resumed, after.reason) == (True, None), model
            assert stage.launches[-1].resumes == sessions[model]


@pytest.mark.parametrize("ids", [{}, {"claudeSessionId": str(uuid.uuid4())}, {"claudeSessionIds": {"opus": "../x"}}])
async def test_without_a_session_file_the_rounds_become_history_and_nothing_is_resumed(
    scripted: Stage, ids: dict[str, Any]
) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    scripted.api.reply = Reviewer()
    async with scripted.open() as client:
        done = await import_file(client, old_file(scripted, **ids), str(repo))
        assert not any(done.sessions.values())
        assert len(done.warnings) == len(ids)
        after = await (await client.reviews.follow(done.review_id, RoundOptions("Mended."))).finish()
        assert (after.session_resumed, after.reason) == (False, "no_pin")
        assert "Please look at the numbers." in scripted.prompt
        assert scripted.launches[-1].resumes is None


@pytest.mark.parametrize(
    ("named", "more"),
    [({}, {}), ({OTHER: None}, {}), ({"opus": ""}, {"model": MODEL}), ({OTHER: None}, {"model": MODEL})],
    ids=["nothing by model", "another model's", "one that is empty", "both named"],
)
async def test_a_file_with_both_fields_keeps_the_single_session(
    scripted: Stage, named: dict[str, str | None], more: dict[str, str]
) -> None:
    """The file has a mixture of both formats."""
    repo = repository(scripted.work / "repo")
    single = in_the_plain_cli(scripted, repo, "The older prompt: ALPHA.")
    by_model = {
        model: in_the_plain_cli(scripted, repo, "The newer prompt: BETA.", model) if session is None else session
        for model, session in named.items()
    }
    (repo / "a.py").write_text("a = 2\n")
    scripted.api.reply = Reviewer()
    async with scripted.open(model=None) as client:
        path = old_file(scripted, claudeSessionId=single, claudeSessionIds=by_model, **more)
        done = await import_file(client, path, str(repo))
        expected = {model: session for model, session in by_model.items() if session} | {MODEL: single}
        state = await client.reviews.find(done.review_id)
        assert await client.reviews.sessions(state) == expected
        assert (len(done.sessions), all(done.sessions.values()), done.warnings) == (len(expected), True, ())
        for model, session in expected.items():
            after = await (
                await client.reviews.follow(done.review_id, RoundOptions(f"To {model}.", model=model))
            ).finish()
            assert (after.session_resumed, after.reason) == (True, None), model
            assert scripted.launches[-1].resumes == session


async def test_of_two_sessions_of_one_model_the_one_named_for_it_is_used(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    older = in_the_plain_cli(scripted, repo, "The older prompt: ALPHA.")
    newer = in_the_plain_cli(scripted, repo, "The newer prompt: BETA.")
    async with scripted.open(model=None) as client:
        path = old_file(scripted, claudeSessionId=older, claudeSessionIds={MODEL: newer})
        done = await import_file(client, path, str(repo))
        state = await client.reviews.find(done.review_id)
        assert await client.reviews.sessions(state) == {MODEL: newer}
        assert done.sessions == {MODEL: True, "default": False}
        assert MODEL in done.warnings[0]


async def test_the_same_session_in_both_fields_is_adopted_once(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    session = in_the_plain_cli(scripted, repo, "The prompt: ALPHA.")
    async with scripted.open(model=None) as client:
        path = old_file(scripted, claudeSessionId=session, claudeSessionIds={MODEL: session})
        done = await import_file(client, path, str(repo))
        assert (done.sessions, done.warnings) == ({MODEL: True}, ())


@pytest.mark.parametrize(
    ("body", "model"),
    [({}, OTHER), ({"model": "opus"}, "opus"), ({"claudeSessionIds": {"opus": "gone"}}, "opus"), ({"model": 5}, OTHER)],
)
def test_a_review_whose_file_names_no_model_gets_the_given_model(
    scripted: Stage, body: dict[str, Any], model: str
) -> None:
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    scripted.api.reply = Reviewer()
    for words in (["import", str(old_file(scripted, **body)), "--cwd", str(repo)], ["follow", "2025-07-01-003"]):
        run_clew(scripted, repo, "review", *words, environ={"CLEW_MODEL": OTHER})
    assert scripted.launches[-1].value("--model") == model


async def test_an_adopted_session_decides_the_model(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    session = in_the_plain_cli(scripted, repo, "The prompt: ALPHA.")
    async with scripted.open(model=OTHER) as client:
        path = old_file(scripted, claudeSessionId=session)
        done = await import_file(client, path, str(repo))
        assert (await client.reviews.find(done.review_id)).thread.model == MODEL


async def test_a_file_that_is_not_a_review_is_refused_and_nothing_is_stored(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    path = scripted.folder / "x.json"
    async with scripted.open() as client:
        for content in ("", "[]", "{}", '{"reviewId": "../../etc"}', "\x00\xff", "[" * 100_000):
            path.write_text(content)
            with pytest.raises(UsageError):
                await import_file(client, path, str(repo))
        with pytest.raises(UsageError):
            await import_file(client, scripted.folder / "none.json", str(repo))
        assert await client.reviews.count() == 0
        assert await client.threads() == []
        good = old_file(scripted, claudeSessionIds={"opus": 5})
        assert (await import_file(client, good, str(repo))).left_out == ("claudeSessionIds (not readable)",)
        with pytest.raises(Conflict):
            await import_file(client, good, str(repo))
        assert await client.reviews.count() == 1
        assert len(await client.threads()) == 1


async def test_a_session_of_another_thread_is_not_adopted(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=repo)
        await (await thread.ask("hello"))
        [launch] = scripted.launches
        done = await import_file(client, old_file(scripted, claudeSessionId=launch.session_id), str(repo))
        assert not any(done.sessions.values())
        assert "belongs to a thread already" in done.warnings[0]
        assert (await (await thread.ask("still there?"))).session_resumed
