"""Every security rule of the server, on a real `clew serve`; over raw sockets where the head or the timing matters."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import websockets
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from clew.server.live.connections import HEAD_S, MAX_CONNECTIONS
from clew.server.models.problems import RequestRefused
from clew.server.security.access_policy import AccessPolicy
from clew.server.security.token import Credentials
from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage
from server.daemons import ServeProcess, log_in, serve_process

pytestmark = pytest.mark.process

LIMIT_S = 60
FOREIGN = "http://evil.example"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    folder = tmp_path_factory.mktemp("guards")
    with ModelApi() as api:
        stage = Stage(folder, api, scripted_agent.install(folder / "agent"))
        (folder / "root" / "inner").mkdir(parents=True)
        (folder / "root" / "out").symlink_to(folder)
        with serve_process(stage, "--root", str(folder / "root"), "--allow-host", "Clew.Example", "--verbose") as made:
            yield made


@pytest.fixture
async def stranger(site: ServeProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{site.port}") as client:
        yield client


@pytest.fixture
async def known(site: ServeProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with site.client() as client:
        yield client


async def raw(site: ServeProcess, *parts: bytes) -> bytes:
    """All that the server answers to these bytes until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), LIMIT_S)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def head(site: ServeProcess, method: str, path: str, *lines: str) -> bytes:
    given = [f"Host: 127.0.0.1:{site.port}", f"Authorization: Bearer {site.token}", "Connection: close", *lines]
    return f"{method} {path} HTTP/1.1\r\n".encode() + "".join(f"{line}\r\n" for line in given).encode() + b"\r\n"


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


def problem_of(answer: bytes) -> dict[str, object]:
    found = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert {"type", "title", "status", "detail", "code", "hint"} <= found.keys()
    assert found["status"] == status_of(answer)
    return found


class TestToken:
    @pytest.mark.parametrize(
        "path",
        ["/api/threads", "/api/runs", "/api/openapi.json", "/api/stats", "/api/nothing", "/app.js", "/some/page"],
    )
    async def test_nothing_is_answered_without_the_token(self, stranger: httpx.AsyncClient, path: str) -> None:
        answer = await stranger.get(path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == "unauthorized"

    async def test_only_healthz_is_answered_without_the_token(self, stranger: httpx.AsyncClient) -> None:
        answer = await stranger.get("/healthz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok", "busy": False})

    @pytest.mark.parametrize("value", ["Bearer wrong", "Bearer", "Basic {token}", "{token}", "Bearer {token}x"])
    async def test_another_token_is_refused(self, site: ServeProcess, stranger: httpx.AsyncClient, value: str) -> None:
        headers = {"Authorization": value.format(token=site.token)}
        assert (await stranger.get("/api/threads", headers=headers)).status_code == 401

    async def test_two_tokens_are_refused(self, site: ServeProcess, stranger: httpx.AsyncClient) -> None:
        given = [("Authorization", f"Bearer {site.token}"), ("Authorization", "Bearer x")]
        assert (await stranger.get("/api/threads", headers=given)).status_code == 401

    async def test_a_bearer_token_is_accepted_whatever_the_case_of_its_scheme(
        self, site: ServeProcess, stranger: httpx.AsyncClient
    ) -> None:
        headers = {"Authorization": f"bearer {site.token}"}
        assert (await stranger.get("/api/threads", headers=headers)).status_code == 200

    async def test_a_token_in_the_address_of_a_call_is_ignored(
        self, site: ServeProcess, stranger: httpx.AsyncClient
    ) -> None:
        assert (await stranger.get(f"/api/threads?token={site.token}")).status_code == 401

    async def test_the_link_exchanges_the_token_for_a_cookie(
        self, site: ServeProcess, stranger: httpx.AsyncClient
    ) -> None:
        answer = await log_in(stranger, f"/?token={site.token}")
        assert answer.status_code == 303
        assert re.fullmatch(r"/#key=[0-9a-f]{64}", answer.headers["location"])
        cookie = answer.headers["set-cookie"]
        assert re.match(rf"clew-{site.port}=[0-9a-f]{{64}};", cookie)
        for flag in ("HttpOnly", "SameSite=strict", "Path=/"):
            assert flag.lower() in cookie.lower()
        assert site.token not in cookie
        assert (await stranger.get("/api/threads")).status_code == 200, "the cookie is enough, with the page's key"

    async def test_the_cookie_alone_is_enough_for_the_page_but_not_for_data(
        self, site: ServeProcess, stranger: httpx.AsyncClient
    ) -> None:
        """A browser sends it to every server of this host name, on any port: an agent's own dev server has it too."""
        await stranger.get(f"/?token={site.token}")
        assert (await stranger.get("/")).status_code != 401
        made = await stranger.post("/api/threads", json={"cwd": "/"})
        assert (made.status_code, made.json()["code"]) == (401, "unauthorized")
        [(name, value)] = stranger.cookies.items()
        for given in ("", value, site.token):
            headers = {"X-Clew-Key": given}
            assert (await stranger.get("/api/threads", headers=headers)).status_code == 401
            with pytest.raises(InvalidStatus) as refused:
                await websockets.connect(
                    f"ws://127.0.0.1:{site.port}/api/live",
                    additional_headers={"Cookie": f"{name}={value}"},
                    subprotocols=[Subprotocol("clew"), Subprotocol(f"clew-key.{given}")],
                    proxy=None,
                )
            assert refused.value.response.status_code == 401

    async def test_the_key_alone_is_refused(self, site: ServeProcess, stranger: httpx.AsyncClient) -> None:
        await log_in(stranger, f"/?token={site.token}")
        stranger.cookies.clear()
        assert (await stranger.get("/api/threads")).status_code == 401
        assert (await stranger.get("/app.js")).status_code == 401

    @pytest.mark.parametrize("odd", ['prefs={"theme":"dark"}', "a=b c", "x[y]=1", "bare", "é=1", '"', "=;;", "a=\x01"])
    async def test_malformed_cookies_of_other_servers_do_not_hide_ours(
        self, site: ServeProcess, stranger: httpx.AsyncClient, odd: str
    ) -> None:
        await log_in(stranger, f"/?token={site.token}")
        [(name, value)] = stranger.cookies.items()
        ours = [(b"cookie", f"{odd}; {name}={value}; {odd}".encode())]
        policy = AccessPolicy(Credentials(site.token), site.port)
        assert policy.is_authenticated(ours, needs_key=False)
        assert not policy.is_authenticated([(b"cookie", f"{odd}; {name}=x{value}".encode())], needs_key=False)

    async def test_the_cookie_is_not_a_bearer_token(self, site: ServeProcess, stranger: httpx.AsyncClient) -> None:
        await stranger.get(f"/?token={site.token}")
        [value] = stranger.cookies.values()
        stranger.cookies.clear()
        assert (await stranger.get("/api/threads", headers={"Authorization": f"Bearer {value}"})).status_code == 401

    async def test_the_token_is_not_a_cookie(self, site: ServeProcess, stranger: httpx.AsyncClient) -> None:
        stranger.cookies.set(f"clew-{site.port}", site.token)
        assert (await stranger.get("/api/threads")).status_code == 401

    @pytest.mark.parametrize("cookie", ["clew-1=x", "clew-{port}", "clew-{port}=", '"', ";;;=;", "clew-{port}=\\303"])
    async def test_broken_cookies_are_refused(
        self, site: ServeProcess, stranger: httpx.AsyncClient, cookie: str
    ) -> None:
        headers = {"Cookie": cookie.format(port=site.port)}
        assert (await stranger.get("/api/threads", headers=headers)).status_code == 401

    @pytest.mark.parametrize("query", ["", "?token=wrong", "?token="])
    async def test_a_browser_without_the_token_gets_the_login_page(
        self, stranger: httpx.AsyncClient, query: str
    ) -> None:
        answer = await stranger.get(f"/{query}")
        assert answer.status_code == 401
        assert answer.headers["content-type"].startswith("text/html")
        assert "clew serve" in answer.text
        assert "set-cookie" not in answer.headers
        assert "script" not in answer.text


class TestHost:
    @pytest.mark.parametrize(
        "host",
        [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "",
            "a b",
            "x@127.0.0.1",
            "10.0.0.1",
            "[::2]",
            "[::1]evil.com",
            "[::1]evil.com:80",
            "[::1].evil.com",
            "::1",
            "127.0.0.1:x",
            "127.0.0.1:99999",
        ],
    )
    async def test_a_foreign_name_is_refused(self, site: ServeProcess, known: httpx.AsyncClient, host: str) -> None:
        answer = await known.get("/healthz", headers={"Host": host})
        assert answer.status_code in (421, 400), "an empty or broken one may not even be HTTP"
        if "evil" in host:
            assert answer.status_code == 421
            assert answer.json()["code"] == "unknown_host"

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:{port}", "[::1]:{port}", "127.0.0.1", "clew.example:443"])
    async def test_own_names_are_answered(self, site: ServeProcess, known: httpx.AsyncClient, host: str) -> None:
        answer = await known.get("/healthz", headers={"Host": host.format(port=site.port)})
        assert answer.status_code == 200

    async def test_a_missing_name_is_refused(self, site: ServeProcess) -> None:
        assert status_of(await raw(site, b"GET /healthz HTTP/1.0\r\n\r\n")) == 421

    def test_beyond_the_loopback_an_ip_address_is_accepted_and_a_name_is_not(self) -> None:
        policy = AccessPolicy(Credentials("t" * 43), 7421, ("clew.lan",), remote=True)
        policy.check_host([(b"host", b"192.168.1.5:7421")])
        policy.check_host([(b"host", b"clew.lan")])
        with pytest.raises(RequestRefused):
            policy.check_host([(b"host", b"evil.example:7421")])


class TestOrigin:
    @pytest.mark.parametrize(
        "origin",
        [
            FOREIGN,
            "null",
            "http://127.0.0.1:1",
            "http://localhost.evil.example",
            "file://",
            "",
            "https://127.0.0.1:{port}x",
        ],
    )
    @pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE", "PUT"])
    async def test_a_foreign_page_changes_nothing(
        self, site: ServeProcess, known: httpx.AsyncClient, origin: str, method: str
    ) -> None:
        headers = {"Origin": origin.format(port=site.port)}
        answer = await known.request(method, "/api/threads/t", json={}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")

    async def test_the_own_page_may_change_things(self, site: ServeProcess, known: httpx.AsyncClient) -> None:
        headers = {"Origin": f"http://127.0.0.1:{site.port}", "Sec-Fetch-Site": "same-origin"}
        assert (await known.patch("/api/threads/none", json={"name": "x"}, headers=headers)).status_code == 404

    @pytest.mark.parametrize("value", ["cross-site", "same-site", "Cross-Site"])
    async def test_sec_fetch_site_of_another_site_is_refused(self, known: httpx.AsyncClient, value: str) -> None:
        answer = await known.post("/api/threads", json={}, headers={"Sec-Fetch-Site": value})
        assert answer.status_code == 403

    async def test_no_response_allows_another_origin(self, known: httpx.AsyncClient) -> None:
        answer = await known.get("/api/threads", headers={"Origin": FOREIGN})
        assert not [name for name in answer.headers if name.startswith("access-control")]
        asked = await known.options(
            "/api/threads", headers={"Origin": FOREIGN, "Access-Control-Request-Method": "POST"}
        )
        assert asked.status_code == 405
        assert not [name for name in asked.headers if name.startswith("access-control")]


class TestSocket:
    def address(self, site: ServeProcess) -> str:
        return f"ws://127.0.0.1:{site.port}/api/live"

    async def test_token_or_cookie_is_accepted(self, site: ServeProcess, stranger: httpx.AsyncClient) -> None:
        bearer = {"Authorization": f"Bearer {site.token}"}
        async with websockets.connect(self.address(site), additional_headers=bearer, proxy=None) as socket:
            assert json.loads(await socket.recv())["type"] == "hello"
        await log_in(stranger, f"/?token={site.token}")
        [(name, value)] = stranger.cookies.items()
        offered = [Subprotocol("clew"), Subprotocol(f"clew-key.{stranger.headers['X-Clew-Key']}")]
        async with websockets.connect(
            self.address(site),
            additional_headers={"Cookie": f"{name}={value}"},
            origin=Origin(f"http://127.0.0.1:{site.port}"),
            subprotocols=offered,
            proxy=None,
        ) as socket:
            assert json.loads(await socket.recv())["type"] == "hello"
            assert socket.subprotocol == "clew", "a browser expects one of those that it offered"

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({}, 401),
            ({"Authorization": "Bearer wrong"}, 401),
            ({"Authorization": "Bearer {token}", "Origin": FOREIGN}, 403),
            ({"Authorization": "Bearer {token}", "Origin": "null"}, 403),
            ({"Authorization": "Bearer {token}", "Sec-Fetch-Site": "cross-site"}, 403),
        ],
    )
    async def test_anything_else_is_refused(self, site: ServeProcess, headers: dict[str, str], status: int) -> None:
        given = {name: value.format(token=site.token) for name, value in headers.items()}
        with pytest.raises(InvalidStatus) as refused:
            await websockets.connect(self.address(site), additional_headers=given, proxy=None)
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body or b"{}").get("status", status) == status
        assert "ERROR" not in site.log, "a refusal is not logged as an error"

    async def test_a_foreign_host_is_refused(self, site: ServeProcess) -> None:
        lines = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
        request = head(site, "GET", "/api/live", *lines).replace(b"Connection: close", b"Connection: Upgrade")
        answer = await raw(site, request.replace(b"Host: 127.0.0.1", b"Host: evil.example"))
        assert status_of(answer) == 421

    async def test_another_path_is_not_found(self, site: ServeProcess) -> None:
        with pytest.raises(InvalidStatus):
            await websockets.connect(
                f"ws://127.0.0.1:{site.port}/api/other",
                additional_headers={"Authorization": f"Bearer {site.token}"},
                proxy=None,
            )

    async def test_a_message_that_is_too_large_ends_it(self, site: ServeProcess) -> None:
        bearer = {"Authorization": f"Bearer {site.token}"}
        async with websockets.connect(self.address(site), additional_headers=bearer, proxy=None) as socket:
            await socket.recv()
            await socket.send("x" * 300_000)
            with pytest.raises(ConnectionClosed) as ended:
                await socket.recv()
            assert ended.value.rcvd is not None
            assert ended.value.rcvd.code == 1009


SECURITY = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class TestHeaders:
    @pytest.mark.parametrize("path", ["/healthz", "/", "/?token=wrong", "/api/threads", "/api/nothing", "/nothing.js"])
    async def test_every_response_has_the_security_headers(self, known: httpx.AsyncClient, path: str) -> None:
        answer = await known.get(path)
        for name, value in SECURITY.items():
            assert answer.headers.get_list(name) == [value], name
        policy = answer.headers["content-security-policy"].split("; ")
        assert policy[0] == "default-src 'none'"
        for part in (
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self' data:",
            "require-trusted-types-for 'script'",
            "trusted-types dompurify",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ):
            assert part in policy
        assert "server" not in answer.headers

    async def test_refusals_have_the_security_headers_too(
        self, site: ServeProcess, stranger: httpx.AsyncClient
    ) -> None:
        refused = await stranger.get("/api/threads")
        assert refused.headers["x-content-type-options"] == "nosniff"
        broken = await raw(site, b"NONSENSE\r\n\r\n")
        assert b"content-security-policy" in broken.lower()


class TestLimits:
    async def test_a_body_with_too_large_a_content_length_is_not_read(self, site: ServeProcess) -> None:
        lines = ("Content-Type: application/json", "Content-Length: 12000001")
        answer = await raw(site, head(site, "POST", "/api/threads", *lines))
        assert status_of(answer) == 413
        assert problem_of(answer)["code"] == "too_large"

    async def test_a_chunked_body_is_counted(self, site: ServeProcess) -> None:
        lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
        piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        answer = await raw(site, head(site, "POST", "/api/threads", *lines), *([piece] * 13))
        assert not answer or status_of(answer) == 413, "a reset connection is a refusal as well"

    async def test_a_body_below_the_limit_is_read(self, known: httpx.AsyncClient) -> None:
        answer = await known.post("/api/threads", json={"cwd": "/", "prompt": "x" * 11_000_000})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), (
            "it was read: the directory is outside"
        )

    async def test_calls_without_long_texts_have_a_smaller_limit(self, known: httpx.AsyncClient) -> None:
        answer = await known.post("/api/threads/t/truncate", json={"turn": "x" * 70_000})
        assert (answer.status_code, answer.json()["detail"]) == (413, "The body is larger than 64 KB.")

    @pytest.mark.rest
    async def test_a_body_of_many_unknown_keys_is_not_validated(self, known: httpx.AsyncClient) -> None:
        answer = await known.post("/api/threads", json={f"key-{n}": n for n in range(600_000)})
        assert (answer.status_code, answer.json()["detail"]) == (413, "The body holds more than 10,000 values.")

    async def test_of_many_errors_the_first_are_listed(self, known: httpx.AsyncClient) -> None:
        answer = await known.post("/api/threads", json={f"{'k' * 1_000}{n}": n for n in range(9_000)})
        problem = answer.json()
        assert (answer.status_code, len(problem["errors"])) == (422, 11)
        assert problem["errors"][-1] == {"where": "request", "what": "And 8,991 more."}
        assert len(answer.content) < 4_000

    async def test_large_headers(self, known: httpx.AsyncClient, site: ServeProcess) -> None:
        answer = await known.get("/healthz", headers={"X-Large": "x" * 33_000})
        assert (answer.status_code, answer.json()["code"]) == (431, "too_large")
        many = await known.get("/healthz", headers=[(f"X-{n}", "1") for n in range(120)])
        assert many.status_code == 431
        huge = await raw(site, head(site, "GET", "/healthz", "X-Large: " + "x" * 200_000))
        assert not huge or problem_of(huge)["status"] == 431

    async def test_a_long_address(self, known: httpx.AsyncClient) -> None:
        assert (await known.get("/api/threads?q=" + "x" * 9_000)).status_code == 414

    @pytest.mark.parametrize("opening", ["[", '{"a":'])
    async def test_deep_json(self, known: httpx.AsyncClient, opening: str) -> None:
        headers = {"Content-Type": "application/json"}
        for depth, status in ((65, 400), (9_000, 400), (200_000, 413)):
            answer = await known.post("/api/threads", content=opening * depth, headers=headers)
            assert answer.status_code == status, depth
        closed = "[" * 4_000 + "]" * 4_000
        assert (await known.post("/api/threads", content=closed, headers=headers)).status_code == 400

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
    async def test_a_body_that_is_not_json(self, known: httpx.AsyncClient, kind: str) -> None:
        answer = await known.post("/api/threads", content=b"{}", headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()["code"]) == (415, "not_json")

    async def test_what_is_not_http(self, site: ServeProcess) -> None:
        assert problem_of(await raw(site, b"\x16\x03\x01\x02\x00\r\n\r\n"))["status"] == 400
        with pytest.raises((ssl.SSLError, OSError)):
            await asyncio.open_connection("127.0.0.1", site.port, ssl=ssl.create_default_context())

    @pytest.mark.rest
    async def test_a_head_that_never_ends_times_out(self, site: ServeProcess) -> None:
        """Neither silence nor slow bytes keep a connection open: it has ten seconds in all."""
        silent = asyncio.create_task(raw(site))
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(b"GET /healthz HTTP/1.1\r\n")

        drops = 0

        async def drip() -> None:
            nonlocal drops
            while not reader.at_eof():
                writer.write(b"X: y\r\n")
                drops += 1
                await asyncio.sleep(0.5)

        dripping = asyncio.create_task(drip())
        answers = [await silent, await asyncio.wait_for(reader.read(), LIMIT_S)]
        dripping.cancel()
        writer.close()
        assert drops > 1, "the server waited for it"
        limits = Path(__file__).parents[3].joinpath("docs", "http.md").read_text()
        assert f"| the head of a request | {HEAD_S:.0f} s," in limits
        assert all(b"408" in answer.split(b"\r\n")[0] for answer in answers)

    async def test_idle_connections_do_not_keep_the_owner_out(
        self, site: ServeProcess, known: httpx.AsyncClient
    ) -> None:
        """Every connection is accepted; beyond the limit the oldest idle one is closed, with the reason."""
        assert (await known.get("/api/threads")).status_code == 200, "a connection of the owner that is kept alive"
        began = [b"", b"GET /api/threads HTTP/1.1\r\nHost: x", head(site, "GET", "/healthz")[:-2]]
        held = []
        try:
            for number in range(600):
                held.append(await asyncio.open_connection("127.0.0.1", site.port))
                held[-1][1].write(began[number % len(began)])
            async with site.client() as owner:
                assert (await owner.get("/api/threads")).status_code == 200, "a new one"
            assert (await known.get("/api/threads")).status_code == 200
            for reader, _ in held[: 600 - MAX_CONNECTIONS]:
                assert problem_of(await asyncio.wait_for(reader.read(), LIMIT_S))["status"] == 503
        finally:
            for _, writer in held:
                writer.close()

    async def test_a_kept_alive_connection_is_used_again(self, known: httpx.AsyncClient) -> None:
        for _ in range(3):
            assert (await known.get("/healthz")).status_code == 200
        assert (await known.post("/api/threads", json={})).status_code == 422
        assert (await known.get("/healthz")).status_code == 200


class TestDirectories:
    async def test_outside_the_roots_nothing_is_created_or_listed(
        self, site: ServeProcess, known: httpx.AsyncClient
    ) -> None:
        folder = site.stage.folder
        for path in ("/", str(folder), f"{folder}/root/out", f"{folder}/root/../home", f"{folder}/root/inner/../.."):
            made = await known.post("/api/threads", json={"cwd": path})
            assert (made.status_code, made.json()["code"]) == (403, "forbidden")
            assert (await known.get("/api/dirs", params={"path": path})).status_code == 403

    async def test_inside_the_roots_it_is_created_and_listed(
        self, site: ServeProcess, known: httpx.AsyncClient
    ) -> None:
        root = str(Path(site.stage.folder, "root").resolve())
        listed = await known.get("/api/dirs")
        assert listed.json() == {"path": root, "parent": None, "items": ["inner"]}
        made = await known.post("/api/threads", json={"cwd": f"{root}/inner", "name": "inside"})
        assert made.status_code == 201
        moved = await known.patch("/api/threads/inside", json={"cwd": str(site.stage.folder)})
        assert moved.status_code == 403

    async def test_a_thread_outside_the_roots_can_be_read_but_not_asked(
        self, site: ServeProcess, known: httpx.AsyncClient
    ) -> None:
        async with site.stage.open() as client:
            await client.thread("elsewhere", cwd=site.stage.work)
        assert (await known.get("/api/threads/elsewhere")).status_code == 200
        for path in ("runs", "explain"):
            asked = await known.post(f"/api/threads/elsewhere/{path}", json={"prompt": "hello"})
            assert asked.status_code == 403


async def test_logs_have_routes_and_no_secrets(
    site: ServeProcess, known: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    """With --verbose, the log has neither token nor query, prompt, name or session id."""
    root = str(Path(site.stage.folder, "root").resolve())
    made = await known.post("/api/threads", json={"cwd": root, "name": "private-name"})
    assert made.status_code == 201
    run = (await known.post("/api/threads/private-name/runs", json={"prompt": "private prompt"})).json()
    async with site.client() as listening:
        site.http = listening
        ended = await site.ended(run["id"])
    await stranger.get(f"/?token={site.token}")
    await stranger.get("/api/threads?q=private-search")
    log = site.log
    assert "POST /api/threads/{thread}/runs 202" in log
    for secret in (site.token, "private-name", "private prompt", "private-search", ended["session_id"], "token="):
        assert secret not in log
