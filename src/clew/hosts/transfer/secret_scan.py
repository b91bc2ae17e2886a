"""Scans what is about to leave this machine for secrets, and says which kinds it found in which turns.

Secrets are recognised by values of the environment and by their shape (core/secrets). A session whose secrets were
blanked could not be resumed, and a blanked history is not the thread's history: so a secret stops an export or a push,
unless the user decides otherwise.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from clew.core.record import Record
from clew.core.secrets.redaction import blank, find_secrets, secret_values
from clew.errors import SecretFound
from clew.store.transfer.codec import Tables, as_json, with_texts

PLACES_SHOWN = 5  # places of one kind that a message lists; the rest is only counted


class LocatedSecret(Record):
    """The kind and the place of a secret that was found, without the secret itself."""

    kind: str  # "Anthropic API key", "value of MY_TOKEN"
    where: str  # "turn 3", "the session of claude"
    turn_id: str | None = None
    count: int = 1


def scan(
    tables: Tables, parts: Mapping[str, bytes], environ: Mapping[str, str], *, doubtful: bool = False
) -> tuple[LocatedSecret, ...]:
    """Scans rows and other content. `parts` is that content, by its name in messages to the user."""
    values = _spelled(secret_values(environ.items(), os.path.lexists))
    places, found = _Places(tables), list[tuple[str, str, str | None]]()
    for table, rows in tables.items():
        lines = [as_json(row).decode("utf-8", "surrogatepass") for row in rows]
        ends = list(accumulate(map(len, lines)))
        for secret in find_secrets("".join(lines), values, doubtful=doubtful):
            found.append((secret.kind, *places.of(table, rows[bisect_right(ends, secret.start)])))
    for name, content in parts.items():
        text = content.decode("utf-8", "replace")
        found += [(each.kind, name, None) for each in find_secrets(text, values, doubtful=doubtful)]
    return tuple(LocatedSecret(*each, count=found.count(each)) for each in dict.fromkeys(found))


def session_name(part: str) -> str:
    """What the part `sessions/AGENT/ID.jsonl` is called in messages to the user."""
    return f"the session of {part.split('/')[1]}"


def refuse_secrets(whose: str, secrets: Sequence[LocatedSecret], hint: str) -> None:
    """Raises SecretFound if there are any."""
    if not secrets:
        return
    kinds: dict[str, list[str]] = {}
    for secret in secrets:
        kinds.setdefault(secret.kind, []).append(secret.where)
    told = [f"{_article(kind)} {kind} ({_listed(where)})" for kind, where in kinds.items()]
    count = sum(secret.count for secret in secrets)
    places = "1 place" if count == 1 else f"{count} places"
    raise SecretFound(f"{whose} holds {'; '.join(told)}: {places} in all.", hint=hint, secrets=as_objects(secrets))


def as_objects(secrets: Iterable[LocatedSecret]) -> list[dict[str, Any]]:
    """The secrets as JSON objects."""
    return [{"kind": each.kind, "where": each.where, "turn": each.turn_id, "count": each.count} for each in secrets]


def blanked(value: Any, environ: Mapping[str, str]) -> tuple[Any, list[str]]:
    """A text, or JSON with texts in it, without its secrets; and the kind of each secret that was in it."""
    values, kinds = secret_values(environ.items(), os.path.lexists), list[str]()

    def without_secrets(text: str) -> str:
        found = find_secrets(text, values)
        kinds.extend(each.kind for each in found)
        return blank(text, found)[0]

    return with_texts(value, without_secrets), kinds


class _Places:
    """Says where in the thread a row belongs."""

    def __init__(self, tables: Tables) -> None:
        self._turns = {row["id"]: row["position"] for row in tables.get("turns", ())}
        self._of_run = {
            row["id"]: turn
            for row in tables.get("runs", ())
            for turn in (row.get("prompt_turn_id"), row.get("answer_turn_id"))
            if turn in self._turns
        }

    def of(self, table: str, row: Mapping[str, Any]) -> tuple[str, str | None]:
        if table == "threads":
            return "the thread itself", None
        run_id = row["id"] if table == "runs" else row.get("run_id")
        turn_id = row["id"] if table == "turns" else row.get("turn_id") or self._of_run.get(run_id)
        if turn_id not in self._turns:
            return table.replace("_", " "), None
        number = self._turns[turn_id]
        return f"an earlier text of turn {number}" if table == "turn_revisions" else f"turn {number}", turn_id


def _spelled(values: Mapping[str, str]) -> dict[str, str]:
    """The values as they are, and as they are escaped in JSON."""
    spelled = dict(values)
    for value, name in values.items():
        spelled.setdefault(as_json(value).decode("utf-8", "surrogatepass").strip().strip('"'), name)
    return spelled


def _article(kind: str) -> str:
    if kind.startswith("value of "):
        return "the"
    return "an" if kind[0] in "aeioAEIO" else "a"


def _listed(where: Sequence[str]) -> str:
    more = len(where) - PLACES_SHOWN
    return ", ".join(where[:PLACES_SHOWN]) + (f" and {more} more" if more > 0 else "")
