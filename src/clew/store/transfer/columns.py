"""What the columns of a thread's rows hold, where the catalogue of a database does not say it.

Names, types and NOT NULL come from the database itself (`Database.catalogue`). JSON is TEXT in both databases, and not
every id is a foreign key: a prompt that was never sent has no turn yet. So these are listed here, and a test compares
the lists with the schema.
"""

from __future__ import annotations

from typing import NamedTuple


class Json(NamedTuple):
    """JSON that is stored as text."""

    shape: type[dict] | type[list]  # type: ignore[type-arg]
    items: type = object  # of a list
    is_nested: bool = False  # in a dump it is an object and no text: nobody but Clew writes it


JSON: dict[tuple[str, str], Json] = {
    ("threads", "origin"): Json(dict),
    ("runs", "asked"): Json(dict),
    ("events", "body"): Json(dict, is_nested=True),
    ("questions", "input"): Json(dict, is_nested=True),
    ("questions", "reply"): Json(dict),
    ("pins", "runtime"): Json(dict, is_nested=True),
    ("pins", "pending"): Json(dict, is_nested=True),
    ("jobs", "limits"): Json(dict),
    ("jobs", "allowed_tools"): Json(list, str),
    ("jobs", "conflicts"): Json(list, str),
    ("reviews", "paths"): Json(list, str),
    ("review_rounds", "answer"): Json(dict),
    ("review_rounds", "changed_since"): Json(list, str),
    ("review_rounds", "changes"): Json(list, dict),
    ("pairs", "models"): Json(list, str),
    ("pairs", "changed_files"): Json(list, str),
    ("pair_rounds", "instructor_order"): Json(dict),
    ("pair_rounds", "changed_files"): Json(list, str),
}

# Tables whose rows have an id of their own, which no other row of any thread has.
WITH_ID = frozenset({"threads", "turns", "runs", "attempts", "pins", "jobs", "reviews", "pairs"})

# What a row belongs to: that row is in the same file.
BELONGS_TO: dict[tuple[str, str], str] = {
    ("turns", "thread_id"): "threads",
    ("turn_revisions", "turn_id"): "turns",
    ("runs", "thread_id"): "threads",
    ("attempts", "run_id"): "runs",
    ("events", "run_id"): "runs",
    ("questions", "run_id"): "runs",
    ("questions", "thread_id"): "threads",
    ("jobs", "thread_id"): "threads",
    ("job_markers", "job_id"): "jobs",
    ("reviews", "thread_id"): "threads",
    ("review_rounds", "review_id"): "reviews",
    ("hook_keys", "thread_id"): "threads",
    ("hook_jobs", "job_id"): "jobs",
    ("pairs", "instructor_thread_id"): "threads",
    ("pairs", "worker_thread_id"): "threads",
    ("pair_rounds", "pair_id"): "pairs",
    ("pins", "thread_id"): "threads",
    ("pin_absorbed", "pin_id"): "pins",
}

# What a row may name: a row of the same file, or one that is nowhere, such as the turn of a prompt that was never sent.
MAY_NAME: dict[tuple[str, str], str] = {
    ("turns", "run_id"): "runs",
    ("runs", "prompt_turn_id"): "turns",
    ("runs", "answer_turn_id"): "turns",
    ("jobs", "run_id"): "runs",
    ("jobs", "saved_run_id"): "runs",
    ("jobs", "prompt_turn_id"): "turns",
    ("job_markers", "run_id"): "runs",
    ("review_rounds", "run_id"): "runs",
    ("review_rounds", "first_run_id"): "runs",
    ("pairs", "run_id"): "runs",
    ("pair_rounds", "instructor_run_id"): "runs",
    ("pair_rounds", "worker_run_id"): "runs",
}

# Ids that need not name a row: those of agents' sessions and messages, those of forges' events, and the turn of which a
# session lacks the end.
NAMES_NO_ROW = frozenset({"session_id", "message_id", "hook_id", "held_back_turn_id"})
