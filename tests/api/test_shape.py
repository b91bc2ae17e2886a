"""Wire shapes: what `of` converts and refuses, and the schema that FastAPI and MCP make of a shape."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import pytest
from pydantic import RootModel, TypeAdapter

from clew.api.wire.shape import Doc, Money, Shape, Time
from clew.core.record import Record


class Colour(StrEnum):
    RED = "red"


class Inner(Shape):
    n: int


class Outer(Shape):
    """An example."""

    id: str
    colour: str
    at: Time | None
    ended_at: Annotated[Time | None, Doc("When it ended")]
    cost_usd: Money
    inner: Inner | None
    many: list[Inner]
    by_name: Annotated[dict[str, Inner], Doc("By name")]


class Source(Record):
    id: str
    colour: Colour
    at: float
    ended_at: float | None
    cost_usd: float


SOURCE = Source("a", Colour.RED, 0.0, None, 0.1234567891)


def outer() -> Outer:
    return Outer.of(SOURCE, inner=None, many=(Inner(1),), by_name={"x": Inner(2)})


def test_times_money_and_enums_of_a_record_are_converted() -> None:
    assert outer().to_json() == {
        "id": "a",
        "colour": "red",
        "at": "1970-01-01T00:00:00.000Z",
        "ended_at": None,
        "cost_usd": 0.123457,
        "inner": None,
        "many": [{"n": 1}],
        "by_name": {"x": {"n": 2}},
    }


def test_given_values_come_before_the_sources_and_the_first_source_before_the_others() -> None:
    made = Outer.of(SOURCE, SOURCE.replace(id="b"), colour="blue", inner=Inner(3), many=[], by_name={})
    assert (made.id, made.colour, made.inner) == ("a", "blue", Inner(3))


def test_a_missing_or_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="Outer lacks inner"):
        Outer.of(SOURCE)
    with pytest.raises(TypeError, match="Inner has no size"):
        Inner.of(n=1, size=2)


def test_a_record_that_is_no_shape_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Outer\.inner is a Source, which is no shape"):
        Outer.of(SOURCE, inner=SOURCE, many=[], by_name={})


def test_the_schema_has_every_field_with_its_description() -> None:
    schema = TypeAdapter(Outer).json_schema()
    assert schema["description"] == "An example."
    assert schema["required"] == ["id", "colour", "at", "ended_at", "cost_usd", "inner", "many", "by_name"]
    assert schema["properties"]["ended_at"]["description"] == "When it ended"
    assert schema["properties"]["many"]["items"] == {"$ref": "#/$defs/Inner"}


def test_pydantic_takes_a_shape_as_its_own_object() -> None:
    assert RootModel[Outer](outer()).model_dump(mode="json") == outer().to_json()


class Partly(Shape):
    id: str
    errors: list[Inner] | None = None


def test_a_field_that_has_its_default_is_left_out() -> None:
    assert Partly.of(id="a").to_json() == {"id": "a"}
    assert Partly("a", errors=[Inner(1)]).to_json() == {"id": "a", "errors": [{"n": 1}]}
    assert TypeAdapter(Partly).json_schema()["required"] == ["id"]


def test_the_fields_keep_their_order_whatever_the_order_of_the_arguments() -> None:
    assert list(Partly(errors=[], id="a").to_json()) == ["id", "errors"]


def test_a_field_comes_from_the_first_source_that_has_it_also_as_a_property() -> None:
    class Computed(Record):
        size: int

        @property
        def n(self) -> int:
            return self.size + 1

    assert Inner.of(Computed(4), Inner(9)) == Inner(5)
    assert Inner.of(Colour.RED, Computed(6)) == Inner(7), "the first source need not be a record"
