"""Calls to a forge's API: who has write access, whether an issue is open, and posting a comment.

The three forges agree on the paths; they differ in the base address and in how the token is written. A forge's answer
is not trusted: it is limited in time and size, checked before it is used, and a redirect never takes our token to
another host. ADR 47 says why this does not use httpx.

Errors: `UsageError` for what a retry does not fix (the token is refused, the address redirects elsewhere), plain
`ClewError` for what it may fix (no answer, a rate limit, an error of the forge itself). Neither quotes the answer. When
posting a comment gets no answer, it is not known whether it was posted.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from http.client import HTTPMessage
from typing import IO, Any, Literal
from urllib.parse import quote, urlsplit

from clew.core.hooks.hook import Forge, is_repo
from clew.errors import ClewError, ConfigError, UsageError

GITHUB = "https://api.github.com"
TIMEOUT_S = 10.0
ANSWER_MAX_BYTES = 1_000_000
COMMENT_MAX_CHARS = 60_000  # GitHub accepts 65,536
MARK = "<!-- clew -->"
CUT = "\n\n… (cut: too long for a comment)"

WRITES = frozenset({"write", "maintain", "admin", "owner"})  # only Gitea and Forgejo have `owner`
READS = frozenset({"read", "triage", "none"})

_TOKEN = re.compile(r"[!-~]{1,1000}\Z")
_CHUNK = 65_536


def marked(text: str) -> str:
    """The text with an invisible mark, so that Clew does not react to its own comments."""
    return text if is_ours(text) else f"{text.rstrip()}\n\n{MARK}"


def is_ours(text: str) -> bool:
    """Whether Clew wrote the text. The mark counts only at the end: a comment that quotes ours is not ours."""
    return text.rstrip().rpartition("\n")[2] == MARK


class ForgeApi:
    """One forge, with one token. Each call is one request, in an OS thread."""

    def __init__(
        self, forge: Forge, base: str | None = None, token: str | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """`base`: the address of GitHub's API, or of a Gitea or Forgejo site. Raises ConfigError."""
        self.forge = forge
        self._base = _address(forge, base)
        self._token = (token or "").strip()
        self._timeout_s = timeout_s
        if self._token and not _TOKEN.match(self._token):
            raise ConfigError(f"the token for {forge} is malformed", hint="A token is one word of ASCII characters.")
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Redirects)  # no proxies

    def __repr__(self) -> str:
        return f"ForgeApi({self.forge.value!r}, {self._base!r})"

    async def can_write(self, repo: str, user: str) -> bool | None:
        """None: the forge does not say. Gitea and Forgejo tell only the user, and administrators of the repository."""
        path = f"{_repo(repo)}/collaborators/{_word(user)}/permission"
        status, answer = await self._ask("GET", path, no_answer=(403, 404))
        permission = answer.get("permission") if status == 200 else None
        if not isinstance(permission, str) or permission not in WRITES | READS:
            return None
        return permission in WRITES

    async def state(self, repo: str, number: int) -> Literal["open", "closed"] | None:
        """The state of an issue or a pull request. None: it does not exist, or the forge does not say."""
        status, answer = await self._ask("GET", f"{_repo(repo)}/issues/{_count(number)}", no_answer=(403, 404, 410))
        if status != 200 or answer.get("number") != number:  # a moved issue is redirected to its new number
            return None
        state = answer.get("state")
        return "open" if state == "open" else "closed" if state == "closed" else None

    async def comment(self, repo: str, number: int, text: str) -> str:
        """Posts a comment, with the mark. Returns its address, or "" when the forge does not say."""
        body = marked(text)
        if len(body) > COMMENT_MAX_CHARS:
            body = marked(text[: COMMENT_MAX_CHARS - len(CUT) - len(MARK) - 2] + CUT)
        _, answer = await self._ask("POST", f"{_repo(repo)}/issues/{_count(number)}/comments", {"body": body})
        url = answer.get("html_url")
        return url if isinstance(url, str) and url.startswith(("https://", "http://")) else ""

    async def _ask(
        self, method: str, path: str, content: Mapping[str, str] | None = None, no_answer: tuple[int, ...] = ()
    ) -> tuple[int, dict[str, Any]]:
        """The status and the JSON object of the answer; an empty one for a status in `no_answer`."""
        request = urllib.request.Request(self._base + path, method=method, headers=self._headers())
        if content is not None:
            # JSON in ASCII: a lone surrogate in an agent's text could not be encoded as UTF-8.
            request.data = json.dumps(content).encode()
            request.add_header("Content-Type", "application/json")
        try:
            # The socket's limit applies to each read alone. After a time-out here, the OS thread may still run.
            async with asyncio.timeout(self._timeout_s):
                status, headers, raw = await asyncio.to_thread(self._send, request)
        except TimeoutError:
            raise self._unusable("it took too long") from None
        if status == 429 or (status == 403 and _is_limit(headers)):
            raise self._unusable("its rate limit is reached")
        if status in no_answer:
            return status, {}
        self._check(status)
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise self._unusable("its answer is not a JSON object")
        return status, answer

    def _headers(self) -> dict[str, str]:
        is_github = self.forge is Forge.GITHUB
        headers = {"User-Agent": "clew", "Accept": "application/vnd.github+json" if is_github else "application/json"}
        if is_github:
            headers["X-GitHub-Api-Version"] = "2022-11-28"
        if self._token:
            headers["Authorization"] = f"{'Bearer' if is_github else 'token'} {self._token}"
        return headers

    def _send(self, request: urllib.request.Request) -> tuple[int, Message, bytes]:
        """Sends the request. Blocks, so it is called in an OS thread."""
        deadline = time.monotonic() + self._timeout_s
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return answer.status, answer.headers, self._read(answer, deadline)
        except urllib.error.HTTPError as refused:
            with refused:  # the body is not read: only the status matters
                return refused.code, refused.headers, b""
        except TimeoutError:
            raise self._unusable("it took too long") from None
        except urllib.error.URLError as error:
            why = "it took too long" if isinstance(error.reason, TimeoutError) else "it cannot be reached"
            raise self._unusable(why) from None
        except (OSError, http.client.HTTPException, ValueError):
            raise self._unusable("its answer is not HTTP, or was cut off") from None

    def _read(self, answer: http.client.HTTPResponse, deadline: float) -> bytes:
        raw = bytearray()
        while chunk := answer.read1(_CHUNK):
            raw += chunk
            if len(raw) > ANSWER_MAX_BYTES:
                raise self._unusable("its answer is too long")
            if time.monotonic() > deadline:
                raise TimeoutError
        return bytes(raw)

    def _check(self, status: int) -> None:
        if status < 300:
            return
        if status >= 500:
            raise self._unusable(f"it answered {status}")
        if status < 400:
            raise UsageError(
                f"{self.forge} at {self._base} redirects to another address ({status})",
                hint="If the repository was renamed or moved, set its present address and name.",
            )
        what = "does not accept the token" if status in (401, 403) else "refuses the request"
        raise UsageError(
            f"{self.forge} at {self._base} {what} ({status})",
            hint="Check the token's permissions, and that it belongs to this forge.",
        )

    def _unusable(self, why: str) -> ClewError:
        message = f"{self.forge} at {self._base} gives no usable answer: {why}"
        return ClewError(message, hint="Check that the forge is up and that the address is right.")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects only of GET requests, and only to the same host, because the token is sent along."""

    max_redirections = 3

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        is_here = (old.scheme, old.netloc.lower()) == (new.scheme, new.netloc.lower())
        if req.get_method() != "GET" or not is_here:
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _address(forge: Forge, base: str | None) -> str:
    if base is None and forge is not Forge.GITHUB:
        raise ConfigError(f"the address of {forge} is not set")
    address = (base or GITHUB).strip().rstrip("/")
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("https", "http") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or "@" in parts.netloc or parts.query or parts.fragment or not re.match(r"[!-~]+\Z", address):
        raise ConfigError(f"the address of {forge} is malformed", hint="It looks like https://forge.example.")
    return address if forge is Forge.GITHUB or address.endswith("/api/v1") else f"{address}/api/v1"


def _repo(repo: str) -> str:
    if not is_repo(repo):
        raise UsageError(f"{repo!r} is not a repository: they look like owner/name")
    return f"/repos/{quote(repo)}"


def _word(name: str) -> str:
    if not name or not name.strip("."):  # `.` and `..` would change the path
        raise UsageError(f"{name!r} is not a user's name")
    return quote(name, safe="", errors="replace")


def _count(number: int) -> int:
    if type(number) is not int or number < 1:
        raise UsageError(f"{number!r} is not the number of an issue")
    return number


def _is_limit(headers: Message) -> bool:
    return headers.get("retry-after") is not None or headers.get("x-ratelimit-remaining") == "0"
