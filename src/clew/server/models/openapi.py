"""What every call can answer with besides its result, for the OpenAPI document; and the document itself."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from clew import __version__
from clew.server.problems import MEDIA_TYPE
from clew.server.schemas import Problem

WORDS = {
    400: "The request is not HTTP or JSON that makes sense",
    401: "No token, or another one; of a hook: no signature, or a wrong one",
    403: "A foreign `Origin`, or a directory outside of the allowed roots",
    404: "No such thread, turn, run, question, job, review or round; no secret for hooks",
    405: "Not this method",
    409: "A run is going on, or what is to be changed is over already",
    413: "The body is too large",
    414: "The address is too long",
    415: "The body is not JSON",
    421: "A `Host` that this server does not answer to",
    422: "A value is not what it must be; `errors` names each",
    431: "The headers are too large",
    503: "The store is busy, full or cannot be read, the agent's CLI is missing, or too many listen already",
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
    "description": "Sent again with the same key and body within a day, it is answered again and not carried out again",
}
OPEN = ("/healthz", "/hooks/{forge}")  # need no token
ANY_CALL = (400, 401, 403, 405, 414, 421, 422, 431, 503)
WITH_BODY = (413, 415)

DESCRIPTION = """\
What `clew serve` answers; docs/http.md tells it for people. Programs send `Authorization: Bearer TOKEN`, the page a
cookie and a key. Times are RFC 3339 in UTC with milliseconds; ids are opaque; `{thread}` in a path is its id or name.
"""


def fails(*statuses: int, body: bool = True) -> dict[int | str, dict[str, Any]]:
    """The problems that a call can answer with: those of any call, and these."""
    every = sorted({*ANY_CALL, *(WITH_BODY if body else ()), *statuses})
    schema = {"$ref": "#/components/schemas/Problem"}
    return {status: {"description": WORDS[status], "content": {MEDIA_TYPE: {"schema": schema}}} for status in every}


def install(app: FastAPI) -> None:
    """The document, made once, with the problem's schema and the two ways to say who one is."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(title="Clew", version=__version__, description=DESCRIPTION, routes=app.routes)
    parts = made.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    model = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(model.pop("$defs", {}))
    schemas["Problem"] = model
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    parts["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "The token that `clew serve` prints"},
    }
    for path, calls in made["paths"].items():
        for method, call in calls.items():
            call["security"] = [] if path in OPEN else [{"token": []}]
            if method == "post" and path not in OPEN:
                call.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
                call["responses"].setdefault("409", fails(409)[409])
    return made
