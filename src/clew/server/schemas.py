"""What goes in and out, for the OpenAPI document and for checking what comes in.

What goes out is built by bodies.py as plain objects; these models describe it, and the tests hold every response
against them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Time = Annotated[str, Field(description="RFC 3339 in UTC with milliseconds", examples=["2026-01-31T12:00:00.000Z"])]
Permissions = Literal["ask", "edits", "read-only", "all"]
Trust = Literal["user", "project"]
Visibility = Literal["shared", "own"]
Status = Literal["queued", "running", "waiting", "answered", "cancelled", "timed_out", "failed", "interrupted"]

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$", description="Letters, digits, . - _")]
Prompt = Annotated[str, Field(min_length=1, description="What is asked; not blank, at most 10,000,000 characters")]
Instructions = Annotated[str, Field(description="Text that holds for the whole thread; empty: none from now on")]
Agent = Annotated[str, Field(min_length=1, max_length=100, description="Who answers, as GET /api/agents names it")]
Model = Annotated[str, Field(min_length=1, max_length=200, description="The agent's model")]
Cwd = Annotated[
    str,
    Field(min_length=1, max_length=4096, description="The work directory: an existing one, absolute or from ~"),
]
Identity = Annotated[str, Field(min_length=1, max_length=200)]


class Given(BaseModel):
    """What comes in: nothing is guessed, and nothing is let through that has no meaning."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Made(BaseModel):
    """What goes out: every field is there."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class NewThread(Given):
    cwd: Cwd
    name: Name | None = Field(None, description="Left out: made from the prompt")
    agent: Agent | None = None
    model: Model | None = None
    permissions: Permissions | None = Field(None, description="What the agent may do without asking")
    trust: Trust | None = Field(None, description="Whose agent settings, hooks and MCP servers may load")
    visibility: Visibility | None = Field(None, description="What agents see of each other's turns")
    instructions: Instructions | None = None
    prompt: Prompt | None = Field(None, description="Only names the thread; ask with POST …/runs")


class ThreadChange(Given):
    name: Name | None = None
    cwd: Cwd | None = None
    agent: Agent | None = None
    model: Model | None = None
    permissions: Permissions | None = None
    trust: Trust | None = None
    visibility: Visibility | None = None
    instructions: Instructions | None = None


class NewRun(Given):
    prompt: Prompt
    agent: Agent | None = Field(None, description="Another one than the thread's, for this turn")
    model: Model | None = None
    instructions: Instructions | None = None
    force_fresh_session: bool | None = Field(None, description="Send the whole transcript to a new session")
    timeout_s: float | None = Field(None, gt=0, le=1e9, allow_inf_nan=False, description="Wall clock of the run")


class RunChange(Given):
    prompt: Prompt


class TurnChange(Given):
    text: Prompt


class TurnNamed(Given):
    turn: Identity = Field(description="The id of a turn")


class RetryAsked(TurnNamed):
    agent: Agent | None = None
    model: Model | None = None


class ToolResult(Given):
    question_id: Identity
    allow: bool
    message: str | None = Field(None, description="With a refusal: a sentence that the agent can act on")
    answers: dict[str, str] | None = Field(None, description="Of a form: the answer to each question, by its text")


class Live(Made):
    run_id: str
    status: Status


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
    turns: int
    archive: str | None = Field(description="The file that keeps it; null: a dry run")


class Usage(Made):
    input_tokens: int = Field(description="The uncached ones")
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int


class RunNote(Made):
    """The part of a run that a badge needs."""

    id: str
    status: Status
    session_resumed: bool
    reason: str | None = Field(description="Why it was fresh; null when resumed")
    fallback: bool
    usage: Usage
    cost_usd: float
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
    run: RunNote | None = Field(description="On an assistant's turn")
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


class RunError(Made):
    code: str | None
    message: str
    hint: str | None


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
    error: RunError | None
    stderr_tail: str
    question: Question | None = Field(description="The first that is open")
    cancel_requested: bool
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
    transcript_usd: float
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
    transcript_tokens: int = Field(description="An estimate")
    cost_usd: float
    estimate_usd: float | None


class Stats(Made):
    runs: int
    resumed: int
    resume_rate: float | None
    fresh: dict[str, int] = Field(description="By reason")
    outcomes: dict[str, int]
    fallbacks: int
    usage: Usage
    cost_usd: float
    transcript_usd: float = Field(description="What the runs that have an estimate would have cost: an estimate")
    saved_usd: float
    saved_share: float | None
    estimated_runs: int
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
    version: str


class Dirs(Made):
    path: str
    parent: str | None
    items: list[str]


class Health(Made):
    status: Literal["ok"]


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
