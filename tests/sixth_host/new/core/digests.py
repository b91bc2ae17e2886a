"""A digest: a summary of a thread, written by an agent in a thread of its own. The records and the prompt."""

from __future__ import annotations

from clew.core.record import Record

KIND = "digest"
PROMPT = "Summarise this conversation in one sentence:\n\n{text}"


class Digest(Record):
    id: str
    thread_id: str  # the thread in which the agent was asked
    about: str  # the name of the thread that is summarised
    text: str
