"""The chat host: a thread with a person in it. Asks, edits, truncates, retries.

It words nothing of its own: `standing` and `text` are what the person gave, and full and delta prompts are the core's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from clew.core.history import History, Role, Turn, Visibility
from clew.core.ids import RunId, ThreadId
from clew.core.outcome import Outcome
from clew.core.question import QuestionState
from clew.core.record import Record, replace
from clew.core.run import Run, RunStatus
from clew.core.thread import Permissions, Thread, Trust, name_from
from clew.engine.engine import Engine
from clew.engine.leases import is_dead, thread_key
from clew.engine.settings import Ask, Person
from clew.engine.turn import LiveTurn
from clew.errors import Busy, Conflict, NotFound, UsageError
from clew.hosts.checks import check_dir, check_name, check_prompt, existing_dir
from clew.hosts.outlook import Outlook, after_change, session_stands, worded
from clew.hosts.waiting import Waiting
from clew.store.store import Store

log = logging.getLogger("clew.hosts.chat")

T = TypeVar("T")
RUNS_LOOKED_AT = 1000


ASKED_BY_OTHERS = {
    "review": "clew review follow asks for the next round.",
    "job": "clew jobs retry tries the job again.",
    "hook": "clew jobs retry tries the job again.",
    "pair": "clew pair --resume goes on.",
}


class NewThread(Record):
    """What a thread is made with."""

    cwd: str
    agent: str
    model: str | None = None
    permissions: Permissions = Permissions.ASK
    trust: Trust = Trust.USER
    visibility: Visibility = Visibility.SHARED
    standing: str | None = None


class Deleted(Record):
    """What a delete took away, and where it is kept."""

    name: str
    turns: int  # all of them
    archive: Path | None  # None: a dry run
    archived_turns: int = 0  # of these, those that did not stand any more
    others: tuple[str, ...] = ()  # threads that went with it: the other one of a pair


class Chat(Waiting):
    def __init__(self, engine: Engine, archive_dir: Path) -> None:
        super().__init__(engine)
        self._archive_dir = archive_dir

    async def create(
        self, new: NewThread, *, name: str | None = None, prompt: str = "", thread_id: str | None = None
    ) -> Thread:
        """A thread under that name (Conflict when it is taken), or under one made from the prompt."""
        self._engine.adapter(new.agent)
        if name is not None:
            check_name(name)
        now = self._engine.around.clock()
        thread = Thread(
            id=ThreadId(thread_id or self._engine.around.new_id()),
            name=name or name_from(prompt),
            cwd=existing_dir(new.cwd),
            agent=new.agent,
            model=new.model,
            permissions=new.permissions,
            trust=new.trust,
            visibility=new.visibility,
            standing=new.standing,
            created_at=now,
            updated_at=now,
        )
        return await self._call(lambda store: store.create_thread(thread, unique=name is None))

    async def find(self, name: str) -> Thread | None:
        return await self._call(lambda store: store.thread(name))

    async def latest(self, cwd: str) -> Thread | None:
        """The thread last used in this directory."""
        return await self._call(lambda store: store.latest_thread(os.path.realpath(cwd)))

    async def list(self, *, cwd: str | None = None, limit: int = 50, offset: int = 0) -> list[Thread]:
        return await self._call(lambda store: store.threads(cwd=cwd, limit=limit, offset=offset))

    async def history(self, thread: Thread) -> History:
        return await self._call(lambda store: store.history(thread.id))

    async def change(self, thread: Thread, **changes: Any) -> Thread:
        """Other fields of its record, None for those that stay. All but the name wait until no run is going on.

        Another directory starts a fresh session; another agent takes its own default model unless one is named. An
        empty model or standing text takes it back.
        """
        wanted = {key: value for key, value in changes.items() if value is not None}
        if "cwd" in wanted:
            wanted["cwd"] = existing_dir(wanted["cwd"])
        if "name" in wanted:
            check_name(wanted["name"])
        if "agent" in wanted:
            self._engine.adapter(wanted["agent"])
            if wanted["agent"] != thread.agent:
                wanted.setdefault("model", None)
        for key in ("standing", "model"):
            if key in wanted:
                wanted[key] = wanted[key] or None
        wanted = {key: value for key, value in wanted.items() if value != getattr(thread, key)}
        if not wanted:
            return thread
        if wanted.keys() == {"name"}:
            now = self._engine.around.clock()
            return await self._call(lambda store: store.update_thread(thread.id, at=now, **wanted))
        return await self._idle(thread, lambda store, now: store.update_thread(thread.id, at=now, **wanted))

    async def ask(
        self,
        thread: Thread,
        text: str,
        *,
        agent: str | None = None,
        model: str | None = None,
        standing: str | None = None,
        force_fresh: bool = False,
        enable_resume: bool | None = None,
        timeout_s: float | None = None,
        wait: bool = True,
        person: Person | None = None,
        run_id: str | None = None,
        lasting: bool = False,
    ) -> LiveTurn:
        """Asks the thread's agent, or another one for this turn. `standing` holds from now on; "" takes it back."""
        check_prompt(text)
        check_dir(thread)
        if standing is not None and (standing or None) != thread.standing:
            now = self._engine.around.clock()
            thread = await self._call(lambda store: store.update_thread(thread.id, at=now, standing=standing or None))
        return await self._engine.start(
            Ask(
                thread=thread,
                text=text,
                agent=agent or thread.agent,
                model=model,
                standing=thread.standing,
                force_fresh=force_fresh,
                enable_resume=enable_resume,
                timeout_s=timeout_s,
                wait=wait,
                person=person,
                run_id=None if run_id is None else RunId(run_id),
                lasting=lasting,
            )
        )

    async def continue_after_limit(self, thread: Thread, limited: str, **options: Any) -> LiveTurn:
        """Continues a run that met the account's usage limit, in its session, as soon as the limit has reset.

        The prompt is stored when this returns, and the thread is the new run's while it waits. Raises Conflict when the
        run met no limit, or the thread has moved on since.
        """
        if thread.kind in ASKED_BY_OTHERS:
            raise UsageError(f"A {thread.kind} waits for a usage limit by itself.", hint=ASKED_BY_OTHERS[thread.kind])
        from clew.core.continuation import CONTINUE

        check_dir(thread)
        run, not_before = await self._call(lambda store: _limited(store, thread, limited))
        return await self._engine.start(
            Ask(
                thread=thread,
                text=CONTINUE,
                agent=run.agent,
                model=run.model,
                standing=thread.standing,
                enable_resume=run.asked.enable_resume,
                timeout_s=run.asked.timeout_s,
                not_before=not_before,
                continues=run.id,
                **options,
            ),
            lambda store, made: _check_newest(store, thread, run, made),
        )

    async def retry(self, thread: Thread, turn_id: str, **options: Any) -> LiveTurn:
        """Asks an earlier user turn again, in a fresh session; what follows it is archived when the run starts."""
        if thread.kind in ASKED_BY_OTHERS:
            raise UsageError(
                f"What {thread.name} is asked is not yours to ask again here: it is a {thread.kind}'s.",
                hint=ASKED_BY_OTHERS[thread.kind],
            )
        turn = await self._turn(thread, turn_id)
        check_dir(thread)
        if turn.role is not Role.USER:
            raise UsageError(
                f"{turn_id} is an agent's turn; only a user's can be asked again.",
                hint="clew threads show lists the turns with their ids.",
            )
        agent = options.pop("agent", None) or turn.agent or thread.agent
        model = options.pop("model", None) or (turn.model if turn.agent == agent else None)
        return await self._engine.start(
            Ask(
                thread=thread,
                text=turn.text,
                agent=agent,
                model=model,
                standing=thread.standing,
                force_fresh=True,
                retry_of=turn.id,
                **options,
            )
        )

    async def edit(self, thread: Thread, turn_id: str, text: str) -> Turn:
        """Another text for a turn. The old one is kept; later turns stay."""
        turn = await self._turn(thread, turn_id)
        check_prompt(text)
        now = self._engine.around.clock()
        if text == turn.text:
            return turn
        return await self._call(lambda store: store.edit_turn(turn.id, text, now))

    async def truncate(self, thread: Thread, turn_id: str) -> int:
        """Archives that turn and all after it. Returns how many."""
        turn = await self._turn(thread, turn_id)

        def archive(store: Store, now: float) -> int:
            count = store.archive_turns(thread.id, turn.id, inclusive=True, at=now, why="truncate")
            standing = {each.id for each in store.history(thread.id)}
            for question in store.open_questions(thread.id):
                if store.require_run(question.run_id).prompt_turn_id not in standing:
                    store.close_question(question, QuestionState.WITHDRAWN, now)
            return count

        return await self._idle(thread, archive)

    async def session_stands(self, thread: Thread) -> bool | None:
        """Does all that the thread's session was given still stand? None: it has none that could be resumed."""
        return await self._call(lambda store: session_stands(store, thread, store.history(thread.id)))

    async def outlook(self, thread: Thread, turn_id: str | None = None) -> Outlook:
        """What the next turn of the thread's own agent would be, and what changing that turn would do to it."""
        decision = await self._engine.outlook(
            Ask(thread=thread, text="?", agent=thread.agent, standing=thread.standing)
        )
        said = worded(decision)
        if turn_id is None:
            return said
        turn = await self._turn(thread, turn_id)
        return replace(said, after_change=await self._call(lambda store: after_change(store, thread, turn)))

    async def delete(self, thread: Thread, *, dry_run: bool = False) -> Deleted:
        """Puts the thread away, with the other one of a pair. Raises Busy while it is in use."""

        def planned(store: Store) -> Deleted:
            others = store.companions(thread.id)
            turns = [turn for each in (thread, *others) for turn in store.all_turns(each.id)]
            names = tuple(other.name for other in others)
            return Deleted(thread.name, len(turns), None, sum(turn.archived for turn in turns), names)

        plan = await self._call(planned)
        if dry_run:
            return plan

        from clew.hosts.archives import Archives

        done = await Archives(self._engine, self._archive_dir).archive(thread.id, asked=True)
        return replace(plan, archive=done.path)

    async def _turn(self, thread: Thread, turn_id: str) -> Turn:
        """By id, or by an unambiguous beginning of one."""
        found = [turn for turn in await self.history(thread) if turn.id.startswith(turn_id)] if turn_id else []
        exact = [turn for turn in found if turn.id == turn_id]
        if len(exact or found) != 1:
            what = "names more than one turn" if found else "is not a turn"
            raise NotFound(
                f"{turn_id!r} {what} of {thread.name}.",
                hint=f"clew threads show {thread.name} lists them with their ids.",
            )
        return (exact or found)[0]

    async def _idle(self, thread: Thread, work: Callable[[Store, float], T]) -> T:
        """Changes that a run under way would not survive need the thread to themselves.

        One that died is brought to its end before: what it said belongs where it was asked.
        """
        around = self._engine.around
        await self._engine.recover()

        def guarded(store: Store) -> T:
            held = store.lease(thread_key(thread.id))
            holder = held.run_id if held is not None and not is_dead(store, held, around) else None
            begun = store.runs(thread_id=thread.id, statuses=[RunStatus.RUNNING, RunStatus.WAITING], limit=1)
            if holder is not None or begun:
                raise Busy(
                    f"A run is going on in {thread.name}.",
                    hint="Wait for it, or stop it with clew runs cancel.",
                    run_id=holder or begun[0].id,
                )
            return work(store, around.clock())

        return await self._engine.database.atomically(guarded)


def _limited(store: Store, thread: Thread, run_id: str) -> tuple[Run, float]:
    """The run, and when it may be continued."""
    from clew.engine.limits import wake_at

    run = store.require_run(run_id)
    if run.thread_id != thread.id or run.outcome != Outcome.USAGE_LIMIT:
        raise Conflict("That run met no usage limit.", hint="Ask again.")
    return run, wake_at(store, run)


def _check_newest(store: Store, thread: Thread, run: Run, made: Run) -> None:
    """Inside the transaction that stores the run `made`: nothing else was asked since."""
    newest = [each for each in store.runs(thread_id=thread.id, limit=RUNS_LOOKED_AT) if each.id != made.id]
    if [each.id for each in newest if not each.asked.held][:1] != [run.id]:  # a held one asks nothing by itself
        raise Conflict(f"{thread.name} has moved on since.", hint="Ask again, or wait for what is queued.")
