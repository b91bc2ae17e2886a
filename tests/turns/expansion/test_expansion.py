"""What a user types is expanded once: `@path` and `/command` become what they stand for, and nothing else ever does."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.api import exports
from clew.api.client import Client, Thread
from clew.core.images import MAX_IMAGE_BYTES
from clew.core.runs.events import QuestionAsked
from clew.core.runs.permissions import Answer
from clew.core.runs.run import RunStatus
from clew.errors import UsageError
from clew.testing.model.replies import Hang, Text
from clew.testing.stage import Stage
from pictures import png, shown
from turns.plain_cli import PlainCli

COMMAND = (
    "---\ndescription: Says hello\nallowed-tools: Bash(echo:*), Edit\n---\nHello $ARGUMENTS, !`echo from the shell`.\n"
)


@pytest.fixture
def desk(scripted: Stage) -> Stage:
    return furnished(scripted)


def furnished(stage: Stage) -> Stage:
    """A repository with a file and a command, a command of the user's, and a secret outside."""
    subprocess.run(["git", "init", "-q", stage.work], check=True)
    (stage.work / "a.txt").write_text("one\ntwo\nUser: three\n")
    (stage.folder / "secret.txt").write_text("TOP SECRET\n")
    write(stage.home / ".claude/commands/hello.md", COMMAND)
    write(stage.work / ".claude/commands/team/plan.md", "Plan $ARGUMENTS well.\n")
    return stage


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def a_thread(client: Client, stage: Stage, **settings: Any) -> Thread:
    return await client.new_thread(cwd=stage.work, **settings)


async def refused(thread: Thread, prompt: str, **options: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        await thread.ask(prompt, expand=True, **options)
    assert "\n" not in caught.value.message and caught.value.hint
    return caught.value


async def test_the_text_of_a_file_is_sent_and_what_was_typed_is_kept(desk: Stage) -> None:
    async with desk.open() as client:
        thread = await a_thread(client, desk)
        for prompt in ("see @a.txt#L2-3, please", "and @a.txt"):  # fresh, resumed
            assert (await (await thread.ask(prompt, expand=True))).text
        first, _, second, _ = await thread.turns()
        assert first.typed == first.shown == "see @a.txt#L2-3, please"
        assert first.text.startswith(f"{first.typed}\n\nThe files that are mentioned above with @")
        assert "<<<file a.txt, lines 2-3 " in first.text and "2\ttwo\n3\tUser: three\n>>>file" in first.text
        assert "1\tone" in second.text
        assert [request.shown_texts()[-1][1] for request in desk.api.main_requests] == [first.text, second.text]
        (desk.work / "a.txt").write_text("changed")
        await (await thread.ask("go on", fresh_session=True))
        assert "changed" not in json.dumps(desk.api.main_requests[-1].body["messages"])


async def test_without_expand_nothing_is_expanded(desk: Stage) -> None:
    async with desk.open() as client:
        thread = await a_thread(client, desk)
        await (await thread.ask("/hello @a.txt"))
        assert desk.prompt.strip() == "/hello @a.txt"
        assert (await thread.turns())[0].typed is None


async def test_nothing_in_a_transcript_or_an_answer_is_expanded(stage: Stage) -> None:
    furnished(stage)
    secret = stage.folder / "secret.txt"
    bait = f"@{secret} @a.txt /hello\n/hello bait\n!`echo ran`"
    stage.api.reply = lambda _: Text(f"look: {bait}")
    async with stage.open() as client:
        thread = await a_thread(client, stage, permissions="all")
        await (await thread.ask(bait))  # a program's own text, as of a forge or of another agent
        await (await thread.ask("go on", expand=True))
        await (await thread.ask("fresh", expand=True, fresh_session=True))
        await (await thread.ask("other model", expand=True, model="claude-haiku-4-5"))
        await (await thread.retry((await thread.turns())[0].id))
        fork = await client.fork(thread.name)
        forked = await client.find(fork.threads[0].name)
        await (await forked.ask("in the fork", expand=True, fresh_session=True))
        shown = json.dumps([each.body["messages"] for each in stage.api.main_requests])
    assert "TOP SECRET" not in shown and "User: three" not in shown
    assert "from the shell" not in shown and "Hello bait" not in shown


async def test_what_is_piped_in_beside_a_prompt_is_not_expanded(desk: Stage) -> None:
    async with desk.open() as client:
        thread = await a_thread(client, desk, permissions="all")
        await (await thread.ask("see @a.txt", expand=True, attached="@/etc/hostname\n/hello"))
        turn = (await thread.turns())[0]
        assert turn.text.endswith("\n@/etc/hostname\n/hello") and turn.text.count("<<<file") == 1
        assert turn.shown == turn.text, "an edit begins with all of it"
        edited = await thread.edit(turn.id, f"now {turn.shown}", expand=True)
        assert edited.text == f"now {turn.text}" and edited.typed is None


async def test_an_edit_is_a_new_prompt_but_what_somebody_else_wrote_is_not(desk: Stage) -> None:
    async with desk.open() as client:
        thread = await a_thread(client, desk, permissions="all")
        await (await thread.ask("from a forge: @a.txt"))
        turn = (await thread.turns())[0]
        command = await thread.edit(turn.id, "/team:plan from a forge: @a.txt", expand=True)
        assert command.text == "Plan from a forge: @a.txt well."
        await thread.edit(turn.id, "from a forge: @a.txt")
        edited = await thread.edit(turn.id, "from a forge: @a.txt!", expand=True)
        assert "<<<file" in (await thread.edit(turn.id, "mine: @.git/HEAD and @a.txt", expand=True)).text
        assert edited.typed is None and edited.text == "from a forge: @a.txt!"
        again = await thread.edit(turn.id, "mine: @a.txt", expand=True)
        assert again.typed == "mine: @a.txt" and "User: three" in again.text
        assert (await thread.edit(turn.id, "plain", expand=True)).typed is None


async def test_a_command_and_a_file_that_somebody_else_wrote_stay_text_after_a_small_edit(desk: Stage) -> None:
    write(desk.home / ".claude/commands/changes.md", "---\nallowed-tools: Bash(touch:*)\n---\n!`touch $ARGUMENTS`\n")
    async with desk.open() as client:
        thread = await a_thread(client, desk)
        await (await thread.ask("/changes ran"))
        turn = (await thread.turns())[0]
        for foreign, text in (
            ("/changes ran", "/changes ran again"),
            ("Look:\n/changes ran", "/changes ran"),
            ("```\nsee @a.txt there\n```", "see @a.txt there"),
            ("(@a.txt)", "( @a.txt )"),
            ('"@a.txt"', '@"a.txt"'),
        ):
            await thread.edit(turn.id, foreign)
            edited = await thread.edit(turn.id, text, expand=True)
            assert (edited.text, edited.typed) == (text, None)
        assert not (desk.work / "ran").exists()


async def test_a_prompt_that_is_refused_has_run_nothing(desk: Stage) -> None:
    head = "---\nallowed-tools: Bash(touch:*)\n---\n!`touch ran` "
    write(desk.home / ".claude/commands/two.md", f"{head} !`rm -f x`")
    write(desk.home / ".claude/commands/men.md", f"{head} $ARGUMENTS")
    async with desk.open() as client:
        thread = await a_thread(client, desk)
        await (await thread.ask("one"))
        assert "does not permit: rm -f x" in (await refused(thread, "/two")).message
        assert "is outside the work directory" in (await refused(thread, "/men see @../secret.txt")).message
        (desk.work / "big.png").write_bytes(png(2) + b" " * MAX_IMAGE_BYTES)
        assert "more than 5 MiB" in (await refused(thread, "/men see @big.png")).message
        for number in range(51):
            (desk.work / f"{number}.txt").touch()
        assert (
            "mentions 51 files"
            in (await refused(thread, "/men " + " ".join(f"@{number}.txt" for number in range(51)))).message
        )
        assert not (desk.work / "ran").exists()
        await (await thread.ask("/men it", expand=True))
        assert (desk.work / "ran").exists()
        assert "more than 10,000 words" in (await refused(thread, " @x".join(map(str, range(20_000))))).message


async def test_a_file_outside_needs_a_person_or_the_permission_all(desk: Stage) -> None:
    secret = desk.folder / "secret.txt"
    (desk.work / "link.txt").symlink_to(secret)
    asked: list[QuestionAsked] = []

    async def person(question: QuestionAsked) -> Answer:
        asked.append(question)
        return Answer(allow=len(asked) > 1)

    async with desk.open() as client:
        thread = await a_thread(client, desk)
        for mention in (f"@{secret}", "@../secret.txt", "@link.txt"):
            assert "nobody can be asked here to allow it" in (await refused(thread, mention)).message
        assert "was not allowed" in (await refused(thread, "@link.txt", person=person)).message
        await (await thread.ask("@link.txt", expand=True, person=person))
        assert [question.input["file_path"] for question in asked] == [str(secret)] * 2
        assert "TOP SECRET" in desk.prompt
        reading = await a_thread(client, desk, permissions="read-only")
        assert "read-only" in (await refused(reading, "@link.txt", person=person)).message
        trusting = await a_thread(client, desk, permissions="all")
        await (await trusting.ask("@link.txt", expand=True))
        assert "Clew's own folder" in (await refused(trusting, f"@{desk.folder / 'clew'}/clew.db")).message
        assert len(await thread.turns()) == 2 and not await reading.turns()


async def test_odd_files_are_refused_or_described_and_nothing_hangs(desk: Stage) -> None:
    os.mkfifo(desk.work / "pipe")
    (desk.work / "binary").write_bytes(b"\0\1")
    (desk.work / "long").write_text("x\n" * 3_000)
    (desk.work / "large").write_text("x" * 300_000)
    (desk.work / "folder").mkdir()
    (desk.work / "folder/inner").touch()
    async with desk.open() as client:
        thread = await a_thread(client, desk, permissions="all")
        for odd in ("@pipe", "@/dev/zero", f"@/proc/{os.getpid()}/environ"):
            assert "neither a file nor a folder" in (await refused(thread, odd)).message
        await (await thread.ask("@binary @long @large @folder @a.txt#L99 @no-such @a\0b", expand=True))
        text = (await thread.turns())[0].text
    assert "[This is not text. The file has 2 bytes.]" in text
    assert "2000\tx\n[The lines from 2,001 on are left out here.]" in text
    assert "[The file has 300,000 bytes, more than the 262,144" in text
    assert "<<<folder folder" in text and "inner" in text
    assert "[The file has only 3 lines.]" in text
    assert text.count("<<<") == 5


async def test_an_image_that_is_mentioned_is_shown(desk: Stage) -> None:
    (desk.work / "shot.txt").write_bytes(png(1))
    (desk.work / "large.png").write_bytes(png(2) + b" " * MAX_IMAGE_BYTES)
    async with desk.open() as client:
        thread = await a_thread(client, desk)
        await (await thread.ask("see @shot.txt", expand=True, images=[png(3)]))
        turn = (await thread.turns())[0]
        assert [image.name for image in turn.images] == ["image", "shot.txt"] and turn.typed == "see @shot.txt"
        assert "<<<file shot.txt " in turn.text and "an image, which is shown with this prompt" in turn.text
        assert shown(desk.api.main_requests[-1]) == [png(3), png(1)]
        told = await thread.explain("and @shot.txt", expand=True)
        assert [image.name for image in told.images] == ["shot.txt"]
        assert "more than 5 MiB" in (await refused(thread, "@large.png")).message
        assert "It cannot be shown here." in await client.expand("see @shot.txt", cwd=desk.work)
        await (await thread.ask("see @shot.txt"))
        assert len(shown(desk.api.main_requests[-1])) == 2


async def test_a_command_of_the_user_is_expanded_with_its_shell_block_and_its_tools(desk: Stage) -> None:
    async with desk.open() as client:
        thread = await a_thread(client, desk)
        run = await thread.ask("/hello World @a.txt", expand=True)
        assert run._turn.request.allowed_tools == ("Bash(echo)", "Bash(echo *)", "Edit")
        await run
        turn = (await thread.turns())[0]
        assert turn.text.startswith("Hello World @a.txt, from the shell.\n\nThe files") and "1\tone" in turn.text
        await (await thread.ask("/team:plan it", expand=True))
        assert desk.prompt == "Plan it well."
        known = {each.name: (each.source, each.description) for each in await client.commands(desk.work)}
        assert known["hello"] == ("user", "Says hello") and known["team:plan"][0] == "project" and "clear" in known
        assert await client.files(desk.work, "a") == ("a.txt",)
        assert await client.files(desk.work, "../") == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Look: !`touch ran`", "runs commands"),
        ("```!\ntouch ran\n```", "runs commands"),
        ("---\nallowed-tools: Bash\n---\nx", "allows tools"),
        ("See @a.txt", "mentions files"),
        ("See @$0", "mentions files"),
    ],
)
async def test_a_repository_command_that_does_more_than_say_something_needs_trust(
    desk: Stage, text: str, says: str
) -> None:
    write(desk.work / ".claude/commands/evil.md", text)
    async with desk.open() as client:
        thread = await a_thread(client, desk, permissions="all")
        error = await refused(thread, '/evil "a.txt"')
        assert says in error.message and "evil.md" in error.message and "--trust project" in str(error.hint)
        assert not (desk.work / "ran").exists() and not await thread.turns()
        await thread.change(trust="project")
        assert (await (await thread.ask('/evil "a.txt"', expand=True))).text
        assert (desk.work / "ran").exists() is ("touch" in text)


async def test_a_linked_command_of_a_repository_is_refused(desk: Stage) -> None:
    (desk.work / ".claude/commands/leak.md").symlink_to(desk.folder / "secret.txt")
    async with desk.open() as client:
        thread = await a_thread(client, desk, permissions="all")
        assert "is a link" in (await refused(thread, "/leak")).message


@pytest.mark.parametrize(
    ("prompt", "says", "hint"),
    [
        ("/model opus", "Clew has no /model", "clew threads set"),
        ("/a" + "我" * 99, "There is no command /a" + "我" * 99 + ".", "blank before the slash"),  # too long for a file
        ("/helo", "There is no command /helo (did you mean hello?).", "blank before the slash"),
        ("/clear", "acts on a thread", "alone"),
        ("/denied", "allowed-tools does not permit: touch ran", "Bash(touch:*)"),
        ("/failing", "failed with exit code 3: sh -c 'echo oh no; exit 3': oh no", ""),
    ],
)
async def test_other_commands_are_refused_with_what_to_use_instead(
    desk: Stage, prompt: str, says: str, hint: str
) -> None:
    write(desk.home / ".claude/commands/denied.md", "!`touch ran`")
    write(desk.home / ".claude/commands/failing.md", "---\nallowed-tools: Bash\n---\n!`sh -c 'echo oh no; exit 3'`")
    async with desk.open() as client:
        thread = await a_thread(client, desk)
        with pytest.raises(UsageError) as caught:
            await thread.ask(prompt, expand=True)
        assert says in caught.value.message and hint in (caught.value.hint or "")
        assert not (desk.work / "ran").exists()
        for text in ("/usr/bin/x fails", " /helo", "/etc is a folder"):
            await (await thread.ask(text, expand=True))
            assert desk.prompt.strip() == text.strip()


async def test_clear_archives_the_history_and_the_next_turn_is_fresh(desk: Stage) -> None:
    async with desk.open() as client:
        thread = await a_thread(client, desk)
        assert await thread.clear() == 0
        await (await thread.ask("my name is Ada"))
        assert await thread.clear() == 2
        reply = await (await thread.ask("who am I?"))
        assert not reply.session_resumed and "Ada" not in json.dumps(desk.api.main_requests[-1].body["messages"])


async def test_a_queued_prompt_keeps_its_expanded_text_until_it_runs_and_can_be_edited(desk: Stage) -> None:
    desk.api.script.append(Hang())
    async with desk.open() as client:
        thread = await a_thread(client, desk)
        first = await thread.ask("wait")
        await asyncio.to_thread(desk.api.wait_for_requests, 1)
        waiting = await thread.ask("see @a.txt", expand=True, lasting=True)
        (desk.work / "a.txt").write_text("changed\n")
        stored = await client.run(waiting.id)
        assert stored.status is RunStatus.QUEUED and "User: three" in stored.prompt and stored.shown == "see @a.txt"
        other = await thread.ask("later", lasting=True)
        edited = await client.edit_queued(other.id, "now @a.txt", expand=True)
        assert "1\tchanged" in edited.prompt and edited.shown == "now @a.txt"
        await client.remove_queued(other.id)
        first.cancel()
        await first.reply()
        await client.send_queued(waiting.id)
        await waiting
        assert "User: three" in desk.prompt and "changed" not in desk.prompt


async def test_explain_shows_the_expanded_prompt_and_runs_nothing(desk: Stage) -> None:
    write(desk.home / ".claude/commands/mark.md", "---\nallowed-tools: Bash\n---\nSee !`touch ran` @a.txt\n")
    async with desk.open() as client:
        thread = await a_thread(client, desk)
        told = await thread.explain("/mark", expand=True)
        assert told.prompt is not None and "1\tone" in told.prompt
        assert "[The output of this command will be here: touch ran]" in told.prompt
        assert not (desk.work / "ran").exists()


@pytest.fixture
def codex_prompt(desk: Stage) -> Iterator[Stage]:
    write(desk.home / ".codex/prompts/draft.md", "Draft $1 for $WHO.")
    yield desk


async def test_prompts_of_codex_are_commands_too(codex_prompt: Stage) -> None:
    async with codex_prompt.open() as client:
        thread = await a_thread(client, codex_prompt)
        await (await thread.ask("/prompts:draft mail WHO=Ada", expand=True))
        assert codex_prompt.prompt == "Draft mail for Ada."


async def test_what_was_said_outside_or_comes_from_a_file_is_not_expanded(stage: Stage) -> None:
    furnished(stage)
    stage.api.reply = lambda _: Text(f"look: @{stage.folder / 'secret.txt'} @a.txt /hello")
    async with stage.open() as client:
        thread = await a_thread(client, stage, permissions="all")
        reply = await (await thread.ask("begin"))
        assert reply.session_id is not None
        PlainCli(stage).ask(reply.session_id, "what was asked outside")
        assert len((await thread.sync()).turns) == 2
        await (await thread.ask("all of it", expand=True, fresh_session=True))
        file = await exports.export(client, thread.name, exports.ExportOptions())
        imported = await exports.import_file(client, file.content, exports.ImportOptions(str(stage.work)))
        again = await client.find(imported.threads[0].name)
        await again.change(permissions="all")
        await (await again.ask("imported", expand=True, fresh_session=True))
        shown = json.dumps([each.body["messages"] for each in stage.api.main_requests])
    assert "what was asked outside" in shown
    assert "TOP SECRET" not in shown and "User: three" not in shown and "from the shell" not in shown
