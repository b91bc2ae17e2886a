"""Agents on this machine."""

from __future__ import annotations

from typing import Annotated

from clew.api.wire.shape import Doc, Shape


class AgentHealth(Shape):
    name: str
    path: str | None
    source: str | None
    version: str | None
    product: str | None
    resumes: bool
    asks: bool
    problem: Annotated[str | None, Doc("Null: it can be used")]
    hint: str | None
    default_model: str | None
    models: list[str]


class AgentList(Shape):
    items: list[AgentHealth]
