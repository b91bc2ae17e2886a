"""Reads fields of a file that another tool wrote, and records what was left out.

A list or an object that has another type is refused, because then nothing below it can be read. Single values come
from a model, so that anything can be in them: one that cannot be read is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from clew.errors import UsageError

TEXT_MAX_CHARS = 200_000  # of a text that is kept
MAX_FINDINGS = 1_000  # of a round
NAMES_SHOWN = 10
NAME_CHARS = 60

T = TypeVar("T")
D = TypeVar("D")


class Fields:
    """One object of the file. `where` is its place, such as `rounds.comments`."""

    def __init__(self, body: Mapping[str, Any], where: str, file: str, omissions: Omissions) -> None:
        self.body = body
        self._where = where
        self._file = file
        self._omissions = omissions

    def inside(self, name: str, *, known: Iterable[str]) -> Fields:
        """The object of that name. It has no fields when it is missing."""
        body = self.body.get(name)
        if body is None:
            body = {}
        if not isinstance(body, Mapping):
            raise self._wrong(name, "an object")
        return self.nested(name, body).knows(known)

    def nested(self, name: str, body: Mapping[str, Any]) -> Fields:
        return Fields(body, self._place(name), self._file, self._omissions)

    def knows(self, names: Iterable[str]) -> Fields:
        """Records every other field as left out."""
        known = set(names)
        self._omissions.unknown += [self._place(each) for each in self.body if each not in known]
        return self

    def objects(self, name: str, *, most: int) -> list[Mapping[str, Any]]:
        """The objects of a list. A text in it is an object with that text as `comment`."""
        listed = self.body.get(name)
        if listed is None:
            return []
        if not isinstance(listed, list):
            raise self._wrong(name, "a list")
        if len(listed) > most:
            raise UsageError(f"{self._file}: {self._place(name)} has {len(listed):,} items; the limit is {most:,}.")
        found = [{"comment": each} if isinstance(each, str) else each for each in listed]
        if not all(isinstance(each, Mapping) for each in found):
            raise self._wrong(name, "a list of objects")
        return found

    def text(self, *names: str) -> str:
        """The first of these fields that holds a text."""
        for name in names:
            value = self.body.get(name)
            if isinstance(value, str) and value.strip():
                return self._bounded(name, value.strip())
            if value is not None and not isinstance(value, str):
                self.unread(name)
        return ""

    def texts(self, name: str) -> list[str]:
        value = self.body.get(name)
        if value is None:
            return []
        listed = value if isinstance(value, list) else [value]
        found = [each.strip() for each in listed if isinstance(each, str) and each.strip()]
        if len(found) < len(listed):
            self.unread(name)
        return [self._bounded(name, each) for each in found]

    def flag(self, name: str) -> bool | None:
        value = self.body.get(name)
        if value is not None and not isinstance(value, bool):
            self.unread(name)
            return None
        return value

    def number(self, name: str) -> int | None:
        """A line or a round: from 1. Models also write "42" and "42-50"."""
        value = self.body.get(name)
        if isinstance(value, str) and (matched := re.match(r"\s*(\d{1,10})\s*(?:[-–:,].*)?\Z", value)):
            value = int(matched[1])
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31:
            return value
        if value not in (None, 0, ""):
            self.unread(name)
        return None

    def time(self, name: str) -> float | None:
        """Seconds since 1970. The tool writes UTC."""
        value = self.body.get(name)
        if value is None:
            return None
        try:
            at = datetime.fromisoformat(value)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        except (TypeError, ValueError, OverflowError):
            self.unread(name)
            return None

    def unread(self, name: str) -> None:
        self._omissions.unread.append(self._place(name))

    def _bounded(self, name: str, text: str) -> str:
        if len(text) > TEXT_MAX_CHARS:
            place = self._place(name)
            raise UsageError(f"{self._file}: {place} has {len(text):,} characters; the limit is {TEXT_MAX_CHARS:,}.")
        return text

    def _wrong(self, name: str, expected: str) -> UsageError:
        return UsageError(f"{self._file} is not a review: its {self._place(name)} is not {expected}.")

    def _place(self, name: str) -> str:
        short = name if len(name) <= NAME_CHARS else f"{name[:NAME_CHARS]}…"
        return f"{self._where}.{short}" if self._where else short


class Omissions:
    """What a file has that does not become a part of the review."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.unread: list[str] = []
        self.others: list[str] = []

    def words(self) -> tuple[str, ...]:
        found = list(self.others)
        for names, why in ((self.unknown, "not known"), (self.unread, "not readable")):
            if names:
                found.append(f"{_listed(names)} ({why})")
        return tuple(found)


def _listed(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    shown = ", ".join(unique[:NAMES_SHOWN])
    return f"{shown} and {len(unique) - NAMES_SHOWN} more" if len(unique) > NAMES_SHOWN else shown


def first(body: Mapping[str, Any], keys: Sequence[str], type_: type[T], default: D) -> T | D:
    """The value of the first key that has one of that type. Versions of a tool used different keys."""
    return next((body[key] for key in keys if isinstance(body.get(key), type_)), default)
