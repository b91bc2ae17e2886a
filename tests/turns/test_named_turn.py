"""How a turn is named: by its id, by its number in the thread, or by a beginning of its id that is long enough."""

from __future__ import annotations

import pytest

from clew.core.history import Role, Turn
from clew.core.ids import ThreadId, TurnId
from clew.core.thread import Thread
from clew.errors import NotFound, UsageError
from clew.hosts.validation import named_turn

THREAD = Thread(ThreadId("t"), "login", "/work", "claude", None)
IDS = ("2f00aaaa", "1b00aaaa", "12345678", "3c00aaaa", "3c00bbbb")
HISTORY = tuple(Turn(TurnId(each), Role.USER, "text") for each in IDS)


def found(name: str) -> str:
    return named_turn(THREAD, HISTORY, name).id


@pytest.mark.parametrize("number", range(1, len(IDS) + 1))
def test_a_number_is_that_of_the_turn_whatever_the_ids_begin_with(number: int) -> None:
    assert found(str(number)) == IDS[number - 1]


@pytest.mark.parametrize("name", ["2f00aaaa", "2f00", "1b00", "1234", "123456", "12345678", "3c00b"])
def test_an_id_or_a_long_beginning_of_it_names_its_turn(name: str) -> None:
    assert found(name) == next(each for each in IDS if each.startswith(name))


def test_a_whole_id_is_never_taken_as_a_number() -> None:
    short = (*HISTORY, Turn(TurnId("2"), Role.USER, "text"))

    assert named_turn(THREAD, short, "2").id == "2"


@pytest.mark.parametrize("name", ["", "b", "1b", "2f0", "0", "01", "-1", "+1", " 1", "1.", "1_0", "١", "²"])
def test_a_short_beginning_is_refused_even_if_only_one_id_has_it(name: str) -> None:
    with pytest.raises(UsageError, match="is not a turn of login: give a turn's number, or at least 4 characters"):
        found(name)


@pytest.mark.parametrize("name", ["6", "12", "123"])
def test_a_number_that_the_thread_does_not_have_is_refused_and_never_taken_as_a_beginning(name: str) -> None:
    with pytest.raises(UsageError, match=f"login has no turn {name}: it has 5"):
        found(name)


@pytest.mark.parametrize(
    ("name", "problem"), [("3c00", "names more than one"), ("zzzz", "is not a"), ("9999", "is not a")]
)
def test_a_beginning_that_no_id_or_more_than_one_id_has_is_not_found(name: str, problem: str) -> None:
    with pytest.raises(NotFound, match=f"'{name}' {problem} turn of login"):
        found(name)


def test_in_a_long_thread_a_number_of_four_digits_is_a_number() -> None:
    long = tuple(Turn(TurnId(f"1234{n:08}"), Role.USER, "text") for n in range(1, 1301))

    assert named_turn(THREAD, long, "1234").id == "123400001234"
