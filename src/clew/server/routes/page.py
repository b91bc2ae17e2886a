"""The page: its files, the link with the token that becomes a cookie, and a word for whoever comes without one."""

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

from clew.server.doors import OWN_FETCHES, Doors
from clew.server.entrance import ENTERED, NO_PAGE, STRANGER, STYLE, STYLE_PATH, WRONG_TOKEN
from clew.server.problems import Refusal
from clew.server.token import Invitation

INDEX = "index.html"
COOKIE_S = 180 * 86_400
HASHED = re.compile(r".*[-.][A-Za-z0-9_-]{8,}\.[a-z0-9]+\Z")  # app-3F9A0C12.js: another content has another name
FOR_EVER = "private, max-age=31536000, immutable"


def page_router(doors: Doors, static: Path, invitation: Invitation | None = None) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    root = static.resolve()

    @router.get("/")
    async def index(request: Request) -> Response:
        given = request.query_params.get("token")
        if given is not None:
            if not doors.secret.is_token(given) and not (invitation and invitation.take(given, time.monotonic())):
                return HTMLResponse(WRONG_TOKEN, status_code=401)
            return _entered(doors, request)
        if not request.scope.get("clew.known"):
            return HTMLResponse(STRANGER, status_code=401)
        return _index(root)

    @router.get(STYLE_PATH)
    async def style() -> Response:
        return Response(STYLE, media_type="text/css")

    @router.get("/{path:path}")
    async def file(path: str, request: Request) -> Response:
        """A file of the page, else the page itself for its own addresses; nothing under /api is ever that."""
        if request.app.state.methods_at(f"/{path}"):
            raise HTTPException(405)
        if "\0" in path:
            raise Refusal(404, "There is nothing at this address.")
        found = Path(os.path.realpath(root / path))
        if found.is_relative_to(root) and os.path.isfile(found):  # noqa: PTH113 - Path.is_file raises for odd names
            headers = {"Cache-Control": FOR_EVER} if HASHED.match(found.name) else {}
            return FileResponse(found, headers=headers)
        if path.startswith("api/") or path == "api" or "." in Path(path).name:
            raise Refusal(404, "There is nothing at this address.")
        return _index(root)

    return router


def methods_of(routers: Sequence[APIRouter]) -> Callable[[str], set[str]]:
    """Which methods an address of the API has; none: it is no such address."""
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]

    def methods_at(path: str) -> set[str]:
        return {method for route in routes if route.path_regex.match(path) for method in route.methods or ()}

    return methods_at


def _entered(doors: Doors, request: Request) -> Response:
    own = request.headers.get("sec-fetch-site", "none") in OWN_FETCHES
    home = f"/#key={doors.secret.page_key}"  # behind the #: it is sent nowhere, and the page takes it away
    response = RedirectResponse(home, status_code=303) if own else HTMLResponse(ENTERED.format(home=home))
    response.set_cookie(
        doors.cookie_name, doors.secret.cookie, max_age=COOKIE_S, path="/", httponly=True, samesite="strict"
    )
    return response


def is_built(static: Path) -> bool:
    """Is there a page to show? A plain checkout has none before `make web`."""
    return (static / INDEX).is_file()


def _index(root: Path) -> Response:
    return FileResponse(root / INDEX) if is_built(root) else HTMLResponse(NO_PAGE, status_code=503)
