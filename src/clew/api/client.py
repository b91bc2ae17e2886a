"""The Python API: open a store, ask in a thread, iterate over events. The command line uses it too.

async with clew.open() as client:
    thread = await client.thread("fix-login", cwd=".")
    run = await thread.ask("Why does the login fail?")
    async for event in run:
        if isinstance(event, clew.TextStreamed):
            print(event.text, end="", flush=True)
    reply = await run
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack

from clew import config
from clew.agents.adapter import Adapter
from clew.api.reply import Reply as Reply
from clew.api.reply import stored_reply
from clew.api.thread import Answered as Answered
from clew.api.thread import Run as Run
from clew.api.thread import Thread as Thread
from clew.api.thread import ThreadKeywords, choice
from clew.core.costs.usage import StatRow
from clew.core.history import Visibility
from clew.core.images import ImageContent as ImageContent
from clew.core.lookup import SEARCH_LIMIT, by_prefix
from clew.core.record import Record, check_keywords
from clew.core.runs.options import Person, TurnOptions
from clew.core.runs.permissions import Answer
from clew.core.runs.run import LIVE, Attempt, RunStatus
from clew.core.runs.run import Run as RunRecord
from clew.core.thread import Permissions, Trust
from clew.core.thread import Thread as ThreadRecord
from clew.engine.engine import Engine
from clew.engine.leases import is_holder_dead, slot_prefix
from clew.errors import Conflict, NotFound, StoreError
from clew.hosts.chat.chat import Chat, NewThread
from clew.hosts.validation import existing_dir
from clew.wiring import agents
from clew.wiring.engine import ARCHIVE_DIR, open_engine

if TYPE_CHECKING:
    import asyncio

    from clew.api.operations import Operations
    from clew.api.requests import IdempotentRequests
    from clew.api.views import Views
    from clew.config.hooks import ForgeKeys
    from clew.core.explanation import Explanation
    from clew.core.hooks.hook import Forge
    from clew.core.runs.options import ImageSource
    from clew.engine.warm.pool import KeptAgent as KeptAgent
    from clew.hosts.branching.fork import Forked
    from clew.hosts.chat.agent_sessions import AgentSession
    from clew.hosts.expansion.completion import Command as Command
    from clew.hosts.hooks.hooks import Hooks
    from clew.hosts.jobs.jobs import Jobs
    from clew.hosts.pairs.pairs import Pairs
    from clew.hosts.reviews.reviews import Reviews
    from clew.hosts.transfer.archives import Archives
    from clew.store.store import Store
    from clew.wiring.hosts import Hosts

NO_ENVIRON: Mapping[str, str] = MappingProxyType({})


class Renamed(Record):
    """A thread or a pair under its new name."""

    id: str
    names: tuple[tuple[str, str], ...]  # before and now: of the thread; or of the pair and of its threads
    is_pair: bool = False
    trouble: str | None = None  # why the state file of the pair still has the old name


class Client:
    """An open store. Made by `clew.open()`."""

    def __init__(
        self,
        engine: Engine,
        settings: config.Settings,
        home: Path,
        recovered: list[RunRecord],
        environ: Mapping[str, str] = NO_ENVIRON,
    ) -> None:
        self.engine = engine
        self._environ = environ  # includes Clew's own secrets, which agents do not get
        self.settings = settings
        self.home = home
        self.recovered = recovered  # runs of a crashed process that were ended when the store was opened
        self._chat = Chat(engine, self._archive)

    def process_ends(self) -> None:
        """The caller ends its process, by `os._exit`, as soon as this is closed. Closing then takes less time."""
        self.engine.process_ends = True

    async def thread(self, name: str | None = None, *, prompt: str = "", **settings: Unpack[ThreadKeywords]) -> Thread:
        """The thread of that name, which is created if needed; without a name a new one, named after `prompt`.

        An existing thread takes the permissions and the trust that are given, and keeps its other settings.
        """
        check_keywords(ThreadKeywords, settings)
        found = await self._chat.find(name) if name is not None else None
        if found is None:
            return await self.new_thread(name, prompt=prompt, **settings)
        thread = Thread(self._chat, found)
        await thread.change(permissions=settings.get("permissions"), trust=settings.get("trust"))
        return thread

    async def new_thread(
        self,
        name: str | None = None,
        *,
        prompt: str = "",
        thread_id: str | None = None,
        **settings: Unpack[ThreadKeywords],
    ) -> Thread:
        """A new thread; without a name, it is named after `prompt`. Raises Conflict when the name is taken.

        `thread_id` is the id of the new thread; None: a random one.
        """
        new = self._new(settings)
        return Thread(self._chat, await self._chat.create(new, name=name, prompt=prompt, thread_id=thread_id))

    async def explain(
        self,
        prompt: str,
        name: str | None = None,
        *,
        fresh_session: bool = False,
        resume: bool | None = None,
        images: Sequence[ImageSource] = (),
        expand: bool = False,
        attached: str = "",
        **settings: Unpack[ThreadKeywords],
    ) -> Explanation:
        """What asking this in a new thread would do, without doing it: see `Thread.explain`. No thread is created."""
        options = TurnOptions(
            fresh_session=fresh_session, resume=resume, images=images, expand=expand, attached=attached
        )
        return await self._chat.explain_new(self._new(settings), prompt, options, name=name)

    async def check_prompt(
        self,
        prompt: str,
        name: str | None = None,
        *,
        attached: str = "",
        asks: bool = False,
        **settings: Unpack[ThreadKeywords],
    ) -> None:
        """Raises UsageError if `ask` with `expand` would refuse this prompt in a new thread, before there is a thread.

        It runs no command and asks nobody. `asks`: a person would be there to ask.
        """
        options = TurnOptions(expand=True, attached=attached)
        await self._chat.check_new(self._new(settings), prompt, options, name=name, asks=asks)

    async def expand(self, prompt: str, *, person: Person | None = None, **settings: Unpack[ThreadKeywords]) -> str:
        """What a prompt stands for that a user typed for a job, a review or a pair: see `Thread.ask`."""
        from clew.hosts.expansion.expansion import PromptPlace

        new = self._new(settings)
        place = PromptPlace(existing_dir(new.cwd), new.agent, new.permissions, new.trust)
        return (await self._chat.expansion.expand(prompt, place, person)).text

    def _new(self, settings: ThreadKeywords) -> NewThread:
        check_keywords(ThreadKeywords, settings)
        defaults = self.settings
        agent, cwd = settings.get("agent") or defaults.of("agent"), settings.get("cwd")
        return NewThread(
            cwd="." if cwd is None else str(cwd),
            agent=agent,
            model=settings.get("model") or defaults.model_of(agent),
            permissions=choice(Permissions, settings.get("permissions") or defaults.of("permissions")),
            trust=choice(Trust, settings.get("trust") or defaults.of("trust")),
            visibility=choice(Visibility, settings.get("visibility") or defaults.of("visibility")),
            standing=settings.get("instructions") or None,
        )

    async def find(self, name: str) -> Thread:
        """The thread of that name or id. Raises NotFound."""
        return Thread(self._chat, await self._chat.require(name))

    async def together(self, name: str) -> list[Thread]:
        """The thread of that name and those that are exported with it: for a pair, both threads. Raises NotFound."""
        found = await self.engine.store.call(lambda store: store.threads.together(name))
        return [Thread(self._chat, record) for record in found]

    async def fork(
        self, name: str, new: str | None = None, *, at_round: int | None = None, at_turn: str | None = None
    ) -> Forked:
        """Copies a thread's history up to a round or a turn into a new thread, or a pair's into a new pair."""
        from clew.hosts.branching import fork as branches

        return await branches.fork(self.engine, name, new, at_round=at_round, at_turn=at_turn)

    async def latest(self, cwd: str | Path = ".") -> Thread:
        """The thread last used in that directory; if there is none, in its repository. Raises NotFound."""
        found = await self._chat.latest(str(cwd))
        if found is None:
            raise NotFound("This directory has no threads yet.", hint="Start one with clew ask PROMPT.")
        return Thread(self._chat, found)

    async def newest_session(
        self, cwd: str | Path = ".", *, allowed: Callable[[str], bool] | None = None
    ) -> AgentSession | None:
        """The newest session of a plain CLI in that directory, else in its repository, that belongs to no thread.

        `allowed` says of which directories sessions are shown.
        """
        from clew.hosts.chat.latest import newest_session

        return await newest_session(self.engine, str(cwd), allowed)

    async def threads(self, *, cwd: str | Path | None = None, limit: int = 50, offset: int = 0) -> list[Thread]:
        real = os.path.realpath(cwd) if cwd is not None else None
        records = await self._chat.list(cwd=real, limit=limit, offset=offset)
        return [Thread(self._chat, record) for record in records]

    async def runs(
        self, *, thread: Thread | None = None, statuses: Iterable[RunStatus] | None = None, limit: int = 50
    ) -> list[RunRecord]:
        of_thread = thread.record.id if thread is not None else None
        return await self.engine.store.call(
            lambda store: store.runs.newest(thread_id=of_thread, statuses=statuses, limit=limit)
        )

    async def run(self, run_id: str) -> RunRecord:
        """The run with that id, or whose id begins so if only one does. Raises NotFound."""
        found = await self.engine.store.call(lambda store: store.runs.find(run_id))
        if found is not None:
            return found
        recent = await self.runs(limit=SEARCH_LIMIT) if run_id else []
        return by_prefix(run_id, recent, lambda run: run.id, noun="run", hint="clew runs list shows them.")

    async def attempts(self, run_id: str) -> list[Attempt]:
        return await self.engine.store.call(lambda store: store.runs.attempts(run_id))

    async def cancel(self, run_id: str) -> bool:
        """Asks a run of any process to stop. False: it is over already.

        When it had started, `lasting` prompts that are queued behind it are held: see `send_queued`.
        """
        run = await self.run(run_id)
        return await self.engine.cancel(run.id)

    async def stats(
        self, *, thread: Thread | None = None, since: float | None = None, by_directory: bool = False
    ) -> list[StatRow]:
        """The figures of the runs by day, kind of thread, agent, model and outcome, and by the thread's directory.

        `clew.core.costs.savings` sums them up, and `clew.api.stats` groups them.
        """
        of_thread = thread.record.id if thread is not None else None
        return await self.engine.store.call(
            lambda store: store.runs.stats(thread_id=of_thread, since=since, by_directory=by_directory)
        )

    async def reply(self, run_id: str) -> Reply:
        """How a run of any process ended. Raises Conflict while it is in progress."""
        run = await self.run(run_id)
        if run.status in LIVE:
            raise Conflict(f"The run is not over: it is {run.status}.", hint="clew runs watch shows it to its end.")
        return await self.engine.store.call(lambda store: stored_reply(store, run))

    async def answer(
        self, run_id: str, question_id: str, answer: Answer, *, lasting: bool = False, person: Person | None = None
    ) -> Answered:
        """Answers an open question of a run of any process.

        When the process of the run died, a new run sends the answer to the resumed session as a message. The answer's
        `scope` says what else is allowed; raises UsageError if the question does not have that scope.
        """
        question, turn = await self._chat.questions.answer(
            run_id, question_id, answer, TurnOptions(lasting=lasting, person=person)
        )
        if turn is None:
            return Answered(question, None)
        return Answered(question, Run(turn.request.thread, turn))

    async def edit_queued(self, run_id: str, prompt: str, *, expand: bool = False) -> RunRecord:
        """Gives another prompt to a run that has not started. Raises Conflict if it has. `expand`: see `Thread.ask`."""
        return await self._chat.queued.edit(run_id, prompt, expand=expand)

    async def remove_queued(self, run_id: str) -> None:
        """Cancels a run that has not started. Raises Conflict if it has."""
        await self._chat.queued.remove(run_id)

    async def send_queued(self, run_id: str) -> RunRecord:
        """Starts a queued run before all others that wait, and stops the run in progress. The run may be held.

        Raises Conflict if it has started.
        """
        return await self._chat.queued.send(run_id)

    async def rename(self, name: str, new: str) -> Renamed:
        """Renames a thread; or a pair, with both its threads and the name in its state file.

        Raises NotFound, UsageError, Conflict if the name is taken, and Busy while the pair is running.
        """
        from clew.hosts.pairs import naming

        done = await naming.rename(self.engine, name, new)
        if done is not None:
            return Renamed(done.pair.id, done.names, is_pair=True, trouble=done.trouble)
        thread = await self.find(name)
        was = thread.name
        await thread.change(name=new)
        return Renamed(thread.record.id, ((was, thread.name),))

    async def commands(self, cwd: str | Path = ".", *, agent: str | None = None) -> tuple[Command, ...]:
        """The slash commands and skills that a prompt in that directory can begin with, for a list or for completion:
        those of Clew, of the user and of the repository. `agent`: whose come first if two have the same name.
        """
        return await self._chat.expansion.commands(str(cwd), agent or self.settings.of("agent"))

    async def files(self, cwd: str | Path = ".", prefix: str = "", *, limit: int = 50) -> tuple[str, ...]:
        """Paths in that directory that begin with `prefix`, as they can be mentioned after @; a folder ends with a
        slash. A prefix without a slash also finds what is further down and whose name begins so."""
        return await self._chat.expansion.files(str(cwd), prefix, limit)

    def check_agent(self, name: str | None = None, *, installed: bool = True) -> None:
        """Raises UsageError if Clew knows no such agent, and AgentMissing if its CLI is not on this machine.

        Without a name, the agent of the settings. `installed=False`: only whether Clew knows it.
        """
        agent = name or self.settings.of("agent")
        if installed:
            self.engine.find(agent)
        else:
            self.engine.adapter(agent)

    async def read_images(self, images: Sequence[ImageSource], agent: str | None = None) -> tuple[ImageContent, ...]:
        """The images as `Thread.ask` accepts them, read and checked. Stores nothing.

        Raises UsageError for a file that is not an image or is too large, and for an agent that cannot be shown images.
        """
        return await self._chat.given_images(agent or self.settings.of("agent"), images)

    async def recover(self) -> list[RunRecord]:
        """For daemons: ends the runs whose process died since the store was opened, as `open` does."""
        return await self.engine.recover()

    async def take_up(self, may_run: Callable[[ThreadRecord], bool] | None = None) -> list[RunRecord]:
        """For daemons: starts prompts that a dead daemon left queued, and delivers answers that its runs did not read.

        `may_run` is False for threads in which this daemon must not run agents.
        """
        taken = [turn.run for turn in await self.engine.take_up(may_run)]
        return [*taken, *[turn.run for turn in await self._chat.questions.pass_on_all(may_run)]]

    @cached_property
    def views(self) -> Views:
        """The content of the store: lists of threads, one thread with its turns, runs, questions, figures."""
        from clew.api.views import Views

        return Views(self.engine)

    @cached_property
    def requests(self) -> IdempotentRequests:
        """For daemons: requests that are carried out once, however often they are sent."""
        from clew.api.requests import IdempotentRequests

        return IdempotentRequests(self.engine)

    @cached_property
    def operations(self) -> Operations:
        """Long calls that this process carries out, such as an export or a push: find, list."""
        from clew.api.operations import Operations

        return Operations(self.engine)

    @cached_property
    def _hosts(self) -> Hosts:
        from clew.wiring.hosts import Hosts

        return Hosts(self.engine, self.settings, self.home, self._environ)

    @property
    def jobs(self) -> Jobs:
        """Work that continues after time-outs and crashes: submit, list, find, retry, cancel."""
        return self._hosts.jobs

    @cached_property
    def reviews(self) -> Reviews:
        """Reviews of a diff in rounds: start, follow, find, list."""
        from clew.hosts.reviews.reviews import Reviews

        return Reviews(self.engine, max_age_s=self.settings.of("reviews.max_age"))

    @cached_property
    def pairs(self) -> Pairs:
        """Pairs of an instructor and a worker, round by round: start, resume, import_file, find, list."""
        from clew.hosts.pairs.pairs import Pairs

        return Pairs(self.engine)

    @cached_property
    def archives(self) -> Archives:
        """Archived threads: archive, restore, files, clean, tidy."""
        from clew.hosts.transfer.archives import Archives

        return Archives(
            self.engine,
            self.home / ARCHIVE_DIR,
            keep_threads_s=self.settings.of("retention.threads"),
            keep_archives_s=self.settings.of("retention.archives"),
        )

    async def _archive(self, thread_id: str) -> Path | None:
        return (await self.archives.archive(thread_id, asked=True)).path

    @property
    def hooks(self) -> Hooks:
        """Agents that a forge's webhooks start: sessions by key, events. Raises ConfigError for wrong settings."""
        return self._hosts.hooks

    @property
    def user_file(self) -> Path | None:
        """The user's own clew.toml, if there is one."""
        return config.user_file(self._environ)

    def hook_keys(self, forge: Forge) -> ForgeKeys:
        """The secret and the token that the environment has for a forge. They are neither stored nor shown."""
        from clew.config.hooks import keys_of

        return keys_of(forge, self._environ)

    def blanked(self, value: Any) -> tuple[Any, list[str]]:
        """A text, or JSON that contains texts, with its secrets blanked out; and the kind of each secret."""
        from clew.hosts.transfer.secret_scan import blanked

        return blanked(value, self._environ)

    async def work(
        self,
        concurrency: int,
        stop: asyncio.Event,
        *,
        name: str | None = None,
        until_idle: bool = False,
        hooks_only: bool = False,
    ) -> None:
        """Runs jobs, up to `concurrency` at once, until `stop` is set. Then its active jobs return to the queue.

        `hooks_only`: only jobs of hooks.
        """
        from clew.wiring.worker import open_worker, worker_name

        with worker_name(self.home, self.engine.context.owner.host) as unique_name:
            worker = open_worker(
                self.engine,
                self.jobs,
                self.hooks,
                self.settings,
                self.home,
                name or unique_name,
                concurrency,
                hooks_only=hooks_only,
            )
            await worker.run(stop, until_idle=until_idle)

    async def carry_out(self, job_id: str) -> None:
        """Runs one job in this process, without a worker. Waits until the job may start, and until it ends."""
        owner = self.engine.context.owner
        await self.jobs.runner.carry_out(job_id, f"{owner.host}/pid-{owner.pid}")

    async def ping(self) -> None:
        """Raises StoreError unless the store answers and is still the one that was opened."""
        await self.engine.store.call(lambda store: store.ping())

    @property
    def store_answered(self) -> int:
        """How many calls the store has answered so far: while the number grows, the store works."""
        return self.engine.store.answered

    async def store_lost(self) -> StoreError | None:
        """Why this client can never use its store again; None: it can."""
        return await self.engine.store.call(lambda store: store.lost())

    async def rescue(self) -> str:
        """Saves a copy of a store that was lost. Returns a text that says where it is, or why there is none."""
        return await self.engine.store.rescue()

    async def gone(self, runs: Sequence[RunRecord]) -> set[str]:
        """The ids of runs whose process died, and that no other process has ended yet."""
        return await self.engine.gone(runs)

    async def kept_agents(self) -> list[KeptAgent]:
        """The processes of agents that wait for the next prompt of their thread."""
        return await self.engine.warm.kept()

    def lent_agents(self) -> AbstractAsyncContextManager[str | None]:
        """While this is open, other processes of Clew on this home and store use the agents that are kept here. Yields
        why they cannot; None: they can."""
        return agents.lent(self.engine, self.settings, self._environ, self.home)

    async def free_slots(self) -> int:
        """How many more agents may run on this machine now."""
        context = self.engine.context

        def used(store: Store) -> int:
            slots = store.leases.under(f"{slot_prefix(context.owner)}/")
            return sum(not is_holder_dead(store, lease, context) for lease in slots)

        return max(0, self.engine.settings.max_agents - await self.engine.store.call(used))


@asynccontextmanager
async def open(
    home: str | Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    work_dir: str | Path | None = None,
    adapters: Iterable[Adapter] = (),
    recover: bool = True,
    keep_agents: bool = True,
    use_daemon: bool = False,
    **flags: Any,
) -> AsyncIterator[Client]:
    """Opens the store, and ends the runs that a crashed process left behind, unless `recover` is False.

    `keep_agents`: an agent's process stays for a while after its turn, so that the next turn of its thread begins at
    once. The settings `warm.*` limit this, and the client ends these processes when it is closed. `use_daemon`: if a
    daemon of this home and store runs, it keeps them, and they outlive this client.

    `home` is the folder of the store (default: CLEW_HOME, or the platform's); `environ` is the environment for settings
    and agents (default: that of this process); `adapters` are your own agents, in addition to those that Clew knows;
    `flags` are settings, which override all others.
    """
    environ = dict(os.environ if environ is None else environ)
    settings = config.load(environ, Path(work_dir) if work_dir is not None else None, flags)
    folder = Path(home).expanduser().absolute() if home is not None else config.home(environ)
    engine = open_engine(settings, environ, folder, adapters, keep_agents=keep_agents, use_daemon=use_daemon)
    try:
        client = Client(engine, settings, folder, await engine.recover() if recover else [], environ)
        try:
            yield client
        finally:
            if "operations" in vars(client):  # the property was used, so there may be operations
                await client.operations.close()
    finally:
        await engine.close()
