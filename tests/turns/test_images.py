"""Images of prompts, on the real agents: each reaches the model once, and stays in the history."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import ClassVar

import pytest

from clew.agents.claude import Claude
from clew.agents.claude.stream import IMAGE_REMOVED
from clew.api.client import Reply, Thread
from clew.core.decision import Abilities
from clew.core.images import ImageContent
from clew.errors import AgentFailed, Conflict, UsageError
from clew.hosts.branching.replay import ReplayOptions, replay
from clew.testing.model.scripts import Fail, Hang, TooLong
from clew.testing.stage import Stage
from pictures import png, shown

NAMED = "shown in this turn. It is not part of this transcript.]"


async def ask(thread: Thread, prompt: str, **options: object) -> Reply:
    return await (await thread.ask(prompt, **options)).reply()  # type: ignore[arg-type]


def newest(stage: Stage) -> list[bytes]:
    return shown(stage.api.main_requests[-1])


def stored(stage: Stage) -> set[str]:
    return {path.name for path in (stage.clew_home / "images").glob("*")}


@pytest.mark.always
async def test_each_image_is_shown_once_fresh_and_resumed(stage: Stage) -> None:
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        assert (await ask(thread, "what is this?", images=[png(1)])).error is None
        assert newest(stage) == [png(1)]
        reply = await ask(thread, "and these?", images=[png(2), ImageContent(png(3), "third.png")])
        assert (reply.session_resumed, newest(stage)) == (True, [png(1), png(2), png(3)])
        reply = await ask(thread, "and now?")
        assert (reply.session_resumed, newest(stage)) == (True, [png(1), png(2), png(3)]), "the session has them"

        reply = await ask(thread, "afresh", fresh_session=True, images=[png(4)])
        assert newest(stage) == [png(4)], "a transcript names the others"
        assert stage.api.main_requests[-1].shown_texts()[0][1].count(NAMED) == 3
        turns = await thread.turns()
    assert [image.name for image in turns[2].images] == ["image", "third.png"]
    assert stored(stage) == {image.digest for turn in turns for image in turn.images}


async def test_codex_is_shown_each_image_once_fresh_resumed_and_rewound(codex: Stage) -> None:
    async with codex.open(agent="codex") as client:
        thread = await client.thread("t", cwd=codex.work)
        await ask(thread, "what is this?", images=[png(1)])
        assert newest(codex) == [png(1)]
        reply = await ask(thread, "and this?", images=[png(2)])
        assert (reply.session_resumed, newest(codex)) == (True, [png(1), png(2)])
        reply = await ask(thread, "and now?")
        assert (reply.session_resumed, newest(codex)) == (True, [png(1), png(2)]), "its file was read as ours"
        again = await (await thread.retry("3")).reply()
        assert (again.session_resumed, again.reason) == (True, "history_changed")
        assert newest(codex) == [png(1), png(2)], "the copy has the first, and the prompt brings its own"


async def test_the_other_agent_is_told_of_images_as_catch_up(codex: Stage) -> None:
    async with codex.open() as client:
        thread = await client.thread("t", cwd=codex.work)
        await ask(thread, "hello")
        await ask(thread, "look", agent="codex", images=[ImageContent(png(1), "login.png")])
        reply = await ask(thread, "what did it see?")
        assert reply.session_resumed
        assert newest(codex) == []
        assert codex.prompt.count(f"[Image: login.png (PNG, {len(png(1))} bytes), {NAMED}") == 1


async def test_a_retry_and_a_fallback_send_the_images_again(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await ask(thread, "hello")
        scripted.api.script.append(TooLong())
        reply = await ask(thread, "look", images=[png(1)])
        assert (reply.error, reply.fallback) == (None, True)
        assert newest(scripted) == [png(1)]
        again = await (await thread.retry("3")).reply()
        assert again.error is None
        assert newest(scripted) == [png(1)]
        with pytest.raises(UsageError, match="its own images"):
            await thread.retry("3", images=[png(2)])


async def test_a_replay_asks_with_the_images_and_shows_what_was_typed(scripted: Stage) -> None:
    (scripted.work / "a.txt").write_text("one")
    async with scripted.open() as client:
        await ask(await client.thread("t", cwd=scripted.work), "see @a.txt", images=[png(1)], expand=True)
        live = await replay(client.engine, "t", ReplayOptions(model="claude-opus-4-5"))
        async for _ in live.events():
            pass
        assert live.error is None
        assert newest(scripted) == [png(1)]
        asked = (await (await client.find(live.thread.name)).turns())[0]
        assert (len(asked.images), asked.shown) == (1, "see @a.txt")


async def test_a_queued_prompt_keeps_its_images_over_a_restart(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        scripted.api.script.append(Hang())
        first = await thread.ask("first", lasting=True)
        queued = await thread.ask("look", lasting=True, images=[png(1)])
        run = await client.run(queued.id)
        assert (run.status, len(run.images)) == ("queued", 1)
        await client.edit_queued(queued.id, "look closely")
        first.kill()
    async with scripted.open() as client:
        left = [each.id for each in await client.runs() if each.status == "queued"]
        assert left == [queued.id]
        await client.send_queued(queued.id)
        [taken] = await client.take_up()
        async for _ in client.views.follow(taken.id):
            pass
        turns = await (await client.find("t")).turns()
    assert newest(scripted) == [png(1)]
    asked = next(turn for turn in turns if turn.text == "look closely")
    assert len(asked.images) == 1


async def test_nothing_is_stored_when_an_image_cannot_be_sent(scripted: Stage, tmp_path: Path) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        with pytest.raises(UsageError, match=r"text\.png is not an image that agents take"):
            (tmp_path / "text.png").write_text("no image")
            await thread.ask("look", images=[png(1), tmp_path / "text.png"])
        with pytest.raises(UsageError, match="21 images were given; a prompt can have 20"):
            await thread.ask("look", images=[png(1)] * 21)
        with pytest.raises(UsageError, match="more than 20 MiB together"):
            await thread.ask("look", images=[png(1) + bytes(5 * 1024 * 1024 - 100)] * 5)
        assert await client.runs() == []
        assert stored(scripted) == set()


async def test_an_agent_that_cannot_be_shown_images_is_refused_before_anything_is_stored(scripted: Stage) -> None:
    class Blind(Claude):
        name: ClassVar[str] = "blind"

        def abilities(self, help_text: str, version_text: str) -> Abilities:
            return Abilities(resume=True, choose_id=True, version="0.0.1")

    async with scripted.open(adapters=[Blind()]) as client:
        thread = await client.thread("t", cwd=scripted.work, agent="blind")
        with pytest.raises(UsageError, match=r"blind 0\.0\.1 cannot be shown images"):
            await thread.ask("look", images=[png(1)])
        assert await client.runs() == []
    assert stored(scripted) == set()


async def test_an_image_whose_file_is_gone_or_altered_is_said_to_be_gone(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await ask(thread, "look", images=[ImageContent(png(1), "login.png")])
        [name] = stored(scripted)
        path = scripted.clew_home / "images" / name
        path.write_bytes(png(2))
        launched = len(scripted.launches)
        with pytest.raises(Conflict, match=r"The file of the image login\.png is not on this machine any more"):
            await thread.retry("1")
        assert (len(scripted.launches), len(await thread.turns())) == (launched, 2), "nothing was started or archived"
        assert (await ask(thread, "and now?")).session_resumed
        reply = await ask(thread, "afresh", fresh_session=True, images=[png(1)])
        assert reply.error is None
        assert path.read_bytes() == png(1), "asking with the image stores it again"


async def test_an_image_that_the_service_refuses_ends_the_run_with_one_clear_error(stage: Stage) -> None:
    refusal = Fail(400, "invalid_request_error", "messages.0.content.0.image.source.base64: Could not process image")
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work)
        stage.api.script.extend([refusal] * 2)  # the real CLI asks once more by itself, without the image
        reply = await ask(thread, "look", images=[png(1)])
        stage.api.script.clear()
        assert isinstance(reply.error, AgentFailed)
        assert "refused something in the session (an image" in reply.error.message
        assert len(stage.launches) == 1, "Clew does not try it again unasked"
        assert (await client.run(reply.run)).outcome == "media_removed"
        assert (await ask(thread, "go on without it")).error is None


async def test_an_answer_without_the_refused_image_says_so(real: Stage) -> None:
    async with real.open() as client:
        thread = await client.thread("t", cwd=real.work)
        real.api.script.append(
            Fail(400, "invalid_request_error", "messages.0.content.0.image: Could not process image")
        )
        reply = await ask(thread, "look", images=[png(1)])
        assert reply.error is None
        assert [warning for warning in reply.warnings if "refused an image" in warning] == [IMAGE_REMOVED]


async def test_images_of_the_plain_cli_are_said_to_have_been_there(real: Stage) -> None:
    async with real.open() as client:
        thread = await client.thread("t", cwd=real.work)
        reply = await ask(thread, "hello")
        data = base64.b64encode(png(1)).decode()
        source = {"type": "base64", "media_type": "image/png", "data": data}
        content = [{"type": "image", "source": source}, {"type": "text", "text": "pasted outside"}]
        line = {"type": "user", "message": {"role": "user", "content": content}}
        flags = ["-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]
        subprocess.run(
            [str(real.binary), *flags, f"--resume={reply.session_id}"],
            input=json.dumps(line).encode() + b"\n",
            env=real.environ,
            cwd=real.work,
            check=True,
            capture_output=True,
            timeout=60,
        )
        reply = await ask(thread, "and now?")
        assert reply.session_resumed
        assert newest(real) == [png(1)]
        texts = [turn.text for turn in await thread.turns() if turn.outside and turn.role == "user"]
    assert texts == ["pasted outside\n\n[1 image was shown here, outside Clew.]"]


async def test_a_preview_and_an_explanation_count_the_images_and_store_none(scripted: Stage) -> None:
    async with scripted.open() as client:
        told = await client.explain("look", images=[png(1), png(2)], cwd=scripted.work)
        assert len(told.images) == 2
        thread = await client.thread("t", cwd=scripted.work)
        assert len((await thread.explain("look", images=[png(1)])).images) == 1
        with pytest.raises(UsageError, match="not an image"):
            await thread.explain("look", images=[b"no"])
        assert await client.runs() == []
    assert stored(scripted) == set()
