"""Errors as problem details (RFC 9457): the error's class gives the status, its message is the detail.

An unexpected exception is answered without internals. The log says where it happened, but not its message, which may
hold a prompt.
"""

from __future__ import annotations

import errno
import logging
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from clew import errors
from clew.server.models import request_errors
from clew.server.models.json_body import json_bytes

log = logging.getLogger("clew.server")

MEDIA_TYPE = "application/problem+json"
MAX_FIELD_ERRORS = 10  # how many are listed; the others are only counted

# The first class that matches counts, so subclasses come before their base classes.
STATUS_OF: tuple[tuple[type[errors.ClewError], int], ...] = (
    (errors.NotFound, 404),
    (errors.Conflict, 409),
    (errors.UsageError, 422),
    (errors.Busy, 409),
    (errors.StoreError, 503),
    (errors.AgentError, 503),
)

# The server's own refusals are not ClewErrors, so their codes are here.
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


PATH_ERRORS = frozenset(
    (errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EACCES, errno.EPERM)
)


class RequestRefused(Exception):
    """The server refuses a request because of who sends it, from where, or how large it is."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code  # None: that of the status
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


def wrong_method(method: str, allowed: str) -> RequestRefused:
    return RequestRefused(405, f"This address does not allow {method}.", headers={"Allow": allowed})


def of_refusal(refusal: RequestRefused) -> Response:
    return problem(refusal.status, refusal.detail, code=refusal.code, hint=refusal.hint, headers=refusal.headers)


def of_error(error: errors.ClewError) -> Response:
    status = next((status for kind, status in STATUS_OF if isinstance(error, kind)), 500)
    more: dict[str, Any] = {"run_id": error.run_id} if isinstance(error, errors.Busy) and error.run_id else {}
    headers = {"Retry-After": "1"} if status == 503 else {}
    return problem(status, error.message, code=error.code, hint=error.hint, headers=headers, **more)


def of_os_error(error: OSError) -> Response:
    """Either the path in the request cannot be used, or the machine is in a bad state (a full disk, for example)."""
    if error.errno in PATH_ERRORS:
        return problem(422, f"The path cannot be used: {error.strerror}.")
    log_unexpected(error, "the operating system refused")
    detail = f"The operating system refused: {error.strerror or 'it does not say why'}."
    return problem(503, detail, code="store", headers={"Retry-After": "1"})


def unexpected() -> Response:
    return problem(500, "An unexpected error happened.", hint="The daemon's log says where it happened.")


def log_unexpected(error: BaseException, what: str) -> None:
    """Logs the error's class and where it happened, but neither its message nor any value."""
    frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    log.error("%s: unexpected %s\n%s", what, type(error).__name__, frames)


@contextmanager
def failures_logged(what: str) -> Iterator[None]:
    """For work that is repeated: after a failure the daemon still serves, and the next try may succeed."""
    try:
        yield
    except errors.ClewError as error:
        log.warning("%s: %s", what, error.code)
    except Exception as error:  # noqa: BLE001 - whatever failed, the daemon continues
        log_unexpected(error, what)


def invalid(found: Sequence[Mapping[str, Any]], fields: Sequence[str] = ()) -> Response:
    """The detail is the first error, and `errors` lists the first ten. `fields` are those that the body may have."""
    if any(error.get("type") == "json_invalid" for error in found):
        return problem(400, "The body is not JSON.")
    described = request_errors.field_errors(found[:MAX_FIELD_ERRORS], fields)
    detail, hint = (described[0].what, described[0].hint) if described else ("The request is not valid.", None)
    listed = [{"where": each.where, "what": each.what} for each in described]
    if more := len(found) - len(described):
        listed.append({"where": "request", "what": f"And {more:,} more."})
    return problem(422, detail, hint=hint, errors=listed)


def _fields_of_body(request: Request) -> tuple[str, ...]:
    """The fields that the body of this route may have."""
    body = getattr(request.scope.get("route"), "body_field", None)
    model = getattr(getattr(body, "field_info", None), "annotation", None)
    return tuple(getattr(model, "model_fields", ()))


def install(app: FastAPI) -> None:
    """From now on every failure of a call is answered with problem details."""
    for kind in (errors.ClewError, RequestRefused, RequestValidationError, HTTPException, OSError, Exception):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    match error:
        case errors.ClewError():
            return of_error(error)
        case RequestRefused():
            return of_refusal(error)
        case RequestValidationError():
            return invalid(error.errors(), _fields_of_body(request))
        case HTTPException():
            return _of_http(error, request)
        case OSError() if request.scope["type"] == "websocket":
            raise error  # no response can be sent
        case OSError():
            return of_os_error(error)
        case _:
            return unexpected()


def _of_http(error: HTTPException, request: Request) -> Response:
    """The refusals of the framework: an unknown route, a wrong method, a body that cannot be read."""
    headers = {name.title(): value for name, value in (error.headers or {}).items()}
    if error.status_code == 404:
        return problem(404, "There is nothing at this address.", headers=headers)
    if error.status_code == 405:
        allowed = request.app.state.methods_at(request.url.path) or {"GET"}
        return of_refusal(wrong_method(request.method, ", ".join(sorted(allowed))))
    if error.status_code == 400:
        return problem(400, "The body cannot be read as JSON.", headers=headers)
    return problem(error.status_code, HTTPStatus(error.status_code).phrase, headers=headers)
