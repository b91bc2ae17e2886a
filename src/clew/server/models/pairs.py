"""The bodies of requests about pairs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from clew.server.models.requests import EXPAND, Agent, Cwd, Model, Name, Prompt, RequestModel, UnicodeText

WorkerPermissions = Literal["edits", "all", "read-only"]
Rounds = Annotated[int, Field(ge=1, le=10_000)]
Seconds = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False, description="How long each run may take")]


class PairSettings(RequestModel):
    """What a new pair and a resumed one are given; what is left out is the setting, or what is stored."""

    name: Name | None = None
    agent: Agent | None = Field(None, description="The agent of both parts")
    instructor_model: Model | None = None
    worker_model: Model | None = None
    thinking: bool | None = Field(None, description="Have the instructor reason at length before it answers")
    permissions: WorkerPermissions | None = Field(None, description="What the worker may do without asking")
    timeout_s: Seconds | None = None
    auto_save: bool | None = Field(None, description="false: write no state file into the directory")
    wait_for_limit: bool | None = Field(None, description="false: stop at the account's usage limit")


class NewPair(PairSettings):
    task: Prompt
    expand: bool | None = EXPAND
    cwd: Cwd
    rounds: Rounds | None = Field(None, description="At most this many rounds")


class PairResume(PairSettings):
    message: Annotated[UnicodeText, Field(max_length=1_000_000)] | None = Field(
        None, description="A message to the instructor"
    )
    expand: bool | None = EXPAND
    cwd: Cwd | None = Field(None, description="The pair moves to this directory")
    rounds: Rounds | None = Field(None, description="This many more rounds")
    fresh_session: bool | None = Field(None, description="Send the whole transcript to new sessions")
    fork_at_round: Rounds | None = Field(None, description="Continue a copy that ends with this round, called `name`")


class PairRename(RequestModel):
    name: Name


class PairFork(RequestModel):
    round: Rounds | None = Field(None, description="Copy up to this round; default: the last that has ended")
    name: Name | None = None


class PairReplayRequest(RequestModel):
    with_model: Model | None = Field(None, description="The model of both parts")
    with_instructor_model: Model | None = None
    with_worker_model: Model | None = None
    with_agent: Agent | None = None
    rounds: Rounds | None = Field(None, description="At most this many")
    cwd: Cwd | None = None
    permissions: WorkerPermissions | None = Field(None, description="Of the worker; default: read-only")
    name: Name | None = Field(None, description="The name of the new pair; if it is a replay of this one, it continues")
