"""The bodies of requests that make threads from others."""

from __future__ import annotations

from pydantic import Field

from clew.server.models.requests import Agent, Cwd, Id, Model, Name, Permissions, RequestModel


class ReplayRequest(RequestModel):
    with_model: Model | None = Field(None, description="The model that answers; default: the agent's own")
    with_agent: Agent | None = Field(None, description="The agent that answers; default: the thread's")
    rounds: int | None = Field(None, ge=1, le=1_000_000, description="Only the first prompts; default: all")
    cwd: Cwd | None = Field(None, description="The work directory; default: the thread's")
    permissions: Permissions | None = Field(None, description="What the agent may do there; default: read-only")
    name: Name | None = Field(None, description="The new thread's name; if it exists, the replay continues in it")
    timeout_s: float | None = Field(None, gt=0, le=1e9, allow_inf_nan=False, description="How long one run may take")


class MergeRequest(RequestModel):
    a: Id = Field(description="A thread's id or its name")
    b: Id = Field(description="The other thread's id or its name")
    name: Name | None = Field(None, description="Default: derived from both names")
    agent: Agent | None = Field(None, description="The agent that answers in it; default: that of `a`")
    model: Model | None = Field(None, description="Default: that of `a`, or that of `b` if it has the agent")
    cwd: Cwd | None = Field(None, description="The work directory; default: that of `a`")
