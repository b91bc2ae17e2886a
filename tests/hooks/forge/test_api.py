"""Calls to a forge's API, against a server that answers well, badly, slowly and with bad intent."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from clew.core.hooks.hook import Forge
from clew.errors import ClewError, ConfigError, UsageError
from clew.hosts.hooks.forge.api import ANSWER_MAX_BYTES, COMMENT_MAX_CHARS, MARK, ForgeApi, is_ours, marked

TOKEN = "tok-not-a-real-one"
PREFIX = {Forge.GITHUB: "", Forge.GITEA: "/api/v1", Forge.FORGEJO: "/api/v1"}
AUTHORIZATION = {
    Forge.GITHUB: f"Bearer {TOKEN}",
    Forge.GITEA: f"token {TOKEN}",
    Forge.FORGEJO: f"token {TOKEN}",
}


class Asked:
    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.path, self.headers, self.body = method, path, headers, body


class FakeForge:
    """Answers with `play`, and stores the requests. `over` is set when the test ends, for answers that hang."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.over = threading.Event()
        self.play: Callable[[BaseHTTPRequestHandler], None] = lambda handler: answer(handler, 404, {})
        forge = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                forge.asked.append(Asked(self.command, self.path, headers, body))
                try:
                    forge.play(self)
                except OSError:
                    self.close_connection = True  # the client has gone

            do_GET = do_POST = handle_any

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def __enter__(self) -> FakeForge:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    def says(self, status: int, content: Any = None, **headers: str) -> None:
        self.play = lambda handler: answer(handler, status, content, **headers)


def answer(handler: BaseHTTPRequestHandler, status: int, content: Any = None, **headers: str) -> None:
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("content-length", str(len(raw)))
    handler.end_headers()
    handler.wfile.write(raw)


@pytest.fixture
def played() -> Iterator[FakeForge]:
    with FakeForge() as forge:
        yield forge


@pytest.fixture
def github(played: FakeForge) -> ForgeApi:
    return ForgeApi(Forge.GITHUB, played.url, TOKEN, timeout_s=60)


EVERY = pytest.mark.parametrize("forge", list(Forge))


# Requests


@EVERY
@pytest.mark.parametrize(
    ("permission", "may"),
    [("admin", True), ("write", True), ("maintain", True), ("owner", True), ("read", False), ("none", False)],
)
async def test_who_may_write(played: FakeForge, forge: Forge, permission: str, may: bool) -> None:
    played.says(200, {"permission": permission, "role_name": permission, "user": {"login": "bob"}})
    assert await ForgeApi(forge, played.url, TOKEN).can_write("alice/maze", "bob") is may
    [asked] = played.asked
    assert (asked.method, asked.path) == ("GET", f"{PREFIX[forge]}/repos/alice/maze/collaborators/bob/permission")
    assert asked.headers["authorization"] == AUTHORIZATION[forge]
    assert asked.headers["user-agent"] == "clew"


@EVERY
@pytest.mark.parametrize("status", [403, 404])
async def test_a_forge_that_does_not_say_who_may_write(played: FakeForge, forge: Forge, status: int) -> None:
    played.says(status, {"message": "no"})
    assert await ForgeApi(forge, played.url, TOKEN).can_write("alice/maze", "bob") is None


@pytest.mark.parametrize("content", [{}, {"permission": None}, {"permission": ["admin"]}, {"permission": "sudo"}])
async def test_an_unknown_permission_is_no_permission(played: FakeForge, github: ForgeApi, content: object) -> None:
    played.says(200, content)
    assert await github.can_write("alice/maze", "bob") is None


@EVERY
@pytest.mark.parametrize("state", ["open", "closed"])
async def test_whether_an_issue_is_open(played: FakeForge, forge: Forge, state: str) -> None:
    played.says(200, {"number": 4, "state": state})
    assert await ForgeApi(forge, played.url, TOKEN).state("alice/maze", 4) == state
    assert played.asked[0].path == f"{PREFIX[forge]}/repos/alice/maze/issues/4"


@pytest.mark.parametrize("status", [403, 404, 410])
async def test_a_missing_issue_has_no_state(played: FakeForge, github: ForgeApi, status: int) -> None:
    played.says(status, {})
    assert await github.state("alice/maze", 4) is None


@pytest.mark.parametrize("content", [{"number": 17, "state": "open"}, {"number": 4, "state": "lost"}, {"number": 4}])
async def test_another_issues_state_is_not_this_ones(played: FakeForge, github: ForgeApi, content: object) -> None:
    played.says(200, content)
    assert await github.state("alice/maze", 4) is None


@EVERY
async def test_a_comment_is_posted_with_the_mark(played: FakeForge, forge: Forge) -> None:
    url = "https://forge.example/alice/maze/issues/4#issuecomment-1"
    played.says(201, {"id": 1, "html_url": url})
    assert await ForgeApi(forge, played.url, TOKEN).comment("alice/maze", 4, "Done: über \U0001f9f5") == url
    [asked] = played.asked
    assert (asked.method, asked.path) == ("POST", f"{PREFIX[forge]}/repos/alice/maze/issues/4/comments")
    assert asked.headers["content-type"] == "application/json"
    assert json.loads(asked.body) == {"body": f"Done: über \U0001f9f5\n\n{MARK}"}


async def test_a_comment_that_is_too_long_is_cut_and_still_marked(played: FakeForge, github: ForgeApi) -> None:
    played.says(201, {"html_url": "javascript:alert(1)"})
    assert await github.comment("alice/maze", 4, "x" * 200_000) == "", (
        "an address that is not a web address is not returned"
    )
    body = json.loads(played.asked[0].body)["body"]
    assert len(body) == COMMENT_MAX_CHARS
    assert is_ours(body)
    assert "too long" in body


async def test_a_lone_surrogate_does_not_prevent_a_comment(played: FakeForge, github: ForgeApi) -> None:
    played.says(201, {"html_url": ""})
    await github.comment("alice/maze", 4, "a\ud800b")
    assert json.loads(played.asked[0].body)["body"].startswith("a\ud800b")


async def test_without_a_token_no_header_claims_one(played: FakeForge) -> None:
    api = ForgeApi(Forge.GITEA, played.url)
    played.says(200, {"number": 4, "state": "open"})
    assert await api.state("alice/maze", 4) == "open"
    assert "authorization" not in played.asked[0].headers


async def test_a_name_cannot_lead_to_another_path(played: FakeForge, github: ForgeApi) -> None:
    played.says(404, {})
    await github.can_write("alice/maze", "../../../user?x=1#y/\ud800")
    assert played.asked[0].path == "/repos/alice/maze/collaborators/..%2F..%2F..%2Fuser%3Fx%3D1%23y%2F%3F/permission"
    for user in ("", ".", ".."):
        with pytest.raises(UsageError):
            await github.can_write("alice/maze", user)
    for repo in ("maze", "alice/..", "alice/./x", "alice/maze?x", ""):
        with pytest.raises(UsageError):
            await github.state(repo, 4)
    for number in (0, -1, True, "4/../5"):
        with pytest.raises(UsageError):
            await github.state("alice/maze", number)  # type: ignore[arg-type]
    assert len(played.asked) == 1


# Failures


async def call(api: ForgeApi, name: str) -> object:
    return await {
        "can_write": lambda: api.can_write("alice/maze", "bob"),
        "state": lambda: api.state("alice/maze", 4),
        "comment": lambda: api.comment("alice/maze", 4, "Done."),
    }[name]()


CALLS = pytest.mark.parametrize("name", ["can_write", "state", "comment"])


@CALLS
async def test_an_answer_that_is_garbage(played: FakeForge, github: ForgeApi, name: str) -> None:
    for raw in (b"", b"{", b"<html>", b"[]", b"null", b'"admin"', b"\xff", b"[" * 100_000):
        played.says(200, raw)
        with pytest.raises(ClewError, match="not a JSON object") as refused:
            await call(github, name)
        assert refused.value.hint


@CALLS
async def test_an_answer_that_is_not_http(played: FakeForge, github: ForgeApi, name: str) -> None:
    def play(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"\x00\x01 what?\r\n\r\n")

    played.play = play
    with pytest.raises(ClewError, match="gives no usable answer"):
        await call(github, name)


async def test_an_answer_that_is_cut_off(played: FakeForge, github: ForgeApi) -> None:
    def play(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"number": 4,')

    played.play = play
    with pytest.raises(ClewError, match="gives no usable answer"):
        await github.state("alice/maze", 4)


@pytest.mark.parametrize("is_announced", [True, False])
async def test_an_answer_that_is_huge_is_not_read_to_the_end(
    played: FakeForge, github: ForgeApi, is_announced: bool
) -> None:
    sent = 0

    def play(handler: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        handler.send_response(200)
        if is_announced:
            handler.send_header("content-length", str(10**12))
        handler.end_headers()
        while not played.over.is_set():
            handler.wfile.write(b" " * 65_536)
            sent += 65_536

    played.play = play
    with pytest.raises(ClewError, match="too long"):
        await github.state("alice/maze", 4)
    assert sent < 20 * ANSWER_MAX_BYTES, "only what fits into the socket buffers"


@pytest.mark.parametrize("where", ["before", "headers", "body"])
async def test_a_forge_that_answers_too_slowly_is_given_up_in_time(played: FakeForge, where: str) -> None:
    def play(handler: BaseHTTPRequestHandler) -> None:
        if where != "before":
            handler.wfile.write(b"HTTP/1.0 200 OK\r\n")
        if where == "body":
            handler.wfile.write(b"content-length: 100000\r\n\r\n")
        while not played.over.wait(0.05):
            if where != "before":
                handler.wfile.write(b"x")
        handler.close_connection = True

    played.play = play
    with pytest.raises(ClewError, match="too long"):
        await ForgeApi(Forge.GITHUB, played.url, TOKEN, timeout_s=0.3).state("alice/maze", 4)
    played.over.set()  # the forge was sending until now


async def test_a_slow_forge_does_not_block_other_work(played: FakeForge) -> None:
    is_asked = threading.Event()

    def play(handler: BaseHTTPRequestHandler) -> None:
        is_asked.set()
        played.over.wait()
        answer(handler, 200, {"number": 4, "state": "open"})

    played.play = play
    asking = asyncio.create_task(ForgeApi(Forge.GITHUB, played.url, TOKEN, timeout_s=100).state("alice/maze", 4))
    await asyncio.to_thread(is_asked.wait)
    assert not asking.done(), "the forge has not answered yet, and other code runs"
    played.over.set()
    assert await asking == "open"


async def test_a_forge_that_is_not_there() -> None:
    with FakeForge() as gone:
        pass
    with pytest.raises(ClewError, match="cannot be reached"):
        await ForgeApi(Forge.GITEA, gone.url, TOKEN).state("alice/maze", 4)


@CALLS
async def test_the_token_does_not_follow_to_another_host(played: FakeForge, github: ForgeApi, name: str) -> None:
    with FakeForge() as thief:
        thief.says(200, {"permission": "admin", "number": 4, "state": "open", "login": "thief"})
        for status in (301, 302, 303, 307, 308):
            played.says(status, {}, location=f"{thief.url}/repos/alice/maze/issues/4")
            with pytest.raises(UsageError, match="redirects to another address"):
                await call(github, name)
        assert thief.asked == []
    assert len(played.asked) == 5


async def test_a_redirect_on_the_same_host_is_followed(played: FakeForge, github: ForgeApi) -> None:
    def play(handler: BaseHTTPRequestHandler) -> None:
        if handler.path.startswith("/repos/"):
            answer(handler, 301, {}, location="/repositories/7001/issues/4")
        else:
            answer(handler, 200, {"number": 4, "state": "closed"})

    played.play = play
    assert await github.state("alice/maze", 4) == "closed"
    assert played.asked[1].headers["authorization"] == AUTHORIZATION[Forge.GITHUB]


async def test_a_redirected_comment_is_not_posted_again(played: FakeForge, github: ForgeApi) -> None:
    for status in (301, 302, 303, 307, 308):
        played.says(status, {}, location="/repositories/7001/issues/4/comments")
        with pytest.raises(UsageError, match="redirects to another address"):
            await github.comment("alice/maze", 4, "Done.")
    assert [asked.method for asked in played.asked] == ["POST"] * 5


async def test_redirects_in_a_circle_end(played: FakeForge, github: ForgeApi) -> None:
    played.play = lambda handler: answer(handler, 302, {}, location=f"/{len(played.asked)}")
    with pytest.raises(UsageError, match="redirects to another address"):
        await github.state("alice/maze", 4)
    assert len(played.asked) < 6


PASSING: list[tuple[int, dict[str, str]]] = [
    (429, {}),
    (403, {"x_ratelimit_remaining": "0"}),
    (403, {"retry_after": "60"}),
    (500, {}),
    (503, {}),
]


@CALLS
async def test_a_temporary_failure_may_be_retried(played: FakeForge, github: ForgeApi, name: str) -> None:
    for status, headers in PASSING:
        played.says(status, {"message": "later"}, **headers)
        with pytest.raises(ClewError) as refused:
            await call(github, name)
        assert type(refused.value) is ClewError


async def test_a_comment_that_is_refused_is_not_retried(played: FakeForge, github: ForgeApi) -> None:
    for status in (401, 403, 404, 410, 422):
        played.says(status, {"message": "no"})
        with pytest.raises(UsageError, match=str(status)):
            await github.comment("alice/maze", 4, "Done.")


@pytest.mark.parametrize("status", [302, 401, 429, 500])
async def test_the_token_and_the_answer_are_in_no_error_and_no_log(
    played: FakeForge, github: ForgeApi, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.DEBUG)
    played.says(status, {"message": f"you said {TOKEN}"}, location=f"http://127.0.0.2:1/?{TOKEN}")
    with pytest.raises(ClewError) as refused:
        await github.state("alice/maze", 4)
    told = f"{refused.value!r} {refused.value.hint} {refused.value.__cause__!r} {caplog.text} {github!r}"
    assert TOKEN not in told


# Settings


NO_ADDRESSES = [
    "forge.example",
    "ftp://forge.example",
    "file:///",
    "https://",
    "https://me:secret@forge.example",
    "https://forge.example?x=1",
    "https://forge.example/#x",
    "https://forge.example:port",
    "https://[::1",
    "https://forge .example",
    "https://förge.example",
]


@EVERY
def test_a_malformed_address_is_refused_without_being_quoted(forge: Forge) -> None:
    for address in NO_ADDRESSES:
        with pytest.raises(ConfigError) as refused:
            ForgeApi(forge, address, TOKEN)
        assert "secret" not in f"{refused.value} {refused.value.hint}"


def test_only_github_has_a_default_address() -> None:
    assert "https://api.github.com" in repr(ForgeApi(Forge.GITHUB))
    for forge in (Forge.GITEA, Forge.FORGEJO):
        with pytest.raises(ConfigError, match="not set"):
            ForgeApi(forge)


@pytest.mark.parametrize("base", ["{}", "{}/", "{}/api/v1", "{}/api/v1/"])
async def test_an_address_with_or_without_the_apis_path(played: FakeForge, base: str) -> None:
    played.says(200, {"number": 4, "state": "open"})
    assert await ForgeApi(Forge.GITEA, base.format(played.url), TOKEN).state("alice/maze", 4) == "open"
    assert played.asked[0].path == "/api/v1/repos/alice/maze/issues/4"


@pytest.mark.parametrize("token", ["a b", "a\nb", "a\r\nX-Evil: 1", "é", "\ud800", "x" * 1001])
def test_a_malformed_token_is_refused_without_being_quoted(token: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ForgeApi(Forge.GITHUB, None, token)
    assert token not in f"{refused.value!r} {refused.value.hint}"


async def test_white_space_around_a_token_is_removed(played: FakeForge) -> None:
    played.says(200, {"number": 4, "state": "open"})
    assert await ForgeApi(Forge.GITHUB, played.url, f" {TOKEN}\n").state("alice/maze", 4) == "open"
    assert played.asked[0].headers["authorization"] == AUTHORIZATION[Forge.GITHUB]


async def test_no_proxy_of_the_environment_is_used(played: FakeForge, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeForge() as proxy:
        played.says(200, {"number": 4, "state": "open"})
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", proxy.url)
        assert await ForgeApi(Forge.GITHUB, played.url, TOKEN).state("alice/maze", 4) == "open"
        assert proxy.asked == []


# The mark


@pytest.mark.parametrize("text", ["", "Done.", "Done.\n", "```\ncode", "a\r\n\r\nb", f"> {MARK}"])
def test_what_is_marked_is_ours(text: str) -> None:
    assert not is_ours(text)
    assert is_ours(marked(text))
    assert is_ours(marked(text).replace("\n", "\r\n") + "\r\n"), "as a forge returns it"
    assert marked(marked(text)) == marked(text)
    assert marked(text).startswith(text.rstrip())


@pytest.mark.parametrize(
    "text",
    [f"> Done.\n> {MARK}\n\nThank you.", f"{MARK}\n\nI am a person.", f"What is {MARK}", "clew", "<!-- clew --> x"],
)
def test_who_quotes_the_mark_is_not_us(text: str) -> None:
    assert not is_ours(text)
