"""The wire shapes: their names are those of the OpenAPI document, and using them costs no pydantic."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

from clew.api import wire
from clew.api.wire.shape import Shape
from clew.server import reference

MODULES = [f"{wire.__name__}.{module.name}" for module in pkgutil.iter_modules(wire.__path__)]


def shapes() -> list[type[Shape]]:
    modules = [importlib.import_module(name) for name in MODULES]
    defined = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    return [each for each in dict.fromkeys(defined) if issubclass(each, Shape) and each is not Shape]


def test_every_shape_has_a_name_of_its_own() -> None:
    names = [each.__name__ for each in shapes()]
    assert len(names) > 60
    assert sorted(names) == sorted(set(names))


def test_the_document_names_each_schema_as_its_class_is_named() -> None:
    """Two classes of the same name would get long names with their modules, in the document and in the page's types."""
    names = reference.document()["components"]["schemas"]
    assert {"Thread", "Run", "Turn", "Job", "Review", "HookEvent", "Stats", "Operation", "Problem"} <= names.keys()
    assert [name for name in names if not name.isalnum()] == []


def test_the_schemas_of_the_pages_types_have_no_titles_and_keep_a_field_that_is_named_title() -> None:
    made = reference.types()
    assert made["paths"] == {}
    finding = made["components"]["schemas"]["Finding"]
    assert finding["properties"]["title"] == {"type": "string"}
    assert "title" not in finding


@pytest.mark.process
def test_the_shapes_are_used_without_pydantic() -> None:
    """It would double the start-up time of a command."""
    code = f"import sys, importlib; [importlib.import_module(name) for name in {MODULES!r}]; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert set(MODULES) <= loaded
    assert not {"pydantic", "pydantic_core", "fastapi", "mcp"} & loaded
