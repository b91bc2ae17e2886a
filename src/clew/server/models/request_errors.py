"""What is wrong with a request, in plain sentences: where, what, what to do. Never the value: it may be a prompt."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clew.core.record import Record

Context = Mapping[str, Any]
NAME_CHARS = 100  # of a place that is told: a field's name may be as long as the body


class Fault(Record):
    where: str
    what: str  # a sentence
    hint: str | None


# By pydantic's name of the fault. Each gets the place and the fault's own figures.
SENTENCES: dict[str, Callable[[str, Context], str]] = {
    "missing": lambda where, _: f"{where} is missing.",
    "extra_forbidden": lambda where, _: f"There is no field {where}.",
    "string_too_short": lambda where, _: f"{where} is empty.",
    "string_too_long": lambda where, given: f"{where} is longer than {given['max_length']:,} characters.",
    "too_short": lambda where, _: f"{where} is empty.",
    "too_long": lambda where, given: f"{where} is longer than {given['max_length']:,} {_counted(given)}.",
    "string_type": lambda where, _: f"{where} must be a text.",
    "bool_type": lambda where, _: f"{where} must be true or false.",
    "bool_parsing": lambda where, _: f"{where} must be true or false.",
    "int_type": lambda where, _: f"{where} must be a whole number.",
    "int_parsing": lambda where, _: f"{where} must be a whole number.",
    "int_from_float": lambda where, _: f"{where} must be a whole number.",
    "int_parsing_size": lambda where, _: f"{where} is too large.",
    "float_type": lambda where, _: f"{where} must be a number.",
    "float_parsing": lambda where, _: f"{where} must be a number.",
    "finite_number": lambda where, _: f"{where} must be a finite number.",
    "dict_type": lambda where, _: f"{where} must be an object.",
    "model_type": lambda where, _: f"{where} must be an object.",
    "model_attributes_type": lambda where, _: f"{where} must be an object.",
    "list_type": lambda where, _: f"{where} must be a list.",
    "literal_error": lambda where, given: f"{where} must be one of {_choices(given)}.",
    "enum": lambda where, given: f"{where} must be one of {_choices(given)}.",
    "greater_than": lambda where, given: f"{where} must be greater than {given['gt']:g}.",
    "greater_than_equal": lambda where, given: f"{where} must be at least {given['ge']:g}.",
    "less_than": lambda where, given: f"{where} must be less than {given['lt']:g}.",
    "less_than_equal": lambda where, given: f"{where} must be at most {given['le']:g}.",
    "value_error": lambda where, given: f"{where} {given.get('error', 'is not valid')}.",
}
# Patterns cannot be told in a sentence that fits all; these can.
FORMS = {"name": "name must begin with a letter or a digit and hold letters, digits, . - _ alone, 80 at most."}


def told(faults: Sequence[Mapping[str, Any]], fields: Sequence[str] = ()) -> list[Fault]:
    """Each of pydantic's faults. `fields` are those that the body may have."""
    return [_told(fault, fields) for fault in faults]


def _told(fault: Mapping[str, Any], fields: Sequence[str]) -> Fault:
    kind, where = str(fault.get("type", "")), _place(fault.get("loc", ()))
    if kind == "string_pattern_mismatch":
        return Fault(where, FORMS.get(where, f"{where} does not have the form that it must have."), None)
    sentence = SENTENCES.get(kind)
    what = sentence(where, fault.get("ctx") or {}) if sentence else f"{where} is not valid."
    return Fault(where, what, _hint(kind, where, fields))


def _hint(kind: str, where: str, fields: Sequence[str]) -> str | None:
    if kind in ("string_too_short", "too_short"):
        return "Leave it out, or say something."
    if kind in ("missing", "model_attributes_type") and where == "body":
        return f"Send an object with {', '.join(fields)}." if fields else "Send an object."
    if kind != "extra_forbidden" or not fields:
        return None
    close = difflib.get_close_matches(where, fields, n=1)
    return f"Did you mean {close[0]}?" if close else f"There are {', '.join(fields)}."


def _counted(given: Context) -> str:
    return "items" if given.get("field_type") in ("List", "Tuple", "Dictionary") else "characters"


def _choices(given: Context) -> str:
    """`'ask', 'edits' or 'all'` without the quotes."""
    return re.sub(r"'([^']*)'", r"\1", str(given.get("expected", ""))).replace(" or ", ", ")


def _place(loc: Sequence[Any]) -> str:
    """`("body", "prompt")` is `prompt`; a value that is missing as a whole is `body`."""
    inner = [str(part)[:NAME_CHARS] for part in loc[1:]]
    return ".".join(inner)[:NAME_CHARS] or (str(loc[0]) if loc else "request")
