"""Warnings before the agent starts: what the agent is not shown, and how to change that.

Rules that are not loaded are named once for each directory, agent and kind of thread. The kind counts because a person
at a terminal may not have read the log of a job. Work trees of one repository count as one directory, since a hook
makes one for every issue.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from clew.agents.adapter import Adapter
from clew.core.decision import ADOPT_HINT, Decision, Fresh, Reason
from clew.core.history import text_digest
from clew.core.ids import SessionId
from clew.core.record import Record
from clew.core.rules.rules import LeftOut
from clew.core.runs.events import Warned
from clew.core.thread import Thread, Trust, kind_of
from clew.engine.rules.shown import ShownRules
from clew.engine.sessions.outside import Arrival
from clew.store.store import Store
from clew.system.work_trees import in_main_tree

FILES_NAMED = 3
COMPACTED = (
    "The session {session_id} was compacted outside Clew: it holds the earlier turns only as a summary. "
    "A fresh session (--fresh-session) is given all of them again."
)


def brought_in(turns: int, *, are_archived: bool) -> str:
    made, they_are = ("1 turn was made", "is") if turns == 1 else (f"{turns:,} turns were made", "are")
    where = "archived, with all that followed the prompt" if are_archived else "in the thread now"
    return f"{made} outside Clew in this thread's session, and {they_are} {where}."


class UnloadedRules(Record):
    """Files that the agent's own CLI would show to the model, and Clew does not."""

    agent: str
    files: tuple[Path, ...]  # those nearest to the work directory first
    are_above: bool  # the files are above the repository, whose own rules are shown
    left_out: tuple[LeftOut, ...]  # in the repository


def taken_over_key(thread_id: str) -> str:
    """The key for the name of the thread that adopted this thread's session, until the user is warned."""
    return f"session_taken_over/{thread_id}"


def unloaded_rules(adapter: Adapter, thread: Thread, config_dir: str, shown: ShownRules) -> UnloadedRules | None:
    """Looks for files by name, without reading them. None: there are no others, or the user wants none."""
    if thread.trust is Trust.PROJECT or not shown.is_wanted:
        return None
    files: list[Path] = []
    with suppress(OSError):  # an unreadable folder is no reason to fail a run
        files.extend(adapter.project_rules(config_dir, thread.cwd))
    if shown.root:
        files = [path for path in files if not path.is_relative_to(shown.root)]
    left_out = shown.rules.left_out
    return UnloadedRules(adapter.name, tuple(files), bool(shown.root), left_out) if files or left_out else None


def warnings(
    store: Store,
    thread: Thread,
    rules: UnloadedRules | None,
    decision: Decision,
    arrived: Arrival,
    *,
    is_retry: bool,
) -> tuple[Warned, ...]:
    """Called in the transaction that stores the decision, so that a warning that is due once is given once."""
    found: list[Warned] = []
    if arrived.rounds:
        found.append(Warned("outside_turns", brought_in(len(arrived.turns), are_archived=is_retry)))
    found += [Warned("session_compacted", COMPACTED.format(session_id=each)) for each in arrived.compacted]
    if rules is not None:
        where = f"{thread.kind}/{rules.agent}/{in_main_tree(Path(thread.cwd))}"
        if rules.files and _is_news(store, f"rules_told/{where}", "yes"):
            found.append(_rules_not_loaded(thread, rules))
        if rules.left_out and _is_news(store, f"rules_left_out/{where}", text_digest(repr(rules.left_out))):
            found.append(_rules_left_out(rules))
    if (
        isinstance(decision, Fresh)
        and decision.reason is Reason.SESSION_DIVERGED
        and decision.skipped_session is not None
    ):
        found.append(_diverged(decision.skipped_session))
    taken = taken_over_key(thread.id)
    if store.key_values.peek(taken) and (taken_by := store.key_values.get(taken)):
        store.key_values.set(taken, "")
        found.append(_taken_over(taken_by))
    return tuple(found)


def _is_news(store: Store, key: str, said: str) -> bool:
    """Whether this has not been said there yet. Notes that it is said now."""
    if store.key_values.get(key) == said:
        return False
    store.key_values.set(key, said)
    return True


def _rules_not_loaded(thread: Thread, rules: UnloadedRules) -> Warned:
    files = [os.path.relpath(path, thread.cwd) for path in rules.files]
    how = kind_of(thread).trust_hint.format(name=thread.name)
    whose = "The rules above this repository" if rules.are_above else "The project's rules"
    return Warned(
        "rules_not_loaded",
        f"{whose} ({_listed(files)}) are not loaded, so {rules.agent} does not know them. "
        f"{how}. The repository's own agent settings, hooks and MCP servers load with them, and may run code.",
    )


def _rules_left_out(rules: UnloadedRules) -> Warned:
    files = [f"{each.path}: {each.why}" for each in rules.left_out]
    return Warned(
        "rules_left_out", f"Not all of the project's rules are shown to {rules.agent} ({_listed(files, '; ')})."
    )


def _diverged(session_id: SessionId) -> Warned:
    return Warned(
        "session_diverged",
        f"The session {session_id} was continued outside Clew, and what was said there is not in this thread. "
        + ADOPT_HINT.format(session_id=session_id),
    )


def _taken_over(name: str) -> Warned:
    return Warned(
        "session_diverged",
        "This thread's session was continued outside Clew, and what was said there is not in this thread: "
        f"it is in {name}, which was made from that session.",
    )


def _listed(names: Sequence[str], separator: str = ", ") -> str:
    more = f" and {len(names) - FILES_NAMED} more" if len(names) > FILES_NAMED else ""
    return f"{separator.join(names[:FILES_NAMED])}{more}"
