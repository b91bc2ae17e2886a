"""Digests."""

from __future__ import annotations

from clew.api.digests import DigestShape
from fastapi import APIRouter
from starlette.responses import Response

from clew.server.access import TheClient
from clew.server.models.json_body import json_response

router = APIRouter(prefix="/api/digests", tags=["digests"])


@router.get("", response_model=list[DigestShape])
async def list_(client: TheClient) -> Response:
    return json_response([DigestShape.of(digest).to_json() for digest in await client.digests.list()])
