"""The app: routes and problems inside, the guards around them, and what runs as long as the daemon does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.responses import Response
from starlette.types import ASGIApp

from clew import __version__
from clew.client import Client
from clew.errors import ClewError
from clew.server import documents, events, hooks, jobs, live, metrics, problems, reviews, runs, surroundings, threads
from clew.server.access import Shared
from clew.server.doors import Doors
from clew.server.guards import Guards
from clew.server.idempotency import Idempotency
from clew.server.json_body import answer
from clew.server.page import methods_of, page_router
from clew.server.problems import log
from clew.server.roots import Roots
from clew.server.token import Invitation

TIDY_S = 5.0  # how soon the runs of another process that died are brought to an end


class App:
    """The whole ASGI app. `shared.closing` is set first when the daemon ends, so that whoever listens goes."""

    def __init__(
        self,
        client: Client,
        doors: Doors,
        static: Path,
        roots: Iterable[str | Path] = (),
        invitation: Invitation | None = None,
    ) -> None:
        self.shared = Shared(client, Roots(roots))
        self.api = _api(self.shared, page_router(doors, static, invitation))
        once = Idempotency(self.api, client, doors.secret.cookie)
        self._guarded: ASGIApp = Guards(once, doors, self.shared.unsent)

    @property
    def asgi(self) -> ASGIApp:
        return self._guarded

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Queued runs that a dead daemon left go on here; the hub tells; what others leave behind is tidied."""
        shared = self.shared
        await _go_on(shared)
        tasks = [asyncio.create_task(work) for work in (shared.hub.run(), _tidy(shared), shared.health.watch())]
        try:
            yield
        finally:
            shared.closing.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _api(shared: Shared, page: APIRouter) -> FastAPI:
    api = FastAPI(
        title="Clew",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    api.state.shared = shared
    problems.install(api)
    routers = [module.router for module in (threads, runs, events, jobs, reviews, hooks, surroundings, metrics, live)]
    for router in routers:
        api.include_router(router)
    api.state.methods_at = methods_of(routers)

    @api.get("/api/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return answer(api.openapi())

    api.include_router(page)
    documents.install(api)
    return api


async def _tidy(shared: Shared) -> None:
    while True:
        await asyncio.sleep(TIDY_S)
        if not shared.health.is_lost:
            await _go_on(shared, recover=True)


async def _go_on(shared: Shared, *, recover: bool = False) -> None:
    """Nothing that is wrong with one run keeps the daemon from serving, or from tidying up the next time."""
    try:
        if recover:
            await shared.client.engine.recover()
        await shared.client.take_up(shared.roots.may_run)
    except ClewError as error:
        log.warning("what other processes left could not be tidied: %s", error.code)
    except Exception as error:  # noqa: BLE001 - the next look may fare better, and the page works meanwhile
        problems.log_unexpected(error, "what other processes left could not be tidied")
