"""Limits on a body. They are checked before it is parsed, because parsing and validating blocks all other requests.

A long text costs little, so only its size is limited. Many small values cost much more than their bytes, and each of
them may cause an error of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import TypeVar

from fastapi.routing import APIRoute

from clew.server.models.problems import RequestRefused

MAX_BODY_BYTES = 12_000_000  # the largest body of a route that `takes_long_text`
MAX_SHORT_BYTES = 64_000  # the largest body of any other route
MAX_UPLOAD_BYTES = 64_000_000  # the largest body of a route that `takes_upload`
MAX_UPLOADS_BYTES = 128_000_000  # all uploads that are being received
MAX_VALUES = 10_000
MAX_DEPTH = 64

BRACKETS = b"[]{}"
NO_BRACKETS = bytes(set(range(256)) - set(BRACKETS))
DEPTH_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


_LONG_TEXT = "takes_long_text"  # the attribute of a route's function
_UPLOAD = "takes_upload"

F = TypeVar("F", bound=Callable[..., object])


def takes_long_text(endpoint: F) -> F:
    """Marks a route whose body holds a prompt or another long text."""
    setattr(endpoint, _LONG_TEXT, True)
    return endpoint


def takes_upload(endpoint: F) -> F:
    """Marks a route whose body is a form (multipart/form-data) with a file in it."""
    setattr(endpoint, _UPLOAD, True)
    return endpoint


def max_body_bytes(routes: Iterable[APIRoute]) -> Callable[[str], int]:
    """Returns a function from a path to the size that a body may have. The guards call it before routing."""
    marked = list(routes)
    long, uploads = _paths(marked, _LONG_TEXT), _paths(marked, _UPLOAD)
    return lambda path: MAX_UPLOAD_BYTES if uploads(path) else MAX_BODY_BYTES if long(path) else MAX_SHORT_BYTES


def upload_paths(routes: Iterable[APIRoute]) -> Callable[[str], bool]:
    """Returns a function: is this the path of a route that takes an upload?"""
    return _paths(routes, _UPLOAD)


def _paths(routes: Iterable[APIRoute], mark: str) -> Callable[[str], bool]:
    found = [route.path_regex for route in routes if hasattr(route.endpoint, mark)]
    return lambda path: any(each.match(path) for each in found)


def check_values(body: bytes) -> None:
    """Raises RequestRefused if the body has too many values, or nests them too deeply. It need not be valid JSON."""
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")  # so that each quote begins or ends a text
    too_many = RequestRefused(413, f"The body holds more than {MAX_VALUES:,} values.", headers={"Connection": "close"})
    if unescaped.count(b'"') > 4 * MAX_VALUES:  # a field's name and its value are two texts
        raise too_many
    outside = b"".join(unescaped.split(b'"')[::2])
    brackets = outside.translate(None, NO_BRACKETS)
    if outside.count(b",") + len(brackets) > MAX_VALUES:
        raise too_many
    if max(accumulate(DEPTH_STEPS[each] for each in brackets), default=0) > MAX_DEPTH:
        raise RequestRefused(400, f"The body nests values more than {MAX_DEPTH} levels deep.")
