"""Sentences about an invalid request: where the error is, what it is, and what to do. They never quote the value, which
may be a prompt."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clew.core.record import Record

Context = Mapping[str, Any]
NAME_CHARS = 100  # how much of a field's name is shown: it may be as long as the body


class FieldError(Record):
    where: str
    what: str  # a sentence
    hint: str | None


# The keys are pydantic's types of errors. Each function gets the place and the error's context.
SENTENCES: dict[str, Callable[[str, Context], str]] = {
    "missing": lambda where, _: f"{where} is missing.",
    "extra_forbidden": lambda where, _: f"There is no field {where}.",
    "string_too_short": lambda where, _: f"{where} is empty.",
    "string_too_long": lambda where, context: f"{where} is longer than {context['max_length']:,} characters.",
    "too_short": lambda where, _: f"{where} is empty.",
    "too_long": lambda where, context: f"{where} is longer than {context['max_length']:,} {_counted(context)}.",
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
    "literal_error": lambda where, context: f"{where} must be one of {_choices(context)}.",
    "enum": lambda where, context: f"{where} must be one of {_choices(context)}.",
    "greater_than": lambda where, context: f"{where} must be greater than {context['gt']:g}.",
    "greater_than_equal": lambda where, context: f"{where} must be at least {context['ge']:g}.",
    "less_than": lambda where, context: f"{where} must be less than {context['lt']:g}.",
    "less_than_equal": lambda where, context: f"{where} must be at most {context['le']:g}.",
    "value_error": lambda where, context: f"{where} {context.get('error', 'is not valid')}.",
}
# For a value that does not match its pattern, by field: what the pattern allows.
FORMATS = {"name": "name must begin with a letter or a digit and hold only letters, digits, . - _, at most 80."}


def field_errors(errors: Sequence[Mapping[str, Any]], fields: Sequence[str] = ()) -> list[FieldError]:
    """`errors` are pydantic's; `fields` are the names that the body may have."""
    return [_field_error(error, fields) for error in errors]


def _field_error(error: Mapping[str, Any], fields: Sequence[str]) -> FieldError:
    kind, where = str(error.get("type", "")), _place(error.get("loc", ()))
    if kind == "string_pattern_mismatch":
        return FieldError(where, FORMATS.get(where, f"{where} does not have the required format."), None)
    sentence = SENTENCES.get(kind)
    what = sentence(where, error.get("ctx") or {}) if sentence else f"{where} is not valid."
    return FieldError(where, what, _hint(kind, where, fields))


def _hint(kind: str, where: str, fields: Sequence[str]) -> str | None:
    if kind in ("string_too_short", "too_short"):
        return "Leave it out, or give a value."
    if kind in ("missing", "model_attributes_type") and where == "body":
        return f"Send an object with {', '.join(fields)}." if fields else "Send an object."
    if kind != "extra_forbidden" or not fields:
        return None
    close = difflib.get_close_matches(where, fields, n=1)
    return f"Did you mean {close[0]}?" if close else f"There are {', '.join(fields)}."


def _counted(context: Context) -> str:
    return "items" if context.get("field_type") in ("List", "Tuple", "Dictionary") else "characters"


def _choices(context: Context) -> str:
    """Turns pydantic's `'ask', 'edits' or 'all'` into `ask, edits, all`."""
    return re.sub(r"'([^']*)'", r"\1", str(context.get("expected", ""))).replace(" or ", ", ")


def _place(loc: Sequence[Any]) -> str:
    """`("body", "prompt")` is `prompt`; a body that is missing as a whole is `body`."""
    inner = [str(part)[:NAME_CHARS] for part in loc[1:]]
    return ".".join(inner)[:NAME_CHARS] or (str(loc[0]) if loc else "request")
