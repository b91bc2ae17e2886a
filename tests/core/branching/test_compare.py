"""Two histories laid side by side, their words, and what was written to files."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from calls import count_calls
from clew.core.branching.compare import DiffKind, align, asked_by_user, in_common, rounds, words
from clew.core.branching.edits import MAX_DIFF_LINES, EditKind, FileDiffKind, FileEdit, compare_files, diff_lines
from clew.core.continuation import CONTINUE, CONTINUE_PAIR
from clew.core.history import Role, Turn
from clew.core.ids import TurnId

TEXTS = st.sampled_from(
    ["go on", "fix the login page", "fix the login form, please", "write tests", "", "done", "# User\nx", "ß\ud800"]
)
HISTORIES = st.lists(st.tuples(st.sampled_from(list(Role)), TEXTS), max_size=14)


def history(said: Iterable[tuple[Role, str]], side: str = "a") -> list[Turn]:
    return [Turn(TurnId(f"{side}{place}"), role, text) for place, (role, text) in enumerate(said)]


def asked(*texts: str, side: str = "a") -> list[Turn]:
    """User and agent in turn."""
    return history(((Role.ASSISTANT if n % 2 else Role.USER, text) for n, text in enumerate(texts)), side)


def seen(a: list[Turn], b: list[Turn]) -> list[tuple[str, str | None, str | None]]:
    return [(each.step.value, each.a and each.a.text, each.b and each.b.text) for each in align(a, b)]


@given(HISTORIES, HISTORIES)
def test_every_turn_of_both_appears_once_and_in_order(
    one: list[tuple[Role, str]], other: list[tuple[Role, str]]
) -> None:
    a, b = history(one, "a"), history(other, "b")
    steps = align(a, b)
    assert [step.a for step in steps if step.a is not None] == a
    assert [step.b for step in steps if step.b is not None] == b
    for step in steps:
        paired = step.a is not None and step.b is not None
        assert paired == (step.step in (DiffKind.SAME, DiffKind.CHANGED))
        if step.a is not None and step.b is not None:
            assert step.a.role is step.b.role
            assert (step.a.text == step.b.text) == (step.step is DiffKind.SAME)


@given(HISTORIES)
def test_a_thread_is_the_same_as_itself(said: list[tuple[Role, str]]) -> None:
    a, b = history(said, "a"), history(said, "b")
    assert [step.step for step in align(a, b)] == [DiffKind.SAME] * len(said)
    assert in_common(a, b) == len(said)


@given(HISTORIES, HISTORIES)
def test_common_beginning_is_whole_exchanges_that_are_the_same(
    one: list[tuple[Role, str]], other: list[tuple[Role, str]]
) -> None:
    a, b = history(one), history(other)
    count = in_common(a, b)
    assert [(turn.role, turn.text) for turn in a[:count]] == [(turn.role, turn.text) for turn in b[:count]]
    for rest in (a[count:], b[count:]):
        assert not count or not rest or rest[0].role is Role.USER, "no answer is parted from its question"


def test_answers_to_the_same_question_stand_together_however_they_differ() -> None:
    a = asked("Which database?", "PostgreSQL, since it scales.", "Why?", "Because.")
    b = asked("Which database?", "Take files and be happy!", "Why?", "Simple.", side="b")
    assert [step for step, _, _ in seen(a, b)] == ["same", "changed", "same", "changed"]


def test_question_that_only_one_asked_does_not_shift_the_others() -> None:
    a = asked("Read the parser.", "Read.", "Fix the lexer bug in line 3.", "Fixed.", "Write the tests now.", "Written.")
    b = asked("Read the parser.", "Read.", "Write the tests now, all of them.", "Written.", side="b")
    assert seen(a, b) == [
        ("same", "Read the parser.", "Read the parser."),
        ("same", "Read.", "Read."),
        ("only_a", "Fix the lexer bug in line 3.", None),
        ("only_a", "Fixed.", None),
        ("changed", "Write the tests now.", "Write the tests now, all of them."),
        ("same", "Written.", "Written."),
    ]


def test_unlike_questions_are_not_held_against_each_other() -> None:
    a = asked("Paint the shed green.", "ok")
    b = asked("Compute seventeen factorial!", "ok", side="b")
    assert [step for step, _, _ in seen(a, b)] == ["only_a", "only_a", "only_b", "only_b"]


def test_long_turns_that_are_far_from_their_likes_are_aligned() -> None:
    def text(number: int) -> str:
        return f"{number} " + " ".join(f"w{number * place % 9973}" for place in range(1, 600))

    a = asked(*(text(number) * 3 for number in range(400)))
    b = asked(*(text(number + 40) * 3 for number in range(400)), side="b")
    steps = align(a, b)
    assert [step.step for step in steps[:40]] == [DiffKind.ONLY_A] * 40
    assert sum(step.step is DiffKind.SAME for step in steps) == 360


def test_of_a_long_text_only_the_beginning_and_the_end_are_looked_at() -> None:
    def steps(*, own: slice) -> list[DiffKind]:
        """Of two prompts whose words are the same, but for those in that place."""
        prompts = []
        for mark in "ab":
            text = [f"shared{number:06}" for number in range(20_000)]
            text[own] = [f"only_{mark}{number:06}" for number in range(20_000)[own]]
            prompts.append(asked(" ".join(text), side=mark))
        return [each.step for each in align(*prompts)]

    assert steps(own=slice(400, -100)) == [DiffKind.CHANGED], "nobody looks at the middle"
    assert steps(own=slice(0, 19_900)) == [DiffKind.ONLY_A, DiffKind.ONLY_B]


def test_twice_the_turns_are_twice_the_work() -> None:
    def calls(count: int) -> int:
        a, b = (asked(*(f"{side}{number}" for number in range(2 * count)), side=side) for side in "ab")
        return count_calls(lambda: align(a, b))

    few, many = calls(255), calls(510)  # rounds; one table of all pairs would be four times the work
    assert few < 255 * 255 * 8, "a sketch is made once for each text, not for each pair"
    assert many < few * 2.2


def test_history_begins_with_an_answer() -> None:
    turns = history([(Role.ASSISTANT, "hello"), (Role.USER, "hi"), (Role.ASSISTANT, "a"), (Role.ASSISTANT, "b")])
    assert [(each.prompt, each.answer) for each in rounds(turns)] == [("", "hello"), ("hi", "a\n\nb")]


@given(st.text(max_size=200), st.text(max_size=200))
def test_words_make_up_both_texts(a: str, b: str) -> None:
    pieces = words(a, b)
    assert "".join(piece.text for piece in pieces if piece.step is not DiffKind.ONLY_B) == a
    assert "".join(piece.text for piece in pieces if piece.step is not DiffKind.ONLY_A) == b


def test_words_that_differ_are_told_from_those_that_do_not() -> None:
    told = [(piece.step.value, piece.text) for piece in words("the quick fox", "the slow fox")]
    assert told == [("same", "the"), ("only_a", " quick"), ("only_b", " slow"), ("same", " fox")]


def test_endless_texts_are_told_apart_as_a_whole() -> None:
    """Nothing is looked for in them: what both hold in their middle is not found."""
    short, long = (
        ("x y\n" * count + "in both\n" + "x y\n" * count, "y x x\n" * count + "in both\n" + "y x x\n" * count)
        for count in (100, 60_000)
    )
    assert (DiffKind.SAME, "in both") in [(piece.step, piece.text.strip()) for piece in words(*short)]
    assert [piece.step for piece in words(*long)] == [DiffKind.ONLY_A, DiffKind.ONLY_B]


def edit(path: str, old: str, new: str, *, everywhere: bool = False) -> FileEdit:
    return FileEdit(path, EditKind.CHANGE, old, new, everywhere)


def write(path: str, new: str | None) -> FileEdit:
    return FileEdit(path, EditKind.WRITE, new=new)


def test_files_are_compared_by_what_the_edits_made_of_them() -> None:
    a = [write("a", "x\ny\n"), edit("a", "y", "z"), write("b", "1\n"), write("c", "c\n"), edit("e", "1", "2")]
    b = [write("a", "x\nz\n"), write("b", "2\n"), write("d", None), edit("e", "1", "2")]
    found = {file.path: file.step for file in compare_files(a, b)}
    assert found == {
        "a": FileDiffKind.SAME,
        "b": FileDiffKind.CHANGED,
        "c": FileDiffKind.ONLY_A,
        "d": FileDiffKind.ONLY_B,
        "e": FileDiffKind.SAME,
    }


def test_edit_whose_text_is_not_told_is_not_called_the_same() -> None:
    [file] = compare_files([write("a", None)], [write("a", None)])
    assert file.step is FileDiffKind.BOTH
    assert diff_lines(file, ("A", "B")) == []


def test_diff_of_files_is_between_their_ends_or_of_each_edit() -> None:
    [known] = compare_files(
        [write("f", "one\ntwo\n")], [write("f", "one\ntwo two\n"), edit("f", "two", "2", everywhere=True)]
    )
    assert diff_lines(known, ("A", "B")) == ["--- A/f", "+++ B/f", "@@ -1,2 +1,2 @@", " one", "-two", "+2 2"]
    [unknown] = compare_files([edit("f", "one", "1")], [edit("f", "one", "I")])
    lines = diff_lines(unknown, ("A", "B"))
    assert [line for line in lines if not line.startswith("@@")] == [
        *("--- f", "+++ A/f", "-one", "+1"),
        *("--- f", "+++ B/f", "-one", "+I"),
    ]


def test_no_diff_is_made_of_texts_with_too_many_lines() -> None:
    half = MAX_DIFF_LINES // 2
    for lines, is_shown in ((half, True), (half + 1, False)):
        [file] = compare_files([write("f", "a\n" * half)], [write("f", "b\n" * lines)])
        assert file.step is FileDiffKind.CHANGED
        assert bool(diff_lines(file, ("A", "B"))) is is_shown, lines


def test_an_answer_after_clews_own_prompt_belongs_to_the_users_prompt_before_it() -> None:
    said = asked("one", "half of", CONTINUE, "the answer", "two", "cut", f"{CONTINUE_PAIR}\n\nAlso three.", "both")
    found = [(each.prompt, each.answer) for each in asked_by_user(said)]
    assert found == [("one", "half of\n\nthe answer"), ("two", "cut"), ("Also three.", "both")]
    assert asked_by_user(asked(CONTINUE, "answer")) == [], "nobody asked anything"
