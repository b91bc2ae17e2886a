"""The project's rules that a turn's agent is shown: collected before each turn, given in a folder or in the prompt."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path, PurePosixPath

from clew.agents.adapter import Adapter, RulesDelivery
from clew.core.decision import Abilities
from clew.core.record import Record
from clew.core.rules.rules import NO_RULES, LeftOut, ProjectRules, RulesSource, as_files, as_standing
from clew.core.thread import Trust
from clew.engine.request import TurnRequest
from clew.engine.settings import EngineSettings, RuntimeContext
from clew.engine.storage.async_store import StoreAccess
from clew.errors import ClewError
from clew.store.store import Store
from clew.system.repository_files import FolderFiles
from clew.system.work_trees import root_of


class ShownRules(Record):
    """The rules of one turn."""

    rules: ProjectRules = NO_RULES
    delivery: RulesDelivery = RulesDelivery.NONE
    folder: str = ""  # where the agent finds them; "": they are not in a folder
    root: str = ""  # the folder to which their paths are relative; "": none were looked for
    source: RulesSource | None = None  # None: the work directory
    is_wanted: bool = True  # False: the user has switched them off

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.rules.files)

    def standing(self, text: str | None) -> str | None:
        """The standing text of the turn: the thread's own, and the rules if they are given in the prompt."""
        return as_standing(self.rules, text) if self.delivery is RulesDelivery.PROMPT else text


NOT_SHOWN = ShownRules()
NOT_WANTED = ShownRules(is_wanted=False)


async def shown_rules(
    adapter: Adapter,
    abilities: Abilities,
    request: TurnRequest,
    store: StoreAccess,
    settings: EngineSettings,
    context: RuntimeContext,
) -> ShownRules:
    """Reads the rules for this turn. With trust in the project, the agent reads them by itself."""
    layout, delivery = adapter.rule_layout, adapter.rules_delivery(abilities)
    thread = request.thread
    if not settings.rules:
        return NOT_WANTED
    if thread.trust is Trust.PROJECT or layout is None or delivery is RulesDelivery.NONE:
        return NOT_SHOWN
    if delivery is RulesDelivery.FOLDER and not settings.rules_dir:
        return NOT_SHOWN
    from clew.core.rules.collecting import collect

    source = request.rules_of or await store.call(lambda store: _last_source(store, thread.id))
    config_dir = adapter.config_dir(context.environ)
    root = root_of(Path(thread.cwd))
    inside = PurePosixPath(thread.cwd).relative_to(root)
    folders = [str(folder) if folder.parts else "" for folder in (*reversed(inside.parents), inside)]
    found = NO_RULES
    if source is None:
        found = await collect(FolderFiles(str(root)), list(dict.fromkeys(folders)), layout, _inside(config_dir, root))
    elif source.commit and context.commit_files is not None:
        try:
            found = await collect(context.commit_files(source), list(dict.fromkeys(folders)), layout)
        except ClewError as error:  # the repository or the commit is gone
            found = ProjectRules(left_out=(LeftOut(f"those of {source.commit[:12]}", error.message),))
    folder = ""
    if delivery is RulesDelivery.FOLDER and found.files:
        import hashlib  # here, because it takes 2 ms to load

        # The agent is told the folder's path, so the path does not change from turn to turn. A commit's rules have a
        # folder for each thread: another one in the same directory may be shown those of another commit.
        whose = "\0".join((thread.cwd, thread.id if source is not None else ""))
        folder = os.path.join(settings.rules_dir, hashlib.sha256(os.fsencode(whose)).hexdigest()[:16])  # noqa: PTH118
    return ShownRules(found, delivery, folder, str(root), source)


async def write_copies(adapter: Adapter, shown: ShownRules) -> str | None:
    """Makes the folder from which the agent reads the rules, if it has one. Returns why there is none."""
    if not shown.folder or adapter.rule_layout is None:
        return None
    from clew.engine.rules.folder import write_rules

    files = as_files(shown.rules)
    try:
        await asyncio.to_thread(write_rules, Path(shown.folder), adapter.rule_layout.copies, files)
    except OSError as error:
        why = f"{error.filename or shown.folder}: {error.strerror}"
        return f"The project's rules cannot be given to {adapter.name}, which runs without them ({why})."
    return None


def note_source(store: Store, thread_id: str, source: RulesSource | None) -> None:
    """A person may continue the thread of a hook or a review: its agent is not shown other rules then."""
    if source is not None and source != _last_source(store, thread_id):
        store.key_values.set(_source_key(thread_id), f"{source.commit} {source.repository}")


def inherit_source(store: Store, thread_id: str, *before: str) -> None:
    """A thread that continues others is shown the same rules as they were. Call it within a transaction."""
    for each in before:
        note_source(store, thread_id, _last_source(store, each))


def _last_source(store: Store, thread_id: str) -> RulesSource | None:
    stored = store.key_values.get(_source_key(thread_id))
    if not stored:
        return None
    commit, _, repository = stored.partition(" ")
    return RulesSource(repository, commit)


def _source_key(thread_id: str) -> str:
    return f"rules_of/{thread_id}"


def _inside(path: str, root: Path) -> str | None:
    """The path relative to the root; None: it is elsewhere."""
    whole = Path(os.path.realpath(path))
    return whole.relative_to(root).as_posix() if whole.is_relative_to(root) else None
