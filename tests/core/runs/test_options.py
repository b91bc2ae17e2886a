"""The options of a turn: a record, and the same fields as keywords of the Python API."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from clew.core.record import fields_of
from clew.core.runs.options import NO_OPTIONS, TurnKeywords, TurnOptions


def test_every_option_can_be_given_as_a_keyword_of_the_same_type() -> None:
    options, keywords = get_type_hints(TurnOptions), get_type_hints(TurnKeywords)
    assert {name: options[name] for name in fields_of(TurnOptions)} == keywords


def test_an_option_that_does_not_exist_is_refused() -> None:
    assert TurnOptions(model="a-model") == NO_OPTIONS.replace(model="a-model")
    with pytest.raises(TypeError, match="has no mdoel"):
        TurnOptions(mdoel="a-model")  # type: ignore[call-arg]
