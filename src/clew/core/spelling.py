"""Messages about unknown names, each with the nearest known name. Imported only when there is an unknown name.

A name may come from a repository's own clew.toml, so it is escaped and shortened, and only a few are listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MAX_NAMED = 5
NAME_CHARS = 40
SIMILARITY = 0.5  # required of a suggestion; 1 means the same letters in the same order


def unknown_names(kind: str, names: Sequence[str], known: Iterable[str], tables: Iterable[str] = ()) -> str:
    """A message: `there is no setting 'modle' (did you mean model?), nor 'zzz'.`

    `tables` are known names of tables whose keys are not in `known`.
    """
    known, tables = tuple(known), tuple(tables)
    parts = [_named(_short(name), known, tables) for name in names[:MAX_NAMED]]
    if len(names) > MAX_NAMED:
        parts.append(f"{len(names) - MAX_NAMED} more")
    return f"there is no {kind} {', nor '.join(parts)}."


def suggestion(name: str, known: Iterable[str]) -> str:
    """` (did you mean model?)`, or nothing if no name is similar."""
    close = nearest(name, known)
    return f" (did you mean {close}?)" if close else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The most similar name. Capitals, dots and underscores make no difference."""
    by_letters = {_letters(each): each for each in known}
    found = get_close_matches(_letters(name), by_letters, n=1, cutoff=SIMILARITY)
    return by_letters[found[0]] if found else None


def _named(name: str, known: Sequence[str], tables: Sequence[str]) -> str:
    first = name.partition(".")[0]
    if nearest(first, (*tables, *(each.partition(".")[0] for each in known))) in tables:
        return f"{name!r}{suggestion(first, tables)}"
    return f"{name!r}{suggestion(name, known)}"


def _short(name: str) -> str:
    return name if len(name) <= NAME_CHARS else f"{name[:NAME_CHARS]}…"


def _letters(name: str) -> str:
    return "".join(each for each in name.removeprefix("CLEW_").lower() if each.isalnum())
