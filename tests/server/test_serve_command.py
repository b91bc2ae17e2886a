"""`clew serve`: the line that it prints, its token, its store, and how it ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

import forkserver
from clew.api.client import Client
from clew.core.runs.run import Run
from clew.core.thread import Thread
from clew.server.app import App
from clew.server.daemon import Address
from clew.server.security.access_policy import AccessPolicy
from clew.server.security.token import Credentials
from clew.testing.stage import Stage
from server.daemons import START_S, ServeProcess, log_in, mode


def run(stage: Stage, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A `clew serve` that is expected to end by itself."""
    return forkserver.run("serve", *args, env={**stage.environ, **environ}, cwd=stage.work)


async def hanging(daemon: ServeProcess) -> str:
    """A run in the middle of its answer."""
    await daemon.thread("t")
    made = await daemon.post("/api/threads/t/runs", {"prompt": "!hang text so far"})
    await daemon.until(made["id"], "text_streamed")
    return str(made["id"])


async def test_it_prints_one_address_and_nothing_else(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    assert daemon.address == f"http://127.0.0.1:{daemon.port}/?token={daemon.token}"
    async with daemon.client(known=False) as browser:
        entered = await log_in(browser, daemon.address)
        assert (entered.status_code, entered.headers["location"].partition("#")[0]) == (303, "/")
        assert (await browser.get("/api/threads")).status_code == 200
    assert daemon.stop() == 0
    assert daemon.process.stdout is not None
    assert daemon.process.stdout.read() == ""
    assert daemon.log == ""
    assert (scripted.clew_home / "token").read_text().strip() == daemon.token
    assert mode(scripted.clew_home / "token") == 0o600


@pytest.mark.rest
async def test_the_token_is_kept_and_changed_on_demand(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    first = start_daemon(scripted)
    async with first.client(known=False) as browser:
        await log_in(browser, first.address)
        cookies, key = browser.cookies, browser.headers["X-Clew-Key"]
    first.restart()
    async with first.client(known=False) as browser:
        browser.cookies = cookies
        browser.headers["X-Clew-Key"] = key
        assert (await browser.get("/api/threads")).status_code == 200, "old cookies still work"
    first.close()
    renewed = start_daemon(scripted, "--new-token")
    assert renewed.token != first.token
    async with renewed.client(known=False) as stranger:
        answer = await stranger.get("/api/threads", headers={"Authorization": f"Bearer {first.token}"})
        assert answer.status_code == 401


@pytest.mark.rest
async def test_two_daemons_share_one_store(scripted: Stage, start_daemon: Callable[..., ServeProcess]) -> None:
    one, two = start_daemon(scripted), start_daemon(scripted)
    assert one.token == two.token
    made = await one.thread("t")
    assert await two.get("/api/threads/t") == made
    running = await one.post("/api/threads/t/runs", {"prompt": "!hang text so far"})
    await two.until(running["id"], "text_streamed")
    queued = await two.post("/api/threads/t/runs", {"prompt": "next"})
    assert queued["status"] == "queued", "one run of a thread at a time, whichever daemon takes it"
    await two.post(f"/api/runs/{running['id']}/cancel")
    assert (await one.ended(running["id"]))["status"] == "cancelled"
    await one.post(f"/api/runs/{queued['id']}/send")
    assert (await one.ended(queued["id"]))["status"] == "answered"


def test_a_port_in_use_is_one_clear_line(scripted: Stage) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = run(scripted, "--port", str(taken.getsockname()[1]))
    assert (done.returncode, done.stdout) == (2, "")
    said, hint = done.stderr.splitlines()
    assert said.startswith("clew: Port ")
    assert "is in use" in said
    assert "--port" in hint


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
def test_beyond_the_loopback_needs_an_option(scripted: Stage, host: str) -> None:
    done = run(scripted, "--port", "0", "--host", host)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--allow-remote" in done.stderr
    assert not (scripted.clew_home / "token").exists()


async def test_with_the_option_it_listens_there_and_still_needs_the_token(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted, "--host", "0.0.0.0", "--allow-remote")
    assert daemon.address.startswith("http://127.0.0.1:")
    async with daemon.client(known=False) as stranger:
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
def test_an_invalid_address_is_refused(scripted: Stage, args: tuple[str, ...], environ: dict[str, str]) -> None:
    done = run(scripted, *args, **environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


async def test_settings_say_where_it_listens(scripted: Stage, start_daemon: Callable[..., ServeProcess]) -> None:
    daemon = start_daemon(
        scripted, CLEW_SERVE_HOST="localhost", CLEW_SERVE_ROOTS=str(scripted.work), CLEW_SERVE_PROT="1"
    )
    assert daemon.address.startswith(f"http://localhost:{daemon.port}/")
    settings = await daemon.get("/api/settings")
    assert settings["roots"] == [str(scripted.work.resolve())]
    assert settings["home"] == str(scripted.home)
    assert settings["cwd"] == str(scripted.work), "where it was started"
    assert (settings["agent"], settings["permissions"], settings["visibility"]) == ("claude", "ask", "shared")
    await daemon.thread("t")
    assert (await daemon.ask("t", "hello"))["status"] == "answered"
    assert daemon.stop() == 0
    assert daemon.log.count("no variable 'CLEW_SERVE_PROT' (did you mean CLEW_SERVE_PORT?).") == 1, "only once"
    assert daemon.log.count("CLEW_SERVE_PROT") == 1


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_gracefully(
    scripted: Stage, start_daemon: Callable[..., ServeProcess], which: int
) -> None:
    """The run is asked to stop and its partial answer is kept; clients are disconnected; the exit code is 0."""
    daemon = start_daemon(scripted)
    run_id = await hanging(daemon)
    connected = asyncio.Event()

    async def listen() -> list[str]:
        seen = []
        async for event in daemon.events(run_id):
            seen.append(event["kind"])
            connected.set()
        return seen

    listening = asyncio.create_task(listen())
    await connected.wait()
    assert await asyncio.to_thread(daemon.stop, which) == 0
    assert "run_ended" not in await asyncio.wait_for(listening, START_S), "disconnected before the run was over"
    async with scripted.open() as client:
        ended = await client.run(run_id)
        assert ended.status == "interrupted", "nobody cancelled it"
        turns = await (await client.find("t")).turns()
        assert [(turn.text, turn.partial) for turn in turns[1:]] == [("so far", True)]
        assert client.recovered == [], "nothing is left to recover"


@pytest.mark.rest
async def test_a_second_interrupt_does_not_wait(scripted: Stage, start_daemon: Callable[..., ServeProcess]) -> None:
    daemon = start_daemon(scripted)
    scripted.fault({"do": "hang_after_init", "ignore_term": True})
    await daemon.thread("t")
    made = await daemon.post("/api/threads/t/runs", {"prompt": "hello"})
    await daemon.until(made["id"], "session_started")
    daemon.process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        daemon.process.wait(0.5)
    daemon.process.send_signal(signal.SIGINT)
    await asyncio.to_thread(daemon.process.wait, START_S)
    scripted.fault()
    async with scripted.open() as client:
        assert [run.status for run in client.recovered] == ["interrupted"], "it did not wait: the next process recovers"


@pytest.mark.rest
@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_a_queued_prompt_waits_for_the_next_daemon(
    scripted: Stage, start_daemon: Callable[..., ServeProcess], how: str
) -> None:
    daemon = start_daemon(scripted)
    await hanging(daemon)
    queued = await daemon.post("/api/threads/t/runs", {"prompt": "and then?"})
    assert queued["status"] == "queued"
    if how == "killed":
        daemon.kill()
    daemon.restart()
    ended = await daemon.ended(queued["id"])
    assert ended["status"] == "answered"
    assert [turn["text"] for turn in await daemon.turns("t")][-2:] == ["and then?", "ack: and then?"]


@pytest.mark.rest
async def test_runs_of_a_process_that_died_are_recovered_while_it_serves(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon, other = start_daemon(scripted), start_daemon(scripted)
    run_id = await hanging(other)
    other.kill()
    ended = await daemon.ended(run_id)
    assert ended["status"] == "interrupted"
    assert (await daemon.ask("t", "go on"))["status"] == "answered"


class Broken(Client):
    """A client whose store raises an unexpected error."""

    def prepare(self) -> None:
        self.tries = 0
        self.again = asyncio.Event()

    async def take_up(self, may_run: Callable[[Thread], bool] | None = None) -> list[Run]:
        self.tries += 1
        if self.tries > 1:
            self.again.set()
        raise KeyError(self.home)


@pytest.mark.rest
async def test_an_unexpected_error_keeps_it_neither_from_starting_nor_from_recovering(
    scripted: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted.open() as held:
        client = Broken(held.engine, held.settings, held.home, [])
        client.prepare()
        async with App(client, AccessPolicy(Credentials("t" * 43), 7421), scripted.folder).running():
            assert client.tries == 1
            await asyncio.wait_for(client.again.wait(), START_S)
    logged = [record.getMessage() for record in caplog.records if record.name == "clew.server"]
    assert any("KeyError" in line for line in logged)
    assert str(scripted.clew_home) not in "".join(logged), "where it happened, not its message"


def test_a_token_file_that_cannot_be_read_is_one_clear_line(scripted: Stage) -> None:
    scripted.clew_home.mkdir(parents=True, exist_ok=True)
    (scripted.clew_home / "token").symlink_to(scripted.folder / "nowhere")
    done = run(scripted, "--port", "0")
    assert (done.returncode, done.stdout) == (9, "")
    said, _hint = done.stderr.splitlines()
    assert "token file" in said


@pytest.mark.rest
async def test_nothing_runs_outside_its_roots(scripted: Stage, start_daemon: Callable[..., ServeProcess]) -> None:
    """Neither what another daemon left queued, nor what is asked, retried or answered after a link leads out."""
    root = scripted.folder / "root"
    (root / "in").mkdir(parents=True)
    first = start_daemon(scripted)
    await first.thread("outside")
    await first.thread("inside", cwd=str(root / "in"), permissions="ask")
    await first.ask("inside", "hello")
    runs = {}
    for name in ("outside", "inside"):
        running = await first.post(f"/api/threads/{name}/runs", {"prompt": "!hang text so far"})
        runs[name] = await first.post(f"/api/threads/{name}/runs", {"prompt": '!tool Bash {"command": "touch here"}'})
        await first.until(running["id"], "text_streamed")
    first.kill()
    daemon = start_daemon(scripted, "--root", str(root))
    question = await daemon.until(runs["inside"]["id"], "question_asked")
    assert (await daemon.get(f"/api/runs/{runs['outside']['id']}"))["status"] == "queued"
    daemon.kill()
    (root / "in").rename(root / "was")
    (root / "in").symlink_to(scripted.work)
    daemon.restart()
    turn = (await daemon.turns("inside"))[0]["id"]
    answer = {"question_id": question["body"]["question_id"], "allow": True}
    for path, body in (
        ("/api/threads/inside/runs", {"prompt": "hello"}),
        ("/api/threads/inside/retry", {"turn": turn}),
        (f"/api/runs/{runs['inside']['id']}/tool-result", answer),
    ):
        refused = await daemon.http.post(path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), path


@pytest.mark.rest
async def test_a_client_that_does_not_read_does_not_delay_its_end(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    await daemon.thread("t")
    big = await daemon.post("/api/threads/t/runs", {"prompt": "!big 12000000"})
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", daemon.port))
        head = (
            f"GET /api/runs/{big['id']}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.token}\r\n"
        )
        slow.sendall(f"{head}\r\n".encode())
        await daemon.ended(big["id"])
        assert await asyncio.to_thread(daemon.stop) == 0
    assert daemon.log == "", "neither a traceback nor a warning"


async def test_open_starts_the_browser_with_a_one_time_code(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    opened = scripted.folder / "opened"
    browser = scripted.folder / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    daemon = start_daemon(scripted, "--open", BROWSER=str(browser))
    while not opened.exists() or not opened.read_text().endswith("\n"):
        await asyncio.sleep(0.02)
    address = opened.read_text().strip()
    assert daemon.token not in address, "others may read a command line"
    async with daemon.client(known=False) as browser_, daemon.client(known=False) as late:
        assert (await log_in(browser_, address)).status_code == 303
        assert (await browser_.get("/api/threads")).status_code == 200
        assert (await late.get(address)).status_code == 401, "it works once"
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


def test_the_printed_address_can_be_opened() -> None:
    assert Address("127.0.0.1", 0).url(7, "t") == "http://127.0.0.1:7/?token=t"
    assert Address("::1", 0).url(7, "t") == "http://[::1]:7/?token=t"
    assert Address("0.0.0.0", 0, True).url(7, "t") == "http://127.0.0.1:7/?token=t"
    assert Address("0.0.0.0", 0, True, ("clew.lan",)).url(7, "t") == "http://clew.lan:7/?token=t"
