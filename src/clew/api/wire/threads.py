"""Threads, and what a page shows of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from clew.api.wire.failures import Failure
from clew.api.wire.questions import Question, ToolRule, question, tool_rule
from clew.api.wire.run_failures import failure_of
from clew.api.wire.runs import Run, Status, run
from clew.api.wire.shape import Doc, Money, Permissions, Shape, Time, Trust, Visibility
from clew.api.wire.turns import Turn, turn
from clew.core.runs.run import LIVE

if TYPE_CHECKING:
    from clew.core.thread import Origin as OriginRecord
    from clew.hosts.chat.chat import Deleted, Synced
    from clew.store.records import ThreadPage as ThreadPageRecord
    from clew.store.records import ThreadSummary
    from clew.store.records import ThreadView as ThreadViewRecord


class LiveRun(Shape):
    run_id: str
    status: Status


class SourceThread(Shape):
    id: str
    name: Annotated[str, Doc("Its name at that time")]


class Origin(Shape):
    """The threads that a thread was created from."""

    how: Literal["fork", "replay", "merge"]
    of: list[SourceThread]  # type: ignore[assignment]  # the key of the JSON object; Shape.of is not used here
    round: Annotated[int | None, Doc("The last round that was copied; null: all of them")]


class Thread(Shape):
    """A conversation that Clew keeps."""

    id: str
    name: str
    cwd: str
    agent: str
    model: str | None
    permissions: Permissions
    trust: Trust
    visibility: Visibility
    instructions: str | None
    allowed: Annotated[list[ToolRule], Doc("What a person has allowed for good; `forget_allowed` takes it back")]
    kind: str
    origin: Annotated[Origin | None, Doc("Null: it was not made from another thread")]
    created_at: Time
    updated_at: Time
    version: Annotated[int, Doc("The version of the store at its last change")]
    turns: Annotated[int, Doc("The number of visible turns")]
    cost_usd: Annotated[Money, Doc("The cost of all its runs, also of turns that were made outside Clew")]
    live: Annotated[LiveRun | None, Doc("The run that is running or waiting, else the first queued one")]
    opened_at: Annotated[Time | None, Doc("Since when it is open in a terminal (clew open); null: it is not")]
    questions: Annotated[int, Doc("The number of open questions")]
    last_text: Annotated[str, Doc("The beginning of its last turn")]
    first_failure: Annotated[Failure | None, Doc("Why its last run failed, if the thread never got an answer")]


class ThreadPage(Shape):
    items: list[Thread]
    total: Annotated[int, Doc("The number of items on all pages")]
    version: int


class DeletedThread(Shape):
    name: str
    others: Annotated[list[str], Doc("Threads that are deleted too: the other one of a pair")]
    turns: Annotated[int, Doc("The number of visible turns")]
    archived_turns: Annotated[int, Doc("Turns that were truncated or retried; the archive has them too")]
    archive: Annotated[str | None, Doc("The archive's file; null: a dry run")]


class AgentAhead(Shape):
    """The agent that the next turn of a thread will need."""

    waiting: Annotated[bool, Doc("Whether it runs and waits for the prompt")]


class ThreadView(Shape):
    """Everything that a page needs to show a thread. All but `outside_turns` is read in one transaction."""

    thread: Thread
    turns: Annotated[list[Turn], Doc("Oldest first")]
    more: Annotated[bool, Doc("Whether there are earlier turns")]
    runs: list[Run]
    questions: list[Question]
    outside_turns: Annotated[
        int, Doc("Turns that were made outside Clew and are not in the thread yet: POST …/sync brings them in")
    ]
    version: int


def thread(summary: ThreadSummary) -> Thread:
    record, live = summary.thread, summary.live
    return Thread.of(
        record,
        summary,
        instructions=record.standing,
        allowed=[tool_rule(rule) for rule in record.tool_rules],
        origin=None if record.origin is None else origin(record.origin),
        live=None if live is None else LiveRun.of(live, run_id=live.id),
        first_failure=None if summary.first_failure is None else failure_of(summary.first_failure),
    )


def origin(found: OriginRecord) -> Origin:
    return Origin(found.how.value, [SourceThread.of(each) for each in found.of], found.round)


def thread_page(page: ThreadPageRecord) -> ThreadPage:
    return ThreadPage.of(page, items=[thread(summary) for summary in page.items])


def deleted_thread(deleted: Deleted) -> DeletedThread:
    return DeletedThread.of(
        deleted,
        turns=deleted.turns - deleted.archived_turns,
        archive=None if deleted.archive is None else str(deleted.archive),
    )


def thread_view(found: ThreadViewRecord, outside: Synced) -> ThreadView:
    """`outside` says what a sync would bring in."""
    live = {each.run.id for each in found.runs if each.run.status in LIVE}
    return ThreadView.of(
        found,
        thread=thread(found.summary),
        turns=[turn(each) for each in found.turns],
        runs=[run(each) for each in found.runs],
        questions=[question(asked, live=asked.run_id in live) for asked in found.questions],
        outside_turns=len(outside.turns),
    )
