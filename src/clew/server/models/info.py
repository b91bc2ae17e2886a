"""What only a daemon tells: its health, the settings of a new thread, directories."""

from __future__ import annotations

from typing import Annotated, Literal

from clew.api.wire.shape import Doc, Permissions, Shape, Visibility


class Health(Shape):
    status: Literal["ok"]
    busy: Annotated[bool, Doc("The store needs more than three seconds to answer")]


class Settings(Shape):
    """The settings that a new thread gets."""

    agent: str
    model: str | None
    permissions: Permissions
    visibility: Visibility
    roots: Annotated[list[str], Doc("Work directories must be below these; empty: they may be anywhere")]
    home: Annotated[str, Doc("The user's home directory")]
    cwd: Annotated[str, Doc("A new thread's directory: where the daemon was started, or a recent thread's")]
    version: str


class DirectoryList(Shape):
    path: str
    parent: str | None
    items: list[str]
