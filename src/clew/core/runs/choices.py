"""What a person can answer when an agent asks for permission: the five choices, for every surface.

The terminal and the page show these labels, and the HTTP API sends them with each question. A form has no choices: it
is answered with answers, or left open.
"""

from __future__ import annotations

from clew.core.record import Record
from clew.core.runs.permissions import Scope
from clew.core.runs.tool_rules import ToolRule

DECLINED = "The user declined."
_BECAUSE = "The user declined, and says: "
FORM_DECLINED = "The user did not answer the questions. Continue without them if you can."


class Choice(Record):
    name: str
    key: str  # that is typed in a terminal; "": the reason itself is typed
    label: str
    meaning: str  # one sentence
    allow: bool
    scope: Scope = Scope.ONCE
    says_why: bool = False  # it needs a text, which the agent is shown


ONCE = Choice("once", "y", "once", "Allow this request.", allow=True)
RUN = Choice(
    "run",
    "a",
    "all of this run",
    "Allow this and everything else that this run asks permission for, until it ends.",
    allow=True,
    scope=Scope.RUN,
)
THREAD = Choice(
    "thread",
    "t",
    "always in this thread",
    "Allow this, and do not ask for it again in this thread: `clew threads set NAME --forget-allowed` takes it back.",
    allow=True,
    scope=Scope.THREAD,
)
NO = Choice("no", "n", "no", "Decline; the agent continues without it.", allow=False)
NO_AND_WHY = Choice(
    "no-and-why",
    "",
    "no, and why",
    "Decline, and tell the agent why or what to do instead.",
    allow=False,
    says_why=True,
)
CHOICES = (ONCE, RUN, THREAD, NO, NO_AND_WHY)


def choices_for(rule: ToolRule | None, *, has_run: bool = True) -> tuple[Choice, ...]:
    """The choices for a request for permission with that rule. The label of `thread` says all that it would allow.

    Without a run there is no agent yet that could be told anything: it is allowed once, or not.
    """
    if not has_run:
        return ONCE, NO
    if rule is None:
        return tuple(choice for choice in CHOICES if choice is not THREAD)
    always = THREAD.replace(label=f"{THREAD.label}: {rule.words}")
    return tuple(always if choice is THREAD else choice for choice in CHOICES)


def declined_because(why: str) -> str:
    """What the agent is told when the person says no, and why."""
    return f"{_BECAUSE}{why}"


def reason_in(message: str) -> str:
    """What the person said, without the words around it."""
    return message.removeprefix(_BECAUSE)
