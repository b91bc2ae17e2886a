"""The scripted agent reads and writes JSON with only the C parts of `json`: the results must be the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.testing.scripted_agent.lines import dumps, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


@given(VALUES)
def test_it_writes_and_reads_the_same_as_json(value: object) -> None:
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    assert dumps(value) == compact + b"\n"
    assert loads(dumps(value)) == loads(json.dumps(value, indent=1)) == value


@pytest.mark.parametrize("text", ["", " ", "{", "{}x", "{} {}", '{"a" 1}', "[1,]", '"\n"', '"\\q"', "nul", "'a'", "01"])
def test_what_json_refuses_is_refused_here(text: str) -> None:
    for read in (json.loads, loads):
        with pytest.raises(ValueError):
            read(text)
    with pytest.raises(TypeError, match="set is not JSON"):
        dumps({"a": {1}})
