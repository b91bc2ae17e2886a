"""The bodies of requests about hooks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from clew.server.models.requests import PrintableText, RequestModel


class HookReset(RequestModel):
    agent: Annotated[PrintableText, Field(min_length=1, max_length=40, description="Its name in the settings")]
    repo: Annotated[PrintableText, Field(min_length=3, max_length=201, description="owner/name")]
    number: int = Field(ge=1, le=2**63 - 1, description="The number of the issue or pull request")
