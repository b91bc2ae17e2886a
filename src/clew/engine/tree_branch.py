"""Which branch a work tree is made on, at which commit, and whether it can move on."""

from __future__ import annotations

from clew.core.record import Record
from clew.engine.git import WHOLE_S, last_words
from clew.engine.tree_place import Kept
from clew.engine.tree_source import Source, Tree
from clew.errors import UsageError

NAME_MOST = 100


class Wish(Record):
    """What was asked for."""

    branch: str | None
    start: str | None
    remote: str | None  # None: there is none
    fetch: str | None
    fetched: str  # the ref that has it then


class Plan(Record):
    branch: str
    own: bool  # made for the tree
    exists: bool
    start: str | None = None  # the commit at which it begins, unless it exists
    track: str | None = None  # the remote's branch that it is to follow
    placed: str | None = None


class Followed(Record):
    name: str
    commit: str
    theirs: bool  # what this very branch is elsewhere, and not only what it began at


class Moved(Record):
    placed: str | None
    note: str | None = None  # why it was not moved


async def plan(source: Source, wish: Wish, kept: Kept | None, own_name: str, notes: list[str]) -> Plan:
    """A tree that was there before goes on with its branch."""
    if kept is not None:
        tip = await source.commit(f"refs/heads/{kept.branch}") if kept.branch else None
        if tip is not None and await _is_free(source, kept.branch, notes):
            return Plan(kept.branch, kept.own, True, placed=kept.placed)
        if tip is not None:
            return Plan(await _unused(source, wish, own_name), True, False, tip, placed=kept.placed)
    begin = await aim(source, wish)
    commit = begin[1] if begin is not None else None
    if wish.branch is not None:
        tip = await source.commit(f"refs/heads/{wish.branch}")
        theirs = f"refs/remotes/{wish.remote}/{wish.branch}"
        tracked = wish.remote is not None and await source.commit(theirs) is not None
        if wish.fetch is not None and (tip is not None or tracked):
            notes.append(f"The name {wish.branch} is taken: this tree has a branch of its own.")
        elif tip is not None:
            if await _is_free(source, wish.branch, notes):
                return Plan(wish.branch, False, True, placed=tip)
        else:
            return Plan(wish.branch, True, False, commit, theirs if tracked else None, commit)
    return Plan(await _unused(source, wish, own_name), True, False, commit, placed=commit)


async def aim(source: Source, wish: Wish, *, but: str | None = None) -> tuple[str, str] | None:
    """What the tree begins at and moves on to: its name, and the commit. `but` is a ref that does not count."""
    names = []
    if wish.branch is not None and wish.fetch is None:
        names += _both(wish.remote, wish.branch, f"refs/heads/{wish.branch}")
    if wish.start is not None:
        names += _both(wish.remote, wish.start, wish.start)
    elif wish.fetch is not None:
        names += [wish.fetched]
    for name in names:
        commit = await source.commit(name) if name != but else None
        if commit is not None:
            return name, commit
    if wish.start is not None or wish.fetch is not None:
        return None
    name = await source.default(wish.remote)
    commit = await source.commit(name)
    return None if commit is None else (name, commit)


async def forward(source: Source, tree: Tree, wish: Wish, kept: Kept) -> Moved:
    """Moves the tree on to what it follows, if that loses nothing."""
    branch, head = await source.branch(tree), await source.head(tree)
    if branch is None or head is None:
        return Moved(kept.placed, "Not moved on: it is on no branch.")
    follows = await _followed(source, wish, branch)
    if follows is None:
        return Moved(kept.placed, "Not moved on: there is nothing that it follows.")
    target = follows.commit
    if target == head:
        return Moved(kept.placed)
    ahead, behind = await source.contains(target, head), await source.contains(head, target)
    untouched = follows.theirs and kept.own and branch == kept.branch and kept.placed == head
    if ahead and not untouched:
        return Moved(kept.placed)
    if not behind and not untouched:
        name = wish.fetch if follows.name == wish.fetched else _short(follows.name)
        more, less = await source.count(head, target), await source.count(target, head)
        return Moved(kept.placed, f"Not moved on: {branch} has {_commits(more)} that {name} lacks, and lacks {less}.")
    status = await source.ask(
        "status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=dirty",
        tree=tree, limit_s=WHOLE_S,
    )  # fmt: skip
    if status.status != 0:
        return Moved(kept.placed, f"Not moved on: {last_words(status.err)}.")
    if status.out:
        files = status.out.count(b"\0")
        return Moved(kept.placed, f"Not moved on: {files} file{'s have' if files > 1 else ' has'} changed in it.")
    words: tuple[str, ...] = ("merge", "--quiet", "--ff-only", "--no-overwrite-ignore", target)
    if not behind:  # a forced push, and nothing here is the tree's own
        words = ("checkout", "--quiet", "--no-overwrite-ignore", "--no-track", "-B", branch, target)
    done = await source.change(*words, tree=tree)
    if done.status != 0:
        return Moved(kept.placed, f"Not moved on: {last_words(done.err)}.")
    return Moved(target)


async def _followed(source: Source, wish: Wish, branch: str) -> Followed | None:
    """The branch's upstream, else the remote's branch of that name, else what a new tree would begin at."""
    names = [await source.upstream(branch)]
    names += [f"refs/remotes/{wish.remote}/{branch}"] if wish.remote is not None else []
    for name in names:
        commit = await source.commit(name) if name else None
        if name and commit is not None:
            return Followed(name, commit, True)
    begin = await aim(source, wish, but=f"refs/heads/{branch}")
    return None if begin is None else Followed(*begin, begin[0] == wish.fetched)


async def _is_free(source: Source, branch: str, notes: list[str]) -> bool:
    elsewhere = await source.checked_out_at(branch)
    if elsewhere is not None:
        notes.append(f"The branch {branch} is checked out in {elsewhere}: this tree has one of its own.")
    return elsewhere is None


async def _unused(source: Source, wish: Wish, name: str) -> str:
    """Neither here nor on the remote, where somebody's work may be under that name."""
    base = name.replace("..", ".").replace("..", ".")[:NAME_MOST]
    number = 1
    while True:
        found = base if number == 1 else f"{base}-{number}"
        taken = [f"refs/heads/{found}"] + ([f"refs/remotes/{wish.remote}/{found}"] if wish.remote is not None else [])
        if not [ref for ref in taken if await source.commit(ref) is not None]:
            return found
        number += 1


def _both(remote: str | None, name: str, other: str) -> list[str]:
    """The remote's branch of that name is newer than ours."""
    return ([f"refs/remotes/{remote}/{name}"] if remote is not None else []) + [other]


def _commits(number: int) -> str:
    return f"{number} commit{'' if number == 1 else 's'}"


def _short(name: str) -> str:
    return name.removeprefix("refs/remotes/").removeprefix("refs/heads/")


async def checked(source: Source, wish: Wish) -> Wish:
    """UsageError for names that git would take for something else."""
    if wish.branch is not None:
        plain = not wish.branch.startswith("-") and wish.branch != "HEAD"
        if not plain or not await source.is_ref(f"refs/heads/{wish.branch}"):
            raise UsageError(f"{wish.branch!r} cannot name a branch.")
    if wish.fetch is not None and not (wish.fetch.startswith("refs/") and await source.is_ref(wish.fetch)):
        raise UsageError(f"{wish.fetch!r} is no ref to fetch: they look like refs/pull/7/head.")
    return wish
