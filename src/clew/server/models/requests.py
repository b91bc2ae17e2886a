"""What comes in, checked before anything else looks at it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Permissions = Literal["ask", "edits", "read-only", "all"]
Trust = Literal["user", "project"]
Visibility = Literal["shared", "own"]


def _whole(text: str) -> str:
    """JSON can hold half a character; no agent can be told one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half a character") from None
    return text


def _printable(text: str) -> str:
    """It goes on a command line and into a log."""
    if not text.isprintable():
        raise ValueError("holds characters that cannot be printed")
    return text


Text = Annotated[str, AfterValidator(_whole)]
Word = Annotated[str, AfterValidator(_printable)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$", description="Letters, digits, . - _")]
Prompt = Annotated[str, Field(min_length=1, description="What is asked; not blank, at most 10,000,000 characters")]
Instructions = Annotated[Text, Field(description="Text that holds for the whole thread; empty: none from now on")]
Agent = Annotated[Word, Field(min_length=1, max_length=100, description="Who answers, as GET /api/agents names it")]
Model = Annotated[Word, Field(min_length=1, max_length=200, description="The agent's model")]
ModelOrDefault = Annotated[Word, Field(max_length=200, description='The agent\'s model; "": its own default')]
Cwd = Annotated[
    Text,
    Field(min_length=1, max_length=4096, description="The work directory: an existing one, absolute or from ~"),
]
Identity = Annotated[str, Field(min_length=1, max_length=200)]


class Given(BaseModel):
    """What comes in: nothing is guessed, and nothing is let through that has no meaning."""

    model_config = ConfigDict(extra="forbid", strict=True)


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
    model: ModelOrDefault | None = None
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


class ForkAsked(Given):
    round: int | None = Field(None, ge=1, le=1_000_000, description="Up to this prompt and its answer; or a `turn`")
    turn: Identity | None = Field(None, description="Up to this turn; of a prompt, with its answer")
    name: Name | None = Field(None, description="Left out: made from the old one's")


class RetryAsked(TurnNamed):
    agent: Agent | None = None
    model: Model | None = None


class ToolResult(Given):
    question_id: Identity
    allow: bool
    message: Text | None = Field(None, description="With a refusal: a sentence that the agent can act on")
    answers: dict[Text, Text] | None = Field(None, description="Of a form: the answer to each question, by its text")
