"""The bodies of reviews. `clew.api.reviews` builds the responses, and the tests check them against these models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from clew.server.models.requests import Agent, Cwd, Id, Model, PrintableText, RequestModel, UnicodeText
from clew.server.models.schemas import ResponseModel, RunError, Savings, Time, Usage

Scope = Literal["all", "staged", "unstaged"]
RoundStatus = Literal["running", "done", "failed"]
Severity = Literal["critical", "high", "medium", "low", "info"]
State = Literal["open", "fixed", "withdrawn"]

PATHS_BYTES = 100_000  # of all paths together, because they are passed on a command line


def _file_name(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character")
    return text


def _few(paths: list[str]) -> list[str]:
    if sum(len(path.encode()) for path in paths) > PATHS_BYTES:
        raise ValueError("are too many: name a folder that holds them")
    return paths


FileName = Annotated[UnicodeText, AfterValidator(_file_name), Field(min_length=1, max_length=4096)]
Paths = Annotated[
    list[FileName], AfterValidator(_few), Field(max_length=1000, description="Files and folders, from cwd")
]
Base = Annotated[
    PrintableText, Field(min_length=1, max_length=500, description="A branch, tag or commit to compare with")
]
Message = Annotated[UnicodeText, Field(max_length=100_000, description="The author's reply to the earlier findings")]
Focus = Annotated[UnicodeText, Field(max_length=20_000, description="What the reviewer should look at first")]
Seconds = Annotated[
    float, Field(gt=0, le=1e9, allow_inf_nan=False, description="How long each run of the round may take")
]
Resume = Annotated[
    bool, Field(description="false: use a fresh session and send it all earlier rounds. Default: the setting")
]


class NewRound(RequestModel):
    message: Message | None = None
    agent: Agent | None = Field(None, description="For this round, instead of the review's agent")
    model: Model | None = Field(None, description="Instead of the review's model; each model has its own session")
    resume: Resume | None = None
    timeout_s: Seconds | None = None


class ReviewSpec(NewRound):
    cwd: Cwd | None = Field(None, description="A directory in the repository; required without previous_review_id")
    paths: Paths | None = None
    base: Base | None = None
    scope: Scope | None = Field(None, description="Which changes to review; default: all that are not committed")
    focus: Focus | None = None
    previous_review_id: Id | None = Field(None, description="Start the next round of this review instead of a new one")


class Finding(ResponseModel):
    id: str
    severity: Severity
    file: str | None
    line: int | None = Field(description="The line in the file as it was in that round")
    title: str
    detail: str
    suggestion: str
    round: int
    state: State
    state_round: int = Field(description="The round that gave it this state")
    note: str = Field(description="Why it has this state")


class Verdict(ResponseModel):
    """What a later round says about an earlier finding."""

    id: str
    state: State
    note: str


class FileChange(ResponseModel):
    path: str
    status: str = Field(description="A added, M modified, D deleted, R renamed, …")
    added: int | None = Field(description="The number of lines; null for a binary file")
    removed: int | None
    old_path: str | None
    left_out: str | None = Field(description="Why its text was not shown to the reviewer")


class Round(ResponseModel):
    """One review of the changes, or of what has changed since the round before."""

    id: str = Field(description="The review's id")
    round: int
    status: RoundStatus
    agent: str
    model: str | None
    session_resumed: bool
    reason: str | None = Field(description="Why its session was fresh; null when resumed, or not known yet")
    fallback: bool
    summary: str | None
    findings: list[Finding] = Field(description="What this round found, in the state of this round")
    earlier: list[Verdict] = Field(description="What it says about earlier findings")
    message: str
    base_commit: str | None = Field(description="The commit that the files were compared with; null: the index")
    head_commit: str | None
    files: list[FileChange]
    changed_since: list[str] = Field(description="Files that changed since the round before")
    run_id: str | None = Field(description="Its newest run: GET /api/runs/{run}/events")
    runs: int = Field(description="2: the first answer did not have the required form, so the agent was asked again")
    usage: Usage
    cost_usd: float
    prompt_chars: int
    transcript_chars: int
    error: RunError | None
    started_at: Time
    ended_at: Time | None


class ReviewNote(ResponseModel):
    """A review in a list."""

    id: str
    status: RoundStatus | None = Field(description="The status of its last round; null: it has none")
    round: int = Field(description="The number of its last round")
    cwd: str = Field(description="The repository's work tree")
    scope: Scope
    base: str | None
    paths: list[str]
    focus: str
    agent: str
    model: str | None
    thread_id: str = Field(description="Its conversation")
    thread: str
    imported_from: str | None
    open: int = Field(description="How many findings are open")
    open_by_severity: dict[Severity, int]
    cost_usd: float
    created_at: Time


class Review(ReviewNote):
    """A review with its findings and rounds."""

    sessions: dict[str, str] = Field(description="By model: the session that its next round would resume")
    findings: list[Finding] = Field(description="The findings of all rounds, each in its current state")
    rounds: list[Round]


class ReviewPage(ResponseModel):
    items: list[ReviewNote]
    total: int = Field(description="The number of items on all pages")
    version: int


class AgeAtExpiry(ResponseModel):
    count: int
    median: float | None
    most: float | None


class ModelFigures(ResponseModel):
    follow_ups: int
    resumed: int
    resume_rate: float


class PathFigures(ResponseModel):
    rounds: int
    usage: Usage
    units_per_round: float | None = Field(description="Tokens weighted by price")
    tokens_per_round: float | None = Field(description="Tokens that the model read, cached or not")
    cost_usd_per_round: float | None
    seconds_per_round: float | None


class Measures(ResponseModel):
    """Figures of the rounds that have ended."""

    reviews: int
    rounds: int
    imported: int = Field(description="Rounds imported from an older tool; only rounds_per_review counts them")
    follow_ups: int = Field(description="Rounds after the first, which could resume a session")
    resumed: int
    resume_rate: float | None
    misses: dict[str, int] = Field(description="Follow-ups that began fresh, by reason")
    fallbacks: int
    fallback_share: float | None
    failed: int
    age_at_expiry_s: AgeAtExpiry
    rounds_per_review: dict[str, int]
    by_model: dict[str, ModelFigures]
    with_resume: PathFigures
    without_resume: PathFigures


class StatsWithReviews(Savings):
    reviews: Measures
