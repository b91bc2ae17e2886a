"""What is asked of a forge: who may write, whether an issue is still open, and that a comment be posted.

The three agree on the paths; they differ in where these begin and in how the token is written. A forge's answer is a
stranger's, too: it is bounded in time and size, looked at before it is used, and never led elsewhere with our token.

Errors: `UsageError` for what asking again does not mend (a token that is refused, an address that leads elsewhere),
plain `ClewError` for what it may (no answer, too many requests, an error of the forge's own). Neither quotes the
answer. After no answer to a comment nobody knows whether it was posted.
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

from clew.core.hook import Forge, is_repo
from clew.errors import ClewError, ConfigError, UsageError

GITHUB = "https://api.github.com"
TIMEOUT_S = 10.0
ANSWER_MOST = 1_000_000  # bytes
COMMENT_MOST = 60_000  # characters; GitHub takes 65,536
MARK = "<!-- clew -->"
CUT = "\n\n… (cut: too long for a comment)"

WRITES = frozenset({"write", "maintain", "admin", "owner"})  # Gitea and Forgejo also say `owner`
READS = frozenset({"read", "triage", "none"})

_TOKEN = re.compile(r"[!-~]{1,1000}\Z")
_CHUNK = 65_536


def marked(text: str) -> str:
    """With a mark that people do not see, so that Clew never answers itself."""
    return text if is_ours(text) else f"{text.rstrip()}\n\n{MARK}"


def is_ours(text: str) -> bool:
    """Only at the end: somebody who quotes us is not us."""
    return text.rstrip().rpartition("\n")[2] == MARK


class ForgeApi:
    """One forge, with one token. Each call is one request in a thread of its own."""

    def __init__(
        self,
        forge: Forge,
        base: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        """`base`: GitHub's API, or the web address of a Gitea or Forgejo. `proxies`: by scheme. Raises ConfigError."""
        self.forge = forge
        self._base = _address(forge, base)
        self._token = (token or "").strip()
        self._timeout_s = timeout_s
        if self._token and not _TOKEN.match(self._token):
            raise ConfigError(f"the token for {forge} is none", hint="A token is one word of plain letters.")
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler(dict(proxies or {})), _Redirects)

    def __repr__(self) -> str:
        return f"ForgeApi({self.forge.value!r}, {self._base!r})"

    async def can_write(self, repo: str, user: str) -> bool | None:
        """None: the forge does not say. Gitea and Forgejo tell only an administrator of the repository, or oneself."""
        path = f"{_repo(repo)}/collaborators/{_word(user)}/permission"
        status, answer = await self._ask("GET", path, unsaid=(403, 404))
        permission = answer.get("permission") if status == 200 else None
        if not isinstance(permission, str) or permission not in WRITES | READS:
            return None
        return permission in WRITES

    async def state(self, repo: str, number: int) -> Literal["open", "closed"] | None:
        """Of an issue or a pull request. None: the forge knows none, or does not say."""
        status, answer = await self._ask("GET", f"{_repo(repo)}/issues/{_count(number)}", unsaid=(403, 404, 410))
        if status != 200 or answer.get("number") != number:  # one that was moved is led to its new number
            return None
        state = answer.get("state")
        return "open" if state == "open" else "closed" if state == "closed" else None

    async def comment(self, repo: str, number: int, text: str) -> str:
        """Posts it, with the mark; the comment's address, or "" when the forge does not say."""
        body = marked(text)
        if len(body) > COMMENT_MOST:
            body = marked(text[: COMMENT_MOST - len(CUT) - len(MARK) - 2] + CUT)
        _, answer = await self._ask("POST", f"{_repo(repo)}/issues/{_count(number)}/comments", {"body": body})
        url = answer.get("html_url")
        return url if isinstance(url, str) and url.startswith(("https://", "http://")) else ""

    async def whoami(self) -> str | None:
        """Whose token it is. None: nobody's that the forge would name."""
        if not self._token:
            return None
        status, answer = await self._ask("GET", "/user", unsaid=(403, 404))
        login = answer.get("login") if status == 200 else None
        return login if isinstance(login, str) and login else None

    async def _ask(
        self, method: str, path: str, content: Mapping[str, str] | None = None, unsaid: tuple[int, ...] = ()
    ) -> tuple[int, dict[str, Any]]:
        """The status and the object that came; no object with a status of `unsaid`."""
        request = urllib.request.Request(self._base + path, method=method, headers=self._headers())
        if content is not None:
            # Escaped, so that half a character of an agent's does not stop a comment.
            request.data = json.dumps(content).encode()
            request.add_header("Content-Type", "application/json")
        try:
            # The thread's own time-outs are of single reads: what a forge draws out past ours is left to itself.
            async with asyncio.timeout(self._timeout_s):
                status, headers, raw = await asyncio.to_thread(self._send, request)
        except TimeoutError:
            raise self._silent("it took too long") from None
        if status == 429 or (status == 403 and _is_limit(headers)):
            raise self._silent("it wants fewer requests")
        if status in unsaid:
            return status, {}
        self._check(status)
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise self._silent("its answer is no JSON object")
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
        """In a thread."""
        deadline = time.monotonic() + self._timeout_s
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                return answer.status, answer.headers, self._read(answer, deadline)
        except urllib.error.HTTPError as refused:
            with refused:  # what it says is not read: only its status counts
                return refused.code, refused.headers, b""
        except TimeoutError:
            raise self._silent("it took too long") from None
        except urllib.error.URLError as error:
            why = "it took too long" if isinstance(error.reason, TimeoutError) else "it cannot be reached"
            raise self._silent(why) from None
        except (OSError, http.client.HTTPException, ValueError):
            raise self._silent("its answer is no HTTP, or broke off") from None

    def _read(self, answer: http.client.HTTPResponse, deadline: float) -> bytes:
        raw = bytearray()
        while chunk := answer.read1(_CHUNK):
            raw += chunk
            if len(raw) > ANSWER_MOST:
                raise self._silent("its answer is too long")
            if time.monotonic() > deadline:
                raise TimeoutError
        return bytes(raw)

    def _check(self, status: int) -> None:
        if status < 300:
            return
        if status >= 500:
            raise self._silent(f"it answered {status}")
        if status < 400:
            raise UsageError(
                f"{self.forge} at {self._base} leads elsewhere ({status})",
                hint="Was the repository renamed? Set the address and the name that the forge has now.",
            )
        what = "does not accept the token" if status in (401, 403) else "does not do what was asked"
        raise UsageError(
            f"{self.forge} at {self._base} {what} ({status})",
            hint="Look at what the token may do, and whether it belongs to this forge.",
        )

    def _silent(self, why: str) -> ClewError:
        message = f"{self.forge} at {self._base} gives no answer: {why}"
        return ClewError(message, hint="Is the forge up, and the address right?")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Followed on the same host alone, since the token goes along; and never by a request that changes something."""

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
        raise ConfigError(f"the address of {forge} is none", hint="It looks like https://forge.example.")
    return address if forge is Forge.GITHUB or address.endswith("/api/v1") else f"{address}/api/v1"


def _repo(repo: str) -> str:
    if not is_repo(repo):
        raise UsageError(f"{repo!r} is no repository: they look like owner/name")
    return f"/repos/{quote(repo)}"


def _word(name: str) -> str:
    if not name or not name.strip("."):  # a path of dots leads elsewhere
        raise UsageError(f"{name!r} is nobody's name")
    return quote(name, safe="", errors="replace")


def _count(number: int) -> int:
    if type(number) is not int or number < 1:
        raise UsageError(f"{number!r} is no number of an issue")
    return number


def _is_limit(headers: Message) -> bool:
    return headers.get("retry-after") is not None or headers.get("x-ratelimit-remaining") == "0"
