"""The diff of an edit that a tool asks permission for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.branching.edits import EditKind, FileEdit
from clew.core.runs.proposed_edits import MAX_LINE_CHARS, MAX_LINES, NO_MATCH, PART_OF_NOTEBOOK, proposed_edit

LONG = "".join(f"line {number}\n" for number in range(1, 50_001))


def change(old: str, new: str, *, everywhere: bool = False) -> FileEdit:
    return FileEdit("a", EditKind.CHANGE, old, new, everywhere)


def write(text: str) -> FileEdit:
    return FileEdit("a", EditKind.WRITE, new=text)


def test_a_change_of_a_long_file_is_a_short_diff_with_its_place() -> None:
    edit = proposed_edit("a", [change("line 40000\n", "line forty\n")], LONG)
    assert edit.lines == (
        "@@ -39997,7 +39997,7 @@",
        *(f" line {number}" for number in (39997, 39998, 39999)),
        "-line 40000",
        "+line forty",
        *(f" line {number}" for number in (40001, 40002, 40003)),
    )
    assert (edit.note, edit.omitted) == ("", 0)


def test_several_changes_are_shown_as_what_becomes_of_the_file() -> None:
    edit = proposed_edit("a", [change("b", "B"), change("B\n", "X\n")], "a\nb\nc\n")
    assert edit.lines == ("@@ -1,3 +1,3 @@", " a", "-b", "+X", " c")
    everywhere = proposed_edit("a", [change("b", "x", everywhere=True)], "b\nb\n")
    assert everywhere.lines == ("@@ -1,2 +1,2 @@", "-b", "-b", "+x", "+x")


def test_a_new_file_is_all_added() -> None:
    edit = proposed_edit("a", [write("one\ntwo\n")], "", "A new file.")
    assert (edit.lines, edit.note) == (("@@ -0,0 +1,2 @@", "+one", "+two"), "A new file.")


@pytest.mark.parametrize(
    ("edits", "current", "note"),
    [
        ([change("gone", "new")], "text\n", NO_MATCH),
        ([FileEdit("a", EditKind.CHANGE, new="cell")], "{}", PART_OF_NOTEBOOK),
        ([change("old", "new")], None, "It cannot be read."),
    ],
)
def test_where_the_file_does_not_help_the_edit_itself_is_shown(
    edits: list[FileEdit], current: str | None, note: str
) -> None:
    edit = proposed_edit("a", edits, current, "It cannot be read." if current is None else "")
    assert edit.note == note
    assert any(line.startswith("+") for line in edit.lines)


def test_an_edit_that_changes_nothing_to_see_says_so() -> None:
    assert proposed_edit("a", [write("x\n")], "x\n").note == "Nothing changes."
    assert proposed_edit("a", [write("x")], "x\n").note == "Only the end of the last line changes."


def test_what_is_too_long_is_cut_and_counted() -> None:
    edit = proposed_edit("a", [write("y\n" * 3 + "z" * 5000)], LONG)
    assert len(edit.lines) == MAX_LINES
    assert edit.omitted == 50_000 + 4 + 1 - MAX_LINES
    [cut] = proposed_edit("a", [write("z" * 5000)], "").lines[1:]
    assert len(cut) == MAX_LINE_CHARS + 1


TEXTS = st.lists(st.sampled_from(["a", "b", "c", "@@", "\x1b[2K", "d\r"]), max_size=25).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@given(TEXTS, TEXTS)
def test_the_diff_turns_the_one_text_into_the_other(old: str, new: str) -> None:
    lines = proposed_edit("a", [write(new)], old).lines
    before, after = old.split("\n")[:-1], new.split("\n")[:-1]
    assert bool(lines) is (old != new)
    made, place = list[str](), 0
    for line in lines:
        if line.startswith("@@"):
            start, count = map(int, line.split()[1][1:].split(","))
            start -= 1 if count else 0
            made += before[place:start]
            place = start
        elif line[0] == "+":
            made.append(line[1:])
        else:
            assert before[place] == line[1:]
            made += [before[place]] if line[0] == " " else []
            place += 1
    assert made + before[place:] == after
