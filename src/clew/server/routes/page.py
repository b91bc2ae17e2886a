"""The page: its files, the login by a link with the token, and the login page for browsers without a cookie."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from clew.core.durations import DAY_S
from clew.server.models.problems import RequestRefused
from clew.server.security.access_policy import OWN_FETCH_SITES, AccessPolicy
from clew.server.security.guards import AUTHENTICATED
from clew.server.security.login_page import LOGGED_IN, LOGIN_NEEDED, PAGE_NOT_BUILT, STYLE, STYLE_PATH, WRONG_TOKEN
from clew.server.security.token import OneTimeCode

INDEX = "index.html"
COOKIE_S = 180 * int(DAY_S)
HASHED = re.compile(r".*[-.][A-Za-z0-9_-]{8,}\.[a-z0-9]+\Z")  # app-3F9A0C12.js: the name changes with the content
CACHE_FOREVER = "private, max-age=31536000, immutable"


def page_router(policy: AccessPolicy, static: Path, one_time_code: OneTimeCode | None = None) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    root = static.resolve()

    @router.get("/")
    async def index(request: Request) -> Response:
        given = request.query_params.get("token")
        if given is not None:
            if policy.credentials.is_token(given) or (one_time_code and one_time_code.take(given, time.monotonic())):
                return _logged_in(policy, request)
            return HTMLResponse(WRONG_TOKEN, status_code=401)
        if not request.scope.get(AUTHENTICATED):
            return HTMLResponse(LOGIN_NEEDED, status_code=401)
        return _index(root)

    @router.get(STYLE_PATH)
    async def style() -> Response:
        return Response(STYLE, media_type="text/css")

    @router.get("/{path:path}")
    async def file(path: str, request: Request) -> Response:
        """A file of the page; else the page itself, which routes by the address, but not below /api."""
        if request.app.state.methods_at(f"/{path}"):
            raise HTTPException(405)
        if "\0" in path:
            raise RequestRefused(404, "There is nothing at this address.")
        found = Path(os.path.realpath(root / path))
        if found.is_relative_to(root) and os.path.isfile(found):  # noqa: PTH113 - Path.is_file raises for odd names
            headers = {"Cache-Control": CACHE_FOREVER} if HASHED.match(found.name) else {}
            return FileResponse(found, headers=headers)
        if path.startswith("api/") or path == "api" or "." in Path(path).name:
            raise RequestRefused(404, "There is nothing at this address.")
        return _index(root)

    return router


def methods_of(routes: Sequence[APIRoute]) -> Callable[[str], set[str]]:
    """Returns a function from a path to the methods that it allows; none, if it is not a path of the API."""

    def methods_at(path: str) -> set[str]:
        return {method for route in routes if route.path_regex.match(path) for method in route.methods or ()}

    return methods_at


def _logged_in(policy: AccessPolicy, request: Request) -> Response:
    own = request.headers.get("sec-fetch-site", "none") in OWN_FETCH_SITES
    home = f"/#key={policy.credentials.page_key}"  # browsers do not send what follows the #, and the page removes it
    response = RedirectResponse(home, status_code=303) if own else HTMLResponse(LOGGED_IN.format(home=home))
    response.set_cookie(
        policy.cookie_name, policy.credentials.cookie, max_age=COOKIE_S, path="/", httponly=True, samesite="strict"
    )
    return response


def is_built(static: Path) -> bool:
    """A plain checkout has no page before `make web`."""
    return (static / INDEX).is_file()


def _index(root: Path) -> Response:
    return FileResponse(root / INDEX) if is_built(root) else HTMLResponse(PAGE_NOT_BUILT, status_code=503)
