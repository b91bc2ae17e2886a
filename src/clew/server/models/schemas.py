"""What goes out, for the OpenAPI document. bodies.py builds it as plain objects; these models describe it, and the
tests hold every response against them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from clew.server.requests import Permissions, Trust, Visibility

Time = Annotated[str, Field(description="RFC 3339 in UTC with milliseconds", examples=["2026-01-31T12:00:00.000Z"])]
Status = Literal["queued", "running", "waiting", "answered", "cancelled", "timed_out", "failed", "interrupted"]


class Made(BaseModel):
    """What goes out: every field is there."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class Live(Made):
    run_id: str
    status: Status


class Source(Made):
    id: str
    name: str = Field(description="As it was called then")


class Origin(Made):
    """What a thread was made of."""

    how: Literal["fork", "replay", "merge"]
    of: list[Source]
    round: int | None = Field(description="The last one that it took along; null: none was named, so all of them")


class Thread(Made):
    """A conversation that Clew keeps."""

    id: str
    name: str
    cwd: str
    agent: str
    model: str | None
    permissions: Permissions
    trust: Trust
    visibility: Visibility
    instructions: str | None
    kind: str
    origin: Origin | None = Field(description="Null: it was begun by itself")
    created_at: Time
    updated_at: Time
    version: int = Field(description="Of its last change")
    turns: int = Field(description="How many stand")
    cost_usd: float = Field(description="Of all its runs")
    live: Live | None = Field(description="The run that is running or waiting, else the first queued one")
    questions: int = Field(description="How many are open")
    last_text: str = Field(description="The beginning of what was said last")


class ThreadPage(Made):
    items: list[Thread]
    total: int = Field(description="Of all pages")
    version: int


class Deleted(Made):
    name: str
    others: list[str] = Field(description="Threads that go with it: the other one of a pair")
    turns: int = Field(description="How many stood, as of the thread")
    archived_turns: int = Field(description="How many had been truncated or asked again; the archive keeps them too")
    archive: str | None = Field(description="The file that keeps it; null: a dry run")


class Usage(Made):
    input_tokens: int = Field(description="The uncached ones")
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int


class RunError(Made):
    code: str | None
    message: str
    hint: str | None


class RunNote(Made):
    """The part of a run that a badge needs."""

    id: str
    status: Status
    session_resumed: bool
    reason: str | None = Field(description="Why it was fresh; null when resumed")
    fallback: bool
    error: RunError | None = Field(description="Null when it was answered, or is not over")
    resets_at: Time | None = Field(description="When the usage limit resets that ended it, if the agent said so")
    stderr_tail: str = Field(description='The agent\'s last words on stderr; "" unless it failed')
    usage: Usage
    cost_usd: float = Field(description="As the agent reports it; 0 with tokens used: it reports none")
    estimate_usd: float | None = Field(description="What the whole transcript would have cost: an estimate")
    prompt_chars: int
    transcript_chars: int
    started_at: Time | None
    ended_at: Time | None


class Turn(Made):
    id: str
    position: int
    role: Literal["user", "assistant"]
    text: str
    agent: str | None
    model: str | None
    partial: bool = Field(description="The answer was cut off; what was said is kept")
    revision: int = Field(description="How often it was edited")
    created_at: Time
    run_id: str | None
    run: RunNote | None = Field(description="Whose answer it is; on a user's turn the run that ended without one")
    steps: int = Field(description="How many tools the run started")


class Question(Made):
    """The agent waits for a person."""

    id: str
    run_id: str
    thread_id: str
    tool: str
    input: dict[str, Any]
    is_form: bool = Field(description="It wants answers, not a permission")
    state: Literal["open", "answered", "withdrawn"]
    asked_at: Time
    answered_at: Time | None
    allowed: bool | None
    live: bool = Field(description="False: its run is over, and the answer goes to the resumed session as a message")


class AnsweredQuestion(Question):
    follow_up_run_id: str | None = Field(description="The run that carries the answer, when the one that asked is over")


class Run(RunNote):
    """One try to get an agent's answer to a prompt."""

    thread_id: str
    agent: str
    model: str | None
    prompt: str
    prompt_turn_id: str
    answer_turn_id: str | None
    session_id: str | None
    outcome: str | None
    question: Question | None = Field(description="The first that is open")
    held: bool = Field(description="Queued, and the run before it was stopped: it waits until it is sent")
    cancel_requested: bool
    not_before: Time | None = Field(description="Queued until a usage limit resets: when it starts; else null")
    last_seq: int = Field(description="Of its newest event")
    created_at: Time


class RunList(Made):
    items: list[Run]


class View(Made):
    """All that a page needs to show a thread, in one moment's state."""

    thread: Thread
    turns: list[Turn] = Field(description="Oldest first")
    more: bool = Field(description="There are earlier ones")
    runs: list[Run]
    questions: list[Question]
    version: int


class AfterChange(Made):
    edit: str
    truncate: str
    retry: str | None = Field(description="Null for an agent's turn: it cannot be asked again")


class Session(Made):
    """Does the next turn resume?"""

    resumes: bool
    reason: str | None
    words: str
    after_change: AfterChange | None


class Archived(Made):
    archived: int


class Event(Made):
    seq: int
    at: Time
    kind: str
    body: dict[str, Any]


class EventList(Made):
    items: list[Event]


class AgentHealth(Made):
    name: str
    path: str | None
    source: str | None
    version: str | None
    product: str | None
    resumes: bool
    asks: bool
    problem: str | None = Field(description="Null when it is well")
    hint: str | None
    default_model: str | None
    models: list[str]


class AgentList(Made):
    items: list[AgentHealth]


class Day(Made):
    day: str
    runs: int
    resumed: int
    cost_usd: float
    transcript_usd: float = Field(description="As in the total, which is the sum of the days")
    plain_resume_usd: float = Field(description="As in the total, which is the sum of the days")
    shown_tokens: int
    output_tokens: int


class RunFigures(Made):
    run_id: str
    at: Time
    agent: str
    model: str | None
    session_resumed: bool
    reason: str | None
    shown_tokens: int
    cache_read_tokens: int
    new_tokens: int = Field(description="Shown, and not read from the cache")
    transcript_tokens: int = Field(description="What the whole transcript would have shown: an estimate")
    transcript_new_tokens: int = Field(
        description="And how much of it not from the cache: an estimate, or without one what was new"
    )
    cost_usd: float
    estimate_usd: float | None
    plain_resume_usd: float | None


class Savings(Made):
    """What resuming came to."""

    runs: int
    resumed: int
    resume_rate: float | None
    fresh: dict[str, int] = Field(description="By reason")
    outcomes: dict[str, int]
    fallbacks: int
    usage: Usage
    cost_usd: float
    unpriced_runs: int = Field(description="Used tokens, and the agent reported no price: not in cost_usd")
    transcript_usd: float = Field(
        description="What the runs would have cost with transcripts, an estimate: one without it counts as paid"
    )
    saved_usd: float
    saved_share: float | None
    estimated_runs: int = Field(description="Runs that have that estimate")
    plain_resume_usd: float = Field(
        description="What a plain --resume every turn would have cost, an estimate: a run without it counts as paid"
    )
    plain_resume_runs: int = Field(description="Runs that have that estimate")
    by_day: list[Day]
    by_turn: list[RunFigures]


class Settings(Made):
    """What a new thread gets."""

    agent: str
    model: str | None
    permissions: Permissions
    visibility: Visibility
    roots: list[str] = Field(description="The only places for work directories; empty: anywhere")
    home: str = Field(description="The user's home directory")
    cwd: str = Field(description="Where a new thread begins: where the daemon was started, or a recent thread was")
    version: str


class Dirs(Made):
    path: str
    parent: str | None
    items: list[str]


class Health(Made):
    status: Literal["ok"]
    busy: bool = Field(description="The store has more to do than it answers within three seconds")


class Fault(Made):
    where: str
    what: str


class Problem(Made):
    """RFC 9457"""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str | None
    errors: list[Fault] | None = Field(None, description="Of 422: what is wrong where")
    run_id: str | None = Field(None, description="Of 409: the run that is going on")

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)
