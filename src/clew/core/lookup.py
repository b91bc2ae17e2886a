"""Finding one item among many by its id, or by a beginning of the id that is unambiguous."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from clew.errors import NotFound

T = TypeVar("T")

SEARCHED = 1000  # newest first: among so many an id's beginning or a similar name is looked for
ALL_ROWS = 10_000_000  # as the limit of a query: more than any store has


def by_beginning(
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
