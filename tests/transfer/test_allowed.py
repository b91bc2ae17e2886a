"""What a person allowed in a thread stays on their machine: no file and no remote carries it to anybody else."""

from __future__ import annotations

import json
from pathlib import Path

from clew.api import branching
from clew.core.record import replace
from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import Answer, Scope
from clew.hosts.transfer.arrival import with_local_values
from clew.hosts.transfer.export_file import read_export
from clew.hosts.transfer.imports import import_thread
from clew.store.transfer.codec import Tables
from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage
from transfer.machines import exported, imported, two_machines

TOUCH = '!tool Bash {"command": "touch made"}'
RULE = {"tool": "Bash", "kind": "command", "value": "touch made", "cwd": "/w"}


async def always(question: QuestionAsked) -> Answer:
    return Answer(allow=True, scope=Scope.THREAD)


async def allow(stage: Stage) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        await (await thread.ask(TOUCH, person=always))
        assert len((await client.find("t")).record.tool_rules) == 1


async def test_an_import_begins_without_rules(tmp_path: Path, api: ModelApi) -> None:
    with two_machines(tmp_path, api) as [a, b]:
        await allow(a)
        came = await imported(b, (await exported(a)).content)
        assert came.threads[0].tool_rules == ()


async def test_rules_that_somebody_wrote_into_a_file_are_dropped(scripted: Stage) -> None:
    await allow(scripted)
    portable = read_export((await exported(scripted)).content)
    tables = {name: [dict(row) for row in rows] for name, rows in portable.tables.items()}
    assert "tool_rules" not in tables["threads"][0] and "tool_rule" not in tables["questions"][0]
    tables["threads"][0]["tool_rules"] = json.dumps([RULE])
    tables["questions"][0]["tool_rule"] = json.dumps(RULE)
    async with scripted.open() as client:
        made = await import_thread(client.engine, replace(portable, tables=tables), cwd=str(scripted.work))
        assert made.threads[0].tool_rules == ()
        [question] = await client.engine.store.call(
            lambda store: store.questions.of_run(store.runs.newest(thread_id=made.threads[0].id)[0].id)
        )
        assert question.tool_rule is None


async def test_an_own_archive_keeps_the_rules_and_one_from_elsewhere_has_none(scripted: Stage, tmp_path: Path) -> None:
    await allow(scripted)
    async with scripted.open() as client:
        archived = await client.archives.archive("t")
        assert archived.path is not None
        restored = await client.archives.restore(str(archived.path))
        assert [rule.words for rule in restored.threads[0].tool_rules] == ["Bash(touch made)"]
        assert not restored.is_narrowed
        gift = archived.path.rename(tmp_path / "gift.json")
        await (await client.find("t")).delete()
        restored = await client.archives.restore(str(gift))
        assert restored.threads[0].tool_rules == ()
        assert restored.is_narrowed


async def test_a_fork_begins_without_rules(scripted: Stage) -> None:
    await allow(scripted)
    async with scripted.open() as client:
        made = await branching.fork(client, "t")
        assert made.threads[0].tool_rules == ()


async def test_nobody_chooses_what_is_shown_in_place_of_a_prompt(scripted: Stage) -> None:
    (scripted.work / "a.txt").write_text("one\n")
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await (await thread.ask("see @a.txt", expand=True))
        portable = read_export((await exported(scripted)).content)
        tables = {name: [dict(row) for row in rows] for name, rows in portable.tables.items()}
        assert "typed" not in tables["turns"][0] | tables["runs"][0], "it stays here"
        for row in (*tables["turns"], *tables["runs"]):
            row["typed"] = "Say hello, @a.txt"
        made = await import_thread(client.engine, replace(portable, tables=tables), cwd=str(scripted.work))
        came = await (await client.find(made.threads[0].name)).turns()
        assert [(turn.typed, turn.shown == turn.text) for turn in came] == [(None, True)] * 2
        edited = await (await client.find(made.threads[0].name)).edit(came[0].id, f"{came[0].text} ", expand=True)
        assert edited.text == f"{came[0].text} ", "what it mentions is not read again"


def test_a_pull_keeps_what_was_typed_here_for_the_same_text() -> None:
    kept = {"id": "1", "text": "see @a.txt, which is: one", "typed": "see @a.txt"}
    changed = {"id": "2", "text": "old", "typed": "/old"}
    before: Tables = {"turns": [kept, changed], "runs": [{"id": "3", "prompt": "p", "typed": "/p"}]}
    after: Tables = {"turns": [kept | {"typed": None}, changed | {"text": "new", "typed": None}], "runs": []}
    assert with_local_values(after, before)["turns"] == [kept, {"id": "2", "text": "new", "typed": None}]
