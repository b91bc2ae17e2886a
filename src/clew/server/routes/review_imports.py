"""Reviews that another tool kept."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from clew.api import reviews
from clew.api.wire import reviews as wire
from clew.server.access import TheShared
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails, located
from clew.server.models.reviews import ReviewImport
from clew.server.security.body_limits import takes_long_text

router = APIRouter(tags=["reviews"])


@router.post(
    "/api/imports/reviews",
    status_code=201,
    response_model=wire.ImportedReview,
    responses={**fails(409), **located(201, "review")},
    summary="Import a review of another tool",
)
@takes_long_text
async def import_(given: ReviewImport, shared: TheShared) -> Response:
    """Stores all of it or nothing. 422 if nothing of the files was understood, 409 if there is a review of that id."""
    files = {name: text.encode() for name, text in given.files.items()}
    made = await reviews.import_file(shared.client, files, shared.roots.resolved(given.cwd))
    shape = reviews.imported_review(made)
    return json_response(shape.to_json(), 201, {"Location": f"/api/reviews/{shape.id}"})
