"""Where a thread is cut, and what of a session a fork may begin with: held against sessions that are made up here."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from clew.core.branching.fork import held_of, last_answer, renewed, rounds_in, until_round, until_turn
from clew.core.history import Absorbed, Role, Turn, digest
from clew.core.ids import PinId, SessionId, ThreadId, TurnId
from clew.core.pins import Pin, PinState, Runtime, is_valid
from clew.core.record import replace

RUNTIME = Runtime("claude", "/usr/bin/claude", "Claude Code", True, "/home/me/.claude")
Shown = tuple[str, str]  # a turn's id and text, as the model was shown it


def user(name: str) -> Turn:
    return Turn(TurnId(name), Role.USER, f"question {name}")


def said(name: str, message_id: str | None = None, *, partial: bool = False) -> Turn:
    return Turn(TurnId(name), Role.ASSISTANT, f"answer {name}", "claude", partial=partial, message_id=message_id)


HISTORY = (user("u1"), said("a1"), user("u2"), user("u3"), said("a3"), said("b3"))


def test_a_round_is_a_prompt_and_all_that_follows_it() -> None:
    assert rounds_in(HISTORY) == 3
    assert [len(until_round(HISTORY, number)) for number in (1, 2, 3, 4)] == [2, 3, 6, 6]


def test_a_turn_is_taken_with_its_answer_when_it_is_a_prompt() -> None:
    assert [len(until_turn(HISTORY, turn)) for turn in ("u1", "a1", "u2", "u3", "a3", "b3")] == [2, 2, 3, 6, 5, 6]


class Session:
    """A made-up one: each entry of its chain, and which turns the model read in it."""

    def __init__(self, number: int) -> None:
        self.chain: list[tuple[str, list[Shown]]] = []
        self.pin = Pin(
            PinId(f"p{number}"),
            ThreadId("t"),
            "claude",
            "m",
            SessionId(f"s{number}"),
            PinState.GOOD,
            "/project",
            RUNTIME,
        )

    def take(self, entry: str, turns: list[Turn]) -> None:
        self.chain.append((entry, [(turn.id, turn.text) for turn in turns]))
        self.pin = replace(self.pin, absorbed=(*self.pin.absorbed, *(Absorbed.of(turn) for turn in turns)))


class World:
    """A thread and the sessions that its turns were asked in."""

    def __init__(self) -> None:
        self.history: list[Turn] = []
        self.sessions: list[Session] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"{self.count}"

    def ask(self, *, fresh: bool, cut_off: bool) -> None:
        session = self.sessions[-1] if self.sessions else None
        if fresh or session is None or not is_valid(session.pin, self.history):
            session = Session(len(self.sessions))
            self.sessions.append(session)
        missed = self.history[len(session.pin.absorbed) :]
        prompt = user(self.name())
        session.take(f"u{prompt.id}", [*missed, prompt])
        answer = said(self.name(), f"m{self.count}", partial=cut_off)
        if cut_off:
            session.chain.append((f"m{self.count}", []))  # its beginning, which nobody counts as absorbed
        else:
            session.take(f"m{self.count}", [answer])
        self.history += [prompt, answer]

    def edit(self, place: int) -> None:
        if self.history:
            place %= len(self.history)
            self.history[place] = replace(self.history[place], text=f"edited {self.name()}")

    def truncate(self, place: int) -> None:
        del self.history[place % (len(self.history) + 1) :]


steps = st.one_of(
    st.tuples(st.just("ask"), st.booleans(), st.booleans()),
    st.tuples(st.just("edit"), st.integers(0, 20)),
    st.tuples(st.just("truncate"), st.integers(0, 20)),
)


@given(st.lists(steps, max_size=15), st.integers(1, 10))
def test_a_copy_holds_the_turns_of_the_fork_as_they_are_each_once(script: list[tuple[object, ...]], at: int) -> None:
    world = World()
    for step in script:
        match step:
            case ("ask", bool(fresh), bool(cut_off)):
                world.ask(fresh=fresh, cut_off=cut_off)
            case ("edit", int(place)):
                world.edit(place)
            case ("truncate", int(place)):
                world.truncate(place)
    part = until_round(tuple(world.history), at)
    for session in world.sessions:
        held = held_of(session.pin, part)
        entries = [entry for entry, _ in session.chain]
        last = last_answer(part[:held], [entry for entry in entries if entry.startswith("m")])
        if last is None:
            continue
        copied = session.chain[: entries.index(str(part[last].message_id)) + 1]
        read = [shown for _, turns in copied for shown in turns]
        assert read == [(turn.id, turn.text) for turn in part[: last + 1]]
        copies = {turn.id: replace(turn, id=TurnId(f"new {turn.id}")) for turn in part}
        pin = replace(session.pin, absorbed=renewed(session.pin.absorbed[: last + 1], copies))
        assert is_valid(pin, list(copies.values())), "and the fork's own pin says so"


def test_a_turn_that_was_left_out_of_a_transcript_stays_left_out() -> None:
    turn = said("a1", "m1")
    [known] = renewed([Absorbed(turn.id, None)], {turn.id: replace(turn, id=TurnId("new"))})
    assert known == Absorbed(TurnId("new"), None)
    [known] = renewed([Absorbed.of(turn)], {turn.id: replace(turn, id=TurnId("new"))})
    assert known.digest == digest(replace(turn, id=TurnId("new")))


def test_a_turn_that_was_edited_since_is_not_told_as_known() -> None:
    turn = said("a1", "m1")
    copy = replace(turn, id=TurnId("new"), text="another text")
    [known] = renewed([Absorbed.of(turn)], {turn.id: copy})
    assert (known.turn_id, known.digest) == ("new", digest(turn))
