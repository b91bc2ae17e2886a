"""What happens during a run, as typed records named in the past tense.

The engine stores all of them in order; surfaces show them. `to_body` and `from_body` convert to and from the stored
form: plain dicts, tagged by `kind`, so that an older reader can skip a kind that it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.record import Record, fields_of
from clew.core.runs.tool_rules import ToolRule

if TYPE_CHECKING:
    from clew.core.runs.proposed_edits import ProposedEdit

KINDS: dict[str, type[Event]] = {}


class Event(Record):
    """Base of all events. `urgent` events are state changes: they are stored at once, not batched."""

    kind: ClassVar[str]  # the tag of the stored form
    urgent: ClassVar[bool]

    def __init_subclass__(cls, *, kind: str, urgent: bool = False) -> None:
        super().__init_subclass__()
        cls.kind, cls.urgent = kind, urgent
        KINDS[kind] = cls


class RunQueued(Event, kind="run_queued", urgent=True):
    """The run waits: for the thread (another run has its lease, or it is open in a terminal), for a free agent slot,
    for a usage limit to reset, or until a person sends it."""

    waiting_for: str  # "thread", "terminal", "slot", "limit" or "person" (the run is on hold)
    held_by: str | None = None  # the run that holds the thread
    until: float | None = None  # when the limit resets, in epoch seconds


class AttemptStarted(Event, kind="attempt_started", urgent=True):
    number: int
    resumed: bool
    reason: str | None  # why it is fresh; of one that resumes: why the session was rewound or copied
    omitted_turns: int = 0  # left out of a transcript that was too long
    rewound_to: int | None = None  # the number of the last turn that the rewound session holds; None: it holds all
    warm: bool = False  # the agent's process was kept after an earlier turn, or started ahead of this one


class SessionStarted(Event, kind="session_started"):
    """The agent has reported its session and model."""

    session_id: str
    model: str


class TextStreamed(Event, kind="text_streamed"):
    """A piece of the answer, as it arrives."""

    text: str


class TextWithdrawn(Event, kind="text_withdrawn"):
    """The request broke off, and the agent retries it: the pieces since the last whole message do not count."""


class MessageSaid(Event, kind="message_said"):
    """One complete text block of the answer: the streamed pieces, joined."""

    text: str
    message_id: str | None = None  # the agent's own id of the entry


class ToolStarted(Event, kind="tool_started"):
    tool_id: str
    name: str
    input: Mapping[str, Any]


class ToolFinished(Event, kind="tool_finished"):
    tool_id: str
    is_error: bool
    output: str  # only its beginning: all of it is in the agent's own session
    ran: bool = True  # False: it was declined or does not exist, so nothing happened; when unknown, True
    declined: bool = False  # a person or a rule refused it; `core/runs/tool_calls` gives the state of a call


class TokensCounted(Event, kind="tokens_counted"):
    """What the attempt has used so far, if the agent reports it during the run. `RunEnded` has the final count."""

    usage: Usage


class QuestionAsked(Event, kind="question_asked", urgent=True):
    """The agent waits for a person: a permission for a tool, or a question form."""

    question_id: str
    tool: str
    input: Mapping[str, Any]
    is_form: bool  # AskUserQuestion: the agent wants answers, not a permission
    tool_id: str | None = None  # the tool call that it is about, if the agent says so
    # For the person who is asked now, and so not stored with the event:
    rule: ToolRule | None = None  # what "always in this thread" would allow; None: the request can be allowed once
    edits: tuple[ProposedEdit, ...] = ()  # what the tool would change in files, as they are now
    has_run: bool = True  # False: it is about a file that a prompt mentions, before there is a run


class QuestionAnswered(Event, kind="question_answered", urgent=True):
    question_id: str
    allowed: bool
    message: str = ""
    by: str = "user"  # else what gave the answer: "policy" (the thread's permissions), "run rule", "thread rule"
    scope: str = "once"  # of a permission: once, run, thread


class QuestionWithdrawn(Event, kind="question_withdrawn", urgent=True):
    question_id: str


class AgentRetried(Event, kind="agent_retried"):
    """The agent retried a failed API request by itself."""

    attempt: int
    delay_s: float
    error: str


class Compacted(Event, kind="compacted"):
    """The agent compacted its own session. Clew only shows it, because it explains a slow or forgetful turn."""


class FellBack(Event, kind="fell_back", urgent=True):
    """The attempt failed in a way that a fresh session can fix, and no tool had run."""

    reason: str


class Warned(Event, kind="warned", urgent=True):
    """Something that the user should know and that does not stop the run."""

    code: str
    message: str


class RunEnded(Event, kind="run_ended", urgent=True):
    """The last event of every run."""

    status: str
    outcome: str
    usage: Usage = NO_USAGE
    cost_usd: float = 0.0
    message: str = ""


_NOT_STORED = {QuestionAsked.kind: ("rule", "edits", "has_run")}


def to_body(event: Event) -> dict[str, Any]:
    body = event.as_dict()
    for name in _NOT_STORED.get(event.kind, ()):
        del body[name]
    return body


def from_body(kind: str, body: Mapping[str, Any]) -> Event | None:
    """The event, or None for a kind that only a later version knows. Fields of a later version are dropped."""
    cls = KINDS.get(kind)
    if cls is None:
        return None
    values = {key: value for key, value in body.items() if key in fields_of(cls)}
    if isinstance(values.get("usage"), Mapping):
        values["usage"] = Usage(**{key: count for key, count in values["usage"].items() if key in fields_of(Usage)})
    return cls(**values)
