"""The API is all that a surface uses, and its public names are pinned.

`python tests/api/test_surface.py` writes the list of names, public_names.txt, anew.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import clew
from clew import api
from clew.api.client import Client, Reply, Run, Thread
from clew.api.operations import Operation
from clew.api.views import Views

SOURCE = Path(clew.__file__).parent
NAMES = Path(__file__).with_name("public_names.txt")
DOCUMENTED = (SOURCE.parents[1] / "docs" / "python.md").read_text(encoding="utf-8")
SURFACES = ("cli", "server", "mcp")
FORBIDDEN = ("wiring", "config", "hosts", "engine", "git", "agents", "store", "system")


def modules() -> list[str]:
    return sorted(each.name for each in pkgutil.iter_modules(api.__path__, "clew.api.") if not each.ispkg)


def tree_of(name: str) -> ast.Module:
    return ast.parse(SOURCE.joinpath(*name.split(".")[1:]).with_suffix(".py").read_text(encoding="utf-8"))


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Also those below `if TYPE_CHECKING:`."""
    for each in body:
        yield from statements(each.body) if isinstance(each, ast.If) else [each]


def public_names(module: str) -> Iterator[str]:
    """The functions and classes that a module defines, and what it re-exports as `import NAME as NAME`."""
    for each in statements(tree_of(module).body):
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.ImportFrom(names=names):
                yield from (alias.name for alias in names if alias.asname == alias.name)


def attributes(cls: type) -> set[str]:
    """The methods, properties and fields of a class, and what its `__init__` sets."""
    [definition] = (each for each in tree_of(cls.__module__).body if getattr(each, "name", "") == cls.__name__)
    found = set(vars(cls)) | set(inspect.get_annotations(cls))
    for node in ast.walk(definition):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            found.add(node.attr)
    return found


def surface() -> str:
    lines = {f"{module}.{name}" for module in modules() for name in public_names(module)}
    for cls in (Client, Thread, Run, Reply, Views, Operation):
        lines |= {f"{cls.__module__}.{cls.__name__}.{name}" for name in attributes(cls)}
    return "".join(f"{line}\n" for line in sorted(lines) if not line.rpartition(".")[2].startswith("_"))


def test_the_public_names_of_the_api_are_these() -> None:
    assert surface().splitlines() == NAMES.read_text(encoding="utf-8").splitlines(), __doc__


@pytest.mark.parametrize("module", modules())
def test_each_module_is_documented_and_its_functions_are_typed(module: str) -> None:
    found = import_module(module)
    assert found.__doc__
    assert f"`{module}`" in DOCUMENTED, "docs/python.md says what each module offers"
    for name in public_names(module):
        value = getattr(found, name, None)
        if inspect.isfunction(value) and value.__module__ == module:
            assert value.__annotations__.keys() >= {*inspect.signature(value).parameters, "return"}, name


def surface_files() -> list[Path]:
    return sorted(path for surface in SURFACES for path in (SOURCE / surface).rglob("*.py"))


def imported(tree: ast.Module) -> set[str]:
    """The names of modules that the file imports as a whole."""
    return {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }


def private_uses(path: Path) -> list[str]:
    """Uses of `.engine`, and of private attributes of anything but the object itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = {"self", "cls", "super()", *imported(tree)}
    return [
        f"{path.name}:{node.lineno} {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and (node.attr == "engine" or (node.attr.startswith("_") and not node.attr.startswith("__")))
        and (node.attr == "engine" or ast.unparse(node.value) not in own)
    ]


def test_no_surface_uses_the_engine_or_a_private_attribute() -> None:
    found = {path.relative_to(SOURCE).as_posix(): uses for path in surface_files() if (uses := private_uses(path))}
    assert found == {}


def test_the_contract_of_imports_is_about_every_surface_and_every_package_below() -> None:
    text = (SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    contract = text.split('name = "Surfaces import the API')[1].partition("ignore_imports")[0].partition("[[")[0]
    for package in (*SURFACES, *FORBIDDEN):
        assert f'"clew.{package}"' in contract, package


if __name__ == "__main__":
    NAMES.write_text(surface(), encoding="utf-8")
