"""Finds one item among many by its id, or by a prefix that only this id has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from clew.errors import NotFound

T = TypeVar("T")

LATEST = "latest"  # means the newest item where an id is expected
SHORTEST_BEGINNING = 4  # characters of an id that a search must have, where a mistake would be costly
SEARCH_LIMIT = 1000  # how many of the newest items are searched for an id's prefix or a similar name
ALL_ROWS = 10_000_000  # the limit of a query that has none: more rows than any store holds


def by_prefix(
    wanted: str,
    among: Iterable[T],
    id_of: Callable[[T], str],
    *,
    noun: str,
    hint: str,
) -> T:
    """The item whose id is `wanted`, else the only one whose id begins with it. Raises NotFound.

    `noun` says what was looked for and where: "turn of fix-login".
    """
    matches = [each for each in among if id_of(each).startswith(wanted)] if wanted else []
    matches = [each for each in matches if id_of(each) == wanted] or matches
    if len(matches) != 1:
        what = f"names more than one {noun}" if matches else f"is not a {noun}"
        raise NotFound(f"{wanted!r} {what}.", hint=hint)
    return matches[0]
