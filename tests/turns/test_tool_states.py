"""The states of tool calls with the real CLIs: an error counts as failed; only a refusal counts as declined."""

from __future__ import annotations

import json

import pytest

from clew.api.client import Thread
from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import Answer
from clew.core.runs.tool_calls import ToolLog
from clew.testing.stage import Stage

pytestmark = pytest.mark.real

OPTIONS = [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}]
FORM = {"questions": [{"question": "Which?", "header": "W", "options": OPTIONS, "multiSelect": False}]}


def use(name: str, **given: object) -> str:
    return f"!tool {name} {json.dumps(given)}"


async def states(thread: Thread, *uses: str) -> tuple[list[str], dict[str, str]]:
    """The final states of the calls, in order; and by tool, its state while a person is asked, who refuses."""

    async def person(question: QuestionAsked) -> Answer:
        return Answer(allow=False, message="Leave it.")

    log, asked = ToolLog(), dict[str, str]()
    async for event in await thread.ask("\n".join(uses), person=person):
        log.feed(event)
        if isinstance(event, QuestionAsked):
            assert event.tool_id is not None, "the agent says which call it asks about"
            asked[event.tool] = log.calls[event.tool_id].state.value
    return [call.state.value for call in log.calls.values()], asked


async def test_an_error_is_failed_and_a_refusal_by_a_person_or_rule_is_declined(real: Stage) -> None:
    (real.home / ".claude").mkdir(exist_ok=True)
    rules = {"permissions": {"deny": ["Bash(rm:*)", "WebFetch"]}}
    (real.home / ".claude" / "settings.json").write_text(json.dumps(rules))
    (real.work / "kept").touch()
    async with real.open() as client:
        anything = await client.thread("anything", cwd=real.work, permissions="all")
        ended, _ = await states(
            anything,
            use("Bash", command="ls nothing-there; exit 3"),
            use("Read", file_path=str(real.work / "nothing")),
            use("Nonesuch", x=1),
            use("Bash", cmd="ls"),
            use("Bash", command="echo '<tool_use_error>'"),
            use("Bash", command="rm kept"),
            use("WebFetch", url="http://127.0.0.1/", prompt="x"),
        )
        assert ended == ["failed", "failed", "failed", "failed", "done", "declined", "declined"]
        assert (real.work / "kept").exists()

        asking = await client.thread("asking", cwd=real.work, permissions="ask")
        assert await states(
            asking,
            use("Bash", command="touch made"),
            use("Write", file_path=str(real.work / "made"), content="x"),
            use("AskUserQuestion", **FORM),
        ) == (["declined"] * 3, {"Bash": "waiting", "Write": "waiting", "AskUserQuestion": "waiting"})

        reading = await client.thread("reading", cwd=real.work, permissions="read-only")
        assert await states(
            reading, use("Bash", command="touch made"), use("Read", file_path=str(real.folder / "script.json"))
        ) == (["declined", "declined"], {"Read": "waiting"}), "the thread's permissions decline by themselves"
        assert not (real.work / "made").exists()


async def test_codex_reports_failed_calls_but_not_those_that_it_refused(codex: Stage) -> None:
    async with codex.open() as client:
        thread = await client.thread("t", cwd=codex.work, permissions="edits", agent="codex")
        for given, expected in (
            ({"cmd": "exit 3"}, [["failed"]]),
            # The command ran, but the sandbox stopped it. Sometimes Codex does not report it.
            ({"cmd": f"touch {codex.folder}/outside"}, [["failed"], []]),
            ({"cmd": "ls", "sandbox_permissions": "require_escalated", "justification": "x"}, [[]]),
        ):
            seen, waited = await states(thread, use("exec_command", **given))
            assert (seen in expected, waited) == (True, {}), (given, seen)
        assert await states(thread, use("nonesuch")) == ([], {})


async def test_after_a_background_task_was_stopped_with_its_turn_the_next_prompt_is_answered(real: Stage) -> None:
    """The agent is told first that the task did not finish, and takes note of that in a turn without an answer."""
    async with real.open(permissions="all") as client:
        thread = await client.thread("t", cwd=real.work)
        await (await thread.ask(use("Bash", command="sleep 600", run_in_background=True))).reply()
        assert not real.processes()
        reply = await (await thread.ask("And now?")).reply()
        assert (reply.status, reply.text) == ("answered", "ack: And now?")
