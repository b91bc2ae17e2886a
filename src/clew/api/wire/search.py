"""Turns that contain the words of a search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from clew.api.wire.shape import Doc, Shape, Time

if TYPE_CHECKING:
    from clew.store.views.search import SearchHit


class FoundText(Shape):
    """A turn that contains the words."""

    thread: Annotated[str, Doc("The thread's name")]
    thread_id: str
    kind: Annotated[str, Doc("The thread's kind")]
    cwd: str
    turn: Annotated[str, Doc("The turn's id")]
    role: Literal["user", "assistant"]
    agent: str | None
    model: str | None
    created_at: Time
    archived: Annotated[bool, Doc("The turn was truncated or asked again")]
    snippet: Annotated[str, Doc("The text around the first hit, on one line")]
    hits: Annotated[list[tuple[int, int]], Doc("The start and the end of each hit in the snippet")]


class FoundTexts(Shape):
    items: list[FoundText]
    more: Annotated[bool, Doc("There are more: ask again with a larger `offset`")]


def found_text(hit: SearchHit) -> FoundText:
    thread = hit.thread
    return FoundText.of(
        hit,
        thread=thread.name,
        thread_id=thread.id,
        kind=thread.kind,
        cwd=thread.cwd,
        turn=hit.turn_id,
        snippet=hit.snippet.text,
        hits=[list(span) for span in hit.snippet.hits],
    )
