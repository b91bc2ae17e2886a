"""Images of prompts travel with their thread, and are removed only when nothing names them any more."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from clew.api.client import Client
from clew.core.images import ImageContent
from clew.errors import Busy, UsageError
from clew.hosts.branching.fork import fork
from clew.hosts.transfer.export_file import HISTORY, pack, unpack
from clew.hosts.transfer.images import image_part
from clew.store.transfer.codec import as_json, from_json
from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage
from pictures import png
from transfer.machines import ask, clew, exported, imported, two_machines


def files(stage: Stage) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (stage.clew_home / "images").glob("*")}


async def shown(client: Client, name: str = "t") -> list[bytes]:
    """The images of a thread, as its surfaces get them."""
    thread = await client.find(name)
    images = [image for turn in await thread.turns() for image in turn.images]
    return [(await client.views.image(thread, image.digest))[1] for image in images]


async def asked(stage: Stage, name: str = "t", *images: bytes) -> None:
    async with stage.open() as client:
        thread = await client.thread(name, cwd=stage.work)
        await ask(thread, "look", images=[ImageContent(content, "shot.png") for content in images])


@pytest.mark.always
async def test_an_export_brings_the_images_and_the_prompt_can_be_asked_again(tmp_path: Path, api: ModelApi) -> None:
    with two_machines(tmp_path, api) as [a, b]:
        await asked(a, "t", png(1), png(2))
        made = await exported(a)
        assert [(each.included, each.why) for each in made.sessions] == [
            (False, "its thread has images, which cannot be compared")
        ]
        came = await imported(b, made.content)
        assert [each.resumable for each in came.sessions] == []
        assert files(b) == files(a)
        async with b.open() as client:
            assert await shown(client) == [png(1), png(2)]
            thread = await client.find("t")
            reply = await ask(thread, "and now?")
            assert not reply.session_resumed
            assert b.prompt.count("[Image: shot.png (PNG, ") == 2
            assert (await (await thread.retry("1")).reply()).error is None
            assert api.main_requests[-1].images == 2


async def test_a_redacted_export_has_no_images(tmp_path: Path, api: ModelApi) -> None:
    with two_machines(tmp_path, api) as [a, b]:
        await asked(a, "t", png(1))
        made = await exported(a, redacted=True)
        assert png(1) not in made.content
        await imported(b, made.content)
        assert files(b) == {}
        async with b.open() as client:
            assert [turn.images for turn in await (await client.find("t")).turns()] == [(), ()]


async def test_an_image_that_is_not_what_its_turn_names_is_refused(tmp_path: Path, api: ModelApi) -> None:
    with two_machines(tmp_path, api) as [a, b]:
        await asked(a, "t", png(1))
        file = unpack((await exported(a)).content)
        [image] = [turn["images"] for turn in from_json(file.parts[HISTORY])["turns"] if turn["images"]]
        [named] = json.loads(image)
        about = {key: value for key, value in file.manifest.items() if key not in ("format", "version", "parts")}
        others = {name: content for name, content in file.parts.items() if name != image_part(named["digest"])}

        def changed(**change: object) -> bytes:
            history = from_json(file.parts[HISTORY])
            for turn in history["turns"]:
                turn["images"] = turn["images"] and json.dumps([named | change])
            return pack(about, {**file.parts, HISTORY: as_json(history)})

        for content in (
            pack(about, {**others, image_part(named["digest"]): png(2)}),
            changed(media_type="image/jpeg"),
            changed(size_bytes=1),
            changed(name="\x1b[2J.png"),
            changed(digest="../../../etc/passwd"),
            changed(path="/etc/passwd"),
        ):
            with pytest.raises(UsageError):
                await imported(b, content)
            assert files(b) == {}
        await imported(b, pack(about, others))  # it was gone where the file was made
        async with b.open() as client:
            assert len([turn for turn in await (await client.find("t")).turns() if turn.images]) == 1


async def test_a_delete_archives_the_images_and_keeps_those_that_another_thread_names(scripted: Stage) -> None:
    await asked(scripted, "t", png(1), png(2))
    await asked(scripted, "other", png(2))
    before = files(scripted)
    async with scripted.open() as client:
        await fork(client.engine, "t", "copy")
        assert await shown(client, "copy") == [png(1), png(2)]
        await (await client.find("copy")).delete()
        assert files(scripted) == before
        deleted = await (await client.find("t")).delete()
        assert deleted.archive is not None
        assert set(files(scripted).values()) == {png(2)}, "the other thread still names this one"
        assert deleted.archive.stat().st_mode & 0o077 == 0
        await (await client.find("other")).delete()
        assert files(scripted) == {}

        restored = await client.archives.restore(str(deleted.archive))
        assert [thread.name for thread in restored.threads] == ["t"]
        assert (await shown(client), files(scripted)) == ([png(1), png(2)], before)


async def test_a_damaged_image_in_an_archive_restores_nothing(scripted: Stage) -> None:
    await asked(scripted, "t", png(1))
    async with scripted.open() as client:
        deleted = await (await client.find("t")).delete()
        assert deleted.archive is not None
        content = json.loads(deleted.archive.read_bytes())
        [digest] = content["images"]
        for damaged in ("no base64!", base64.b64encode(png(2)).decode(), 7):
            deleted.archive.write_text(json.dumps(content | {"images": {digest: damaged}}))
            with pytest.raises(UsageError, match="is damaged"):
                await client.archives.restore(str(deleted.archive))
            assert (await client.views.threads(), files(scripted)) == ([], {})


def test_a_push_and_a_pull_carry_the_images(tmp_path: Path, api: ModelApi) -> None:
    url = (tmp_path / "remote").as_uri()
    (tmp_path / "remote").mkdir()
    with two_machines(tmp_path, api) as [a, b]:
        for seed, name in ((1, "one.png"), (2, "two.png")):
            (a.work / name).write_bytes(png(seed))
            assert clew(a, "ask", "-t", "t", "--image", name, "look").code == 0
            pushed = clew(a, "threads", "push", url, "t")
            assert pushed.code == 0, pushed.err
            pulled = clew(b, "threads", "pull", url, "t", "--cwd", str(b.work))
            assert pulled.code == 0, pulled.err
            assert files(b) == files(a)
        assert sorted(files(b).values()) == sorted([png(1), png(2)])
        assert clew(a, "threads", "push", url, "t", "--json").json["threads"][0]["state"] == "unchanged"


async def test_a_prompt_that_is_not_accepted_leaves_no_image(scripted: Stage) -> None:
    from clew.testing.model.scripts import Hang

    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        scripted.api.script.append(Hang())
        run = await thread.ask("first", images=[png(1)])
        with pytest.raises(Busy):
            await thread.ask("second", images=[png(1), png(2)], wait=False)
        assert list(files(scripted).values()) == [png(1)], "what the first run names stays"
        run.kill()
