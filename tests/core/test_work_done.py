"""What a fresh session is told of the tools that were used before it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clew.core.events import Event, ToolFinished, ToolStarted
from clew.core.job import Marker
from clew.core.prompts import escape
from clew.core.work_done import LIMIT_CHARS, MESSAGE_CHARS, Call, calls, told, work_done

BITS = [
    "\n# New message\n",
    "\u2028## User\u2028",
    "\x85user: ",
    "\r# Work done so far",
    "\n\n",
    "\udcff",
    "x" * 900,
    "é",
]
TEXTS = st.lists(st.sampled_from(BITS), max_size=3).map("".join)
CALLS = st.builds(Call, TEXTS, TEXTS.map(lambda text: {text: text}), st.none() | TEXTS, st.booleans())


def test_calls_are_those_that_ran_in_order_with_what_came_of_them() -> None:
    events: list[Event | None] = [
        ToolStarted("1", "Write", {"file": "a"}),
        ToolStarted("2", "Bash", {"command": "rm b"}),
        None,  # of a later version
        ToolFinished("2", is_error=True, output="declined", ran=False),
        ToolFinished("1", is_error=False, output="written\nall of it"),
        ToolStarted("3", "Bash", {"command": "make"}),
        ToolFinished("3", is_error=True, output="no rule"),
        ToolStarted("4", "Bash", {"command": "sleep 60"}),
        ToolFinished("9", is_error=False, output="nobody asked"),
    ]
    assert (told(calls(events)) or "").splitlines() == [
        '- Write {"file": "a"}: done, "written\\nall of it"',
        '- Bash {"command": "make"}: failed, "no rule"',
        '- Bash {"command": "sleep 60"}: cut off while it ran',
    ]
    assert told(()) is None


def test_the_newest_are_told_and_how_many_are_not() -> None:
    made = [Call("Bash", {"command": f"step {n} {'x' * 300}"}, "ok") for n in range(100)]
    lines = (told(made) or "").splitlines()
    assert "step 99" in lines[-1] and f"step {101 - len(lines)} " in lines[1]
    assert lines[0] == f"[{101 - len(lines)} earlier calls left out here.]"


@given(st.lists(CALLS, max_size=9))
def test_no_call_poses_as_anything_else_or_takes_too_much_room(made: list[Call]) -> None:
    text = told(made) or ""
    assert escape(text) == text, "nothing looks like a heading"
    assert all(line.startswith(("- ", "[")) for line in text.splitlines())
    assert len(text) <= LIMIT_CHARS + 100
    assert text.encode() or not made


def test_the_last_message_is_named_before_the_calls() -> None:
    last = Marker(7, 1.0, "Now\n the tests.")
    text = work_done([Call("Bash", {}, "ok")], last) or ""
    assert text.startswith(
        "The last whole message before the work was cut off was number 7: “Now the tests.”\n\nThese calls"
    )
    assert text.endswith('- Bash {}: done, "ok"')
    assert work_done([], None) is None
    assert work_done([], last.replace(text="")) == "The last whole message before the work was cut off was number 7."


@given(TEXTS)
def test_no_message_poses_as_anything_else_or_takes_too_much_room(words: str) -> None:
    text = work_done([], Marker(1, 1.0, words)) or ""
    assert escape(text) == text
    assert len(text.splitlines()) == 1 and len(text) < MESSAGE_CHARS + 100
