"""The bodies of requests about hooks: an event to preview, and a sweep."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from clew.server.models.requests import PrintableText, RequestModel


class HookPreviewRequest(RequestModel):
    payload: dict[str, Any] = Field(
        description="A payload as the forge sends it, or an event as Clew stores it, with its `kind`"
    )
    forge: Literal["github", "gitea", "forgejo"] | None = Field(None, description="The forge that sends the payload")
    event: Annotated[PrintableText, Field(min_length=1, max_length=100)] | None = Field(
        None, description="The event's name in the forge's header: issues, pull_request, push, …"
    )


class HookSweepRequest(RequestModel):
    dry_run: bool | None = Field(None, description="Only list what would be dropped and removed")
