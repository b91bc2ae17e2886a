"""Which branch a work tree is made on, at which commit it starts, and whether it can be moved forward."""

from __future__ import annotations

from clew.core.record import Record
from clew.errors import UsageError
from clew.git.command import WHOLE_S, error_text
from clew.git.worktrees.location import TreeRecord
from clew.git.worktrees.source import LinkedTree, SourceRepository

NAME_MAX_CHARS = 100


class TreeRequest(Record):
    """The tree that is asked for; see `WorkTrees.open`."""

    branch: str | None
    start: str | None
    remote: str | None  # None: the repository has no such remote
    fetch: str | None
    fetched: str  # the ref that `fetch` is fetched into


class BranchChoice(Record):
    branch: str
    own: bool  # the branch was made for the tree
    exists: bool
    start: str | None = None  # the commit that a new branch starts at
    track: str | None = None  # the remote's branch that a new branch tracks
    placed: str | None = None  # the commit that Clew last moved the branch to


class Upstream(Record):
    name: str
    commit: str
    same: bool  # the upstream is this branch on the remote, not only what the branch started at


class ForwardResult(Record):
    placed: str | None
    note: str | None = None  # why the tree was not moved


async def choose_branch(
    source: SourceRepository, request: TreeRequest, record: TreeRecord | None, own_name: str, notes: list[str]
) -> BranchChoice:
    """Chooses the branch of a tree that is to be made. A tree that existed before continues on its branch."""
    if record is not None:
        tip = await source.commit(f"refs/heads/{record.branch}") if record.branch else None
        if tip is not None and await _is_free(source, record.branch, notes):
            return BranchChoice(record.branch, record.own, True, placed=record.placed)
        if tip is not None:
            return BranchChoice(await _unused(source, request, own_name), True, False, tip, placed=record.placed)
    begin = await starting_point(source, request)
    commit = begin[1] if begin is not None else None
    if request.branch is not None:
        tip = await source.commit(f"refs/heads/{request.branch}")
        theirs = f"refs/remotes/{request.remote}/{request.branch}"
        tracked = request.remote is not None and await source.commit(theirs) is not None
        if request.fetch is not None and (tip is not None or tracked):
            notes.append(f"The branch name {request.branch} is taken: this tree has a branch of its own.")
        elif tip is not None:
            if await _is_free(source, request.branch, notes):
                return BranchChoice(request.branch, False, True, placed=tip)
        else:
            return BranchChoice(request.branch, True, False, commit, theirs if tracked else None, commit)
    return BranchChoice(await _unused(source, request, own_name), True, False, commit, placed=commit)


async def starting_point(
    source: SourceRepository, request: TreeRequest, *, excluded: str | None = None
) -> tuple[str, str] | None:
    """What the tree starts at and moves forward to: the name and the commit. The ref `excluded` is ignored."""
    names = []
    if request.branch is not None and request.fetch is None:
        names += _both(request.remote, request.branch, f"refs/heads/{request.branch}")
    if request.start is not None and request.start.startswith("refs/"):
        names += [request.start]
    elif request.start is not None:
        names += _both(request.remote, request.start, request.start)
    elif request.fetch is not None:
        names += [request.fetched]
    for name in names:
        commit = await source.commit(name) if name != excluded else None
        if commit is not None:
            return name, commit
    if request.start is not None or request.fetch is not None:
        return None
    name = await source.default(request.remote)
    commit = await source.commit(name)
    return None if commit is None else (name, commit)


async def move_forward(
    source: SourceRepository, tree: LinkedTree, request: TreeRequest, record: TreeRecord
) -> ForwardResult:
    """Moves the tree forward to its upstream, if that loses nothing."""
    branch, head = await source.branch(tree), await source.head(tree)
    if branch is None or head is None:
        return ForwardResult(record.placed, "Not moved forward: it is on no branch.")
    follows = await _followed(source, request, branch)
    if follows is None:
        return ForwardResult(record.placed, "Not moved forward: it has no upstream.")
    target = follows.commit
    if target == head:
        return ForwardResult(record.placed)
    ahead, behind = await source.contains(target, head), await source.contains(head, target)
    untouched = follows.same and record.own and branch == record.branch and record.placed == head
    if ahead and not untouched:
        return ForwardResult(record.placed)
    if not behind and not untouched:
        name = request.fetch if follows.name == request.fetched else _short(follows.name)
        more, less = await source.count(head, target), await source.count(target, head)
        return ForwardResult(
            record.placed, f"Not moved forward: {branch} has {_commits(more)} that {name} lacks, and lacks {less}."
        )
    status = await source.ask(
        "status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=dirty",
        tree=tree, limit_s=WHOLE_S,
    )  # fmt: skip
    if status.status != 0:
        return ForwardResult(record.placed, f"Not moved forward: {error_text(status.err)}.")
    if status.out:
        files = status.out.count(b"\0")
        return ForwardResult(
            record.placed, f"Not moved forward: {files} file{'s have' if files > 1 else ' has'} changed in it."
        )
    args: tuple[str, ...] = ("merge", "--quiet", "--ff-only", "--no-overwrite-ignore", target)
    if not behind:  # a forced push, and the tree has no commits of its own
        args = ("checkout", "--quiet", "--no-overwrite-ignore", "--no-track", "-B", branch, target)
    done = await source.change(*args, tree=tree)
    if done.status != 0:
        return ForwardResult(record.placed, f"Not moved forward: {error_text(done.err)}.")
    return ForwardResult(target)


async def _followed(source: SourceRepository, request: TreeRequest, branch: str) -> Upstream | None:
    """The branch's upstream, else the remote's branch of that name, else what a new tree would start at."""
    names = [await source.upstream(branch)]
    names += [f"refs/remotes/{request.remote}/{branch}"] if request.remote is not None else []
    for name in names:
        commit = await source.commit(name) if name else None
        if name and commit is not None:
            return Upstream(name, commit, True)
    begin = await starting_point(source, request, excluded=f"refs/heads/{branch}")
    return None if begin is None else Upstream(*begin, begin[0] == request.fetched)


async def _is_free(source: SourceRepository, branch: str, notes: list[str]) -> bool:
    elsewhere = await source.checked_out_at(branch)
    if elsewhere is not None:
        notes.append(f"The branch {branch} is checked out in {elsewhere}: this tree has one of its own.")
    return elsewhere is None


async def _unused(source: SourceRepository, request: TreeRequest, name: str) -> str:
    """A name that is unused here and on the remote."""
    base = name.replace("..", ".").replace("..", ".")[:NAME_MAX_CHARS]
    number = 1
    while True:
        found = base if number == 1 else f"{base}-{number}"
        taken = [f"refs/heads/{found}"] + (
            [f"refs/remotes/{request.remote}/{found}"] if request.remote is not None else []
        )
        if not [ref for ref in taken if await source.commit(ref) is not None]:
            return found
        number += 1


def _both(remote: str | None, name: str, other: str) -> list[str]:
    """Names to try. The remote's branch comes first, because it may be newer than the local one."""
    return ([f"refs/remotes/{remote}/{name}"] if remote is not None else []) + [other]


def _commits(number: int) -> str:
    return f"{number} commit{'' if number == 1 else 's'}"


def _short(name: str) -> str:
    return name.removeprefix("refs/remotes/").removeprefix("refs/heads/")


async def validated(source: SourceRepository, request: TreeRequest) -> TreeRequest:
    """Returns the request. Raises UsageError for names that git would take for something else."""
    if request.branch is not None:
        plain = not request.branch.startswith("-") and request.branch != "HEAD"
        if not plain or not await source.is_ref(f"refs/heads/{request.branch}"):
            raise UsageError(f"{request.branch!r} cannot name a branch.")
    if request.fetch is not None and not (request.fetch.startswith("refs/") and await source.is_ref(request.fetch)):
        raise UsageError(f"{request.fetch!r} is not a ref to fetch: they look like refs/pull/7/head.")
    return request
