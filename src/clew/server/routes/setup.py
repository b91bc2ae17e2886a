"""What is set up: the settings with their sources, and what is wrong."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from clew.api.doctor import diagnose_client
from clew.api.settings import shown
from clew.api.wire import setup as wire
from clew.server.access import TheClient
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails

router = APIRouter(prefix="/api", tags=["daemon"])


@router.get("/config", response_model=wire.Config, responses=fails(body=False))
async def config(client: TheClient) -> Response:
    """Every setting of this daemon, with its value and its source. No value contains a password."""
    found = wire.Config(items=shown(client.settings), warnings=list(client.settings.warnings))
    return json_response(found.to_json())


@router.get("/doctor", response_model=wire.DoctorReport, responses=fails(body=False))
async def doctor(client: TheClient) -> Response:
    """What `clew doctor` finds, each problem with a way to fix it. The content of the database is not checked, because
    that would block the daemon; `clew doctor` does it."""
    return json_response((await diagnose_client(client)).report.to_json())
