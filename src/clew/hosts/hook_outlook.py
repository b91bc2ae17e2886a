"""What an event would send to an agent, said before: decided as its first run will be, and nothing stored."""

from __future__ import annotations

from clew.core.decision import Reason, Resume
from clew.core.job import UNDER_WAY
from clew.core.record import Record
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.engine.settings import Ask
from clew.hosts.hook_plan import Planned
from clew.store.store import Store


class Ahead(Record):
    """The run that would follow, as things stand now."""

    resumes: bool
    reason: str | None  # why not
    prompt: str  # to the letter, but for the marks of the fences, which are new each time
    told_before: int  # turns of the thread that a fresh session is told along with it
    jobs_before: int  # of the same key, not over yet: what they leave is not known


async def look_ahead(engine: Engine, planned: Planned) -> Ahead:
    """Raises AgentMissing when there is a thread to go on in and nobody to ask whether that can be done."""
    thread, turns, jobs = await engine.database.call(lambda store: _found(store, planned))
    if thread is None:
        return Ahead(False, Reason.FIRST_TURN, planned.full, 0, jobs)
    agent = planned.agent
    decision = await engine.outlook(
        Ask(
            thread=thread,
            text=planned.delta,
            full=planned.full,
            agent=agent.agent,
            model=agent.model,
            max_age_s=agent.max_age_s,
        )
    )
    if isinstance(decision, Resume):
        return Ahead(True, None, decision.prompt, 0, jobs)
    return Ahead(False, decision.reason, decision.prompt, turns - decision.omitted, jobs)


def _found(store: Store, planned: Planned) -> tuple[Thread | None, int, int]:
    """The key's thread as its agent is set up now, its turns, and the jobs that come first."""
    jobs = len(store.jobs(statuses=UNDER_WAY, key=planned.key, limit=1000))
    known = store.hook_key(planned.key)
    thread = store.thread(known.thread_id) if known is not None else None
    if thread is None or thread.cwd != planned.cwd:
        return None, 0, jobs
    agent = planned.agent
    now = thread.replace(agent=agent.agent, model=agent.model, permissions=agent.permissions)
    return now, len(store.history(thread.id)), jobs
