"""The models of responses, for the OpenAPI document. bodies.py builds the responses as plain dicts, and the tests check
every response against these models.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from clew.server.models.requests import Permissions, Trust, Visibility

Time = Annotated[str, Field(description="RFC 3339 in UTC with milliseconds", examples=["2026-01-31T12:00:00.000Z"])]
Status = Literal["queued", "running", "waiting", "answered", "cancelled", "timed_out", "failed", "interrupted"]


class ResponseModel(BaseModel):
    """The body of a response: every field is present."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class LiveRun(ResponseModel):
    run_id: str
    status: Status


class SourceThread(ResponseModel):
    id: str
    name: str = Field(description="Its name at that time")


class Origin(ResponseModel):
    """The threads that a thread was created from."""

    how: Literal["fork", "replay", "merge"]
    of: list[SourceThread]
    round: int | None = Field(description="The last round that was copied; null: all of them")


class Thread(ResponseModel):
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
    origin: Origin | None = Field(description="Null: it was not made from another thread")
    created_at: Time
    updated_at: Time
    version: int = Field(description="The version of the store at its last change")
    turns: int = Field(description="The number of visible turns")
    cost_usd: float = Field(description="The cost of all its runs")
    live: LiveRun | None = Field(description="The run that is running or waiting, else the first queued one")
    questions: int = Field(description="The number of open questions")
    last_text: str = Field(description="The beginning of its last turn")


class ThreadPage(ResponseModel):
    items: list[Thread]
    total: int = Field(description="The number of items on all pages")
    version: int


class DeletedThread(ResponseModel):
    name: str
    others: list[str] = Field(description="Threads that are deleted too: the other one of a pair")
    turns: int = Field(description="The number of visible turns")
    archived_turns: int = Field(description="Turns that were truncated or retried; the archive has them too")
    archive: str | None = Field(description="The archive's file; null: a dry run")


class Usage(ResponseModel):
    input_tokens: int = Field(description="Without cached tokens")
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int


class RunError(ResponseModel):
    code: str | None
    message: str
    hint: str | None


class RunSummary(ResponseModel):
    """The part of a run that is shown beside a turn."""

    id: str
    status: Status
    session_resumed: bool
    reason: str | None = Field(description="Why its session was fresh; null when resumed")
    fallback: bool
    error: RunError | None = Field(description="Null if the run was answered, or has not ended")
    resets_at: Time | None = Field(description="When the usage limit that ended it resets, if the agent said so")
    stderr_tail: str = Field(description='The end of the agent\'s stderr; "" unless it failed')
    usage: Usage
    cost_usd: float = Field(description="As the agent reports it; 0 if the agent reports no cost")
    estimate_usd: float | None = Field(description="An estimate of what the whole transcript would have cost")
    prompt_chars: int
    transcript_chars: int
    started_at: Time | None
    ended_at: Time | None


class Turn(ResponseModel):
    id: str
    position: int
    role: Literal["user", "assistant"]
    text: str
    agent: str | None
    model: str | None
    partial: bool = Field(description="The answer was cut off")
    revision: int = Field(description="The number of edits")
    created_at: Time
    run_id: str | None
    run: RunSummary | None = Field(
        description="The run that gave this answer; for a user's turn, the run that ended without an answer"
    )
    steps: int = Field(description="The number of tools that the run started")


class Question(ResponseModel):
    """A question of an agent that waits for a person."""

    id: str
    run_id: str
    thread_id: str
    tool: str
    input: dict[str, Any]
    is_form: bool = Field(description="It asks for answers, not for permission")
    state: Literal["open", "answered", "withdrawn"]
    asked_at: Time
    answered_at: Time | None
    allowed: bool | None
    live: bool = Field(description="False: its run has ended, and a message to the resumed session carries the answer")


class AnsweredQuestion(Question):
    follow_up_run_id: str | None = Field(description="The run that carries the answer, if the run that asked has ended")


class HostItem(ResponseModel):
    """A job, a review or a pair."""

    kind: Literal["job", "review", "pair"]
    id: str
    name: str | None = Field(description="Of a pair")


class Run(RunSummary):
    """One try to get an agent's answer to a prompt."""

    thread_id: str
    kind: str = Field(description="Of its thread: chat, job, review, hook or pair")
    belongs_to: HostItem | None = Field(description="The job, review or pair that it is part of, and whose cost it is")
    agent: str
    model: str | None
    prompt: str
    prompt_turn_id: str
    answer_turn_id: str | None
    session_id: str | None
    outcome: str | None
    question: Question | None = Field(description="The first open question")
    held: bool = Field(description="Queued; it starts only when it is sent, because the run before it was stopped")
    cancel_requested: bool
    not_before: Time | None = Field(
        description="The earliest start of a run that is queued until a usage limit resets; else null"
    )
    last_seq: int = Field(description="The number of its newest event")
    created_at: Time


class RunList(ResponseModel):
    items: list[Run]


class ThreadView(ResponseModel):
    """Everything that a page needs to show a thread, read in one transaction."""

    thread: Thread
    turns: list[Turn] = Field(description="Oldest first")
    more: bool = Field(description="Whether there are earlier turns")
    runs: list[Run]
    questions: list[Question]
    version: int


class ChangePreview(ResponseModel):
    edit: str
    truncate: str
    retry: str | None = Field(description="Null for an agent's turn, which cannot be retried")


class Forecast(ResponseModel):
    """An estimate of what a turn's first request reads, without the answer."""

    cached_tokens: int = Field(description="Read from the cache")
    new_tokens: int = Field(description="Not read from the cache")
    cost_usd: float | None = Field(description="Null: no price is known")


class Explanation(ResponseModel):
    """What a prompt would do: the decision, the exact prompt, and estimates of the price."""

    thread: str
    new_thread: bool
    agent: str
    model: str | None = Field(description="Null: the agent's default, which is not known before its first run")
    resumes: bool
    reason: str | None = Field(description="Why it starts a fresh session; null: it resumes one")
    words: str = Field(description="The decision as a sentence")
    session_id: str | None = Field(description="The session that is resumed; null: a fresh one")
    copies: bool = Field(description="The session is another thread's: it is resumed in a copy")
    prompt: str | None = Field(description="The exact text that the agent would be sent; null: no prompt was given")
    prompt_chars: int
    turns_sent: int = Field(description="Turns in the prompt, as catch-up or as the transcript")
    turns_left_out: int = Field(description="Earlier turns that did not fit")
    standing: str | None = Field(
        description="`sent`, `replaced`, `removed` or `known`; null: there are no instructions"
    )
    transcript_chars: int = Field(description="The length of what a fresh session would be sent")
    held_tokens: int | None = Field(description="What the session holds; null: a fresh one")
    held_is_measured: bool
    is_cached: bool = Field(description="What the session holds is expected in the cache")
    expected: Forecast
    with_transcript: Forecast | None = Field(description="The transcript instead; null: it is what would be sent")
    waits_for: str | None = Field(description="The run for which it would wait; the decision is made when it starts")
    unfinished: str | None = Field(description="A run that a crash left unfinished, which is ended first")


class SessionPreview(Explanation):
    """Whether the next turn resumes a session, and what it would send and cost."""

    after_change: ChangePreview | None


class ArchivedTurns(ResponseModel):
    archived: int


class Event(ResponseModel):
    seq: int
    at: Time
    kind: str
    body: dict[str, Any]


class EventList(ResponseModel):
    items: list[Event]


class AgentHealth(ResponseModel):
    name: str
    path: str | None
    source: str | None
    version: str | None
    product: str | None
    resumes: bool
    asks: bool
    problem: str | None = Field(description="Null: it can be used")
    hint: str | None
    default_model: str | None
    models: list[str]


class AgentList(ResponseModel):
    items: list[AgentHealth]


class Day(ResponseModel):
    day: str
    runs: int
    resumed: int
    cost_usd: float
    transcript_usd: float = Field(description="As in the total, which is the sum of the days")
    plain_resume_usd: float = Field(description="As in the total, which is the sum of the days")
    shown_tokens: int
    output_tokens: int


class RunFigures(ResponseModel):
    run_id: str
    at: Time
    agent: str
    model: str | None
    session_resumed: bool
    reason: str | None
    shown_tokens: int
    cache_read_tokens: int
    new_tokens: int = Field(description="Shown to the model and not read from the cache")
    transcript_tokens: int = Field(description="An estimate of what the whole transcript would have shown")
    transcript_new_tokens: int = Field(
        description="An estimate of its part that would not be cached; without an estimate, `new_tokens`"
    )
    cost_usd: float
    estimate_usd: float | None
    plain_resume_usd: float | None


StatDimension = Literal["kind", "project", "agent", "model", "day"]


class StatGroup(ResponseModel):
    """The figures of the runs that have one name in common."""

    name: str | None = Field(description="Null: the model is not known")
    runs: int
    decided: int = Field(description="Runs for which it was decided whether to resume; resume_rate is about them")
    resumed: int
    resume_rate: float | None
    usage: Usage
    cost_usd: float
    unpriced_runs: int = Field(description="Runs that used tokens and have no reported price: they are not in cost_usd")
    transcript_usd: float = Field(description="As in the total, which is the sum of the groups")
    saved_usd: float
    saved_share: float | None
    estimated_runs: int = Field(description="Runs that have an estimate for transcript_usd")


class Savings(ResponseModel):
    """What resuming saved."""

    runs: int
    resumed: int
    resume_rate: float | None
    fresh: dict[str, int] = Field(description="The number of fresh runs, by reason")
    outcomes: dict[str, int]
    fallbacks: int
    usage: Usage
    cost_usd: float
    unpriced_runs: int = Field(description="Runs that used tokens and have no reported price: they are not in cost_usd")
    transcript_usd: float = Field(
        description="An estimate of what the runs would have cost with transcripts; a run without one counts as paid"
    )
    saved_usd: float
    saved_share: float | None
    estimated_runs: int = Field(description="Runs that have this estimate")
    plain_resume_usd: float = Field(
        description="An estimate of the cost with a plain --resume every turn; a run without one counts as paid"
    )
    plain_resume_runs: int = Field(description="Runs that have this estimate")
    by: StatDimension | None = Field(description="As in the request")
    groups: list[StatGroup] | None = Field(
        description="The same runs by what `by` says, the dearest first; days in order. Null without `by`"
    )
    by_day: list[Day]
    by_turn: list[RunFigures]


class Settings(ResponseModel):
    """The settings that a new thread gets."""

    agent: str
    model: str | None
    permissions: Permissions
    visibility: Visibility
    roots: list[str] = Field(description="Work directories must be below these; empty: they may be anywhere")
    home: str = Field(description="The user's home directory")
    cwd: str = Field(description="A new thread's directory: where the daemon was started, or a recent thread's")
    version: str


class DirectoryList(ResponseModel):
    path: str
    parent: str | None
    items: list[str]


class Health(ResponseModel):
    status: Literal["ok"]
    busy: bool = Field(description="The store needs more than three seconds to answer")


class FieldError(ResponseModel):
    where: str
    what: str


class Problem(ResponseModel):
    """RFC 9457"""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str | None
    errors: list[FieldError] | None = Field(None, description="With 422: what is wrong, by field")
    run_id: str | None = Field(None, description="With 409: the live run")

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)
