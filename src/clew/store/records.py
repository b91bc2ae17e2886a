"""Rows to records and back, and the records that only the store has.

A record's fields are columns of the same name; fields that hold a record (owner, usage, runtime, pending, mark) are
converted here one by one. A row that cannot become a record (garbage on disk, a value of a later version) means a
damaged store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

from clew.core.costs.usage import StatRow, Usage
from clew.core.history import Absorbed, Role, Turn, Visibility
from clew.core.ids import ThreadId
from clew.core.images import Image, image_from
from clew.core.pins import Mark, PartlyAbsorbed, Pending, Pin, PinState, Runtime
from clew.core.prompts import turn_chars
from clew.core.record import Record, fields_of
from clew.core.runs.events import Event, from_body
from clew.core.runs.permissions import Answer, Scope
from clew.core.runs.question import Question, QuestionState
from clew.core.runs.run import DEFAULT_OPTIONS, Attempt, HostItem, Owner, Run, RunBelonging, RunOptions, RunStatus
from clew.core.runs.tool_rules import RuleKind, ToolRule
from clew.core.thread import Origin, OriginKind, Permissions, SourceThread, Thread, Trust
from clew.errors import StoreError

Row = dict[str, Any]
SEPARATOR = ";"  # in the lists that the database joins: in the queries `outline` and `absorbed_listed`
Made = TypeVar("Made")
R = TypeVar("R", bound=Record)


class StoredTurn(Record):
    """A turn, and whether it was archived."""

    turn: Turn
    archived_at: float | None
    archived_why: str | None

    @property
    def archived(self) -> bool:
        return self.archived_at is not None


class Revision(Record):
    """A text that an edit replaced."""

    turn_id: str
    revision: int  # the turn's revision number while it had this text
    text: str
    replaced_at: float


class StoredEvent(Record):
    """An event of a run, with its number and time."""

    seq: int
    at: float
    kind: str
    event: Event | None  # None: a later version wrote it, and only `body` can be read
    body: Mapping[str, Any]


class StoredRequest(Record):
    """An idempotent request: it is carried out once, however often it is sent."""

    key: str  # a digest of the caller, the route and the key that was sent with the request
    sent: str  # a digest of the body
    made_id: str  # the id of the thing that the request creates
    created_at: float
    status: int | None = None  # the HTTP status of the answer; None: not answered yet
    location: str | None = None
    answer: str | None = None


class ThreadSummary(Record):
    """A thread, and the figures that a list of threads shows."""

    thread: Thread
    version: int  # of its last change
    turns: int  # the number of turns that are not archived
    cost_usd: float  # of all its runs
    questions: int  # the number of open questions
    last_text: str  # the beginning of the last turn
    live: Run | None  # the run that is running or waiting, else the first queued one
    opened_at: float | None = None  # since when it is open in a terminal; None: it is not
    first_failure: Run | None = None  # the last run that failed, if the thread never got an answer


class ThreadPage(Record):
    items: list[ThreadSummary]
    total: int  # the number of threads on all pages
    version: int


class Changes(Record):
    """What changed after a version."""

    version: int
    summaries: list[ThreadSummary]
    deleted: list[str]


class TurnView(Record):
    """A turn with its position and a run: the run that gave this answer; for a prompt, the run that gave no answer."""

    turn: Turn
    position: int
    run: Run | None
    steps: int  # the number of tools that the run started
    stderr_tail: str = ""  # of a run that failed


class RunView(Record):
    """A run with the details that surfaces show."""

    run: Run
    last_seq: int
    stderr_tail: str  # of an attempt that failed
    question: Question | None  # the first open one
    belonging: RunBelonging


class ThreadView(Record):
    """Everything that a page needs to show a thread, from one consistent read."""

    summary: ThreadSummary
    turns: list[TurnView]
    more: bool  # there are earlier turns
    runs: list[RunView]
    questions: list[Question]
    version: int


class Lease(Record):
    """The exclusive right to use something, with its holder and its expiry."""

    key: str
    token: str  # each holder has a new one, so writes under an earlier holder's token can be refused
    owner: Owner
    run_id: str | None
    acquired_at: float
    heartbeat_at: float
    expires_at: float


class RunTotals(Record):
    """The sums over ended runs that have the same kind, agent, reason and outcome."""

    kind: str  # of their thread: it tells which host made the runs
    agent: str
    session_resumed: bool
    # Why the session was fresh, or why a resumed one was rewound or copied. Also None when a run ended before that.
    reason: str | None
    outcome: str | None
    runs: int
    fallbacks: int
    usage: Usage
    cost_usd: float
    rewound: int = 0  # how many of the runs continued a session from an earlier turn


def each(make: Callable[[Row], Made], rows: Iterable[Row]) -> list[Made]:
    """Makes a record of each row. Raises StoreError for a row that is not valid."""
    try:
        return [make(row) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"The database holds a row that is not valid ({error}).",
            kind="corrupt",
            hint="`clew doctor` checks the database; a newer Clew may have written it.",
        ) from error


def first(make: Callable[[Row], Made], row: Row | None) -> Made | None:
    return None if row is None else each(make, [row])[0]


def flat(record: Any, *, without: tuple[str, ...] = ()) -> Row:
    """A record's fields as column values: enums by value, flags as 0 or 1."""
    row: Row = {}
    cls: Any = type(record)
    for name in cls._fields:
        if name not in without:
            value = getattr(record, name)
            if isinstance(value, Enum):
                value = value.value
            row[name] = int(value) if isinstance(value, bool) else value
    return row


def from_columns(cls: Callable[..., Made], row: Row, **converted: Any) -> Made:
    """A record from the columns with the names of its fields; `converted` has the values that needed conversion.

    A row of an older export or archive may lack columns that were added since: their fields have their defaults.
    """
    names: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
    return cls(**{name: row[name] for name in names if name in row and name not in converted}, **converted)


def record_from(cls: type[R], body: Mapping[str, Any]) -> R:
    """A record from stored JSON. Fields that a later version added are left out."""
    return cls(**{name: value for name, value in body.items() if name in fields_of(cls)})


def owner_columns(owner: Owner | None) -> Row:
    """The columns for the process that a run or a round belongs to."""
    host, pid, started = (owner.host, owner.pid, owner.started) if owner else (None, None, None)
    return {"owner_host": host, "owner_pid": pid, "owner_started": started}


def process_columns(process: Owner) -> Row:
    """The columns for the process of a lease or a worker."""
    return {"host": process.host, "pid": process.pid, "pid_started": process.started}


def dumps(value: Any) -> str:
    """Stored JSON. It is not ASCII-only, because reading ASCII would join two lone surrogates into one character."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def thread_row(thread: Thread) -> Row:
    origin = thread.origin
    return {
        **flat(thread, without=("origin", "tool_rules")),
        "origin": None if origin is None else dumps(origin.as_dict()),
        "tool_rules": dumps([rule.as_dict() for rule in thread.tool_rules]),
    }


def thread_from(row: Row) -> Thread:
    return from_columns(
        Thread,
        row,
        permissions=Permissions(row["permissions"]),
        trust=Trust(row["trust"]),
        visibility=Visibility(row["visibility"]),
        origin=_origin_from(row.get("origin")),
        tool_rules=tuple(_tool_rule_from(each) for each in json.loads(row.get("tool_rules") or "[]")),
    )


def _tool_rule_from(body: Mapping[str, Any]) -> ToolRule:
    tool, kind, value, cwd = (_text(body[name]) for name in fields_of(ToolRule))
    return ToolRule(tool, RuleKind(kind), value, cwd)


def _origin_from(body: str | None) -> Origin | None:
    """None: the thread was not made from others, or an older version wrote the row."""
    if body is None:
        return None
    found = json.loads(body)
    of = tuple(SourceThread(ThreadId(_text(each["id"])), _text(each["name"])) for each in found["of"])
    return Origin(OriginKind(found["how"]), of, None if found["round"] is None else int(found["round"]))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a text was expected")
    return value


_ROLES = {role.value: role for role in Role}


def turn_from(row: Row) -> Turn:
    # The fields are listed one by one for speed: a history of ten thousand turns is read before every answer.
    return Turn(
        row["id"],
        _ROLES[row["role"]],
        row["text"],
        row["agent"],
        row["model"],
        bool(row["partial"]),
        row["message_id"],
        row["run_id"],
        row["revision"],
        row["created_at"],
        bool(row.get("outside")),  # rows in an export or archive of an older version have none
        images_from(row.get("images")),
        row.get("typed"),
    )


def turn_row(turn: Turn) -> Row:
    return {**flat(turn, without=("images",)), "images": _images_body(turn.images), **outline_row(turn)}


def outline_row(turn: Turn) -> Row:
    """The columns that say what a session absorbs of the turn. They count only while the turn has that revision."""
    return {
        "absorbed_as": str(Absorbed.of(turn)),
        "absorbed_revision": turn.revision,
        "transcript_chars": turn_chars(turn),
    }


def is_outlined(row: Row) -> bool:
    """False: an older Clew wrote or edited the turn."""
    return row.get("absorbed_as") is not None and row["absorbed_revision"] == row["revision"]


def absorbed_in(listed: str | None, count: int) -> tuple[Absorbed, ...] | None:
    """The list from one text, in which the database joined its entries. None: an id contains the separator."""
    entries = listed.split(SEPARATOR) if listed else []
    return Absorbed.from_texts(entries) if len(entries) == count else None


def images_from(body: str | None) -> tuple[Image, ...]:
    return () if body is None else tuple(map(image_from, json.loads(body)))


def _images_body(images: tuple[Image, ...]) -> str | None:
    return dumps([image.as_dict() for image in images]) if images else None


def stored_turn_from(row: Row) -> StoredTurn:
    return StoredTurn(turn_from(row), row["archived_at"], row["archived_why"])


def revision_from(row: Row) -> Revision:
    return from_columns(Revision, row)


def run_row(run: Run) -> Row:
    usual = DEFAULT_OPTIONS.as_dict()
    return {
        **flat(run, without=("owner", "usage", "asked", "images")),
        "images": _images_body(run.images),
        **flat(run.usage),
        **owner_columns(run.owner),
        "asked": dumps({name: value for name, value in run.asked.as_dict().items() if value != usual[name]}),
    }


def run_from(row: Row) -> Run:
    has_owner = row["owner_host"] is not None
    return from_columns(
        Run,
        row,
        status=RunStatus(row["status"]),
        owner=Owner(row["owner_host"], row["owner_pid"], row["owner_started"]) if has_owner else None,
        session_resumed=bool(row["session_resumed"]),
        fallback=bool(row["fallback"]),
        cancel_requested=bool(row["cancel_requested"]),
        outside=bool(row.get("outside")),
        usage=from_columns(Usage, row),
        images=images_from(row.get("images")),
        asked=DEFAULT_OPTIONS if row["asked"] == "{}" else record_from(RunOptions, json.loads(row["asked"])),
    )


def belonging_from(row: Row) -> RunBelonging:
    item = None
    if row["job_id"] is not None:
        item = HostItem("job", row["job_id"])
    elif row["review_id"] is not None:
        item = HostItem("review", row["review_id"])
    elif row["pair_id"] is not None:
        item = HostItem("pair", row["pair_id"], row["pair_name"])
    return RunBelonging(row["thread"], row["kind"], item)


def attempt_from(row: Row) -> Attempt:
    return from_columns(Attempt, row, resumed=bool(row["resumed"]))


def event_from(row: Row) -> StoredEvent:
    body = json.loads(row["body"])
    try:
        event = from_body(row["kind"], body)
    except TypeError:  # a later version added fields to this kind of event
        event = None
    return StoredEvent(row["seq"], row["at"], row["kind"], event, body)


def question_from(row: Row) -> Question:
    return from_columns(
        Question,
        row,
        input=json.loads(row["input"]),
        is_form=bool(row["is_form"]),
        state=QuestionState(row["state"]),
        allowed=None if row["allowed"] is None else bool(row["allowed"]),
        tool_rule=None if row.get("tool_rule") is None else _tool_rule_from(json.loads(row["tool_rule"])),
        reply=None if row["reply"] is None else _answer_from(json.loads(row["reply"])),
    )


def _answer_from(body: Mapping[str, Any]) -> Answer:
    answer = record_from(Answer, body)
    return answer.replace(scope=Scope(answer.scope))


def lease_from(row: Row) -> Lease:
    return from_columns(Lease, row, owner=Owner(row["host"], row["pid"], row["pid_started"]))


def stat_from(row: Row) -> StatRow:
    return from_columns(StatRow, row, session_resumed=bool(row["session_resumed"]), usage=from_columns(Usage, row))


def run_totals_from(row: Row) -> RunTotals:
    return from_columns(RunTotals, row, session_resumed=bool(row["session_resumed"]), usage=from_columns(Usage, row))


def pin_row(pin: Pin) -> Row:
    pending = pin.pending
    partly_absorbed, mark = pin.partly_absorbed, pin.mark
    return {
        **flat(pin, without=("runtime", "absorbed", "pending", "partly_absorbed", "mark")),
        "runtime": dumps(flat(pin.runtime)),
        "pending": None if pending is None else dumps(_pending_body(pending)),
        "held_back_turn_id": partly_absorbed.turn_id if partly_absorbed else None,
        "held_back_chars": partly_absorbed.chars if partly_absorbed else None,
        "held_back_digest": partly_absorbed.digest if partly_absorbed else None,
        "mark_size_bytes": mark.size_bytes if mark else None,
        "mark_last_entry": mark.last_entry if mark else None,
        "mark_digest": mark.digest if mark else None,
        "mark_stamp": mark.stamp if mark else None,
    }


def _pending_body(pending: Pending) -> Row:
    shown = [[known.turn_id, known.digest] for known in pending.shown]
    return {"user_uuid": pending.user_uuid, "shown": shown, "standing": pending.standing}


def _mark(row: Row) -> Mark:
    """Rows in an export or archive of an older version have no digest and no stamp."""
    return Mark(row["mark_size_bytes"], row["mark_last_entry"], row.get("mark_digest"), row.get("mark_stamp"))


def absorbed_from(row: Row) -> Absorbed:
    return Absorbed(row["turn_id"], row["digest"])


def pin_from(row: Row, absorbed: tuple[Absorbed, ...]) -> Pin:
    runtime = json.loads(row["runtime"])
    pending = None if row["pending"] is None else json.loads(row["pending"])
    shown = tuple(Absorbed(turn_id, digest) for turn_id, digest in pending["shown"]) if pending else ()
    has_held_back = row["held_back_turn_id"] is not None
    return from_columns(
        Pin,
        row,
        state=PinState(row["state"]),
        runtime=from_columns(Runtime, runtime, can_resume=bool(runtime["can_resume"])),
        absorbed=absorbed,
        borrowed_at=row.get("borrowed_at"),  # rows in an export or archive of an older version have none
        pending=Pending(pending["user_uuid"], shown, pending["standing"]) if pending else None,
        partly_absorbed=PartlyAbsorbed(row["held_back_turn_id"], row["held_back_chars"], row["held_back_digest"])
        if has_held_back
        else None,
        mark=_mark(row) if row.get("mark_size_bytes") is not None else None,
    )
