"""What a person allows holds for what they chose: once, all of this run, or always in this thread."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import forkserver
from clew.api.client import Client, Thread
from clew.core.ids import RunId
from clew.core.runs.events import Event, QuestionAnswered, QuestionAsked
from clew.core.runs.options import TurnOptions
from clew.core.runs.permissions import Answer, Scope
from clew.engine.questions import AgentQuestions
from clew.engine.request import TurnRequest
from clew.engine.storage.store_retry import RetryingStore
from clew.errors import Conflict, UsageError
from clew.testing.model.scripts import Text, ToolUse
from clew.testing.stage import Stage
from turns.crashes.test_lasting import FORM, kill, start_daemon, the_question

TOUCH = '!tool Bash {"command": "touch made"}'


def tool(name: str, **given: object) -> str:
    return f"!tool {name} {json.dumps(given)}"


class Person:
    """Gives the answers in order, and keeps what it was asked. Without an answer left, a question is a failure."""

    def __init__(self, *scopes: Scope | None) -> None:
        self.scopes = list(scopes)
        self.asked: list[QuestionAsked] = []

    async def __call__(self, question: QuestionAsked) -> Answer:
        self.asked.append(question)
        scope = self.scopes.pop(0)
        return Answer(allow=False) if scope is None else Answer(allow=True, scope=scope)


async def ask(thread: Thread, prompt: str, person: Person | None = None) -> list[QuestionAnswered]:
    """Asks, and returns how the agent's requests were answered."""
    run = await thread.ask(prompt, person=person)
    events: Sequence[Event] = [event async for event in run]
    await run
    return [event for event in events if isinstance(event, QuestionAnswered)]


async def test_what_is_allowed_always_is_not_asked_again_in_this_thread_alone(scripted: Stage) -> None:
    person = Person(Scope.THREAD)
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        [first] = await ask(thread, TOUCH, person)
        assert (first.allowed, first.by, first.scope) == (True, "user", "thread")
        assert person.asked[0].rule is not None and person.asked[0].rule.words == "Bash(touch made)"
        [again] = await ask(thread, TOUCH, person)
        assert (again.allowed, again.by) == (True, "thread rule")
        [alone] = await ask(thread, TOUCH)
        assert (alone.allowed, alone.by) == (True, "thread rule"), "nobody is there, and nobody is needed"

        for command in (
            "touch made; touch other",
            "touch made && touch other",
            "touch other",
            "touch made\ntouch other",
        ):
            [other] = await ask(thread, tool("Bash", command=command), Person(None))
            assert not other.allowed
        [elsewhere] = await ask(await client.thread("u", cwd=scripted.work), TOUCH)
        assert (elsewhere.allowed, elsewhere.by) == (False, "policy")
    assert not (scripted.work / "other").exists()


@pytest.mark.real
async def test_the_real_agent_is_not_asked_again_in_the_resumed_run(real: Stage) -> None:
    person = Person(Scope.THREAD)
    async with real.open() as client:
        thread = await client.thread("t", cwd=real.work)
        await ask(thread, TOUCH, person)
        (real.work / "made").unlink()
        [again] = await ask(thread, TOUCH, person)
        assert (again.allowed, again.by) == (True, "thread rule")
        [run, _] = await client.runs(thread=thread)
        assert run.session_resumed
    assert (real.work / "made").exists()
    assert len(person.asked) == 1


async def test_all_of_this_run_ends_with_the_run_and_answers_no_form(stage: Stage) -> None:
    calls = [ToolUse("Bash", {"command": f"touch made{n}"}) for n in range(3)]
    form = ToolUse("AskUserQuestion", json.loads(FORM.removeprefix("!tool AskUserQuestion ")))
    stage.api.script.extend([*calls, form, Text("Done.")])
    person = Person(Scope.RUN, None)
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        answers = await ask(thread, "go", person)
        assert [(each.allowed, each.by) for each in answers] == [
            (True, "user"),
            (True, "run rule"),
            (True, "run rule"),
            (False, "user"),
        ]
        assert [question.is_form for question in person.asked] == [False, True]
        [next_run] = await ask(thread, TOUCH, Person(None))
        assert not next_run.allowed
        assert (await client.find("t")).record.tool_rules == ()


async def test_once_is_once(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        person = Person(Scope.ONCE, None)
        assert [each.allowed for each in (*await ask(thread, TOUCH, person), *await ask(thread, TOUCH, person))] == [
            True,
            False,
        ]


async def test_the_scope_of_an_answer_through_the_store_holds_in_the_process_that_has_the_run(scripted: Stage) -> None:
    """As when the page answers a run of `clew ask`."""
    scripted.api.script.extend([*(ToolUse("Bash", {"command": f"touch made{n}"}) for n in range(3)), Text("Done.")])

    async def absent(question: QuestionAsked) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    async with scripted.open() as here, scripted.open() as there:
        thread = await here.thread("t", cwd=scripted.work)
        run = await thread.ask("go", person=absent)
        question = await the_question(there)
        await there.answer(run.id, question.id, Answer(allow=True, scope=Scope.RUN))
        answered = [event async for event in run if isinstance(event, QuestionAnswered)]
        assert [(each.by, each.scope) for each in answered] == [("user", "run"), *[("run rule", "once")] * 2]

        run = await thread.ask(TOUCH, lasting=True)
        question = await the_question(there)
        await there.answer(run.id, question.id, Answer(allow=True, scope=Scope.THREAD))
        await run
        assert [rule.words for rule in (await here.find("t")).record.tool_rules] == ["Bash(touch made)"]


@pytest.mark.parametrize("scope", [Scope.RUN, Scope.THREAD])
async def test_the_scope_survives_the_process_that_asked(scripted: Stage, scope: Scope) -> None:
    daemon = await start_daemon(scripted, TOUCH)
    async with scripted.open() as client:
        question = await the_question(client)
        await kill(daemon)
        await client.engine.recover()
        scripted.api.script.extend([ToolUse("Bash", {"command": "touch made"}), Text("Done.")])
        answered = await client.answer(question.run_id, question.id, Answer(allow=True, scope=scope), lasting=True)
        assert answered.follow_up is not None
        events = [event async for event in answered.follow_up]
        [given] = [event for event in events if isinstance(event, QuestionAnswered)]
        assert (given.allowed, given.by) == (True, f"{scope} rule"), (
            "the run that carries the answer is not asked again"
        )
        [later] = await ask(await client.find("t"), TOUCH)
        assert later.allowed is (scope is Scope.THREAD)


async def test_an_answer_that_a_dead_process_did_not_read_has_given_its_rule(scripted: Stage) -> None:
    """A crash between the answer and its delivery."""
    daemon: forkserver.AsyncProcess = await start_daemon(scripted, TOUCH)
    async with scripted.open() as client:
        question = await the_question(client)
        await client.engine.store.call(lambda store: store.runs.update(question.run_id, status="waiting"))
        await kill(daemon)
        await client.answer(question.run_id, question.id, Answer(allow=True, scope=Scope.THREAD))
        assert len((await client.find("t")).record.tool_rules) == 1


async def test_two_requests_at_once_are_asked_once_if_the_first_answer_allows_both(scripted: Stage) -> None:
    """The second question is open already when the first is answered."""
    waits, asked = asyncio.Event(), list[str]()

    async def person(question: QuestionAsked) -> Answer:
        asked.append(question.question_id)
        await (waits if question.question_id == "one" else asyncio.Event()).wait()
        return Answer(allow=True, scope=Scope.THREAD)

    async with scripted.open() as client:
        engine, thread = client.engine, await client.thread("t", cwd=scripted.work)
        run = await thread.ask("hello")
        await run
        request = TurnRequest(thread.record, "x", TurnOptions(person=person))
        questions = AgentQuestions(
            request, RunId(run.id), engine.adapter("claude"), RetryingStore(engine.store, 1.0), 30.0
        )
        made = [questions.with_rule(QuestionAsked(q, "Bash", {"command": "ls"}, is_form=False)) for q in ("one", "two")]
        events = [(100 + number, 1.0, question) for number, question in enumerate(made)]
        await engine.store.call(lambda store: store.questions.follow(run.id, events))
        answers = [asyncio.create_task(questions.answer(question)) for question in made]
        async with asyncio.timeout(60):
            while asked != ["one", "two"]:
                await asyncio.sleep(0)
            waits.set()
            assert [each.by for each in await asyncio.gather(*answers)] == ["user", "thread rule"]


async def test_what_is_taken_back_is_asked_again_at_once_also_during_a_run(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await ask(thread, TOUCH, Person(Scope.THREAD))
        run = await thread.ask(FORM, lasting=True)
        question = await the_question(client)
        await thread.change(forget_allowed=True)
        assert thread.record.tool_rules == ()
        await client.answer(run.id, question.id, Answer(allow=False))
        await run
        [again] = await ask(thread, TOUCH, Person(None))
        assert not again.allowed


async def test_edits_are_allowed_in_the_work_directory_and_not_where_a_link_leads(scripted: Stage) -> None:
    (scripted.work / "out").symlink_to(scripted.folder)
    (scripted.work / ".git").mkdir(exist_ok=True)
    person = Person(Scope.THREAD)

    async def write(path: Path) -> bool:
        await ask(thread, tool("Write", file_path=str(path), content="x\n"), person)
        return path.exists()

    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        assert await write(scripted.work / "a.txt")
        assert person.asked[0].edits[0].lines == ("@@ -0,0 +1,1 @@", "+x")
        assert await write(scripted.work / "sub.txt")
        for path in (scripted.work / "out" / "b.txt", scripted.work / ".git" / "config", scripted.work / ".env"):
            person.scopes.append(None)
            assert not await write(path)


async def test_a_read_only_thread_honours_no_rule(scripted: Stage) -> None:
    (scripted.folder / "docs").mkdir()
    (scripted.folder / "docs" / "a.md").write_text("what is written")
    read = tool("Read", file_path=str(scripted.folder / "docs" / "a.md"))
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await ask(thread, read, Person(Scope.THREAD))
        [allowed] = await ask(thread, read, Person())
        assert allowed.by == "thread rule"
        await thread.change(permissions="read-only")
        [refused] = await ask(thread, read, Person())
        assert (refused.allowed, refused.by) == (False, "policy")


async def test_a_thread_that_became_read_only_gets_no_rule_by_an_open_question(scripted: Stage) -> None:
    daemon = await start_daemon(scripted, TOUCH)
    async with scripted.open() as client:
        question = await the_question(client)
        await kill(daemon)
        await client.engine.recover()
        await (await client.find("t")).change(permissions="read-only")
        with pytest.raises(UsageError, match="read-only: nothing more is allowed"):
            await client.answer(question.run_id, question.id, Answer(allow=True, scope=Scope.THREAD))
        assert (await client.find("t")).record.tool_rules == ()


async def test_a_scope_that_the_question_does_not_have_is_refused_and_the_question_stays_open(scripted: Stage) -> None:
    async def refused(client: Client, answer: Answer, words: str) -> None:
        question = await the_question(client)
        with pytest.raises(UsageError, match=words):
            await client.answer(question.run_id, question.id, answer)
        assert (await the_question(client)).is_open

    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        form = await thread.ask(FORM, lasting=True)
        await refused(client, Answer(allow=True, answers={}, scope=Scope.RUN), "A form has no scope.")
        form.cancel()
        await form.reply()
        permission = await thread.ask(tool("Bash", command="touch " + "x" * 10_001), lasting=True)
        await refused(client, Answer(allow=False, scope=Scope.THREAD), "A refusal has no scope.")
        await refused(client, Answer(allow=True, scope=Scope.THREAD), "cannot be allowed for the whole thread")
        question = await the_question(client)
        permission.cancel()
        await permission.reply()
        with pytest.raises(Conflict):
            await client.answer(permission.id, question.id, Answer(allow=True, scope=Scope.RUN))
