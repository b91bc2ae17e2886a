"""The bodies of requests about the agents' own sessions."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from clew.server.models.requests import Agent, Cwd, PrintableText, RequestModel

MAX_ADOPTED = 1_000  # ids in one request

SessionId = Annotated[PrintableText, Field(min_length=1, max_length=200)]


class AdoptRequest(RequestModel):
    ids: list[SessionId] | None = Field(
        None, max_length=MAX_ADOPTED, description="Ids of sessions, or unambiguous beginnings of ids"
    )
    all: bool | None = Field(
        None, description="All sessions that belong to no thread, or that continued outside Clew since"
    )
    agent: Agent | None = Field(None, description="Only sessions of this agent")
    project: Cwd | None = Field(None, description="With `all`: only sessions of this directory and of those below it")
    dry_run: bool | None = Field(None, description="Only report what would be adopted")
