"""Breaks each guard of the decision, each condition of a rewind, each state of a session and each row of the outcome
table, one at a time: some test must fail for each.

    make mutations                        all of them
    make mutations ONLY=falls_back        those whose name has this in it

A break is a change to the syntax tree: a guard is removed, always objects or is swapped with the one before it, a
comparison or a condition is inverted, a row gets another consequence. For each break the tests of the pure core run in
a process of their own, which is forked when everything except the broken module is loaded. The breaks that no test
notices are printed, and the exit status is then 1.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "src" / "clew" / "core"
NAMES = ("decision", "rewind", "decision_random", "history", "outcome", "pins", "session")
TESTS = [str(ROOT / "tests" / "core" / f"test_{name}.py") for name in NAMES]
DECISION, HISTORY, OUTCOME, PINS, SESSION = "decision", "history", "outcome", "pins", "session"
# Not run against mutants: it compares the guards with a fixed list, so it notices every swap. Another test must notice
# the effect.
LIST = "tests/core/test_decision.py::test_the_guards_are_in_the_designs_order"
TIMEOUT_S = 600  # a break may cause an endless loop, which also counts as noticed
CRASHED = 70  # the break could not be made: this says nothing about the tests
FAILED = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED, -signal.SIGALRM)  # interrupted: import failed

# The functions in which every condition is broken, besides the two tables.
FUNCTIONS = {
    DECISION: (
        *("candidate", "decide_after", "resumes", "fresh", "with_shorter_transcript", "_resume", "_standing_note"),
        *("_source", "may_use_another", "rewind_of", "_ends_there", "_cut", "_work_done", "_worded"),
        *("_is_expired", "_is_worn_out", "_cannot_fork", "_is_unconfirmed"),
    ),
    HISTORY: (
        *("digest", "ids_of", "outline_of", "visible", "Absorbed.turn_id", "Absorbed.digest", "_Newest.read"),
        *(f"LongHistory.{name}" for name in ("chars", "end_of_others", "__getitem__", "_part", "__iter__")),
    ),
    OUTCOME: ("classify", "falls_back", "pin_after"),
    PINS: (
        *("is_valid", "standing_count", "_common_prefix", "_is_unchanged", "_part_stands", "missed"),
        *("has_diverged", "is_unconfirmed_copy", "reconcile", "absorb", "ends_with", "_answer_after"),
    ),
    SESSION: (
        *("compare", "_follows", "session_turns"),
        *(f"SessionTurn.{name}" for name in ("usage", "model", "end_id", "is_complete", "began_at", "ended_at")),
    ),
}
REASONS = ("REWINDABLE", "SKIPPED", "REPLACED_BY_OLDER")  # sets of reasons
PIN_STATES = ("None", "PinState.GOOD", "PinState.RETIRED", "PinState.POISONED")
FALLBACKS = ("None", "Reason.REJECTED", "Reason.POISONED", "Reason.OVERFLOW")

# Breaks that no test can notice, because they change nothing, with the reason.
EQUIVALENT: dict[str, str] = {
    "decide_after: part 2 left out in reason or Reason.NO_PIN": "without an objection the session is resumed",
    "rewind_of: part 2 left out in turn.message_id or ''": "no end has an empty id",
    "_resume: one more in 0 of omitted = section.omitted if section else 0": "no turn was missed, so none is left out",
    "_work_done: part 2 left out in '\\n\\n'.join((part for part in (dropped, interrupted) if part)) or None": (
        "an empty section is left out as well"
    ),
    "standing_count: never in if count == len(pin.absorbed):": "a faster way to the same answer",
    "LongHistory.__getitem__: one more in 1 of return self._newest.read(place, place + 1)[0]": "the rest is dropped",
    "missed: never in if isinstance(seen, LongHistory) and _common_prefix(pin.absorbed, seen.outline) == count:": (
        "a faster way to the same answer"
    ),
    "standing_count: one more in 1 of filled, last, count = (0, -1, 0)": "any number below the first place does",
    "standing_count: the boundary moved in filled > last": "the turn at `last` is held, so `filled` is never there",
    "standing_count: the boundary moved in place < last": "no session absorbs a turn twice",
}


@dataclass(frozen=True)
class Mutant:
    """One break: the module, a description, and the change to the module's syntax tree."""

    module: str
    name: str
    change: Callable[[ast.Module], object]


def mutants() -> Iterator[Mutant]:
    yield from _guards(_tree(DECISION))
    for name in REASONS:
        yield from _smaller(DECISION, _tree(DECISION), name)
    yield from _rows(_tree(OUTCOME))
    for module, names in FUNCTIONS.items():
        tree = _tree(module)
        for name in names:
            yield from _changed_in(module, tree, _function(tree, name), name)


def _function(tree: ast.Module, name: str) -> ast.FunctionDef:
    """The function, or the method of a class (`Class.method`); the last of that name, after its overloads."""
    *classes, name = name.split(".")
    body = tree.body
    for each in classes:
        [found] = [node for node in body if isinstance(node, ast.ClassDef) and node.name == each]
        body = found.body
    [*_, function] = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == name]
    return function


def _tree(module: str) -> ast.Module:
    return ast.parse((CORE / f"{module}.py").read_text())


def _guards(tree: ast.Module) -> Iterator[Mutant]:
    for place, row in enumerate(_rows_of(tree)):
        assert isinstance(row, ast.Tuple)
        reason = f"GUARDS: {ast.unparse(row.elts[0])}"
        yield Mutant(DECISION, f"{reason} is removed", partial(_remove, place=place))
        yield Mutant(DECISION, f"{reason} always objects", partial(_always, place=place))
        if place:
            yield Mutant(DECISION, f"{reason} is swapped with the guard before it", partial(_swap, place=place))
        yield from _changed_in(DECISION, tree, row, reason)


def _rows_of(tree: ast.Module) -> list[ast.expr]:
    rows = _value(tree, "GUARDS")
    assert isinstance(rows, ast.Tuple)
    return rows.elts


def _remove(tree: ast.Module, place: int) -> None:
    _rows_of(tree).pop(place)


def _always(tree: ast.Module, place: int) -> None:
    row = _rows_of(tree)[place]
    assert isinstance(row, ast.Tuple)
    row.elts[1] = ast.parse("lambda case: True", mode="eval").body


def _swap(tree: ast.Module, place: int) -> None:
    rows = _rows_of(tree)
    rows[place - 1 : place + 1] = [rows[place], rows[place - 1]]


def _rows(tree: ast.Module) -> Iterator[Mutant]:
    table = _value(tree, "CONSEQUENCES")
    assert isinstance(table, ast.Dict)
    for place, (outcome, row) in enumerate(zip(table.keys, table.values, strict=True)):
        assert outcome is not None
        pin, fallback = _consequence(tree, row)
        name = f"CONSEQUENCES: {ast.unparse(outcome)}"
        for other in PIN_STATES:
            if other != pin:
                put = partial(_put, place=place, row=f"Consequence({other}, {fallback})")
                yield Mutant(OUTCOME, f"{name}: the pin becomes {other}", put)
        for other in FALLBACKS:
            if other != fallback:
                put = partial(_put, place=place, row=f"Consequence({pin}, {other})")
                yield Mutant(OUTCOME, f"{name}: falls back for {other}", put)
    yield from _smaller(OUTCOME, tree, "COUNTED_AS_FAILURES")
    yield from _changed_in(OUTCOME, tree, _value(tree, "FAILURES_BEFORE_RETIREMENT"), "FAILURES_BEFORE_RETIREMENT")


def _put(tree: ast.Module, place: int, row: str) -> None:
    table = _value(tree, "CONSEQUENCES")
    assert isinstance(table, ast.Dict)
    table.values[place] = ast.parse(row, mode="eval").body


def _smaller(module: str, tree: ast.Module, name: str) -> Iterator[Mutant]:
    """The set with that name, without one of its elements."""
    for place, each in enumerate(_elements(tree, name)):
        yield Mutant(module, f"{name}: {ast.unparse(each)} is left out", partial(_leave_out, name=name, place=place))


def _elements(tree: ast.Module, name: str) -> list[ast.expr]:
    [found] = [each for each in ast.walk(_value(tree, name)) if isinstance(each, ast.Set)]
    return found.elts


def _leave_out(tree: ast.Module, name: str, place: int) -> None:
    elements = _elements(tree, name)
    nothing = ast.Starred(ast.Tuple([], ast.Load()), ast.Load())  # a set without elements has no other literal
    elements[place : place + 1] = [nothing] if len(elements) == 1 else []


def _consequence(tree: ast.Module, row: ast.expr) -> tuple[str, str]:
    """A row's pin and fallback, as source text."""
    call = _value(tree, row.id) if isinstance(row, ast.Name) else row
    assert isinstance(call, ast.Call)
    given = [ast.unparse(each) for each in call.args]
    named = {each.arg: ast.unparse(each.value) for each in call.keywords}
    pin, fallback = [*given, "", ""][:2]
    return pin or named["pin"], fallback or named.get("fallback", "None")


def _changed_in(module: str, tree: ast.Module, part: ast.AST, where: str) -> Iterator[Mutant]:
    """Every condition, comparison and number in this part of the tree, changed one at a time."""
    inside = {id(node) for node in ast.walk(part)}
    around = _statements(part)
    for place, node in enumerate(ast.walk(tree)):
        if id(node) in inside:
            words = ast.unparse(node).partition("\n")[0]
            if isinstance(node, ast.Constant) and id(node) in around:  # a number alone does not say which one it is
                words = f"{words} of {around[id(node)]}"
            for what, change in _changes(node):
                yield Mutant(module, f"{where}: {what} in {words}", partial(_change_at, place=place, change=change))


def _statements(part: ast.AST) -> dict[int, str]:
    """For each node, the first line of the innermost statement that it is in. `ast.walk` visits outer nodes first."""
    found: dict[int, str] = {}
    for each in ast.walk(part):
        if isinstance(each, ast.stmt):
            line = ast.unparse(each).partition("\n")[0]
            found.update((id(node), line) for node in ast.walk(each))
    return found


def _change_at(tree: ast.Module, place: int, change: Callable[[ast.AST], None]) -> None:
    change(list(ast.walk(tree))[place])


INVERTED = {
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}
BOUNDARY = {ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Lt: ast.LtE, ast.LtE: ast.Lt}


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[ast.AST], None]]]:
    if isinstance(node, ast.Compare):
        for what, table in (("inverted", INVERTED), ("the boundary moved", BOUNDARY)):
            other = table.get(type(node.ops[0]))
            if other is not None:
                yield what, lambda made, other=other: made.ops.__setitem__(0, other())  # type: ignore[misc]
    elif isinstance(node, ast.BoolOp):
        other_op = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield "and for or" if other_op is ast.And else "or for and", lambda made: setattr(made, "op", other_op())
        neutral = ast.Constant(isinstance(node.op, ast.And))  # has the effect of removing that part
        for place in range(len(node.values)):
            yield f"part {place + 1} left out", lambda made, place=place: made.values.__setitem__(place, neutral)  # type: ignore[misc]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not left out", _drop_not
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        other_sign = ast.Sub if isinstance(node.op, ast.Add) else ast.Add
        yield "the sign inverted", lambda made: setattr(made, "op", other_sign())
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield "one more", lambda made: setattr(made, "value", made.value + 1)  # type: ignore[attr-defined]
    elif isinstance(node, ast.If):
        yield "never", lambda made: setattr(made, "test", ast.Constant(False))


def _drop_not(made: ast.AST) -> None:
    """`not x` becomes `not not x`, because a node can only be changed in place."""
    assert isinstance(made, ast.UnaryOp)
    made.operand = ast.UnaryOp(ast.Not(), made.operand)


def _value(tree: ast.Module, name: str) -> ast.expr:
    for node in tree.body:
        if isinstance(node, ast.Assign) and [each.id for each in node.targets if isinstance(each, ast.Name)] == [name]:
            return node.value
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            assert node.value is not None
            return node.value
    raise LookupError(name)


def unnoticed(chosen: Sequence[Mutant]) -> list[str]:
    """The mutants that no test notices. As many are tested at once as there are cores."""
    waiting, running, missed = list(reversed(chosen)), dict[int, Mutant](), []
    while waiting or running:
        while waiting and len(running) < (os.cpu_count() or 1):
            mutant = waiting.pop()
            running[_start(mutant)] = mutant
        child, status = os.wait()
        mutant, code = running.pop(child), os.waitstatus_to_exitcode(status)
        if code == pytest.ExitCode.OK:
            missed.append(mutant.name)
        elif code not in FAILED:
            raise RuntimeError(f"the tests did not run with {mutant.name}: exit status {code}")
        _show_progress(len(chosen) - len(waiting) - len(running), len(chosen))
    return missed


def _start(mutant: Mutant) -> int:
    """A process that runs the tests with the break, and reports the result by its exit status."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(_run_tests(mutant))
        except BaseException:  # noqa: BLE001 - whatever it is
            os._exit(CRASHED)
    return child


def _show_progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {of}" if done < of else "\r\033[K")


def _run_tests(mutant: Mutant) -> int:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    _install(mutant)
    signal.alarm(TIMEOUT_S)
    quick = ["-x", "--noconftest", "-c", os.devnull, f"--rootdir={ROOT}", "--import-mode=importlib"]
    plugins = ["-p", "_hypothesis_pytestplugin", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestWarning"]
    first = sorted(TESTS, key=lambda test: f"test_{mutant.module}.py" not in test)
    for kind in ("not hypothesis", "hypothesis"):  # the quick tests first: if one fails, the random ones are not run
        code = int(pytest.main([*quick, *plugins, f"--deselect={LIST}", "-m", kind, *first]))
        if code != pytest.ExitCode.OK:
            break
    return code


def _install(mutant: Mutant) -> None:
    name = f"clew.core.{mutant.module}"
    path = CORE / f"{mutant.module}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    tree = _tree(mutant.module)
    mutant.change(tree)
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), module.__dict__)
    import clew.core

    setattr(clew.core, mutant.module, module)


def main(only: str = "") -> int:
    slow = [hypothesis.HealthCheck.too_slow]  # only means that the machine is busy
    hypothesis.settings.register_profile(
        "the same inputs every time", derandomize=True, deadline=None, database=None, suppress_health_check=slow
    )
    hypothesis.settings.load_profile("the same inputs every time")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # saves half a second for each break
    if any(f"clew.core.{module}" in sys.modules for module in FUNCTIONS):
        raise RuntimeError("a module that is to be broken is already loaded")
    sys.path.insert(0, str(ROOT / "tests"))
    chosen = [mutant for mutant in mutants() if only in mutant.name]
    if not chosen:
        print(f"no break has {only!r} in its name; an example of a name: {next(mutants()).name}", file=sys.stderr)
        return 2
    unbroken = [Mutant(module, f"{module}.py without a break", lambda tree: None) for module in FUNCTIONS]
    if len(unnoticed(unbroken)) != len(unbroken):
        print("the tests fail without any break", file=sys.stderr)
        return 2
    missed = unnoticed(chosen)
    unknown = [name for name in missed if name not in EQUIVALENT]
    noticed_after_all = [mutant.name for mutant in chosen if mutant.name in EQUIVALENT and mutant.name not in missed]
    for name in unknown:
        print(f"no test notices: {name}", file=sys.stderr)
    for name in noticed_after_all:
        print(f"a test does notice, so it is not equivalent: {name}", file=sys.stderr)
    print(f"{len(chosen)} breaks: {len(chosen) - len(missed)} noticed, {len(missed) - len(unknown)} change nothing")
    return 1 if unknown or noticed_after_all else 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:2]))
