"""Events of a forge, the rules that say which agents act on them, and the keys by which an agent's thread is found.

Pure: payloads become events in `hosts`, and nothing here depends on which forge it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

from clew.core.record import Record
from clew.core.thread import Permissions

KIND = "hook"  # the kind of a hook's threads and jobs
MAX_EVENT_BYTES = 25_000_000  # a forge's message: GitHub sends no more


class Forge(StrEnum):
    GITHUB = "github"
    GITEA = "gitea"
    FORGEJO = "forgejo"


KINDS: dict[str, str] = {
    "issue.opened": "an issue was opened",
    "issue.reopened": "an issue was opened again",
    "issue.edited": "an issue's text was changed",
    "issue.labeled": "an issue got a label",
    "issue.assigned": "an issue was given to somebody",
    "issue.commented": "somebody commented on an issue",
    "issue.closed": "an issue was closed",
    "pull.opened": "a pull request was opened",
    "pull.reopened": "a pull request was opened again",
    "pull.edited": "a pull request's text was changed",
    "pull.labeled": "a pull request got a label",
    "pull.assigned": "a pull request was given to somebody",
    "pull.commented": "somebody commented on a pull request",
    "pull.updated": "commits were pushed to a pull request",
    "pull.review_requested": "somebody's review was asked for",
    "pull.changes_requested": "a reviewer wants changes",
    "pull.approved": "a reviewer approves",
    "pull.reviewed": "a reviewer commented",
    "pull.closed": "a pull request was closed without a merge",
    "pull.merged": "a pull request was merged",
    "branch.pushed": "commits were pushed to a branch",
    "branch.deleted": "a branch was deleted",
}
CLEAN_UP = frozenset({"issue.closed", "pull.closed", "pull.merged", "branch.deleted"})

REPO = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}\Z")
AGENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}\Z")

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*\Z)|~{3,})")
_HIDDEN = re.compile(r"(?s)<!--.*?(?:-->|\Z)")
_CODE = re.compile(r"`[^`\n]+`")


class HookEvent(Record):
    """Something that happened on a forge, in one form for all forges. None of its texts is trusted."""

    forge: Forge
    delivery: str  # the forge's own id of this message
    kind: str  # one of KINDS
    repo: str  # owner/name
    number: int | None  # of the issue or pull request; None: the event is of a branch
    actor: str  # who caused the event
    association: str | None = None  # the actor's role in the repository, if the forge says (GitHub)
    title: str = ""
    body: str = ""  # of the issue or pull request
    text: str = ""  # what is new: a comment, a review
    own_words: bool = True  # the actor wrote `text`; False: the forge names another author
    author: str = ""  # who opened the issue or pull request
    labels: tuple[str, ...] = ()
    label: str | None = None  # the label that was just added
    assignee: str | None = None  # who was just assigned
    reviewer: str | None = None  # whose review was just requested
    branch: str | None = None  # of a pull request: its head; of a push: the branch
    base: str | None = None  # the branch that a pull request is for
    from_fork: bool = False  # the head is in another repository
    commit: str | None = None  # the head
    url: str = ""
    comment_path: str | None = None  # of a comment on a line: the file
    comment_line: int | None = None  # of a comment on a line: the line


class HookAgent(Record):
    """A named agent of the settings: which CLI and model, with which skills and permissions."""

    name: str
    agent: str = "claude"  # the agent CLI
    model: str | None = None
    skills: str = ""  # its folder of templates, absolute
    allowed_tools: tuple[str, ...] = ()  # in addition to its permissions; `Bash(git *)` names a command
    timeout_s: float | None = 1800.0
    permissions: Permissions = Permissions.EDITS
    max_age_s: float | None = None  # of a session


class Update(StrEnum):
    """How a work tree is brought up to date before an agent is woken in it."""

    NONE = "none"  # it stays as the agent left it
    FETCH = "fetch"  # the remote is fetched; the tree stays
    FORWARD = "forward"  # the remote is fetched, and the tree moves forward with its branch, if that loses nothing


class Rule(Record):
    """Which events wake which agent. An empty condition matches everything. An item is an issue or a pull request."""

    agent: str
    events: tuple[str, ...]  # kinds, or patterns: `issue.*`, `*`
    repos: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()  # the item has one of these; for a label event: the new label is one of these
    authors: tuple[str, ...] = ()  # one of these opened the item
    actors: tuple[str, ...] = ()  # one of these caused the event
    branches: tuple[str, ...] = ()  # head branches, or patterns: `feature/*`
    mention: str | None = None  # the new text mentions @name
    command: str | None = None  # the new text has a line that begins with this: `/boss`
    reviewers: tuple[str, ...] = ()  # the review of one of these was requested
    forks: bool = False  # also pull requests from forks, whose code is not trusted
    anyone: bool = False  # also people without write access
    comment: bool = False  # the agent's final answer is posted as a comment
    update: Update = Update.FORWARD


class Match(Record):
    """A rule that applies to an event."""

    rule: Rule
    command: str | None = None  # the text after the command on its line
    by_writer: bool = False  # the actor has write access; only determined where it makes a difference


class Meaning(StrEnum):
    """How the agent must treat the new text of an event."""

    TASK = "task"  # a command of a person with write access
    FEEDBACK = "feedback"  # the review of a person with write access who asks for changes
    DATA = "data"  # everything else


def meaning(match: Match, event: HookEvent) -> Meaning:
    """How the agent must treat the new text (`event.text`, or a new description). All other texts are data."""
    if not match.by_writer or not event.own_words:
        return Meaning.DATA
    if match.rule.command is not None:
        return Meaning.TASK
    return Meaning.FEEDBACK if event.kind == "pull.changes_requested" and event.text.strip() else Meaning.DATA


def needs_writer(match: Match, event: HookEvent) -> bool:
    """Whether it matters that the actor has write access: for the rule, or for the meaning of the text."""
    return not match.rule.anyone or meaning(match.replace(by_writer=True), event) is not Meaning.DATA


def is_repo(name: str) -> bool:
    """Whether the name has the form `owner/name` and is safe to use in a path."""
    return REPO.match(name) is not None and ".." not in name and "." not in name.split("/")


def session_key(agent: str, repo: str, number: int) -> str:
    """`boss:charles/peon:4`. Raises ValueError for invalid parts, so that different parts never give the same key."""
    if not AGENT.match(agent) or not is_repo(repo) or type(number) is not int or number < 1:
        raise ValueError(f"no session key can be made of {agent!r}, {repo!r}, {number!r}")
    return f"{agent}:{repo}:{number}"


def split_key(key: str) -> tuple[str, str, int]:
    """The agent, repository and number of a session key. Raises ValueError if the text is not one."""
    agent, _, rest = key.partition(":")
    repo, _, number = rest.rpartition(":")
    if not number.isascii() or not number.isdigit() or key != session_key(agent, repo, int(number)):
        raise ValueError(f"{key!r} is not a session key: they look like boss:charles/peon:4")
    return agent, repo, int(number)


def route(rules: Sequence[Rule], event: HookEvent) -> tuple[Match, ...]:
    """A match for each agent that acts, by the first of its rules that applies."""
    found: dict[str, Match] = {}
    for rule in rules:
        match = matches(rule, event) if rule.agent not in found else None
        if match is not None:
            found[rule.agent] = match
    return tuple(found.values())


def matches(rule: Rule, event: HookEvent) -> Match | None:
    command = _command(rule.command, event.text or _opening(event)) if rule.command else None
    applies = (
        _any(rule.events, event.kind)
        and (not rule.repos or _any(rule.repos, event.repo))
        and (not rule.labels or _has_label(rule.labels, event))
        and (not rule.authors or _named(rule.authors, event.author))
        and (not rule.actors or _named(rule.actors, event.actor))
        and (not rule.reviewers or _named(rule.reviewers, event.reviewer or ""))
        and (not rule.branches or (event.branch is not None and _any(rule.branches, event.branch)))
        and (rule.mention is None or _mentions(rule.mention, event.text or _opening(event)))
        and (rule.command is None or command is not None)
        and (rule.forks or not event.from_fork)
    )
    return Match(rule, command) if applies else None


def _opening(event: HookEvent) -> str:
    """The description, if the event is that its author opened, edited or reopened the issue or pull request."""
    is_new = event.kind.endswith((".opened", ".edited", ".reopened")) and event.actor.lower() == event.author.lower()
    return event.body if is_new else ""


def _any(patterns: Sequence[str], value: str) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def _named(names: Sequence[str], name: str) -> bool:
    return name.lower() in {each.lower() for each in names}


def _has_label(labels: Sequence[str], event: HookEvent) -> bool:
    if event.label is not None:  # not every forge names the label that was added
        return event.label in labels
    return any(label in labels for label in event.labels)


def _mentions(name: str, text: str) -> bool:
    word = re.escape(name.removeprefix("@"))
    said = _CODE.sub("", _said(text))
    return re.search(rf"(?<![\w@/.-])@{word}(?![\w-]|/\w)", said, re.IGNORECASE) is not None


def _command(word: str, text: str) -> str | None:
    """The text after the command, on a line that is neither quoted nor code."""
    for line in _said(text).split("\n"):
        first, *rest = line.split(None, 1) or [""]
        if first == word:
            return rest[0].strip() if rest else ""
    return None


def _said(text: str) -> str:
    """The author's own words: without quoted lines, code and HTML comments."""
    said: list[str] = []
    fence = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        bare = line.strip()
        if fence:
            is_end = bare.startswith(fence) and not bare.strip(fence[0])
            fence = "" if is_end else fence
        elif found := _FENCE.match(line):
            fence = found[1]
        elif not line.startswith(("    ", "\t")) and not bare.startswith(">"):
            said.append(line)
    return _HIDDEN.sub("", "\n".join(said))
