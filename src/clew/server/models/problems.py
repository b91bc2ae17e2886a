"""Errors as problem details (RFC 9457): the class says the status, the error's own words are the detail.

What nobody foresaw is answered without internals, and logged by where it happened, not by what was in it: an
exception's text may hold a prompt.
"""

from __future__ import annotations

import errno
import logging
import traceback
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from clew import errors
from clew.server import faults
from clew.server.json_body import json_bytes

log = logging.getLogger("clew.server")

MEDIA_TYPE = "application/problem+json"
MOST_FAULTS = 10  # that are told; of the others, how many there are

# The first class that fits counts, so the narrow ones stand before the wide ones.
STATUS_OF: tuple[tuple[type[errors.ClewError], int], ...] = (
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.UsageError, 422),
    (errors.Busy, 409),
    (errors.StoreError, 503),
    (errors.AgentError, 503),
)

# What is no error of Clew's: the server's own refusals.
CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    414: "too_large",
    415: "not_json",
    421: "unknown_host",
    422: "usage",
    431: "too_large",
    500: "internal",
    503: "busy",
}


OF_THE_PATH = frozenset(
    (errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES, errno.EPERM)
)


class Refusal(Exception):
    """The server itself will not do it: who asks, from where, or how much."""

    def __init__(
        self, status: int, detail: str, *, hint: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.headers = dict(headers or {})


def problem(
    status: int,
    detail: str,
    *,
    code: str | None = None,
    hint: str | None = None,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Response:
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code or CODES.get(status, "error"),
        "hint": hint,
        **more,
    }
    return Response(json_bytes(body), status_code=status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def of_refusal(refusal: Refusal) -> Response:
    return problem(refusal.status, refusal.detail, hint=refusal.hint, headers=refusal.headers)


def of_error(error: errors.ClewError) -> Response:
    status = next((status for kind, status in STATUS_OF if isinstance(error, kind)), 500)
    more: dict[str, Any] = {"run_id": error.run_id} if isinstance(error, errors.Busy) and error.run_id else {}
    headers = {"Retry-After": "1"} if status == 503 else {}
    return problem(status, error.message, code=error.code, hint=error.hint, headers=headers, **more)


def of_os_error(error: OSError) -> Response:
    """The file system's own refusal: of the path that was asked for, or of the machine's state."""
    if error.errno in OF_THE_PATH:
        return problem(422, f"The path cannot be used: {error.strerror}.")
    log_unexpected(error, "the operating system refused")
    words = f"The operating system refused: {error.strerror or 'it does not say why'}."
    return problem(503, words, code="store", headers={"Retry-After": "1"})


def unexpected() -> Response:
    hint = "The daemon's log says where it happened."
    return problem(500, "Something unexpected happened.", hint=hint)


def log_unexpected(error: BaseException, what: str) -> None:
    """Where it happened and of which kind; not what it said, nor any value."""
    frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    log.error("%s: unexpected %s\n%s", what, type(error).__name__, frames)


def invalid(found: Sequence[Mapping[str, Any]], fields: Sequence[str] = ()) -> Response:
    """The first fault is the detail, the first of them are `errors`. `fields`: those that the body may have."""
    if any(fault.get("type") == "json_invalid" for fault in found):
        return problem(400, "The body is not JSON.")
    named = faults.told(found[:MOST_FAULTS], fields)
    detail, hint = (named[0].what, named[0].hint) if named else ("The request is not valid.", None)
    told = [{"where": each.where, "what": each.what} for each in named]
    if more := len(found) - len(named):
        told.append({"where": "request", "what": f"And {more:,} more."})
    return problem(422, detail, hint=hint, errors=told)


def _fields_of_body(request: Request) -> tuple[str, ...]:
    """The names that the called route's body may have."""
    body = getattr(request.scope.get("route"), "body_field", None)
    model = getattr(getattr(body, "field_info", None), "annotation", None)
    return tuple(getattr(model, "model_fields", ()))


def install(app: FastAPI) -> None:
    """Every way in which a call can fail ends in a problem."""

    async def on_error(_request: Request, error: Exception) -> Response:
        assert isinstance(error, errors.ClewError)
        return of_error(error)

    async def on_refusal(_request: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return of_refusal(error)

    async def on_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return invalid(error.errors(), _fields_of_body(request))

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _of_http(error, request)

    async def on_os_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, OSError)
        if request.scope["type"] == "websocket":
            raise error  # there is nobody to be told
        return of_os_error(error)

    async def on_unexpected(_request: Request, _error: Exception) -> Response:
        return unexpected()

    app.add_exception_handler(errors.ClewError, on_error)
    app.add_exception_handler(Refusal, on_refusal)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(OSError, on_os_error)
    app.add_exception_handler(Exception, on_unexpected)


def _of_http(error: HTTPException, request: Request) -> Response:
    """What the framework refuses by itself: no such route, another method, a body that cannot be read."""
    headers = {name.title(): value for name, value in (error.headers or {}).items()}
    if error.status_code == 404:
        return problem(404, "There is nothing at this address.", headers=headers)
    if error.status_code == 405:
        allowed = request.app.state.methods_at(request.url.path) or {"GET"}
        headers["Allow"] = ", ".join(sorted(allowed))
        return problem(405, f"{request.method} is not possible here.", headers=headers)
    if error.status_code == 400:
        return problem(400, "The body cannot be read as JSON.", headers=headers)
    return problem(error.status_code, HTTPStatus(error.status_code).phrase, headers=headers)
