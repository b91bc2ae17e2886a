"""What the user should know before the agent starts: what the agent is not shown, and how that can be changed.

Rules of the project that are not loaded are named once for each directory, agent and kind of thread: what a job has
written into its log, nobody may have read who asks at a terminal. Work trees of one repository count as one directory,
since a hook makes one for every issue. A review never loads them, by design, and says nothing about it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from clew.agents.adapter import Adapter
from clew.core.decision import ADOPT, Decision, Fresh, Reason
from clew.core.events import Warned
from clew.core.ids import SessionId
from clew.core.record import Record
from clew.core.thread import Thread, Trust
from clew.store.store import Store

NAMED = 3  # files
GIT_FILE_CHARS = 4096  # of a work tree's `.git`, which names the repository


class Rules(Record):
    """Files that the plain CLI would have shown the model."""

    agent: str
    files: tuple[Path, ...]  # the nearest first


def taken_over(thread_id: str) -> str:
    """The fact that names the thread which was made of that thread's session, until it is told."""
    return f"session_taken_over/{thread_id}"


def rules_left_out(adapter: Adapter, thread: Thread, config_dir: str) -> Rules | None:
    """Looks at the disk, at names alone. None: there are none, or they are loaded."""
    if thread.trust is Trust.PROJECT or thread.kind == "review":
        return None
    files: list[Path] = []
    with suppress(OSError):  # no run fails because a folder cannot be looked into
        files.extend(adapter.project_rules(config_dir, thread.cwd))
    return Rules(adapter.name, tuple(files)) if files else None


def warnings(store: Store, thread: Thread, rules: Rules | None, decision: Decision) -> tuple[Warned, ...]:
    """Within the transaction that stores the decision: what is said once is known to have been said."""
    found: list[Warned] = []
    if rules is not None:
        told = f"rules_told/{thread.kind}/{rules.agent}/{directory(Path(thread.cwd))}"
        if store.fact(told) is None:
            store.save_fact(told, "yes")
            found.append(_rules_not_loaded(thread, rules))
    if isinstance(decision, Fresh) and decision.reason is Reason.SESSION_DIVERGED and decision.passed_over is not None:
        found.append(_went_on_outside(decision.passed_over))
    if store.fact_seen(taken_over(thread.id)) and (taken_by := store.fact(taken_over(thread.id))):
        store.save_fact(taken_over(thread.id), "")
        found.append(_taken_over(taken_by))
    return tuple(found)


def _rules_not_loaded(thread: Thread, rules: Rules) -> Warned:
    files = [os.path.relpath(path, thread.cwd) for path in rules.files]
    how = f"`clew threads set {thread.name} --trust project` loads them from now on"
    if thread.kind == "job":
        how = "`clew jobs submit --trust project` loads them"
    elif thread.kind == "chat":
        how += ", `--trust project` in a new thread"
    return Warned(
        "rules_not_loaded",
        f"The project's rules ({_listed(files)}) are not loaded, so {rules.agent} does not know them. {how}. "
        "The repository's own agent settings, hooks and MCP servers load with them, and may run code.",
    )


def _went_on_outside(session_id: SessionId) -> Warned:
    return Warned(
        "session_diverged",
        f"The session {session_id} went on outside Clew, and what was said there is not in this thread. "
        + ADOPT.format(session_id=session_id),
    )


def _taken_over(name: str) -> Warned:
    return Warned(
        "session_diverged",
        f"This thread's session went on outside Clew, and what was said there is not in this thread: it is in {name}, "
        "which was made of that session.",
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def directory(work_dir: Path) -> str:
    """Names it; of a work tree, as the same folder of its repository's own tree."""
    with suppress(OSError, ValueError):
        for folder in (work_dir, *work_dir.parents):
            mark = folder / ".git"
            if mark.is_dir():
                break
            if mark.is_file():
                return str(_main_tree(folder, mark) / work_dir.relative_to(folder))
    return str(work_dir)


def _main_tree(folder: Path, mark: Path) -> Path:
    with mark.open(encoding="utf-8", errors="replace") as file:
        git_dir = folder / file.read(GIT_FILE_CHARS).strip().removeprefix("gitdir:").strip()
    if git_dir.parent.name != "worktrees":
        return folder  # a submodule, or a repository whose `.git` was moved away
    common = git_dir.parent.parent
    return common.parent if common.name == ".git" else common
