"""The instructor's answer is found in the text that a model writes around it."""

from __future__ import annotations

import json

import pytest

from clew.core.pairs.pair import Order
from clew.hosts.pairs.answer import read_order
from clew.hosts.structured_output import SchemaMismatch
from pairs.couple import order

PLAIN = order("Say {this} and `that`.", worker_model="opus")


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        f"  {PLAIN}\n",
        f"I looked at {{a}} first.\n\n{PLAIN}",
        f"```json\n{PLAIN}\n```\nThat is all.",
        f"```\n{{}}\n```\nrather\n```json\n{json.dumps(json.loads(PLAIN), indent=2)}\n```",
        PLAIN[:-1] + ', "more": [1]}',
    ],
)
def test_the_object_is_found(text: str) -> None:
    assert read_order(text) == Order("It comes next.", "Say {this} and `that`.", "opus", True, False)


def test_optional_fields_may_be_left_out() -> None:
    least = read_order('{"instruction": "Done.", "should_continue": false, "worker_model": ""}')
    assert least == Order("", "Done.", None, False, False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON object"),
        ("Let us begin.", "no JSON object"),
        ("[1]", "no JSON object"),
        ('{"instruction": "x"}', "should_continue"),
        ('{"instruction": 3, "should_continue": true}', "instruction"),
        ('{"instruction": "x", "should_continue": "yes"}', "should_continue"),
        ('{"instruction": " ", "should_continue": true}', "there is no instruction"),
        ('{"instruction": "x", "should_continue": true', "no JSON object|malformed|truncated"),
        ('{"a":' * 50_000 + "1" + "}" * 50_000, "."),
        ("{" * 100_000 + "}", "."),
    ],
)
def test_an_invalid_answer_is_explained_so_that_a_model_can_correct_it(text: str, words: str) -> None:
    with pytest.raises(SchemaMismatch, match=words):
        read_order(text)
