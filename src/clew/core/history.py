"""The thread's own history: turns, what an agent may see of them, and what a session absorbs of them.

A turn is one message, the user's or an agent's. The history is a tuple of turns in order; archived turns (truncated, or
replaced by a retry) are not in it. Everything here is a pure function of that tuple.

A thread may have ten thousand turns, and most decisions look at the newest one or two. So a history may also be a
`LongHistory`, which has the id and digest of every turn (its outline) and reads the turns themselves when somebody
looks at them. It is a value like the tuple: its outline says which texts these are. `outline_of`, `ids_of` and
`visible` give the same for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from typing import Protocol, Self, overload

from clew.core.hashing import blake2b
from clew.core.ids import RunId, TurnId
from clew.core.images import Image
from clew.core.record import Record


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"


class Visibility(StrEnum):
    """What an agent may see of the thread."""

    SHARED = "shared"  # everything: agents see each other's turns
    OWN = "own"  # only what follows the last answer of another agent


class Turn(Record):
    """One message of a thread."""

    id: TurnId
    role: Role
    text: str
    agent: str | None = None  # who answered; for a user turn, who was asked
    model: str | None = None
    partial: bool = False  # the answer was cut off: stopped, timed out, killed
    message_id: str | None = None  # the agent's own id of the answer's last entry, for a later rewind
    run_id: RunId | None = None
    revision: int = 0  # how often it was edited
    created_at: float = 0.0
    outside: bool = False  # it was made without Clew, in the agent's own CLI, and brought in from the session
    images: tuple[Image, ...] = ()  # of a user turn: shown to the agent with the text
    typed: str | None = None  # what the user typed, if `text` is what it stood for; only for display

    @property
    def shown(self) -> str:
        """The text for a person."""
        return self.text if self.typed is None else self.typed


History = tuple[Turn, ...]


def digest(turn: Turn) -> str:
    """A digest that changes exactly when a model would be shown something else for this turn.

    The id and the role are part of it, so that it also reveals an id that was reused for another text, and an edit that
    swaps two turns.
    """
    images = "".join(f"\0image {image.digest} {image.name}" for image in turn.images)
    return text_digest(f"{turn.id}\0{turn.role.value}\0{turn.text}{images}")


def text_digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


class Absorbed(str):
    """One turn that a session holds: its id and its digest. Without a digest, it was left out of a transcript that was
    too long.

    It is one text, `length of the id:id:digest`, and not a record of two. Before every answer, the list of everything
    that a session absorbed is read and compared with the thread, and texts are read and compared many times faster. No
    two turns have the same text, because the length says where the id ends.
    """

    __slots__ = ()

    def __new__(cls, turn_id: str, digest: str | None) -> Self:
        return super().__new__(cls, f"{len(turn_id)}:{turn_id}:{digest or ''}")

    @classmethod
    def of(cls, turn: Turn) -> Self:
        return cls(turn.id, digest(turn))

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> tuple[Self, ...]:
        return tuple(map(partial(str.__new__, cls), texts))

    @property
    def turn_id(self) -> TurnId:
        size, _, rest = self.partition(":")
        return TurnId(rest[: int(size)])

    @property
    def digest(self) -> str | None:
        size, _, rest = self.partition(":")
        return rest[int(size) + 1 :] or None

    @property
    def is_left_out(self) -> bool:
        """Whether it has no digest. Faster than to look for one: it is asked for thousands of turns."""
        return self.endswith(":")

    def __repr__(self) -> str:
        return f"Absorbed({self.turn_id!r}, {self.digest!r})"


class TurnReader(Protocol):
    """Reads what a long history does not have yet."""

    def turns(self, outline: Sequence[Absorbed], after: int) -> History:
        """These turns, with the texts that they had when the outline was read. `after`: how many follow them."""

    def chars(self, first: int, stop: int) -> int:
        """About how many characters these turns have in a transcript."""

    def end_of_others(self, agent: str, stop: int) -> int:
        """The place after the last answer of another agent before `stop`; 0: there is none."""


class LongHistory(Sequence[Turn]):
    """A history whose turns are read when somebody looks at them: the newest ones first, and then as many more.

    A slice without a step is again a long history. It reads with the one that it is a part of.
    """

    def __init__(self, outline: tuple[Absorbed, ...], chars: int | None, reader: TurnReader) -> None:
        self.outline = outline
        self._chars = chars  # None: the reader tells when somebody asks
        self._reader = reader
        self._newest = _Newest(outline, reader)
        self._first = 0

    @property
    def chars(self) -> int:
        """About how many characters it has in a transcript."""
        if self._chars is None:
            self._chars = self._reader.chars(self._first, self._first + len(self))
        return self._chars

    def end_of_others(self, agent: str) -> int:
        """Where that begins which follows the last answer of another agent."""
        return max(self._reader.end_of_others(agent, self._first + len(self)) - self._first, 0)

    def __len__(self) -> int:
        return len(self.outline)

    @overload
    def __getitem__(self, index: int) -> Turn: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Turn]: ...

    def __getitem__(self, index: int | slice) -> Turn | Sequence[Turn]:
        if isinstance(index, int):
            place = self._first + range(len(self))[index]  # raises IndexError as a tuple does
            return self._newest.read(place, place + 1)[0]
        start, stop, step = index.indices(len(self))
        if step != 1:
            return tuple(self)[index]
        return self._part(start, max(start, stop))

    def _part(self, start: int, stop: int) -> LongHistory:
        if (start, stop) == (0, len(self)):
            return self
        part = LongHistory(self.outline[start:stop], None, self._reader)
        part._newest, part._first = self._newest, self._first + start
        return part

    def __iter__(self) -> Iterator[Turn]:
        return iter(self._newest.read(self._first, self._first + len(self)))


class _Newest:
    """The turns that were read so far: all from some place on. Each read at least doubles them."""

    AT_FIRST = 32

    def __init__(self, outline: tuple[Absorbed, ...], reader: TurnReader) -> None:
        self._outline = outline
        self._reader = reader
        self._start = len(outline)
        self._turns: History = ()

    def read(self, first: int, stop: int) -> History:
        if first < min(self._start, stop):
            start = max(0, min(first, self._start - max(self.AT_FIRST, len(self._turns))))
            self._turns = self._reader.turns(self._outline[start : self._start], len(self._turns)) + self._turns
            self._start = start
        return self._turns[first - self._start : stop - self._start]


def outline_of(turns: Sequence[Turn]) -> Sequence[Absorbed]:
    """What a session would have absorbed that was shown all of these turns."""
    return turns.outline if isinstance(turns, LongHistory) else _Outline(turns)


class _Outline(Sequence[Absorbed]):
    """The outline of turns that are at hand. A digest is made when somebody asks for it."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = turns

    def __len__(self) -> int:
        return len(self._turns)

    @overload
    def __getitem__(self, index: int) -> Absorbed: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Absorbed]: ...

    def __getitem__(self, index: int | slice) -> Absorbed | Sequence[Absorbed]:
        return Absorbed.of(self._turns[index]) if isinstance(index, int) else _Outline(self._turns[index])

    def __iter__(self) -> Iterator[Absorbed]:
        return map(Absorbed.of, self._turns)


def ids_of(turns: Sequence[Turn]) -> Iterator[TurnId]:
    if isinstance(turns, LongHistory):
        return (known.turn_id for known in turns.outline)
    return (turn.id for turn in turns)


def visible(history: Sequence[Turn], agent: str, visibility: Visibility) -> Sequence[Turn]:
    """The part of the history that `agent` may see."""
    if visibility is Visibility.SHARED:
        return history
    if isinstance(history, LongHistory):
        return history[history.end_of_others(agent) :]
    start = 0
    for index, turn in enumerate(history):
        if turn.role is Role.ASSISTANT and turn.agent != agent:
            start = index + 1
    return history[start:]
