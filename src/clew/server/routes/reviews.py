"""Reviews: start them, add rounds, show and export them. A round continues after its request was answered."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from clew.api import reviews
from clew.api.wire import reviews as wire
from clew.core.reviews.review import ReviewRound
from clew.core.reviews.sarif import MEDIA_TYPE as SARIF
from clew.errors import AgentFailed, NotFound, TimedOut, UsageError
from clew.server.access import SharedState, TheClient, TheShared
from clew.server.models.json_body import json_bytes, json_response
from clew.server.models.openapi import TEXT, fails, located, returns
from clew.server.models.reviews import NewRound, ReviewSpec
from clew.server.security.body_limits import takes_long_text

router = APIRouter(prefix="/api/reviews", tags=["reviews"])

ReviewId = Annotated[str, Path(alias="review", max_length=200, description="A review's id: YYYY-MM-DD-NNN")]
Number = Annotated[int, Path(alias="round", ge=1, le=10**9, description="A round's number, from 1")]
MARKDOWN = "text/markdown"

# These replace the host's hints, which name a command.
HINTS = {AgentFailed.code: "Ask for another round, perhaps of another model.", TimedOut.code: "Ask for another round."}


@router.post(
    "",
    status_code=202,
    response_model=wire.Round,
    responses={**fails(404, 409), **located(202, "round")},
    summary="Start a review, or another round",
)
@takes_long_text
async def start(given: ReviewSpec, shared: TheShared) -> Response:
    """The compared files are on disk when this answers, and the first round is running. With `previous_review_id`, it
    starts the next round of that review, over the same paths."""
    if given.previous_review_id is not None:
        return await _followed(shared, given.previous_review_id, given)
    if given.cwd is None:
        raise UsageError("cwd is missing.", hint="Name a directory in the repository, or previous_review_id.")
    if given.message:
        raise UsageError(
            "The first round of a review has no message.", hint="Send it as focus, or name previous_review_id."
        )
    cwd = shared.roots.resolved(given.cwd)
    if shared.roots.paths:  # the whole work tree is reviewed, also when cwd is a folder in it
        shared.roots.check(await shared.client.reviews.top(cwd))
    focus = given.focus or ""
    if given.expand:
        focus = await _expanded(shared, focus, cwd, given.agent)
    live = await reviews.start(
        shared.client,
        reviews.ReviewOptions(
            cwd=cwd,
            paths=tuple(given.paths or ()),
            base=given.base,
            scope=given.scope,
            agent=given.agent,
            model=given.model,
            focus=focus,
            resume=given.resume,
            timeout_s=given.timeout_s,
        ),
    )
    return _accepted(live.round)


@router.get("", response_model=wire.ReviewPage, responses=fails(body=False), summary="All reviews")
async def list_(
    client: TheClient,
    cwd: Annotated[str, Query(max_length=4_096, description="Only reviews of this work tree")] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Response:
    """The newest first."""
    top = os.path.realpath(cwd) if cwd and "\0" not in cwd else cwd or None
    version = await client.views.version()  # read first: the page is notified about what changes after it
    found = await client.reviews.list(top=top, limit=limit, offset=offset)
    items = [reviews.review_note(state) for state in found]
    return json_response(wire.ReviewPage(items, await client.reviews.count(top=top), version).to_json())


@router.get("/{review}", response_model=wire.Review, responses=fails(404, body=False))
async def show(review_id: ReviewId, shared: TheShared) -> Response:
    return json_response((await _review(shared, review_id)).to_json())


@router.post(
    "/{review}/rounds",
    status_code=202,
    response_model=wire.Round,
    responses={**fails(404, 409), **located(202, "round")},
)
@takes_long_text
async def follow(review_id: ReviewId, shared: TheShared, given: NewRound | None = None) -> Response:
    """Starts the next round: over what changed since the last one, and the author's reply. 409 while a round runs."""
    return await _followed(shared, review_id, given or NewRound(agent=None, model=None))


@router.get("/{review}/rounds/{round}", response_model=wire.Round, responses=fails(404, body=False))
async def show_round(review_id: ReviewId, number: Number, shared: TheShared) -> Response:
    state = await shared.client.reviews.find(review_id)
    for each in state.rounds:
        if each.number == number:
            return json_response(reviews.round_shape(each, HINTS).to_json())
    raise NotFound(f"Review {state.review.id} has no round {number}.")


@router.get(
    "/{review}/rounds/{round}/diff",
    response_class=Response,
    responses={**fails(404, body=False), **returns("The output of git diff", "text/plain", schema=TEXT)},
)
async def diff(review_id: ReviewId, number: Number, client: TheClient) -> Response:
    """The whole diff of the round, including what was too large to be shown to the reviewer."""
    return _text(await client.reviews.diff(review_id, number), "text/plain")


@router.get(
    "/{review}/export",
    response_class=Response,
    responses={
        **fails(404, body=False),
        200: {
            "description": "The whole review",
            "content": {
                MARKDOWN: {"schema": {"type": "string"}},
                "application/json": {"schema": {"$ref": "#/components/schemas/Review"}},
                SARIF: {"schema": {"type": "object"}},
            },
        },
    },
)
async def export(
    review_id: ReviewId,
    shared: TheShared,
    format_: Annotated[
        Literal["md", "json", "sarif"], Query(alias="format", description="Markdown, the Review, or SARIF 2.1.0")
    ] = "md",
    with_secrets: Annotated[bool, Query(description="Without it, what looks like a secret is replaced")] = False,
) -> Response:
    made: Any
    if format_ == "md":
        made = reviews.markdown(await shared.client.reviews.find(review_id))
    else:
        made = (await _review(shared, review_id)).to_json()
    if not with_secrets:
        made, _ = await asyncio.to_thread(shared.client.blanked, made)
    if format_ == "sarif":
        return Response(json_bytes(reviews.sarif(made)), media_type=SARIF)
    return json_response(made) if format_ == "json" else _text(made, MARKDOWN)


async def _followed(shared: SharedState, review_id: str, given: NewRound) -> Response:
    review = (await shared.client.reviews.find(review_id)).review
    shared.roots.check(review.top)
    if isinstance(given, ReviewSpec):
        reviews.check_agrees(
            review,
            cwd=None if given.cwd is None else shared.roots.resolved(given.cwd),
            paths=given.paths or (),
            base=given.base,
            scope=given.scope,
            focus=given.focus,
        )
    message = given.message or ""
    if given.expand:
        message = await _expanded(shared, message, review.top, given.agent)
    options = reviews.RoundOptions(message, given.agent, given.model, given.resume, given.timeout_s)
    return _accepted((await shared.client.reviews.follow(review.id, options)).round)


async def _expanded(shared: SharedState, text: str, cwd: str, agent: str | None) -> str:
    """What the user typed for the reviewer, who may only read."""
    if not text.strip():
        return text
    return await shared.client.expand(text, cwd=cwd, agent=agent, permissions="read-only", trust="user")


def _accepted(begun: ReviewRound) -> Response:
    address = f"/api/reviews/{begun.review_id}/rounds/{begun.number}"
    return json_response(reviews.round_shape(begun, HINTS).to_json(), 202, {"Location": address})


async def _review(shared: SharedState, review_id: str) -> wire.Review:
    state = await shared.client.reviews.find(review_id)
    return reviews.review_shape(state, await shared.client.reviews.sessions(state), HINTS)


def _text(text: str, media_type: str) -> Response:
    """A repository's file may contain a lone surrogate; a response cannot."""
    return Response(text.encode("utf-8", "replace"), headers={"Content-Type": f"{media_type}; charset=utf-8"})
