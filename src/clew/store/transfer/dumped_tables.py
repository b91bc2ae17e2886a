"""The tables whose rows are dumped with a thread: its own, and those that the hosts' parts of the store declare.

A host's part declares its tables as `DUMPED` in its module in `store/tables`, and is found there.
"""

from __future__ import annotations

import importlib
import pkgutil

from clew.store import tables
from clew.store.tables.table import DumpedTable, Json

OF_THREAD = (
    DumpedTable(
        "threads",
        has_id=True,
        json={"origin": Json(dict), "tool_rules": Json(list, dict)},
        store_columns=frozenset({"version", "updated_at"}),
    ),
    DumpedTable(
        "turns",
        has_id=True,
        belongs_to={"thread_id": "threads"},
        may_name={"run_id": "runs"},
        json={"images": Json(list, dict)},
        store_columns=frozenset({"absorbed_as", "absorbed_revision", "transcript_chars"}),  # made from the others
    ),
    DumpedTable("turn_revisions", belongs_to={"turn_id": "turns"}),
    DumpedTable(
        "runs",
        has_id=True,
        belongs_to={"thread_id": "threads"},
        # A prompt that was never sent has no turn.
        may_name={
            "prompt_turn_id": "turns",
            "answer_turn_id": "turns",
            "rewound_to_turn_id": "turns",
            "job_id": "jobs",
        },
        json={"asked": Json(dict), "images": Json(list, dict)},
    ),
    DumpedTable("attempts", has_id=True, belongs_to={"run_id": "runs"}),
    DumpedTable("events", belongs_to={"run_id": "runs"}, json={"body": Json(dict, is_nested=True)}),
    DumpedTable(
        "questions",
        belongs_to={"run_id": "runs", "thread_id": "threads"},
        json={"input": Json(dict, is_nested=True), "reply": Json(dict), "tool_rule": Json(dict)},
    ),
    DumpedTable(
        "pins",
        has_id=True,
        belongs_to={"thread_id": "threads"},
        json={"runtime": Json(dict, is_nested=True), "pending": Json(dict, is_nested=True)},
        store_columns=frozenset({"absorbed_count", "absorbed_digest"}),
    ),
    DumpedTable("pin_absorbed", belongs_to={"pin_id": "pins"}),
)

# Ids that need not name a row: those of agents' sessions and messages, those of forges' events, and the turn whose end
# a session lacks.
NAMES_NO_ROW = frozenset({"session_id", "message_id", "hook_id", "held_back_turn_id"})


# The digest of a thread's rows at a remote depends on the order of the tables, so the order must not change: a host
# that is added comes after these.
_FIRST_HOSTS = ("jobs", "reviews", "hooks", "pairs")


def _of_hosts() -> list[DumpedTable]:
    found = [each.name for each in pkgutil.iter_modules(tables.__path__)]
    names = [*_FIRST_HOSTS, *(name for name in found if name not in _FIRST_HOSTS)]
    modules = [importlib.import_module(f"clew.store.tables.{name}") for name in names]
    return [table for module in modules for table in getattr(module, "DUMPED", ())]


def _owners_first(found: dict[str, DumpedTable]) -> dict[str, DumpedTable]:
    """Each table after those that it belongs to, and else in the order of the declarations."""
    ordered: dict[str, DumpedTable] = {}

    def add(table: DumpedTable) -> None:
        for owner in table.belongs_to.values():
            add(found[owner])
        ordered.setdefault(table.name, table)

    for table in found.values():
        add(table)
    return ordered


TABLES = _owners_first({table.name: table for table in (*OF_THREAD, *_of_hosts())})
