"""The chat host: a thread with a person in it. Asks, edits, truncates, retries.

It adds no text of its own: `standing` and `text` are the person's, and the core makes full and delta prompts of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from clew.core.expansion.expanded import Expanded, may_stand_for_files
from clew.core.history import History, Role, Turn, Visibility
from clew.core.ids import SessionId, ThreadId
from clew.core.images import ImageContent
from clew.core.outcome import Outcome
from clew.core.pins import Pin
from clew.core.record import Record, replace
from clew.core.runs.options import NO_OPTIONS, Person, TurnOptions
from clew.core.runs.question import QuestionState
from clew.core.runs.run import Run, RunStatus
from clew.core.session import SessionState
from clew.core.thread import Permissions, Thread, Trust, kind_of, name_from
from clew.engine.engine import Engine
from clew.engine.leases import in_use, live_lease, thread_key
from clew.engine.queue import another_run
from clew.engine.request import TurnRequest
from clew.engine.turn import LiveTurn
from clew.errors import Conflict, UsageError
from clew.hosts.validation import check_dir, check_idle, check_name, check_prompt, existing_dir, named_turn
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.core.explanation import Explanation
    from clew.core.runs.options import ImageSource
    from clew.engine.opening import HeldThread, Opening
    from clew.engine.sessions.compaction import Compacted
    from clew.engine.sessions.in_plain_cli import ThreadSession as ThreadSession
    from clew.engine.work import TurnWork as TurnWork
    from clew.hosts.chat.preview import Preview
    from clew.hosts.chat.questions import OpenQuestions
    from clew.hosts.chat.queued import QueuedPrompts
    from clew.hosts.chat.terminal import OpenTerminal
    from clew.hosts.expansion.expansion import Expansion

T = TypeVar("T")
RUNS_READ = 1000  # how many of the newest runs are read: more than a thread ever has queued


class NewThread(Record):
    """What a thread is created with."""

    cwd: str
    agent: str
    model: str | None = None
    permissions: Permissions = Permissions.ASK
    trust: Trust = Trust.USER
    visibility: Visibility = Visibility.SHARED
    standing: str | None = None


class Deleted(Record):
    """What a delete removed, and where the archive is."""

    name: str
    turns: int  # of all deleted threads, with archived ones
    archive: Path | None  # None: a dry run
    archived_turns: int = 0  # how many of `turns` had been archived before
    others: tuple[str, ...] = ()  # threads that were deleted with this one: the other thread of a pair


class ThreadWork(Record):
    """What the agents of a thread did, and the sessions in which they did it."""

    turns: tuple[TurnWork, ...]
    sessions: tuple[ThreadSession, ...]


class Synced(Record):
    """The turns that were made outside Clew and that came in, or that would come in."""

    name: str  # the thread's
    turns: History
    is_compacted: bool = False  # one of its sessions was compacted: it holds earlier turns only as a summary
    branched: tuple[SessionId, ...] = ()  # sessions that were continued apart from the thread: they can be adopted
    cost_usd: float = 0.0  # of those turns, as far as it is known


# Writes a thread, or both threads of a pair, to an archive file and deletes them from the store. Raises Busy.
Archive = Callable[[str], Awaitable[Path | None]]


class Chat:
    def __init__(self, engine: Engine, archive: Archive) -> None:
        self._engine = engine
        self._store = engine.store
        self._archive = archive

    @cached_property
    def questions(self) -> OpenQuestions:
        from clew.hosts.chat.questions import OpenQuestions

        return OpenQuestions(self._engine)

    @cached_property
    def queued(self) -> QueuedPrompts:
        from clew.hosts.chat.queued import QueuedPrompts

        return QueuedPrompts(self._engine, self.expansion)

    @cached_property
    def expansion(self) -> Expansion:
        from clew.hosts.expansion.expansion import Expansion

        return Expansion(self._engine)

    async def create(
        self, new: NewThread, *, name: str | None = None, prompt: str = "", thread_id: str | None = None
    ) -> Thread:
        """Creates a thread under that name (Conflict if it is taken), or under a name made from the prompt."""
        thread = self._record(new, name, prompt, thread_id)
        return await self._store.call(lambda store: store.threads.create(thread, unique=name is None))

    def _record(self, new: NewThread, name: str | None, prompt: str, thread_id: str | None = None) -> Thread:
        """A thread that is not stored yet. Raises UsageError."""
        self._engine.adapter(new.agent)
        if name is not None:
            check_name(name)
        now = self._engine.context.clock()
        return Thread(
            id=ThreadId(thread_id or self._engine.context.new_id()),
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

    async def require(self, name: str) -> Thread:
        return await self._store.call(lambda store: store.threads.require(name))

    async def find(self, name: str) -> Thread | None:
        return await self._store.call(lambda store: store.threads.find(name))

    async def latest(self, cwd: str) -> Thread | None:
        """The thread last used in this directory; if there is none, in the repository that contains it."""
        from clew.hosts.chat.latest import latest_thread

        return await latest_thread(self._engine, cwd)

    async def list(self, *, cwd: str | None = None, limit: int = 50, offset: int = 0) -> list[Thread]:
        return await self._store.call(lambda store: store.threads.recent(cwd=cwd, limit=limit, offset=offset))

    async def history(self, thread: Thread) -> History:
        return await self._store.call(lambda store: store.turns.history(thread.id))

    async def change(self, thread: Thread, **changes: Any) -> Thread:
        """Changes fields of the thread; None leaves a field. Raises Busy during a run, unless only the name changes, or
        `forget_allowed` takes back what was allowed for good.

        Another directory starts a fresh session; another agent uses its own default model unless one is named. An
        empty model or standing text removes it.
        """
        forgets = changes.pop("forget_allowed", None)
        wanted = self._wanted(thread, changes) | ({"tool_rules": ()} if forgets else {})
        if not wanted:
            return thread
        if wanted.keys() <= {"name", "tool_rules"}:
            now = self._engine.context.clock()
            return await self._store.call(lambda store: store.threads.update(thread.id, at=now, **wanted))
        return await self._while_idle(thread, lambda store, now: store.threads.update(thread.id, at=now, **wanted))

    def _wanted(self, thread: Thread, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The changes that make a difference, checked. Raises UsageError."""
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
        return {key: value for key, value in wanted.items() if value != getattr(thread, key)}

    async def ask(self, thread: Thread, text: str, options: TurnOptions = NO_OPTIONS) -> LiveTurn:
        """Asks the thread's agent, or another one for this turn."""
        check_prompt(text)
        check_dir(thread)
        given = await self.given_images(options.agent or thread.agent, options.images)
        expanded = await self._expanded(thread, text, replace(options, images=given))
        images = (*given, *expanded.images)
        thread = await self._instructed(thread, options.instructions)
        request = TurnRequest(
            thread,
            expanded.text,
            options,
            typed=expanded.typed,
            standing=thread.standing,
            allowed_tools=expanded.allowed_tools,
        )
        if not images:
            return await self._engine.start(request)
        from clew.hosts.chat.images import start_with_images

        return await start_with_images(self._engine, request, images)

    async def given_images(self, agent: str, images: Sequence[ImageSource]) -> tuple[ImageContent, ...]:
        """The images, read and checked, also for the agent that is asked. Raises UsageError."""
        if not images:
            return ()
        from clew.hosts.chat.images import given_images

        return await given_images(self._engine, agent, images)

    async def _expanded(
        self, thread: Thread, text: str, options: TurnOptions, *, dry_run: bool = False, asks: bool = False
    ) -> Expanded:
        """What is stored and sent for a prompt: see `Expansion.expand`. What was piped in follows as it is."""
        expanded = Expanded(text)
        if options.expand and may_stand_for_files(text):
            from clew.hosts.expansion.expansion import place_of

            place = place_of(thread, options.agent)

            async def check(mentioned: Sequence[ImageContent]) -> None:
                await self.given_images(place.agent, (*options.images, *mentioned))

            expanded = await self.expansion.expand(
                text, place, options.person, known=options.known, dry_run=dry_run, asks=asks, check_images=check
            )
        if options.attached:
            # Without `typed`, the turn is shown whole: nobody edits it, or asks it again, without what was piped in.
            expanded = replace(expanded, text=f"{expanded.text}\n{options.attached}", typed=None)
        check_prompt(expanded.text)
        return expanded

    async def check_new(self, new: NewThread, text: str, options: TurnOptions, *, name: str | None, asks: bool) -> None:
        """Raises what `ask` would raise about this prompt in a new thread, as far as that can be known without running
        a command or asking anybody. `asks`: whether there is a person to ask."""
        check_prompt(text)
        await self._expanded(self._record(new, name, text), text, options, dry_run=True, asks=asks)

    async def continue_after_limit(self, thread: Thread, limited: str, options: TurnOptions = NO_OPTIONS) -> LiveTurn:
        """Continues a run that met the account's usage limit, in its session, as soon as the limit has reset.

        Agent, model, `resume` and `timeout_s` are that run's. The prompt is stored when this returns, and the new run
        holds the thread while it waits. Raises Conflict when the run met no limit, or something was asked since.
        """
        if (hint := kind_of(thread).continued_by) is not None:
            raise UsageError(f"A {thread.kind} waits for usage limits by itself.", hint=hint)
        from clew.core.continuation import CONTINUE

        check_dir(thread)
        run, not_before = await self._store.call(lambda store: _limited(store, thread, limited))
        asked = run.asked
        options = replace(
            options, agent=run.agent, model=run.model, resume=asked.enable_resume, timeout_s=asked.timeout_s
        )
        return await self._engine.start(
            TurnRequest(thread, CONTINUE, options, standing=thread.standing, not_before=not_before, continues=run.id),
            lambda store, made: _check_newest(store, thread, run, made),
        )

    async def retry(self, thread: Thread, turn_id: str, options: TurnOptions = NO_OPTIONS) -> LiveTurn:
        """Asks an earlier user turn again; what follows it is archived when the run starts.

        The session is rewound to before the turn. After a failed run, or if it cannot be rewound, it is a fresh one.
        """
        if (hint := kind_of(thread).continued_by) is not None:
            raise UsageError(
                f"{thread.name} is the thread of a {thread.kind}: its prompts cannot be asked again here.",
                hint=hint,
            )
        if options.images:
            raise UsageError("A prompt is asked again with its own images.", hint="Ask a new prompt with other ones.")
        turn = await self._turn(thread, turn_id)
        check_dir(thread)
        if turn.role is not Role.USER:
            raise UsageError(
                f"{turn_id} is an agent's turn; only a user's can be asked again.",
                hint="clew threads show lists the turns with their ids.",
            )
        thread = await self._instructed(thread, options.instructions)
        from clew.hosts.chat.preview import retry_request

        return await self._engine.start(retry_request(thread, turn, options))

    async def _instructed(self, thread: Thread, instructions: str | None) -> Thread:
        """Stores the thread's new standing text; "" removes it, None leaves it."""
        if instructions is None or (instructions or None) == thread.standing:
            return thread
        now = self._engine.context.clock()
        return await self._store.call(
            lambda store: store.threads.update(thread.id, at=now, standing=instructions or None)
        )

    async def edit(
        self, thread: Thread, turn_id: str, text: str, *, expand: bool = False, person: Person | None = None
    ) -> Turn:
        """Replaces the text of a turn. The old text is kept, and later turns stay. `expand`: see `TurnOptions`.

        Of a turn that the user did not type, what was in it before is not expanded.
        """
        turn = await self._turn(thread, turn_id)
        check_prompt(text)
        if text == turn.shown:
            return turn
        typed = None
        if expand and turn.role is Role.USER:
            from clew.hosts.expansion.expansion import place_of

            old = turn.text if turn.typed is None else ""
            expanded = await self.expansion.expand(text, place_of(thread, turn.agent), person, known=old)
            text, typed = expanded.text, expanded.typed
            check_prompt(text)
        now = self._engine.context.clock()
        return await self._store.call(lambda store: store.turns.edit(turn.id, text, now, typed))

    async def clear(self, thread: Thread) -> int:
        """Archives all turns: the next one begins with an empty history. Returns how many."""
        if (hint := kind_of(thread).continued_by) is not None:
            raise UsageError(f"{thread.name} is the thread of a {thread.kind}: it cannot be cleared.", hint=hint)
        history = await self.history(thread)
        return await self.truncate(thread, history[0].id) if history else 0

    async def start_ahead(self, thread: Thread) -> bool:
        """Starts the agent of the next turn. Whether one waits now."""
        check_dir(thread)
        return await self._engine.start_ahead(thread)

    async def compact(self, thread: Thread, focus: str = "") -> Compacted:
        """Lets the agent replace what its session holds by a summary. The turns of the thread stay as they are."""
        check_dir(thread)
        await self._engine.recover()
        return await self._engine.compact(thread, focus)

    async def truncate(self, thread: Thread, turn_id: str) -> int:
        """Archives that turn and all after it. Returns how many."""
        turn = await self._turn(thread, turn_id)

        def archive(store: Store, now: float) -> int:
            count = store.turns.archive(thread.id, turn.id, inclusive=True, at=now, why="truncate")
            standing = {each.id for each in store.turns.history(thread.id)}
            for question in store.questions.open(thread.id):
                if store.runs.require(question.run_id).prompt_turn_id not in standing:
                    store.questions.close(question, QuestionState.WITHDRAWN, now)
            return count

        return await self._while_idle(thread, archive)

    async def work(self, thread: Thread) -> ThreadWork:
        """The tool calls and changed files of each turn, and the thread's sessions."""
        from clew.engine.sessions.in_plain_cli import sessions_of
        from clew.engine.work import work_of

        engine = self._engine

        def read(store: Store) -> ThreadWork:
            sessions = sessions_of(store, thread, engine.adapter_of, engine.find, engine.context.environ)
            return ThreadWork(work_of(store, thread, engine.adapter_of), sessions)

        return await self._store.read_large(read)

    async def session_words(self, thread: Thread, *, before: int | None = None, archived: int = 0) -> str:
        """What the changes of the thread have done to its session, in words for the user.

        `before`: how many turns the thread has before the changed one. `archived`: how many turns were archived.
        """
        from clew.hosts.chat.preview import session_words

        next_turn = await self._engine.preview(TurnRequest(thread, "?", standing=thread.standing))
        return session_words(next_turn.decision, before=before, archived=archived)

    async def preview(self, thread: Thread, turn_id: str | None = None) -> Preview:
        """Whether the next turn would resume the session; with `turn_id`, also what a change of that turn would do."""
        from clew.hosts.chat.preview import after_change, preview_of

        preview = preview_of(await self._engine.preview(TurnRequest(thread, "?", standing=thread.standing)))
        if turn_id is None:
            return preview
        turn = await self._turn(thread, turn_id)
        return replace(preview, after_change=await after_change(self._engine, thread, turn))

    async def sync(self, thread: Thread, *, dry_run: bool = False, held: HeldThread | None = None) -> Synced:
        """Brings in the turns that were made outside Clew in the thread's sessions. Raises Busy during a run.

        `dry_run`: only says what would come in, also during a run. `held`: the caller holds the thread's lease; raises
        Conflict if it has lost it.
        """
        from clew.engine.sessions.outside import Arrival, arrival, has_news, left_behind, store_arrival

        engine = self._engine
        if not engine.settings.policy.follow_moves:
            if dry_run:
                return Synced(thread.name, ())
            hint = "clew sessions adopt makes a new thread of everything that a session holds."
            raise UsageError("Turns from outside Clew are not brought in: follow_moves is false.", hint=hint)

        def look(store: Store) -> tuple[tuple[Pin, ...], Arrival, Synced]:
            pins = store.pins.of_thread(thread.id)
            found = arrival(store, thread, pins, engine.adapter_of, engine.context)
            states = {pin.session_id: found.observed[pin.id].state for pin in pins if pin.id in found.observed}
            branched = tuple(session for session, state in states.items() if state is SessionState.BRANCHED)
            apart = (*branched, *left_behind(pins, engine.adapter_of))
            cost_usd = sum(each.run.cost_usd for each in found.rounds)
            return pins, found, Synced(thread.name, found.turns, bool(found.compacted), apart, cost_usd)

        def bring_in(store: Store, now: float) -> Synced:
            is_as_seen = store.pins.of_thread(thread.id) == seen[0] and store.turns.history(thread.id) == history
            _, found, synced = seen if is_as_seen else look(store)
            store_arrival(store, thread, found)
            if found.rounds:
                store.threads.update(thread.id, at=now)
            return synced

        def report(store: Store) -> Synced:
            pins = store.pins.of_thread(thread.id, retired=False, absorbed=False)
            if has_news(pins, engine.adapter_of):
                return look(store)[2]
            return Synced(thread.name, (), branched=left_behind(pins, engine.adapter_of))

        if dry_run:
            return await self._store.read_large(report)
        # The files are read before the transaction, because it keeps other writers waiting.
        history = await self._store.call(lambda store: store.turns.history(thread.id))
        seen = await self._store.read_large(look)
        if held is None:
            return await self._while_idle(thread, bring_in)

        def guarded(store: Store) -> Synced:
            held.fence(store)
            synced = bring_in(store, engine.context.clock())
            held.retire_unused(store)
            return synced

        return await self._store.atomically(guarded)

    async def opening(self, thread: Thread, agent: str | None, model: str | None) -> Opening:
        """How the thread would be opened in the agent's terminal interface now. Stores nothing."""
        from clew.engine.opening import opening_of
        from clew.hosts.chat.terminal import open_request

        return await opening_of(self._engine, open_request(thread, agent, model))

    @asynccontextmanager
    async def in_terminal(self, thread: Thread, agent: str | None, model: str | None) -> AsyncIterator[OpenTerminal]:
        """Holds the thread for the agent's terminal interface. Raises Busy, and Conflict if a turn must come first."""
        from clew.engine.opening import held_open
        from clew.hosts.chat.terminal import OpenTerminal, open_request

        async with held_open(self._engine, open_request(thread, agent, model)) as held:
            yield OpenTerminal(self, thread, held)

    async def explain(
        self, thread: Thread, text: str | None, options: TurnOptions = NO_OPTIONS, **changes: Any
    ) -> Explanation:
        """What `change` and then `ask` would do, without doing it. None: no prompt is known yet.

        Raises what they would raise, also Busy.
        """
        wanted = self._wanted(thread, changes)
        thread = replace(thread, **wanted)
        if wanted:
            await self._store.call(lambda store: check_idle(store, self._engine, thread))
        explained = await self._explain(thread, text, options)
        if explained.waits_for is not None and not options.wait:
            raise another_run(thread, explained.waits_for)
        return explained

    async def explain_new(
        self, new: NewThread, text: str, options: TurnOptions = NO_OPTIONS, *, name: str | None = None
    ) -> Explanation:
        """What `create` and then `ask` would do, without doing it. Raises what they would raise."""
        record = self._record(new, name, text)
        named = await self._store.call(lambda store: store.threads.new_name(record.name, unique=name is None))
        return replace(await self._explain(replace(record, name=named), text, options), new_thread=True)

    async def _explain(self, thread: Thread, text: str | None, options: TurnOptions) -> Explanation:
        if text is not None:
            check_prompt(text)
            check_dir(thread)
            expanded = await self._expanded(thread, text, options, dry_run=True, asks=not options.lasting)
            text, options = expanded.text, replace(options, images=(*options.images, *expanded.images))
        standing = thread.standing if options.instructions is None else options.instructions or None
        request = TurnRequest(thread, text or "", options, standing=standing)
        if contents := await self.given_images(request.agent, options.images):
            from clew.hosts.chat.images import named_images

            request = replace(request, images=named_images(contents))
        explained = await self._engine.explain(request)
        return explained if text is not None else replace(explained, prompt=None)

    async def delete(self, thread: Thread, *, dry_run: bool = False) -> Deleted:
        """Archives the thread, or both threads of a pair, and deletes them. Raises Busy while they are in use."""

        def planned(store: Store) -> Deleted:
            others = store.threads.companions(thread.id)
            turns = [turn for each in (thread, *others) for turn in store.turns.all(each.id)]
            names = tuple(other.name for other in others)
            return Deleted(thread.name, len(turns), None, sum(turn.archived for turn in turns), names)

        plan = await self._store.call(planned)
        if dry_run:
            return plan
        return replace(plan, archive=await self._archive(thread.id))

    async def _turn(self, thread: Thread, turn_id: str) -> Turn:
        return named_turn(thread, await self.history(thread), turn_id)

    async def _while_idle(self, thread: Thread, work: Callable[[Store, float], T]) -> T:
        """Does `work` in a transaction, for changes that must not happen during a run. Raises Busy during a run.

        A run whose process has died is ended first, so that its answer is stored after its prompt.
        """
        context = self._engine.context
        await self._engine.recover()

        def guarded(store: Store) -> T:
            held = live_lease(store, thread_key(thread.id), context)
            begun = store.runs.newest(thread_id=thread.id, statuses=[RunStatus.RUNNING, RunStatus.WAITING], limit=1)
            if held is not None or begun:
                raise in_use(thread, held, begun[0].id if begun else None)
            return work(store, context.clock())

        return await self._store.atomically(guarded)


def _limited(store: Store, thread: Thread, run_id: str) -> tuple[Run, float]:
    """The run, and when it may be continued. Raises Conflict when the run met no usage limit."""
    from clew.engine.limits import wake_at

    run = store.runs.require(run_id)
    if run.thread_id != thread.id or run.outcome != Outcome.USAGE_LIMIT:
        raise Conflict("That run met no usage limit.", hint="Ask again.")
    return run, wake_at(store, run)


def _check_newest(store: Store, thread: Thread, run: Run, made: Run) -> None:
    """Raises Conflict when something was asked after `run`. Called in the transaction that stores the run `made`."""
    newest = [each for each in store.runs.newest(thread_id=thread.id, limit=RUNS_READ) if each.id != made.id]
    if [each.id for each in newest if not each.asked.held][:1] != [run.id]:  # prompts that are held do not count
        raise Conflict(
            f"Something else was asked in {thread.name} since.", hint="Ask again, or wait for what is queued."
        )
