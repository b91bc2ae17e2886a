"""What forges send to a real `clew serve`: which messages are accepted, and that a signature opens nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import websockets
from starlette.types import Message, Receive, Scope, Send
from websockets.exceptions import InvalidStatus

from clew.core.hooks.hook import MAX_EVENT_BYTES, Forge
from clew.server.security.access_policy import AccessPolicy
from clew.server.security.guards import MAX_HOOKS_BYTES, Guards
from clew.server.security.token import Credentials
from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage
from hooks.forge.test_events import KIND_OF, headers_of, payload_of
from server.daemons import TOKEN, ServeProcess, log_in, serve_process
from server.forge import SECRETS, event, message, received, repository, send, signature
from server.security.test_guards import head, problem_of, raw, status_of

pytestmark = pytest.mark.process

FORGES = [forge.value for forge in Forge]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """A daemon that stores events and runs no jobs."""
    folder = tmp_path_factory.mktemp("hooks")
    with ModelApi() as api:
        stage = Stage(folder, api, scripted_agent.install(folder / "agent"))
        repository(stage)
        with serve_process(stage, "--allow-host", "hooks.example", "--verbose", CLEW_SERVE_WORK="0", **SECRETS) as made:
            yield made


@pytest.fixture
async def forge(site: ServeProcess) -> AsyncIterator[httpx.AsyncClient]:
    """A client without a token. The responses are checked against the OpenAPI document."""
    if site._contract is None:
        async with site.client() as known:
            site.http = known
            await site.load_contract()
    async with site.client(known=False) as client, site.client() as known:
        site.http = known
        yield client


async def stored(site: ServeProcess) -> list[Any]:
    found = (await site.get("/api/hooks/events?limit=1000"))["items"]
    assert isinstance(found, list)
    return found


class TestAccepted:
    @pytest.mark.rest
    @pytest.mark.parametrize("name", FORGES)
    async def test_every_payload_is_stored_or_ignored_before_it_is_answered(
        self, site: ServeProcess, forge: httpx.AsyncClient, name: str
    ) -> None:
        for what, kind in KIND_OF[name].items():
            before = len(await stored(site))
            answer = await send(forge, f"{name}.{what}")
            assert answer.status_code == 202, answer.text
            if kind is None:
                assert answer.json() == {"id": None, "state": "ignored"}
                assert len(await stored(site)) == before
                continue
            assert answer.json()["state"] == "received"
            kept = await event(site, answer.json()["id"])
            assert (kept["forge"], kept["kind"], kept["repo"], kept["state"]) == (name, kind, "alice/maze", "received")

    @pytest.mark.parametrize("name", ["github.ping.ping", "github.star.created", "gitea.repository.created"])
    async def test_an_event_of_no_use_is_answered_and_not_stored(
        self, site: ServeProcess, forge: httpx.AsyncClient, name: str
    ) -> None:
        before = await stored(site)
        answer = await send(forge, name)
        assert (answer.status_code, answer.json()["state"]) == (202, "ignored")
        assert await stored(site) == before

    async def test_an_unknown_event_is_ignored(self, forge: httpx.AsyncClient) -> None:
        answer = await send(forge, "github.issues.opened", headers={"x-github-event": "brand_new"})
        assert (answer.status_code, answer.json()["state"]) == (202, "ignored")

    @pytest.mark.parametrize("name", FORGES)
    async def test_an_event_that_is_sent_twice_is_stored_once(
        self, site: ServeProcess, forge: httpx.AsyncClient, name: str
    ) -> None:
        first = await send(forge, f"{name}.issues.opened", delivery=f"twice-{name}")
        assert first.json()["state"] == "received"
        before = await stored(site)
        again = await asyncio.gather(*(send(forge, f"{name}.issues.opened", delivery=f"twice-{name}") for _ in "123"))
        assert [each.status_code for each in again] == [202, 202, 202]
        assert [each.json() for each in again] == [{"id": None, "state": "duplicate"}] * 3
        assert await stored(site) == before

    async def test_of_many_messages_at_once_with_one_delivery_id_one_is_stored(
        self, site: ServeProcess, forge: httpx.AsyncClient
    ) -> None:
        before = len(await stored(site))
        sent = [send(forge, "gitea.issues.opened", delivery="at-once") for _ in range(8)]
        states = sorted(answer.json()["state"] for answer in await asyncio.gather(*sent))
        assert states == ["duplicate"] * 7 + ["received"]
        assert len(await stored(site)) == before + 1

    @pytest.mark.parametrize("name", FORGES)
    async def test_the_same_signed_message_under_another_delivery_id_is_a_duplicate(
        self, site: ServeProcess, forge: httpx.AsyncClient, name: str
    ) -> None:
        """The id is in a header, which is not signed: anyone who has seen a message could send it again."""
        path, body, headers = message(f"{name}.issues.opened")
        assert (await forge.post(path, content=body, headers=headers)).json()["state"] == "received"
        before = await stored(site)
        for nth in range(3):
            again = await forge.post(
                path, content=body, headers=headers | {f"x-{name}-delivery": f"again-{name}-{nth}"}
            )
            assert (again.status_code, again.json()) == (202, {"id": None, "state": "duplicate"})
        assert await stored(site) == before

    @pytest.mark.parametrize("name", ["gitea", "forgejo"])
    async def test_the_same_signed_message_in_another_encoding_is_a_duplicate(
        self, site: ServeProcess, forge: httpx.AsyncClient, name: str
    ) -> None:
        """These forges sign the JSON, which may be sent in a form, where every letter can be written in two ways."""
        path, body, headers = message(f"{name}.issues.opened")
        assert (await forge.post(path, content=body, headers=headers)).json()["state"] == "received"
        before = await stored(site)
        escaped = b"payload=" + b"".join(b"%%%02x" % letter for letter in body)
        for nth, form in enumerate((str(httpx.QueryParams({"payload": body.decode()})).encode(), escaped)):
            given = {f"x-{name}-delivery": f"wrapped-{nth}", "content-type": "application/x-www-form-urlencoded"}
            again = await forge.post(path, content=form, headers=headers | given)
            assert (again.status_code, again.json()["state"]) == (202, "duplicate")
        assert await stored(site) == before

    async def test_another_forge_may_have_the_same_delivery_id(self, forge: httpx.AsyncClient) -> None:
        for name in FORGES:
            answer = await send(forge, f"{name}.issues.opened", delivery="the-same")
            assert answer.json()["state"] == "received"

    async def test_a_form_is_read_as_well(self, site: ServeProcess, forge: httpx.AsyncClient) -> None:
        body = httpx.QueryParams({"payload": json.dumps(payload_of("github.issues.opened"))})
        text = str(body).encode()
        headers = headers_of("github.issues.opened") | signature("github", text) | {"x-github-delivery": "as-a-form"}
        headers["content-type"] = "application/x-www-form-urlencoded"
        answer = await forge.post("/hooks/github", content=text, headers=headers)
        assert answer.json()["state"] == "received"
        assert (await event(site, answer.json()["id"]))["title"] == "The longer exit is taken"

    async def test_a_message_may_come_from_any_origin_but_only_to_a_host_name_of_ours(
        self, site: ServeProcess, forge: httpx.AsyncClient
    ) -> None:
        for headers, status in (
            ({"origin": "http://evil.example", "sec-fetch-site": "cross-site"}, 202),
            ({"host": "hooks.example"}, 202),
            ({"host": f"hooks.example:{site.port}"}, 202),
            ({"host": "evil.example"}, 421),
        ):
            answer = await send(forge, "github.issues.opened", headers=headers)
            assert answer.status_code == status, headers


class TestSignature:
    @pytest.mark.parametrize("name", FORGES)
    async def test_a_wrong_or_missing_signature_is_refused_before_the_body_is_parsed(
        self, site: ServeProcess, forge: httpx.AsyncClient, name: str
    ) -> None:
        before = await stored(site)
        path, body, headers = message(f"{name}.issues.opened")
        [[signed, right]] = signature(name, body).items()
        unsigned = {key: value for key, value in headers.items() if key != signed}
        others = next(other for other in FORGES if other != name)
        wrong: list[tuple[bytes, dict[str, str]]] = [
            (body, unsigned),
            (b"{not json", unsigned),
            (body, headers | {signed: ""}),
            (body, headers | {signed: right[:-1]}),
            (body, headers | {signed: right.upper()}),
            (body, headers | {signed: right[:-1] + ("0" if right[-1] != "0" else "1")}),
            (body, headers | signature(name, body, "another secret")),
            (body, headers | signature(name, body, "")),
            (body, headers | signature(name, body, SECRETS[f"CLEW_{others.upper()}_SECRET"])),
            (body + b" ", headers),
            (b"", headers),
        ]
        for content, given in wrong:
            answer = await forge.post(path, content=content, headers=given)
            assert answer.status_code == 401, (content[:40], given)
            assert answer.headers["content-type"] == "application/problem+json"
            assert "same secret" in answer.json()["hint"]
        assert await stored(site) == before
        assert (await forge.post(path, content=body, headers=headers)).status_code == 202, "the right one is accepted"

    async def test_a_token_is_not_a_signature(self, site: ServeProcess, forge: httpx.AsyncClient) -> None:
        path, body, headers = message("github.issues.opened")
        del headers["x-hub-signature-256"]
        known = {"Authorization": f"Bearer {site.token}"}
        assert (await forge.post(path, content=body, headers=headers | known)).status_code == 401

    async def test_without_a_secret_no_message_is_accepted(self, scripted: Stage) -> None:
        with serve_process(scripted, CLEW_GITHUB_SECRET="", CLEW_GITEA_SECRET="gitea-dummy-secret") as made:
            async with made.client(known=False) as stranger:
                answer = await send(stranger, "github.issues.opened")
                assert answer.status_code == 404
                assert "CLEW_GITHUB_SECRET" in answer.json()["hint"]
                path, body, headers = message("github.issues.opened")
                unlocked = await stranger.post(path, content=body, headers=headers | signature("github", body, ""))
                assert unlocked.status_code == 404
                assert (await send(stranger, "gitea.issues.opened")).status_code == 202
            await made.http.aclose()

    async def test_no_secret_is_ever_shown(self, site: ServeProcess, forge: httpx.AsyncClient) -> None:
        await received(forge, "github.issues.opened")
        said = (await site.http.get("/api/hooks/settings")).text + (await site.http.get("/api/hooks/events")).text
        kept = b"".join(path.read_bytes() for path in site.stage.clew_home.rglob("*") if path.is_file())
        for secret in SECRETS.values():
            assert secret not in said + site.log
            assert secret.encode() not in kept


class TestMalformed:
    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"{not json", "not JSON"),
            (b"[]", "not an object"),
            (b"", "not JSON"),
            (b"\xff\xfe{}", "not JSON"),
            (b"[" * 100_000, "the body is"),
            (json.dumps({"action": "opened"}).encode(), "repository is missing"),
            (json.dumps({"repository": {"full_name": "../.."}, "sender": {"login": "bob"}}).encode(), "owner/name"),
        ],
    )
    async def test_a_malformed_message_is_a_400_that_does_not_quote_it(
        self, site: ServeProcess, forge: httpx.AsyncClient, body: bytes, words: str
    ) -> None:
        before = await stored(site)
        headers = headers_of("gitea.issues.opened") | signature("gitea", body)
        answer = await forge.post("/hooks/gitea", content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
        assert words in answer.json()["detail"]
        assert "[[[" not in answer.text
        assert await stored(site) == before

    @pytest.mark.parametrize("delivery", ["", "x" * 101, "two words"])
    async def test_a_message_without_a_delivery_id_is_malformed(self, forge: httpx.AsyncClient, delivery: str) -> None:
        answer = await send(forge, "github.issues.opened", headers={"x-github-delivery": delivery})
        assert (answer.status_code, "delivery id" in answer.json()["detail"]) == (400, True)
        assert (await send(forge, "github.ping.ping", headers={"x-github-delivery": delivery})).status_code == 400

    async def test_a_huge_message_is_refused_before_it_is_read(self, site: ServeProcess) -> None:
        too_long = head(site, "POST", "/hooks/github", f"Content-Length: {MAX_EVENT_BYTES + 1}")
        answer = await raw(site, too_long)
        assert (status_of(answer), problem_of(answer)["code"]) == (413, "too_large")
        assert "25 MB" in str(problem_of(answer)["detail"])

    async def test_a_huge_chunked_message_is_refused_too(self, site: ServeProcess) -> None:
        chunk = b"%x\r\n%s\r\n" % (1_000_000, b"x" * 1_000_000)
        answer = await raw(site, head(site, "POST", "/hooks/github", "Transfer-Encoding: chunked"), *[chunk] * 26)
        assert not answer or status_of(answer) == 413

    async def test_the_largest_message_of_github_is_accepted(
        self, site: ServeProcess, forge: httpx.AsyncClient
    ) -> None:
        payload = payload_of("github.issues.opened")
        payload["padding"] = "x" * (MAX_EVENT_BYTES - 100_000)
        kept = await event(site, await received(forge, "github.issues.opened", payload))
        assert kept["number"] == 4

    async def test_all_bodies_in_progress_share_one_limit(self) -> None:
        """The senders of these bodies are unknown yet, so they must not fill the memory."""
        arrived = asyncio.Event()

        async def heard(scope: Scope, receive: Receive, send: Send) -> None:
            raise AssertionError("none of them is complete")

        guards = Guards(heard, AccessPolicy(Credentials(TOKEN), 7421))
        chunk = b"x" * 1_000_000

        async def post(chunks: int, statuses: list[int]) -> None:
            left = [chunk] * chunks

            async def receive() -> Message:
                if left:
                    return {"type": "http.request", "body": left.pop(), "more_body": True}
                arrived.set()
                await asyncio.Event().wait()
                raise AssertionError

            async def send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    statuses.append(message["status"])

            headers = [(b"host", b"127.0.0.1"), (b"transfer-encoding", b"chunked")]
            scope = {"type": "http", "method": "POST", "path": "/hooks/github", "headers": headers}
            await guards(scope, receive, send)

        async def waiting(chunks: int) -> asyncio.Task[None]:
            arrived.clear()
            task = asyncio.create_task(post(chunks, []))
            await asyncio.wait_for(arrived.wait(), 60)
            return task

        most = MAX_HOOKS_BYTES // len(chunk)
        slow = [await waiting(20) for _ in range(most // 20)]
        refused: list[int] = []
        await post(1, refused)
        assert refused == [503]
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        free = await waiting(20)
        free.cancel()
        await asyncio.gather(free, return_exceptions=True)
        assert free.cancelled(), "its body was still being read"


class TestNothingElseOpens:
    @pytest.mark.parametrize(
        "path",
        [
            "/hooks",
            "/hooks/",
            "/hooks/github/",
            "/hooks/github/x",
            "/hooks/github/../../api/threads",
            "/hooks/../api/threads",
            "/hooks/%2e%2e/api/threads",
            "/hooks/github%2f..%2f..%2fapi%2fthreads",
            "/hooks/github%2fx",
            "/hooks%2f..%2fapi%2fthreads",
            "/hooks\\..\\api\\threads",
            "/hooks/github;/../../api/threads",
            "/hooks/github%00",
            "/hooks/github%3f/api/threads",
            "//hooks/github",
            "/./hooks/github",
            "/HOOKS/github",
            "/hooks/GitHub",
            "/hooks/gitlab",
            "/api/hooks/github",
            "/api/hooks/events",
            "/api/hooks/sessions",
            "/api/hooks/settings",
            "/api/hooks/reset",
            "/reset",
            "/api/threads",
            "/metrics",
        ],
    )
    async def test_a_signed_message_opens_no_other_address(self, site: ServeProcess, path: str) -> None:
        _, body, headers = message("github.issues.opened")
        for method in ("POST", "GET", "PUT", "DELETE"):
            lines = [f"{name}: {value}" for name, value in headers.items()]
            given = [
                f"{method} {path} HTTP/1.1",
                f"Host: 127.0.0.1:{site.port}",
                "Connection: close",
                f"Content-Length: {len(body)}",
                *lines,
            ]
            answer = await raw(site, "".join(f"{line}\r\n" for line in given).encode() + b"\r\n" + body)
            assert status_of(answer) == 401, (method, path)
            assert b"WWW-Authenticate: Bearer" in answer or b"www-authenticate: Bearer" in answer

    async def test_an_address_with_an_escaped_letter_is_the_same_address(self, forge: httpx.AsyncClient) -> None:
        _, body, headers = message("github.issues.opened")
        answer = await forge.post("/hooks/git%68ub", content=body, headers=headers)
        assert answer.json()["state"] == "received"
        del headers["x-hub-signature-256"]
        assert (await forge.post("/hooks/git%68ub", content=body, headers=headers)).status_code == 401

    @pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
    async def test_only_post_is_possible(self, site: ServeProcess, forge: httpx.AsyncClient, method: str) -> None:
        for client in (forge, site.http):
            answer = await client.request(method, "/hooks/gitea")
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")

    async def test_its_address_accepts_no_websocket(self, site: ServeProcess) -> None:
        _, _, headers = message("github.issues.opened")
        with pytest.raises(InvalidStatus) as refused:
            await websockets.connect(f"ws://127.0.0.1:{site.port}/hooks/github", additional_headers=headers, proxy=None)
        assert refused.value.response.status_code == 401

    @pytest.mark.parametrize("path", ["/reset", "/api/hooks/reset"])
    async def test_the_cookie_without_the_pages_key_resets_nothing(
        self, site: ServeProcess, forge: httpx.AsyncClient, path: str
    ) -> None:
        await log_in(forge, f"/?token={site.token}")
        wanted = {"agent": "boss", "repo": "alice/maze", "number": 4}
        assert (await forge.post(path, json=wanted)).status_code == 200
        foreign = await forge.post(path, json=wanted, headers={"origin": "http://evil.example"})
        assert foreign.status_code == 403
        del forge.headers["x-clew-key"]
        assert (await forge.post(path, json=wanted)).status_code == 401
