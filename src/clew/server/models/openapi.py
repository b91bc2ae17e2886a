"""The OpenAPI document, and the responses that several routes declare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from starlette.routing import BaseRoute

from clew import __version__
from clew.api.wire.operations import OperationEvent
from clew.server.models.problems import MEDIA_TYPE, Problem

DESCRIPTIONS = {
    400: "The request is not valid HTTP or JSON",
    401: "The token is missing or wrong; of a hook: the signature is",
    403: "The `Origin` is foreign, or the directory is outside the allowed roots",
    404: "There is no such thread, turn, run, question, job, review or round; or no secret for hooks is set",
    405: "The address does not allow this method",
    409: "A run is live, or the thing to change has already ended",
    413: "The body is too large",
    414: "The address is too long",
    415: "The body is not JSON; of an upload: it is not a form",
    421: "The server does not answer to this `Host`",
    422: "A value is not valid; `errors` names each",
    431: "The headers are too large",
    503: "The store is busy, full or cannot be read, the agent's CLI is missing, or too many clients follow events",
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
    "description": "A request that is sent again with the same key and body within a day is not carried out again",
}
# FastAPI describes only what routes return as JSON.
BESIDE_THE_ROUTES = {"OperationEvent": OperationEvent, "Problem": Problem}
WITHOUT_TOKEN = ("/healthz", "/hooks/{forge}")
ANY_CALL = (400, 401, 403, 405, 414, 421, 422, 431, 503)
WITH_BODY = (413, 415)

DESCRIPTION = """\
What `clew serve` answers; docs/http.md describes it for people. Programs send `Authorization: Bearer TOKEN`, the page a
cookie and a key. Times are RFC 3339 in UTC with milliseconds; ids are opaque; `{thread}` in a path is its id or name.
"""


def fails(*statuses: int, body: bool = True) -> dict[int | str, dict[str, Any]]:
    """The problems that a call can answer with: those of every call, and `statuses`."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    all_statuses = sorted({*ANY_CALL, *(WITH_BODY if body else ()), *statuses})
    return {status: {"description": DESCRIPTIONS[status], "content": content} for status in all_statuses}


def located(status: int, what: str) -> dict[int | str, dict[str, Any]]:
    """Declares a response with the address of what was created in its header Location."""
    return {status: {"headers": {"Location": {"schema": {"type": "string"}, "description": f"The {what}'s address"}}}}


def returns(description: str, media_type: str, **schema: Any) -> dict[int | str, dict[str, Any]]:
    """Declares a successful response whose body is not JSON."""
    return {200: {"description": description, "content": {media_type: schema}}}


TEXT = {"type": "string"}


def install(app: FastAPI) -> None:
    """The document is made once, when it is first requested."""

    def once() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = document(app.routes)
        return app.openapi_schema

    app.openapi = once  # type: ignore[method-assign]


def document(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    made = get_openapi(title="Clew", version=__version__, description=DESCRIPTION, routes=routes)
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name, shape in BESIDE_THE_ROUTES.items():
        model = TypeAdapter(shape).json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(model.pop("$defs", {}))
        schemas[name] = model
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "The token that `clew serve` prints"},
    }
    for path, calls in made["paths"].items():
        for method, call in calls.items():
            call["security"] = [] if path in WITHOUT_TOKEN else [{"token": []}]
            if method == "post" and path not in WITHOUT_TOKEN:
                call.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
                call["responses"].setdefault("409", fails(409)[409])
    return made
