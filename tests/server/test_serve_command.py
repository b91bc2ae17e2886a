"""`clew serve`: one line, one token, one store; and how it ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

import forkserver
from clew.client import Client
from clew.core.run import Run
from clew.core.thread import Thread
from clew.server.app import App
from clew.server.daemon import Address
from clew.server.doors import Doors
from clew.server.token import Secret
from clew.testing.stage import Stage
from server.house import START_S, Served, let_in, mode


def run(stage: Stage, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A `clew serve` that is expected to end by itself."""
    return forkserver.run("serve", *args, env={**stage.environ, **environ}, cwd=stage.work)


async def hanging(house: Served) -> str:
    """A run in the middle of its answer."""
    await house.thread("t")
    made = await house.post("/api/threads/t/runs", {"prompt": "!hang text so far"})
    await house.until(made["id"], "text_streamed")
    return str(made["id"])


async def test_it_prints_one_address_and_nothing_else(scripted: Stage, serve: Callable[..., Served]) -> None:
    house = serve(scripted)
    assert house.address == f"http://127.0.0.1:{house.port}/?token={house.token}"
    async with house.client(known=False) as browser:
        entered = await let_in(browser, house.address)
        assert (entered.status_code, entered.headers["location"].partition("#")[0]) == (303, "/")
        assert (await browser.get("/api/threads")).status_code == 200
    assert house.stop() == 0
    assert house.process.stdout is not None
    assert house.process.stdout.read() == ""
    assert house.log == ""
    assert (scripted.clew_home / "token").read_text().strip() == house.token
    assert mode(scripted.clew_home / "token") == 0o600


@pytest.mark.rest
async def test_the_token_is_kept_and_changed_on_demand(scripted: Stage, serve: Callable[..., Served]) -> None:
    first = serve(scripted)
    async with first.client(known=False) as browser:
        await let_in(browser, first.address)
        cookies, key = browser.cookies, browser.headers["X-Clew-Key"]
    first.restart()
    async with first.client(known=False) as browser:
        browser.cookies = cookies
        browser.headers["X-Clew-Key"] = key
        assert (await browser.get("/api/threads")).status_code == 200, "old cookies go on working"
    first.close()
    renewed = serve(scripted, "--new-token")
    assert renewed.token != first.token
    async with renewed.client(known=False) as stranger:
        answer = await stranger.get("/api/threads", headers={"Authorization": f"Bearer {first.token}"})
        assert answer.status_code == 401


@pytest.mark.rest
async def test_two_daemons_share_one_store(scripted: Stage, serve: Callable[..., Served]) -> None:
    one, two = serve(scripted), serve(scripted)
    assert one.token == two.token
    made = await one.thread("t")
    assert await two.get("/api/threads/t") == made
    going = await one.post("/api/threads/t/runs", {"prompt": "!hang text so far"})
    await two.until(going["id"], "text_streamed")
    queued = await two.post("/api/threads/t/runs", {"prompt": "next"})
    assert queued["status"] == "queued", "one run a thread at a time, whoever takes it"
    await two.post(f"/api/runs/{going['id']}/cancel")
    assert (await one.ended(going["id"]))["status"] == "cancelled"
    await one.post(f"/api/runs/{queued['id']}/send")
    assert (await one.ended(queued["id"]))["status"] == "answered"


def test_a_taken_port_is_one_clear_line(scripted: Stage) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run(scripted, "--port", str(taken.getsockname()[1]))
    assert (done.returncode, done.stdout) == (2, "")
    said, hint = done.stderr.splitlines()
    assert said.startswith("clew: Port ")
    assert "is taken" in said
    assert "--port" in hint


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
def test_beyond_the_loopback_needs_a_word(scripted: Stage, host: str) -> None:
    done = run(scripted, "--port", "0", "--host", host)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--allow-remote" in done.stderr
    assert not (scripted.clew_home / "token").exists()


async def test_with_the_word_it_listens_there_and_still_asks_for_the_token(
    scripted: Stage, serve: Callable[..., Served]
) -> None:
    house = serve(scripted, "--host", "0.0.0.0", "--allow-remote")
    assert house.address.startswith("http://127.0.0.1:")
    async with house.client(known=False) as stranger:
        assert (await stranger.get("/api/threads")).status_code == 401
        assert (await stranger.get("/healthz", headers={"Host": "evil.example"})).status_code == 421


@pytest.mark.parametrize(
    ("args", "environ"),
    [
        (("--port", "99999"), {}),
        (("--port", "x"), {}),
        ((), {"CLEW_SERVE_PORT": "-1"}),
        (("--host", "not a host", "--allow-remote"), {}),
        (("extra",), {}),
    ],
)
def test_what_makes_no_address_is_refused(scripted: Stage, args: tuple[str, ...], environ: dict[str, str]) -> None:
    done = run(scripted, *args, **environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


async def test_settings_say_where_it_listens(scripted: Stage, serve: Callable[..., Served]) -> None:
    house = serve(scripted, CLEW_SERVE_HOST="localhost", CLEW_SERVE_ROOTS=str(scripted.work), CLEW_SERVE_PROT="1")
    assert house.address.startswith(f"http://localhost:{house.port}/")
    settings = await house.get("/api/settings")
    assert settings["roots"] == [str(scripted.work.resolve())]
    assert settings["home"] == str(scripted.home)
    assert settings["cwd"] == str(scripted.work), "where it was started"
    assert (settings["agent"], settings["permissions"], settings["visibility"]) == ("claude", "ask", "shared")
    await house.thread("t")
    assert (await house.ask("t", "hello"))["status"] == "answered"
    assert house.stop() == 0
    assert house.log.count("no variable 'CLEW_SERVE_PROT' (did you mean CLEW_SERVE_PORT?).") == 1, "once in its life"
    assert house.log.count("CLEW_SERVE_PROT") == 1


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_gently(scripted: Stage, serve: Callable[..., Served], which: int) -> None:
    """The run is asked to stop and what it said is kept; whoever listens is let go; the exit code is 0."""
    house = serve(scripted)
    run_id = await hanging(house)
    connected = asyncio.Event()

    async def listen() -> list[str]:
        seen = []
        async for event in house.events(run_id):
            seen.append(event["kind"])
            connected.set()
        return seen

    listening = asyncio.create_task(listen())
    await connected.wait()
    assert await asyncio.to_thread(house.stop, which) == 0
    assert "run_ended" not in await asyncio.wait_for(listening, START_S), "let go before the run was over"
    async with scripted.open() as client:
        ended = await client.run(run_id)
        assert ended.status == "interrupted", "nobody cancelled it"
        turns = await (await client.find("t")).turns()
        assert [(turn.text, turn.partial) for turn in turns[1:]] == [("so far", True)]
        assert client.recovered == [], "nothing is left for the next one to tidy up"


@pytest.mark.rest
async def test_a_second_interrupt_does_not_wait(scripted: Stage, serve: Callable[..., Served]) -> None:
    house = serve(scripted)
    scripted.fault({"do": "hang_after_init", "ignore_term": True})
    await house.thread("t")
    made = await house.post("/api/threads/t/runs", {"prompt": "hello"})
    await house.until(made["id"], "session_started")
    house.process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        house.process.wait(0.5)
    house.process.send_signal(signal.SIGINT)
    await asyncio.to_thread(house.process.wait, START_S)
    scripted.fault()
    async with scripted.open() as client:
        assert [run.status for run in client.recovered] == ["interrupted"], "it did not wait: the next one tidies up"


@pytest.mark.rest
@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_a_queued_prompt_waits_for_the_next_daemon(
    scripted: Stage, serve: Callable[..., Served], how: str
) -> None:
    house = serve(scripted)
    await hanging(house)
    queued = await house.post("/api/threads/t/runs", {"prompt": "and then?"})
    assert queued["status"] == "queued"
    if how == "killed":
        house.kill()
    house.restart()
    ended = await house.ended(queued["id"])
    assert ended["status"] == "answered"
    assert [turn["text"] for turn in await house.turns("t")][-2:] == ["and then?", "ack: and then?"]


@pytest.mark.rest
async def test_what_another_process_left_behind_is_tidied_while_it_serves(
    scripted: Stage, serve: Callable[..., Served]
) -> None:
    house, other = serve(scripted), serve(scripted)
    run_id = await hanging(other)
    other.kill()
    ended = await house.ended(run_id)
    assert ended["status"] == "interrupted"
    assert (await house.ask("t", "go on"))["status"] == "answered"


class Broken(Client):
    """A client whose store holds something that nobody foresaw."""

    def prepare(self) -> None:
        self.tries = 0
        self.again = asyncio.Event()

    async def take_up(self, may_run: Callable[[Thread], bool] | None = None) -> list[Run]:
        self.tries += 1
        if self.tries > 1:
            self.again.set()
        raise KeyError(self.home)


@pytest.mark.rest
async def test_what_nobody_foresaw_neither_keeps_it_from_starting_nor_from_tidying(
    scripted: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted.open() as held:
        client = Broken(held.engine, held.settings, held.home, [])
        client.prepare()
        async with App(client, Doors(Secret("t" * 43), 7421), scripted.folder).running():
            assert client.tries == 1
            await asyncio.wait_for(client.again.wait(), START_S)
    logged = [record.getMessage() for record in caplog.records if record.name == "clew.server"]
    assert any("KeyError" in line for line in logged)
    assert str(scripted.clew_home) not in "".join(logged), "where it happened, not what was in it"


def test_a_token_file_that_cannot_be_read_is_one_clear_line(scripted: Stage) -> None:
    scripted.clew_home.mkdir(parents=True, exist_ok=True)
    (scripted.clew_home / "token").symlink_to(scripted.folder / "nowhere")
    done = run(scripted, "--port", "0")
    assert (done.returncode, done.stdout) == (9, "")
    said, _hint = done.stderr.splitlines()
    assert "token file" in said


@pytest.mark.rest
async def test_nothing_runs_outside_of_its_roots(scripted: Stage, serve: Callable[..., Served]) -> None:
    """Not what another daemon left queued, nor what is asked, asked again or answered once a link leads out."""
    root = scripted.folder / "root"
    (root / "in").mkdir(parents=True)
    first = serve(scripted)
    await first.thread("outside")
    await first.thread("inside", cwd=str(root / "in"), permissions="ask")
    await first.ask("inside", "hello")
    runs = {}
    for name in ("outside", "inside"):
        going = await first.post(f"/api/threads/{name}/runs", {"prompt": "!hang text so far"})
        runs[name] = await first.post(f"/api/threads/{name}/runs", {"prompt": '!tool Bash {"command": "touch here"}'})
        await first.until(going["id"], "text_streamed")
    first.kill()
    house = serve(scripted, "--root", str(root))
    question = await house.until(runs["inside"]["id"], "question_asked")
    assert (await house.get(f"/api/runs/{runs['outside']['id']}"))["status"] == "queued"
    house.kill()
    (root / "in").rename(root / "was")
    (root / "in").symlink_to(scripted.work)
    house.restart()
    turn = (await house.turns("inside"))[0]["id"]
    answer = {"question_id": question["body"]["question_id"], "allow": True}
    for path, body in (
        ("/api/threads/inside/runs", {"prompt": "hello"}),
        ("/api/threads/inside/retry", {"turn": turn}),
        (f"/api/runs/{runs['inside']['id']}/tool-result", answer),
    ):
        refused = await house.http.post(path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), path


@pytest.mark.rest
async def test_who_does_not_read_does_not_hold_up_its_end(scripted: Stage, serve: Callable[..., Served]) -> None:
    house = serve(scripted)
    await house.thread("t")
    big = await house.post("/api/threads/t/runs", {"prompt": "!big 12000000"})
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", house.port))
        head = (
            f"GET /api/runs/{big['id']}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {house.token}\r\n"
        )
        slow.sendall(f"{head}\r\n".encode())
        await house.ended(big["id"])
        assert await asyncio.to_thread(house.stop) == 0
    assert house.log == "", "neither a traceback nor a complaint"


async def test_open_starts_the_browser_with_an_invitation(scripted: Stage, serve: Callable[..., Served]) -> None:
    opened = scripted.folder / "opened"
    browser = scripted.folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    house = serve(scripted, "--open", BROWSER=str(browser))
    while not opened.exists() or not opened.read_text().endswith("\n"):
        await asyncio.sleep(0.02)
    address = opened.read_text().strip()
    assert house.token not in address, "others may read a command line"
    async with house.client(known=False) as browser_, house.client(known=False) as late:
        assert (await let_in(browser_, address)).status_code == 303
        assert (await browser_.get("/api/threads")).status_code == 200
        assert (await late.get(address)).status_code == 401, "it opens once"
        assert (await late.get("/api/threads")).status_code == 401


@pytest.mark.parametrize("args", [["--help"], ["serve", "--help"], ["threads", "list"]])
def test_the_server_is_loaded_only_to_serve(scripted: Stage, args: list[str]) -> None:
    code = f"import sys; from clew.cli.main import main; main({args!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=scripted.environ,
        cwd=scripted.work,
    )
    loaded = set(done.stderr.split())
    assert "clew.cli.commands" in loaded
    assert not loaded & {"fastapi", "starlette", "uvicorn", "pydantic", "websockets", "clew.server"}


def test_an_address_says_what_a_person_can_open() -> None:
    assert Address("127.0.0.1", 0).url(7, "t") == "http://127.0.0.1:7/?token=t"
    assert Address("::1", 0).url(7, "t") == "http://[::1]:7/?token=t"
    assert Address("0.0.0.0", 0, True).url(7, "t") == "http://127.0.0.1:7/?token=t"
    assert Address("0.0.0.0", 0, True, ("clew.lan",)).url(7, "t") == "http://clew.lan:7/?token=t"
