"""What a fresh session is told about the tool calls before it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clew.core.jobs.job import ProgressMarker
from clew.core.prompts import escape
from clew.core.runs.events import Event, ToolFinished, ToolStarted
from clew.core.work_done import LIMIT_CHARS, MESSAGE_CHARS, Call, call_list, calls, work_done

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


def test_calls_that_ran_are_listed_in_order_with_their_results() -> None:
    events: list[Event | None] = [
        ToolStarted("1", "Write", {"file": "a"}),
        ToolStarted("2", "Bash", {"command": "rm b"}),
        None,  # an event of a later version
        ToolFinished("2", is_error=True, output="declined", ran=False),
        ToolFinished("1", is_error=False, output="written\nall of it"),
        ToolStarted("3", "Bash", {"command": "make"}),
        ToolFinished("3", is_error=True, output="no rule"),
        ToolStarted("4", "Bash", {"command": "sleep 60"}),
        ToolFinished("9", is_error=False, output="nobody asked"),
    ]
    assert (call_list(calls(events)) or "").splitlines() == [
        '- Write {"file": "a"}: done, "written\\nall of it"',
        '- Bash {"command": "make"}: failed, "no rule"',
        '- Bash {"command": "sleep 60"}: cut off while it ran',
    ]
    assert call_list(()) is None


def test_the_newest_calls_are_listed_and_the_others_counted() -> None:
    made = [Call("Bash", {"command": f"step {n} {'x' * 300}"}, "ok") for n in range(100)]
    lines = (call_list(made) or "").splitlines()
    assert "step 99" in lines[-1] and f"step {101 - len(lines)} " in lines[1]
    assert lines[0] == f"[{101 - len(lines)} earlier calls left out here.]"


@given(st.lists(CALLS, max_size=9))
def test_a_call_never_looks_like_a_heading_and_is_short(made: list[Call]) -> None:
    text = call_list(made) or ""
    assert escape(text) == text, "nothing looks like a heading"
    assert all(line.startswith(("- ", "[")) for line in text.splitlines())
    assert len(text) <= LIMIT_CHARS + 100
    assert text.encode() or not made


def test_the_last_message_is_named_before_the_calls() -> None:
    last = ProgressMarker(7, 1.0, "Now\n the tests.")
    text = work_done([Call("Bash", {}, "ok")], last) or ""
    assert text.startswith(
        "The last whole message before the work was cut off was number 7: “Now the tests.”\n\nThese calls"
    )
    assert text.endswith('- Bash {}: done, "ok"')
    assert work_done([], None) is None
    assert work_done([], last.replace(text="")) == "The last whole message before the work was cut off was number 7."


@given(TEXTS)
def test_a_message_never_looks_like_a_heading_and_is_short(words: str) -> None:
    text = work_done([], ProgressMarker(1, 1.0, words)) or ""
    assert escape(text) == text
    assert len(text.splitlines()) == 1 and len(text) < MESSAGE_CHARS + 100
