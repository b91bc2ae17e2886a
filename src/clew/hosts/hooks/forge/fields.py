"""Reads the fields of a forge's message. Each is checked: a missing field is empty, and a wrong one raises.

This is plain access to plain dicts: a typed model of three forges' payloads would refuse payloads over fields that Clew
does not use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec

Part = dict[str, Any]

NUMBER_MAX = 2**63 - 1  # the largest integer of the database
NAME_MAX_CHARS = 255
URL_MAX_CHARS = 2000

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_URL = re.compile(r"https?://[!-~]+\Z")
# Names of branches that git allows, except those that a command line could take for an option.
_BRANCH = re.compile(r"(?![-/.])(?!.*(?:\.\.|//|/\.|@\{|\.lock(?:/|\Z)))[^\x00- \x7f~^:?*\[\\]+(?<![/.])\Z")


class NotAnEvent(ValueError):
    """The body is not what the forge's documentation says. The message is one line and quotes nothing of the body."""


def document(headers: Mapping[str, str], body: bytes) -> bytes:
    """The JSON text: the body, or the one field `payload` of a form."""
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        return body
    fields = [field.partition(b"=") for field in body.split(b"&")]
    found = [value for name, _, value in fields if name == b"payload"]
    if len(found) != 1:
        raise NotAnEvent("the form does not have one field `payload`")
    return unquote_to_bytes(found[0].replace(b"+", b" "))


def payload(headers: Mapping[str, str], body: bytes) -> Part:
    raw = document(headers, body)
    try:
        content = msgspec.json.decode(raw)
    except (ValueError, msgspec.MsgspecError):
        raise NotAnEvent("the body is not JSON") from None
    except RecursionError:
        raise NotAnEvent("the body is nested too deeply") from None
    if not isinstance(content, dict):
        raise NotAnEvent("the body is not an object")
    return content


def part(of: Part, name: str) -> Part:
    """An object, empty if it is missing."""
    value = of.get(name)
    if value is not None and not isinstance(value, dict):
        raise NotAnEvent(f"{name} is not an object")
    return value or {}


def required(of: Part, name: str) -> Part:
    value = part(of, name)
    if not value:
        raise NotAnEvent(f"{name} is missing")
    return value


def parts(of: Part, name: str) -> list[Part]:
    value = of.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise NotAnEvent(f"{name} is not a list of objects")
    return value


def text(of: Part, name: str) -> str:
    value = of.get(name)
    if value is not None and not isinstance(value, str):
        raise NotAnEvent(f"{name} is not a text")
    return value or ""


def labels(item: Part, name: str = "labels") -> list[str]:
    return [label for each in parts(item, name) if (label := text(each, "name"))]


def login(of: Part, name: str) -> str:
    return login_of(part(of, name))


def login_of(person: Part) -> str:
    login = text(person, "login") or text(person, "username") or text(person, "name")
    if len(login) > NAME_MAX_CHARS or any(not char.isprintable() or char.isspace() for char in login):
        raise NotAnEvent("a login is not a name")
    return login


def branch(name: str) -> str:
    if not is_branch(name):
        raise NotAnEvent("ref is not the name of a branch")
    return name


def is_branch(name: str) -> bool:
    return len(name) <= NAME_MAX_CHARS and name.isprintable() and _BRANCH.match(name) is not None


def commit(of: Part, name: str) -> str | None:
    commit = text(of, name)
    if commit and not _COMMIT.match(commit):
        raise NotAnEvent(f"{name} is not a commit")
    return commit or None


def url(of: Part, name: str) -> str:
    """The address, or "" if it is not safe to use in a link."""
    url = text(of, name)
    return url if len(url) <= URL_MAX_CHARS and _URL.match(url) else ""


def line(comment: Part) -> int | None:
    line = comment.get("line") or comment.get("original_line")
    return line if type(line) is int and 0 < line <= NUMBER_MAX else None
