"""What can be typed after `/` and `@` in a prompt."""

from __future__ import annotations

from typing import Annotated, Literal

from clew.api.wire.shape import Doc, Shape


class Command(Shape):
    """A slash command or a skill that a prompt can begin with."""

    name: Annotated[str, Doc("Without the slash")]
    description: str
    argument_hint: str
    source: Annotated[Literal["clew", "user", "project"], Doc("Whose it is: of Clew, of the user, of the repository")]
    is_skill: bool


class CommandList(Shape):
    items: list[Command]


class FileList(Shape):
    items: Annotated[list[str], Doc("Paths relative to the directory; a folder ends with a slash")]
