"""The real CLI answers a second process of Clew in the same process, with the first turn in its memory."""

from __future__ import annotations

import json
import uuid

from clew.testing.model.api import ModelApi
from clew.testing.model.replies import Text
from clew.testing.stage import MODEL, Stage
from engine.warm.house import House


def prompt(text: str) -> str:
    message = {"role": "user", "content": text}
    return json.dumps({"type": "user", "message": message, "uuid": str(uuid.uuid4())})


async def test_claude_goes_on_in_another_process_of_clew(house: House, real: Stage, api: ModelApi) -> None:
    api.script.extend([Text("Noted."), Text("It was blue.")])
    await house.serve()
    argv = [str(real.binary), "-p", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]
    plan = {
        "argv": [*argv, "--permission-prompt-tool", "stdio", "--model", MODEL, "--session-id", str(uuid.uuid4())],
        "environ": real.environ,
        "cwd": str(real.work),
        "end": '"state":"completed"',  # the turn's last line, after its result
    }
    first = await house.start(["key"], ["spawn"], ["ask", prompt("My colour is blue.")], ["keep"], **plan)
    await first.said()
    pid = (await first.said())["pid"]
    assert "completed" in (await first.said())["answer"]
    assert await first.said() == {"kept": [pid]}
    assert await first.ended() == 0
    second = await house.start(["key"], ["take"], ["ask", prompt("Which colour?")], ["keep"], **plan)
    await second.said()
    assert await second.said() == {"pid": pid}
    assert "completed" in (await second.said())["answer"]
    assert await second.said() == {"kept": [pid]}
    assert await second.ended() == 0
    assert len(real.launches) == 1
    one, two = api.main_requests
    assert [text for _, text in one.shown_texts()][-1] == "My colour is blue."
    assert [text for _, text in two.shown_texts()][-3:] == ["My colour is blue.", "Noted.", "Which colour?"]
    await house.pool.close()
    await house.gone()
