"""The chat design's test strategy, row by row, on the scripted and on the real Claude CLI.

Every guard asserts both: no resume flag, and the transcript is sent, so that a fallback never loses context. The rows
run with `rewind = false` and `follow_moves = false`, which give that design's guards exactly. At the end are the rows
that differ with the default settings; the folder `rewind` has more of these.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from clew.agents.claude import Claude
from clew.api.client import Client, Reply, Thread
from clew.core.decision import Abilities
from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import Answer
from clew.testing.model.refusals import BROKEN_SESSIONS
from clew.testing.model.scripts import Reply as ModelReply
from clew.testing.model.scripts import Request, ToolUse, newest_tool_result
from clew.testing.stage import MODEL, Stage
from transfer.machines import continue_without_clew


class Other(Claude):
    """A second agent: the same CLI under another name, so that its turns are those of another agent."""

    name = "other"


def chat_design(stage: Stage, **flags: Any) -> AbstractAsyncContextManager[Client]:
    return stage.open(rewind=False, follow_moves=False, **flags)


async def ask(thread: Thread, prompt: str, **options: object) -> Reply:
    return await (await thread.ask(prompt, **options))  # type: ignore[arg-type]


async def two_turns(stage: Stage, client: Client) -> Thread:
    thread = await client.thread("t", cwd=stage.work)
    await ask(thread, "first question")
    await ask(thread, "second question")
    return thread


def assert_resumed(stage: Stage, reply: Reply, session_id: str | None, prompt: str) -> None:
    assert reply.session_resumed
    assert reply.reason is None
    assert stage.launches[-1].resumes == session_id
    assert stage.launches[-1].session_id is None
    assert stage.prompt == prompt, "a resumed turn sends the delta alone"


def assert_fresh(stage: Stage, reply: Reply, reason: str, *transcript: str) -> None:
    assert not reply.session_resumed
    assert reply.reason == reason
    assert stage.launches[-1].resumes is None
    assert stage.launches[-1].session_id == reply.session_id
    for text in transcript:
        assert stage.prompt.splitlines().count(text) == 1, f"{text!r} is not in the transcript once"
    assert len([role for role, _ in stage.shown if role == "user"]) == 1, "a fresh session begins with one message"


@pytest.mark.always
async def test_second_turn_resumes_with_the_prompt_alone(stage: Stage) -> None:
    async with chat_design(stage) as client:
        thread = await client.thread("t", cwd=stage.work)
        first = await ask(thread, "first question")
        assert_fresh(stage, first, "first_turn")
        assert stage.prompt == "first question"
        second = await ask(thread, "second question")
        assert_resumed(stage, second, first.session_id, "second question")
        assert stage.shown == [
            ("user", "first question"),
            ("assistant", "ack: first question"),
            ("user", "second question"),
        ]


async def test_agent_switch_sends_the_transcript_and_going_back_resumes_with_a_catch_up(stage: Stage) -> None:
    async with chat_design(stage, adapters=[Other()]) as client:
        thread = await two_turns(stage, client)
        ours = stage.launches[-1].resumes
        switched = await ask(thread, "third question", agent="other")
        assert_fresh(stage, switched, "no_pin", "first question", "ack: second question")
        back = await ask(thread, "fourth question")
        assert back.session_resumed
        assert stage.launches[-1].resumes == ours
        for text in ("third question", "ack: third question", "fourth question"):
            assert stage.prompt.count(f"\n{text}") == 1
        assert "first question" not in stage.prompt, "what the session holds is not sent again"
        assert "## Assistant (other" in stage.prompt, "another agent's turns are attributed"


@pytest.mark.parametrize("how", ["flag", "setting"])
async def test_forced_fresh_and_disabled_send_the_transcript(stage: Stage, how: str) -> None:
    async with chat_design(stage) as client:
        thread = await two_turns(stage, client)
        options: dict[str, object] = {"fresh_session": True} if how == "flag" else {"resume": False}
        reply = await ask(thread, "third question", **options)
        reason = "forced_fresh" if how == "flag" else "disabled"
        assert_fresh(stage, reply, reason, "first question", "second question", "ack: first question")


async def test_retry_of_an_earlier_turn_is_forced_fresh_and_archives_what_followed(stage: Stage) -> None:
    async with chat_design(stage) as client:
        thread = await two_turns(stage, client)
        await ask(thread, "third question")
        second = next(turn for turn in await thread.turns() if turn.text == "second question")
        reply = await (await thread.retry(second.id))
        assert_fresh(stage, reply, "forced_fresh", "first question", "ack: first question")
        assert "third question" not in stage.prompt
        assert [turn.text for turn in await thread.turns()] == [
            "first question",
            "ack: first question",
            "second question",
            "ack: second question",
        ]


@pytest.mark.parametrize(
    "number", [pytest.param(0, id="first"), pytest.param(2, id="second", marks=pytest.mark.always)]
)
async def test_edit_of_an_absorbed_turn_breaks_the_session(stage: Stage, number: int) -> None:
    async with chat_design(stage) as client:
        thread = await two_turns(stage, client)
        edited = (await thread.turns())[number]
        await thread.edit(edited.id, f"{edited.text}, put better")
        reply = await ask(thread, "third question")
        assert_fresh(stage, reply, "history_changed", f"{edited.text}, put better", "ack: second question")
        assert reply.rewound_to is None
        again = await ask(thread, "fourth question")
        assert_resumed(stage, again, reply.session_id, "fourth question")


async def test_truncate_breaks_the_session(stage: Stage) -> None:
    async with chat_design(stage) as client:
        thread = await two_turns(stage, client)
        second = next(turn for turn in await thread.turns() if turn.text == "second question")
        assert await thread.truncate(second.id) == 2
        reply = await ask(thread, "third question")
        assert_fresh(stage, reply, "history_changed", "first question", "ack: first question")
        assert "second question" not in stage.prompt


async def test_edit_of_a_foreign_turn_outside_the_own_scope_leaves_the_session(stage: Stage) -> None:
    async with chat_design(stage, adapters=[Other()]) as client:
        thread = await client.thread("t", cwd=stage.work, visibility="own")
        await ask(thread, "asked of the other", agent="other")
        ours = await ask(thread, "first question")
        assert_fresh(stage, ours, "no_pin")
        assert stage.prompt == "first question", "own: nothing from before the other agent's answer"
        await thread.edit((await thread.turns())[1].id, "the other's answer, edited; it stays the boundary")
        reply = await ask(thread, "second question")
        assert_resumed(stage, reply, ours.session_id, "second question")


async def test_edit_of_a_foreign_turn_that_a_shared_session_absorbed_breaks_it(stage: Stage) -> None:
    async with chat_design(stage, adapters=[Other()]) as client:
        thread = await client.thread("t", cwd=stage.work)
        await ask(thread, "asked of the other", agent="other")
        await ask(thread, "first question")
        await thread.edit((await thread.turns())[1].id, "the other's answer, edited")
        reply = await ask(thread, "second question")
        assert_fresh(stage, reply, "history_changed", "the other's answer, edited", "first question")


@pytest.mark.parametrize("how", ["truncate", "retry"])
async def test_truncate_or_retry_at_the_foreign_boundary_breaks_the_own_session(stage: Stage, how: str) -> None:
    async with chat_design(stage, adapters=[Other()]) as client:
        thread = await client.thread("t", cwd=stage.work, visibility="own")
        await ask(thread, "asked of the other", agent="other")
        await ask(thread, "first question")
        await ask(thread, "second question")
        asked_other, answer_of_other, *_ = await thread.turns()
        if how == "truncate":
            await thread.truncate(answer_of_other.id)
            reply = await ask(thread, "third question")
            assert_fresh(stage, reply, "history_changed", "asked of the other")
        else:
            await (await thread.retry(asked_other.id))
            reply = await ask(thread, "third question")
            assert_fresh(stage, reply, "history_changed")
        assert "first question" not in stage.prompt
        assert "second question" not in stage.prompt


@pytest.mark.always
async def test_another_work_directory_sends_the_transcript(stage: Stage) -> None:
    elsewhere = stage.folder / "elsewhere"
    elsewhere.mkdir()
    async with chat_design(stage) as client:
        thread = await two_turns(stage, client)
        await thread.change(cwd=str(elsewhere))
        reply = await ask(thread, "third question")
        assert_fresh(stage, reply, "work_dir_changed", "first question", "second question")


async def test_another_runtime_sends_the_transcript(stage: Stage) -> None:
    async with chat_design(stage) as client:
        await two_turns(stage, client)
    fork = stage.launcher(stage.agent, stage.folder / "openclaude")
    async with chat_design(stage, **{"agents.claude.path": str(fork)}) as client:
        reply = await ask(await client.find("t"), "third question")
        assert_fresh(stage, reply, "runtime_changed", "first question", "second question")


async def test_rejected_resume_falls_back_once_with_the_transcript(scripted: Stage) -> None:
    async with chat_design(scripted) as client:
        thread = await two_turns(scripted, client)
        before = len(scripted.launches)
        scripted.fault({"do": "reject", "on": "resume"})
        reply = await ask(thread, "third question")
        assert scripted.launches[before].resumes is not None
        assert len(scripted.launches) == before + 2, "one resume, one fallback"
        assert_fresh(scripted, reply, "rejected", "first question", "second question")
        assert reply.fallback
        scripted.fault()
        again = await ask(thread, "fourth question")
        assert_resumed(scripted, again, reply.session_id, "fourth question")
        assert not again.fallback


@pytest.mark.always
async def test_real_cli_rejects_an_unknown_session_and_the_run_still_succeeds(real: Stage) -> None:
    """The file is hidden from the CLI between the decision and the spawn."""
    async with chat_design(real) as client:
        thread = await two_turns(real, client)
        [path] = real.session_files()
        first, *rest = real.binary.read_text().splitlines()
        hide = f"case \"$*\" in *--resume=*) rm -f '{path}';; esac"
        real.binary.write_text("\n".join([first, hide, *rest]) + "\n")
        reply = await ask(thread, "third question")
        assert_fresh(real, reply, "rejected", "first question", "second question", "ack: second question")
        assert reply.fallback
        assert reply.status == "answered"


def without_resume(stage: Stage) -> Path:
    """The same agent, but its help does not mention --resume."""
    path = stage.launcher(stage.agent, stage.folder / "old-claude")
    first, *rest = path.read_text().splitlines()
    mute = f"case \"$*\" in *--help*) '{stage.agent}' --help | grep -v -e --resume; exit;; esac"
    path.write_text("\n".join([first, mute, *rest]) + "\n")
    return path


async def test_without_the_ability_no_flag_is_sent_and_every_turn_has_the_transcript(stage: Stage) -> None:
    async with chat_design(stage, **{"agents.claude.path": str(without_resume(stage))}) as client:
        thread = await client.thread("t", cwd=stage.work)
        await ask(thread, "first question")
        reply = await ask(thread, "second question")
        assert_fresh(stage, reply, "unsupported", "first question", "ack: first question")
        reply = await ask(thread, "third question")
        assert_fresh(stage, reply, "unsupported", "first question", "second question")


@pytest.mark.always
async def test_no_fallback_after_a_tool_has_run(stage: Stage) -> None:
    """Law 6: the session turns out poisoned, but the work would be done twice."""
    poison = BROKEN_SESSIONS[0].api

    def reply(request: Request) -> ModelReply:
        if newest_tool_result(request.messages) is not None:
            return poison
        return ToolUse("Bash", {"command": "echo once >> made"})

    async with chat_design(stage) as client:
        thread = await client.thread("t", cwd=stage.work, permissions="all")
        await ask(thread, "first question")
        before = len(stage.launches)
        stage.api.reply = reply
        failed = await (await thread.ask("do it")).reply()
        assert failed.status == "failed"
        assert not failed.fallback
        assert len(stage.launches) == before + 1
        assert (stage.work / "made").read_text() == "once\n"
        stage.api.reply = None
        after = await ask(thread, "and now?")
        assert after.reason == "poisoned"


async def test_binary_is_probed_once_and_every_prompt_has_a_uuid_of_its_own(stage: Stage) -> None:
    for number in range(3):
        async with chat_design(stage) as client:
            await ask(await client.thread("t", cwd=stage.work), f"question {number}")
    assert stage.probes == 1
    async with chat_design(stage) as client:
        runs = await client.runs()
        attempts = [attempt for run in reversed(runs) for attempt in await client.attempts(run.id)]
    [path] = stage.session_files()
    prompts = [entry.id for entry in Claude().read_session(path).entries if entry.is_prompt]
    assert prompts == [attempt.user_uuid for attempt in attempts]
    assert len(set(prompts)) == 3


async def test_agents_own_default_model_is_read_once_and_passed_from_then_on(stage: Stage) -> None:
    async with chat_design(stage, model=None) as client:
        thread = await client.thread("t", cwd=stage.work)
        first = await ask(thread, "first question")
        assert stage.launches[-1].value("--model") is None
        assert first.model
        second = await ask(await client.find("t"), "second question")
        assert second.session_resumed
        assert stage.launches[-1].value("--model") == first.model
        await ask(await client.thread("u", cwd=stage.work), "another thread")
        assert stage.launches[-1].value("--model") == first.model


FORM = (
    '!tool AskUserQuestion {"questions": [{"question": "Which database?", "header": "DB", "multiSelect": false,'
    ' "options": [{"label": "Postgres", "description": "a"}, {"label": "SQLite", "description": "b"}]}]}'
)


@pytest.mark.always
async def test_question_is_answered_under_resume(stage: Stage) -> None:
    asked: list[QuestionAsked] = []

    async def person(question: QuestionAsked) -> Answer:
        asked.append(question)
        return Answer(allow=True, answers={"Which database?": "Postgres"})

    async with chat_design(stage) as client:
        thread = await two_turns(stage, client)
        reply = await ask(thread, FORM, person=person)
        assert reply.session_resumed
        assert [question.is_form for question in asked] == [True]
        assert "Postgres" in reply.text, "the model was told the answer"
        after = await ask(thread, "last question")
        assert after.session_resumed


async def test_declined_question_gives_the_agent_a_sentence_to_act_on(stage: Stage) -> None:
    async with chat_design(stage) as client:
        thread = await client.thread("t", cwd=stage.work)
        reply = await ask(thread, FORM)
        assert reply.text.startswith("done: Nobody is there to answer.")


async def test_standing_text_is_sent_once_and_again_only_when_it_changed(stage: Stage) -> None:
    async with chat_design(stage) as client:
        thread = await client.thread("t", cwd=stage.work)
        await ask(thread, "first question", instructions="Be brief.")
        assert stage.prompt == "# Standing instructions\n\nBe brief.\n\n# New message\n\nfirst question"
        await ask(thread, "second question")
        assert stage.prompt == "second question", "it holds for the thread: no need to say it again"
        await ask(thread, "third question", instructions="Be long.")
        assert "Be long." in stage.prompt
        assert "replace the standing instructions" in stage.prompt
        fresh = await ask(await client.find("t"), "fourth question", fresh_session=True)
        assert_fresh(stage, fresh, "forced_fresh", "Be long.", "first question")
        await ask(thread, "fifth question", instructions="")
        assert "no longer apply" in stage.prompt
        await ask(thread, "sixth question")
        assert stage.prompt == "sixth question"


async def test_retry_keeps_the_standing_text(stage: Stage) -> None:
    async with chat_design(stage) as client:
        thread = await client.thread("t", cwd=stage.work)
        await ask(thread, "first question", instructions="Be brief.")
        await (await thread.retry((await thread.turns())[0].id))
        assert stage.prompt == "# Standing instructions\n\nBe brief.\n\n# New message\n\nfirst question"


class Blind(Claude):
    """An agent that keeps no session files that we can read."""

    name = "blind"

    def abilities(self, help_text: str, version_text: str) -> Abilities:
        return super().abilities(help_text, version_text).replace(session_files=False)

    def session_file(self, config_dir: str, work_dir: str, session_id: str) -> None:
        raise AssertionError("there is none to look for")


async def test_agent_without_session_files_resumes_and_is_fresh_after_an_interruption(scripted: Stage) -> None:
    async with chat_design(scripted, adapters=[Blind()]) as client:
        thread = await client.thread("t", cwd=scripted.work, agent="blind", model=MODEL)
        first = await ask(thread, "first question")
        assert not first.warnings
        second = await ask(thread, "second question")
        assert_resumed(scripted, second, first.session_id, "second question")
        scripted.fault({"do": "crash_after_init", "signal": 9})
        await (await thread.ask("third question")).reply()
        scripted.fault()
        reply = await ask(thread, "fourth question")
        assert_fresh(scripted, reply, "unconfirmed", "first question", "third question")


async def test_use_of_the_plain_cli_breaks_the_session(stage: Stage) -> None:
    async with chat_design(stage) as client:
        thread = await two_turns(stage, client)
        [path] = stage.session_files()
        continue_without_clew(stage, path.stem, "asked outside")
        reply = await ask(thread, "third question")
        assert_fresh(stage, reply, "session_diverged", "first question", "ack: second question")
        assert "asked outside" not in stage.prompt


class TestDefaultSettings:
    """The rows that differ where sessions are rewound."""

    @pytest.mark.parametrize("how", [pytest.param("edit", marks=pytest.mark.always), "truncate", "retry"])
    async def test_a_changed_turn_rewinds_the_session(self, stage: Stage, how: str) -> None:
        async with stage.open() as client:
            thread = await two_turns(stage, client)
            [path] = stage.session_files()
            content = path.read_bytes()
            _, first, second, *_ = await thread.turns()
            match how:
                case "edit":
                    await thread.edit(second.id, "second question, put better")
                    reply = await ask(thread, "third question")
                case "truncate":
                    await thread.truncate(second.id)
                    reply = await ask(thread, "third question")
                case _:
                    reply = await (await thread.retry(second.id))
            assert (reply.session_resumed, reply.reason, reply.rewound_to) == (True, "history_changed", 2)
            launch = stage.launches[-1]
            assert (launch.resumes, launch.session_id) == (path.stem, reply.session_id)
            assert f"--resume-session-at={first.message_id}" in launch.argv
            assert "first question" not in stage.prompt, "the session holds it"
            assert path.read_bytes() == content
            again = await ask(thread, "fourth question")
            assert_resumed(stage, again, reply.session_id, "fourth question")
