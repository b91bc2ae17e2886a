"""The base of all wire shapes.

Rules
1. A shape is defined once. The command line prints it, the server and the MCP server send it, the OpenAPI document and
   the page's types (`web/page/daemon/wire.ts`) are generated from it.
2. A shape has plain values alone: texts, numbers, lists, dicts and other shapes. `of` converts times, amounts of money
   and enums of a record; a record in a field must be converted to its own shape.
3. Pydantic is loaded only where a schema is made, because it would double the start-up time of a command.

    class Turn(Shape):
        id: str
        role: Literal["user", "assistant"]
        created_at: Time
        steps: Annotated[int, Doc("The number of tools that the run started")]

    Turn.of(record, steps=3)
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, Self, get_type_hints

from clew.core.costs.usage import MONEY_DIGITS
from clew.core.record import Record
from clew.system.timestamps import stamp as stamp


class Doc:
    """The description of a field in the OpenAPI document."""

    def __init__(self, text: str, *, example: str | None = None) -> None:
        self.text = text
        self.example = example

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        made: dict[str, Any] = handler(schema) | {"description": self.text}
        return made if self.example is None else made | {"examples": [self.example]}


Time = Annotated[str, Doc("RFC 3339 in UTC with milliseconds", example="2026-01-31T12:00:00.000Z")]
Money = float  # in US dollars, rounded

Permissions = Literal["ask", "edits", "read-only", "all"]
Trust = Literal["user", "project"]
Visibility = Literal["shared", "own"]


class Shape(Record):
    """A JSON object with exactly these fields."""

    _times: ClassVar[frozenset[str]] = frozenset()
    _money: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        kinds = {name: str(kind) for name, kind in inspect.get_annotations(cls).items()}
        cls._times |= {name for name, kind in kinds.items() if kind.startswith(("Time", "Annotated[Time"))}
        cls._money |= {name for name, kind in kinds.items() if kind.startswith(("Money", "Annotated[Money"))}

    @classmethod
    def of(cls, *sources: object, **values: Any) -> Self:
        """A shape with these values; each other field is the attribute of that name of the first source that has it.

        Times are seconds since 1970, and become texts. Raises TypeError if a value is a record, and no shape.
        """
        content = {name: values[name] if name in values else _attribute(cls, name, sources) for name in cls._fields}
        if len(values) > len(content.keys() & values.keys()):
            raise TypeError(f"{cls.__name__} has no {', '.join(sorted(values.keys() - content.keys()))}")
        return cls(**{name: cls._plain(name, value) for name, value in content.items()})

    @classmethod
    def _plain(cls, name: str, value: Any) -> Any:
        if value is None or isinstance(value, Shape):
            return value
        if name in cls._times:
            return value if isinstance(value, str) else stamp(value)
        if name in cls._money:
            return round(value, MONEY_DIGITS)
        if isinstance(value, Record):
            raise TypeError(f"{cls.__name__}.{name} is a {type(value).__name__}, which is no shape")
        if isinstance(value, Enum):
            return value.value
        return list(value) if isinstance(value, tuple) else value

    def to_json(self) -> dict[str, Any]:
        """The object, with nested shapes as objects."""
        return {name: _json(self.__dict__[name]) for name in self._fields}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """For FastAPI and MCP: an object with these fields, all of them required."""
        from pydantic_core import core_schema

        hints = get_type_hints(cls, include_extras=True)
        fields = {
            name: core_schema.typed_dict_field(handler.generate_schema(hints[name]), required=True)
            for name in cls._fields
        }
        name = f"{cls.__module__}.{cls.__qualname__}"
        made = core_schema.typed_dict_schema(fields, cls=cls, cls_name=cls.__name__, ref=name)
        return core_schema.no_info_before_validator_function(_json, made)


def _attribute(cls: type[Shape], name: str, sources: tuple[object, ...]) -> Any:
    for source in sources:
        try:
            return getattr(source, name)
        except AttributeError:
            continue
    raise TypeError(f"{cls.__name__} lacks {name}")


def _json(value: Any) -> Any:
    if isinstance(value, Shape):
        return value.to_json()
    if isinstance(value, list | tuple):
        return [_json(each) for each in value]
    return {key: _json(each) for key, each in value.items()} if isinstance(value, Mapping) else value
