"""The bodies of requests, validated before anything else reads them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from clew.api.wire.shape import Permissions as Permissions
from clew.api.wire.shape import Trust as Trust
from clew.api.wire.shape import Visibility as Visibility


def _unicode(text: str) -> str:
    """JSON can contain a lone surrogate, which cannot be sent to an agent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("contains half a character (a lone surrogate)") from None
    return text


def _printable(text: str) -> str:
    """For values that are used on a command line and in a log."""
    if not text.isprintable():
        raise ValueError("contains characters that cannot be printed")
    return text


UnicodeText = Annotated[str, AfterValidator(_unicode)]
PrintableText = Annotated[str, AfterValidator(_printable)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$", description="Letters, digits, . - _")]
Prompt = Annotated[str, Field(min_length=1, description="Not blank, at most 10,000,000 characters")]
Instructions = Annotated[UnicodeText, Field(description="A text for the whole thread; empty: none from now on")]
Agent = Annotated[PrintableText, Field(min_length=1, max_length=100, description="The agent's name in GET /api/agents")]
Model = Annotated[PrintableText, Field(min_length=1, max_length=200, description="The agent's model")]
ModelOrDefault = Annotated[PrintableText, Field(max_length=200, description='The agent\'s model; "": its own default')]
Cwd = Annotated[
    UnicodeText,
    Field(min_length=1, max_length=4096, description="An existing directory, absolute or from ~"),
]
Id = Annotated[str, Field(min_length=1, max_length=200)]
EXPAND = Field(
    None, description="The user typed this: `@path` and `/command` in it stand for files, which are read now"
)
FORCE_FRESH = Field(None, description="Send the whole transcript to a new session")


class RequestModel(BaseModel):
    """The body of a request: no value is converted, and unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NewThread(RequestModel):
    cwd: Cwd
    name: Name | None = Field(None, description="Default: derived from the prompt")
    agent: Agent | None = None
    model: Model | None = None
    permissions: Permissions | None = Field(None, description="What the agent may do without asking")
    trust: Trust | None = Field(None, description="Whose agent settings, hooks and MCP servers are loaded")
    visibility: Visibility | None = Field(None, description="Whether agents see each other's turns")
    instructions: Instructions | None = None
    prompt: Prompt | None = Field(None, description="Only used for the name; ask with POST …/runs")


class ThreadChange(RequestModel):
    name: Name | None = None
    cwd: Cwd | None = None
    agent: Agent | None = None
    model: ModelOrDefault | None = None
    permissions: Permissions | None = None
    trust: Trust | None = None
    visibility: Visibility | None = None
    instructions: Instructions | None = None


class NewRun(RequestModel):
    prompt: Prompt
    agent: Agent | None = Field(None, description="For this turn, instead of the thread's")
    model: Model | None = None
    instructions: Instructions | None = None
    force_fresh_session: bool | None = FORCE_FRESH
    timeout_s: float | None = Field(None, gt=0, le=1e9, allow_inf_nan=False, description="How long the run may take")
    expand: bool | None = EXPAND
    known: UnicodeText | None = Field(
        None, description="A text in the prompt that the user did not type: what it mentions is not expanded"
    )


class RunChange(RequestModel):
    prompt: Prompt
    expand: bool | None = EXPAND


class TurnChange(RequestModel):
    text: Prompt
    expand: bool | None = EXPAND


class TurnReference(RequestModel):
    turn: Id = Field(description="The id of a turn")


class Compaction(RequestModel):
    focus: UnicodeText | None = Field(None, max_length=10_000, description="What the summary keeps above all")


class ForkRequest(RequestModel):
    round: int | None = Field(
        None, ge=1, le=1_000_000, description="Copy up to this prompt and its answer; or name a `turn`"
    )
    turn: Id | None = Field(None, description="Copy up to this turn; a prompt with its answer")
    name: Name | None = Field(None, description="Default: derived from the old thread's name")


class RetryRequest(TurnReference):
    agent: Agent | None = None
    model: Model | None = None
    force_fresh_session: bool | None = FORCE_FRESH


class ToolResult(RequestModel):
    question_id: Id
    allow: bool
    message: UnicodeText | None = Field(None, description="With a refusal: what the agent is told")
    answers: dict[UnicodeText, UnicodeText] | None = Field(
        None, description="Of a form: the answers, by the text of the question"
    )
