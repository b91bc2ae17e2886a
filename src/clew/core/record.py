"""Frozen records: like frozen dataclasses, at a tenth of the cost to define them.

A dataclass generates and compiles its methods for every class, which takes 0.6 to 0.9 ms each. Clew has some sixty
records, and a command that starts in a tenth of a second cannot spend half of it on that. Here all records share one
set of methods, which work on the list of their fields. Type checkers see dataclasses (`dataclass_transform`), so no
strictness is lost.

    class Point(Record):
        x: int
        y: int = 0  # a default is shared by all instances, so it must not be mutable
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

R = TypeVar("R", bound="Record")


@dataclass_transform(frozen_default=True)
class Record:
    """Immutable; compared and hashed by type and fields. The fields keep the order of their definition."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _names: ClassVar[frozenset[str]] = frozenset()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        own = [
            name
            for name, kind in inspect.get_annotations(cls).items()
            if not str(kind).startswith("ClassVar") and name not in cls._fields
        ]
        cls._fields = (*cls._fields, *own)
        cls._names = frozenset(cls._fields)
        cls._defaults = cls._defaults | {name: cls.__dict__[name] for name in own if name in cls.__dict__}

    def __init__(self, *values: Any, **named: Any) -> None:
        if values:
            named = self._by_name(values, named)
        content = {**self._defaults, **named}
        if content.keys() != self._names:
            self._raise_wrong_fields(content)
        self.__dict__.update(content)

    def _by_name(self, values: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        fields = self._fields
        if len(values) > len(fields):
            raise TypeError(f"{type(self).__name__} takes {len(fields)} fields, but {len(values)} were given")
        given = dict(zip(fields, values, strict=False))
        if given.keys() & named.keys():
            raise TypeError(f"{type(self).__name__} was given {', '.join(given.keys() & named.keys())} twice")
        return given | named

    def _raise_wrong_fields(self, content: dict[str, Any]) -> None:
        missing = [name for name in self._fields if name not in content]
        unknown = [name for name in content if name not in self._fields]
        wrong = f"lacks {', '.join(missing)}" if missing else f"has no {', '.join(unknown)}"
        raise TypeError(f"{type(self).__name__} {wrong}")

    def replace(self, **changes: Any) -> Self:
        """A copy with other values for some fields."""
        return type(self)(**(self.__dict__ | changes))

    def as_dict(self) -> dict[str, Any]:
        """A plain dict. Records in fields, and in tuples in fields, become dicts too."""
        return {name: _plain(self.__dict__[name]) for name in self._fields}

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be removed")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *(self.__dict__[name] for name in self._fields)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={self.__dict__[name]!r}' for name in self._fields)})"


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.as_dict()
    return tuple(_plain(each) for each in value) if type(value) is tuple else value


def replace(record: R, **changes: Any) -> R:
    """Like `dataclasses.replace`."""
    return record.replace(**changes)


def fields_of(cls: type[Record]) -> tuple[str, ...]:
    return cls._fields


def check_keywords(known: type, given: Mapping[str, object]) -> None:
    """Raises TypeError for an unknown keyword argument: a TypedDict checks nothing at run time."""
    unknown = given.keys() - known.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown keyword arguments: {', '.join(sorted(unknown))}")
