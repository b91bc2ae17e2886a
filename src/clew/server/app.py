"""The ASGI app: routes and problem details inside, the guards around them, and the tasks that run with the daemon."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.types import ASGIApp

from clew import __version__
from clew.api.client import Client
from clew.server import routes
from clew.server.access import SharedState
from clew.server.live import websocket
from clew.server.models import openapi, problems
from clew.server.models.json_body import json_response
from clew.server.routes.page import methods_of, page_router
from clew.server.security.access_policy import AccessPolicy
from clew.server.security.body_limits import max_body_bytes, upload_paths
from clew.server.security.guards import Guards
from clew.server.security.idempotency import Idempotency, creates_something
from clew.server.security.roots import AllowedRoots
from clew.server.security.token import OneTimeCode

RECOVER_EVERY_S = 5.0  # how often the runs of processes that died are ended


class App:
    """When the daemon ends, `shared.closing` is set first, so that clients that follow events are disconnected."""

    def __init__(
        self,
        client: Client,
        policy: AccessPolicy,
        static: Path,
        roots: Iterable[str | Path] = (),
        one_time_code: OneTimeCode | None = None,
    ) -> None:
        self.shared = SharedState(client, AllowedRoots(roots))
        routers = api_routers()
        self.api = _api(self.shared, routers, page_router(policy, static, one_time_code))
        calls = http_routes(routers)
        self.api.state.methods_at = methods_of(calls)
        idempotent = Idempotency(self.api, client, policy.credentials.cookie, creates_something(calls))
        self.asgi: ASGIApp = Guards(
            idempotent, policy, self.shared.send_buffers, max_body_bytes(calls), upload_paths(calls)
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The background tasks: they start queued runs of daemons that died, notify subscribers and watch the store."""
        shared = self.shared
        await _take_up_runs(shared)
        work = (shared.hub.run(), _recover_periodically(shared), shared.health.watch())
        tasks = [asyncio.create_task(each) for each in work]
        try:
            yield
        finally:
            shared.closing.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def api_routers() -> list[APIRouter]:
    """The router of each module in `routes/`, and that of the WebSocket."""
    names = [module.name for module in pkgutil.iter_modules(routes.__path__, f"{routes.__name__}.")]
    modules = [*(importlib.import_module(name) for name in names), websocket]
    return [module.router for module in modules if hasattr(module, "router")]


def http_routes(routers: Iterable[APIRouter]) -> list[APIRoute]:
    return [route for router in routers for route in router.routes if isinstance(route, APIRoute)]


def _api(shared: SharedState, routers: list[APIRouter], page: APIRouter) -> FastAPI:
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
    for router in routers:
        api.include_router(router)

    @api.get("/api/openapi.json", include_in_schema=False)
    async def document() -> Response:
        return json_response(api.openapi())

    api.include_router(page)
    openapi.install(api)
    return api


async def _recover_periodically(shared: SharedState) -> None:
    while True:
        await asyncio.sleep(RECOVER_EVERY_S)
        if not shared.health.is_lost:
            await _take_up_runs(shared, recover=True)


async def _take_up_runs(shared: SharedState, *, recover: bool = False) -> None:
    with problems.failures_logged("the runs that other processes left could not be started"):
        if recover:
            await shared.client.recover()
        await shared.client.take_up(shared.roots.may_run)
