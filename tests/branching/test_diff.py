"""`clew threads diff`: compares the turns and the file changes of two threads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from branching.screens import on_terminal, rows_of
from clew.agents.claude import Claude
from clew.agents.codex import Codex
from clew.api.client import Client
from clew.core.branching.edits import EditKind
from clew.errors import NotFound, UsageError
from clew.hosts.branching.compare import compare
from clew.hosts.branching.fork import fork
from clew.testing.model.api import ModelApi
from clew.testing.model.scripts import Text, ToolUse
from clew.testing.stage import Stage
from conftest import make_stage
from pairs.couple import Couple, carried_out, order
from transfer.machines import ask, clew

HOSTILE = "\x1b]0;owned\x07\x1b[2J[-x-]\u202e"


async def steps(client: Client, a: str, b: str) -> tuple[list[str], dict[str, str]]:
    [found] = await compare(client.engine, a, b)
    return [each.step.value for each in found.turns], {file.path: file.step.value for file in found.files}


@pytest.mark.real
async def test_real_threads_of_both_agents_are_compared_with_the_files_they_wrote(
    tmp_path: Path, api: ModelApi
) -> None:
    with make_stage("real", tmp_path, api, codex=True) as stage:
        path = stage.work / "notes.txt"
        patch = "*** Add File: other.txt\n+x\n*** Update File: notes.txt\n@@\n-two\n+three"
        async with stage.open(permissions="edits") as client:
            a = await client.thread("a", cwd=stage.work)
            b = await client.thread("b", cwd=stage.work, agent="codex")
            for thread in (a, b):
                await ask(thread, "common question")
            edit = {"file_path": str(path), "old_string": "one", "new_string": "two"}
            written = {"file_path": str(path), "content": "one\n"}
            api.script.extend([ToolUse("Write", written), ToolUse("Edit", edit), Text("written by claude")])
            await ask(a, "write the notes")
            assert path.read_text() == "two\n"
            api.script.extend(
                [
                    ToolUse("apply_patch", {"input": f"*** Begin Patch\n{patch}\n*** End Patch\n"}),
                    Text("written by codex"),
                ]
            )
            await ask(b, "write the notes")
            assert (path.read_text(), (stage.work / "other.txt").read_text()) == ("three\n", "x\n")
            before = await rows_of(client, "a", "b")
            assert await steps(client, "a", "b") == (
                ["same", "same", "same", "changed"],
                {"notes.txt": "both", "other.txt": "only_b"},
            )
            assert await rows_of(client, "a", "b") == before
            await fork(client.engine, "b", "c")
            assert (await steps(client, "b", "c"))[1] == {"notes.txt": "same", "other.txt": "same"}, "forked along"
        done = clew(stage, "threads", "diff", "a", "b", "--exit-code")
        assert done.code == 1
        assert "written by[- claude-]{+ codex+}" in done.out
        assert "? notes.txt  2 edits | 1 edit" in done.out
        assert "3 turns the same, 1 changed, 0 only in a, 0 only in b; 1 file differs of 2" in done.out
    assert not api.refused_hosts


def test_claude_reports_what_its_tools_write_and_codex_only_which_files() -> None:
    claude, codex = Claude(), Codex()
    changes = [{"old_string": "a", "new_string": "b", "replace_all": True}, "nonsense"]
    [many] = claude.edits("MultiEdit", {"file_path": "f", "edits": changes})
    assert (many.path, many.kind, many.old, many.new, many.everywhere) == ("f", EditKind.CHANGE, "a", "b", True)
    [cell] = claude.edits("NotebookEdit", {"notebook_path": "n.ipynb", "new_source": "1"})
    assert (cell.path, cell.old, cell.new) == ("n.ipynb", None, "1")
    [made] = claude.edits("Edit", {"file_path": "f", "old_string": "", "new_string": "all of it"})
    assert (made.kind, made.new) == (EditKind.WRITE, "all of it")
    given = {"changes": [{"path": "/a", "kind": "add"}, {"path": "/b", "kind": "delete"}, {"kind": "add"}, 7]}
    assert [(edit.path, edit.kind, edit.is_known) for edit in codex.edits("apply_patch", given)] == [
        ("/a", EditKind.WRITE, False),
        ("/b", EditKind.DELETE, True),
    ]
    for adapter in (claude, codex):
        for tool in ("Bash", "Edit", "MultiEdit", "Write", "NotebookEdit", "apply_patch", ""):
            for odd in ({}, {"file_path": 7}, {"changes": 7}, {"file_path": "f", "edits": {"a": 1}}):
                assert all(edit.path == "f" for edit in adapter.edits(tool, odd))


async def write(client: Client, stage: Stage, name: str, file: Path, text: str) -> None:
    stage.api.script.extend([ToolUse("Write", {"file_path": str(file), "content": text}), Text("written")])
    await ask(await client.thread(name, cwd=file.parent, permissions="all"), f"write {file.name}")


@pytest.mark.rest
async def test_only_files_that_were_really_written_are_listed_relative_to_the_work_directory(
    scripted: Stage, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with scripted.open() as client:
        await write(client, scripted, "a", scripted.work / "f", "one\ntwo\n")
        await write(client, scripted, "b", other / "f", "one\n2\n")
        scripted.api.script.extend([ToolUse("Write", {"file_path": str(other / "no" / "g"), "content": ""}), Text("!")])
        await ask(await client.thread("b", permissions="read-only"), "write g")
        assert (await steps(client, "a", "b"))[1] == {"f": "changed"}
    done = clew(scripted, "threads", "diff", "a", "b")
    assert (done.code, done.err) == (0, "")
    assert (
        "~ f  1 edit | 1 edit\n    --- a/f\n    +++ b/f\n    @@ -1,2 +1,2 @@\n     one\n    -two\n    +2\n" in done.out
    )
    [file] = clew(scripted, "threads", "diff", "a", "b", "--json").json["files"]
    assert (file["step"], file["diff"].splitlines()[-2:]) == ("changed", ["-two", "+2"])


async def test_edits_before_a_fork_belong_to_both_threads(scripted: Stage) -> None:
    async with scripted.open() as client:
        await write(client, scripted, "a", scripted.work / "f", "one\n")
        await fork(client.engine, "a", "b")
        assert await steps(client, "a", "b") == (["same", "same"], {"f": "same"})
        await write(client, scripted, "b", scripted.work / "g", "two\n")
        assert await steps(client, "a", "b") == (["same", "same", "only_b", "only_b"], {"f": "same", "g": "only_b"})


@pytest.mark.rest
async def test_exit_code_reports_a_difference_only_with_the_option(scripted: Stage) -> None:
    async with scripted.open() as client:
        for name in ("a", "b"):
            await ask(await client.thread(name, cwd=scripted.work), "hello")
    assert clew(scripted, "threads", "diff", "a", "b", "--exit-code").code == 0
    async with scripted.open() as client:
        await ask(await client.find("b"), "more")
    assert clew(scripted, "threads", "diff", "a", "b").code == 0
    differ = clew(scripted, "threads", "diff", "a", "b", "--exit-code", "--json")
    assert (differ.code, differ.json["same"]) == (1, False)
    assert [turn["step"] for turn in differ.json["turns"]] == ["same", "same", "only_b", "only_b"]
    missing = clew(scripted, "threads", "diff", "a", "c", "--json")
    assert (missing.code, missing.json["error"]["code"]) == (2, "not_found")


@pytest.mark.rest
async def test_context_option_sets_how_much_unchanged_text_is_shown(scripted: Stage) -> None:
    async with scripted.open() as client:
        for name, last in (("a", "x"), ("b", "y")):
            thread = await client.thread(name, cwd=scripted.work)
            for prompt in ("one", "two", f"p\nq\nr {last}\ns\nt"):
                await ask(thread, prompt)
    shown = clew(scripted, "threads", "diff", "a", "b", "--context", "0").out
    assert "… 4 turns are the same" in shown
    assert "    …\n    r[- x-]{+ y+}\n    …" in shown
    wider = clew(scripted, "threads", "diff", "a", "b", "--context", "1").out
    assert "… 3 turns are the same\n= claude" in wider
    assert "    …\n    q\n    r[- x-]{+ y+}\n    s\n    …" in wider


async def test_answers_with_little_in_common_are_shown_one_after_the_other(scripted: Stage) -> None:
    async with scripted.open() as client:
        for name, answer in (("a", "Yes, at once.\nAll of it."), ("b", "That depends on the weather.")):
            scripted.api.script.append(Text(answer))
            await ask(await client.thread(name, cwd=scripted.work), "Is it done?")
    shown = clew(scripted, "threads", "diff", "a", "b").out
    assert "-   Yes, at once.\n-   All of it.\n+   That depends on the weather.\n" in shown


@pytest.mark.rest
async def test_text_of_a_turn_cannot_control_the_terminal(scripted: Stage) -> None:
    async with scripted.open() as client:
        for name, word in (("a", "left"), ("b", "right")):
            thread = await client.thread(name, cwd=scripted.work)
            await ask(thread, f"{HOSTILE} {word}")
            await ask(thread, f"{word}{HOSTILE}\n{HOSTILE}")
    code, seen = on_terminal(scripted, "threads", "diff", "a", "b")
    assert code == 0
    assert "\x1b[31m" in seen and "left" in seen, "in colours"
    assert not re.sub(r"\x1b\[(?:3[1236]|0)m", "", seen).count("\x1b")
    assert not re.search(r"[\x07\u202e]", seen)
    piped = clew(scripted, "threads", "diff", "a", "b").out
    assert not re.search(r"[\x1b\x07\u202e]", piped)


@pytest.mark.rest
async def test_marks_of_fence_lines_are_ignored(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    async with scripted.open() as client:
        for name in ("p", "q"):
            couple.orders, couple.reports = [order("Do it."), order("All done.", go_on=False)], ["Done."]
            await carried_out(client, scripted, name=name, auto_save=False)
        [told, again] = [(await client.find(f"pair-{name}-instructor")) for name in ("p", "q")]
        texts = [[turn.text for turn in await thread.turns()] for thread in (told, again)]
        assert texts[0] != texts[1] and "<<<data " in texts[0][2], "fenced, each with a mark of its own"
    same = clew(scripted, "threads", "diff", "p", "q", "--exit-code", "--json")
    assert (same.code, same.json["same"]) == (0, True)
    assert [turn["a"]["text"] for turn in same.json["instructor"]["turns"]] == texts[0], "as they stand"
    async with scripted.open() as client:
        again = await client.find(again.name)
        [_, _, report, _] = await again.turns()
        await again.edit(report.id, report.text.replace("Done.", "Broken."))
    differ = clew(scripted, "threads", "diff", "p", "q", "--exit-code")
    assert differ.code == 1
    assert all(part in differ.out for part in ("<<<data …", "[-Done.-]", "{+Broken.+}")), differ.out


@pytest.mark.rest
async def test_two_pairs_are_compared_part_by_part_and_a_pair_with_a_thread_is_refused(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    async with scripted.open() as client:
        for name in ("p", "q"):
            await carried_out(client, scripted, name=name, auto_save=False)
        found = await compare(client.engine, "p", "q")
        assert [(each.part, len(each.turns)) for each in found] == [("instructor", 4), ("worker", 2)]
        assert {each.step.value for each in found[1].turns} <= {"same", "changed"}, "round beside round"
        with pytest.raises(UsageError, match="p is a pair") as refused:
            await compare(client.engine, "p", found[0].b.name)
        assert found[0].a.name in str(refused.value.hint)
        with pytest.raises(NotFound):
            await compare(client.engine, "nobody", "p")
    assert "@ instructors\n" in clew(scripted, "threads", "diff", "p", "q").out
