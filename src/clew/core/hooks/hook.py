"""What a forge tells, who is to act on it, and by which key an agent finds its thread again.

Pure: payloads become events in `hosts`, and nothing here knows one forge from another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase

from clew.core.record import Record
from clew.core.thread import Permissions


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
    """Something that happened on a forge, the same for all of them. All of its texts are a stranger's."""

    forge: Forge
    delivery: str  # the forge's own id of this message
    kind: str  # one of KINDS
    repo: str  # owner/name
    number: int | None  # of the issue or pull request; None: of a branch
    actor: str  # who did it
    association: str | None = None  # what the actor is to the repository, where the forge says (GitHub)
    title: str = ""
    body: str = ""  # of the issue or pull request
    text: str = ""  # what is new: a comment, a review
    own_words: bool = True  # the actor wrote it; False: the forge names somebody else
    author: str = ""  # who opened it
    labels: tuple[str, ...] = ()
    label: str | None = None  # the one that it just got
    assignee: str | None = None  # who it was just given to
    reviewer: str | None = None  # whose review was just asked for
    branch: str | None = None  # of a pull request: its head; of a push: the branch
    base: str | None = None  # what a pull request is for
    from_fork: bool = False  # the head is in another repository
    commit: str | None = None  # the head
    url: str = ""
    comment_path: str | None = None  # of a comment on a line: the file …
    comment_line: int | None = None  # … and the line


class HookAgent(Record):
    """A named agent of the settings: who works, with what, and how far."""

    name: str
    agent: str = "claude"  # the CLI
    model: str | None = None
    skills: str = ""  # its folder of templates, absolute
    allowed_tools: tuple[str, ...] = ()  # beyond what its permissions allow; `Bash(git *)` names a command
    timeout_s: float | None = 1800.0
    permissions: Permissions = Permissions.EDITS
    max_age_s: float | None = None  # of a session


class Update(StrEnum):
    """How a work tree is brought up to date before an agent is woken in it."""

    NONE = "none"  # as the agent left it
    FETCH = "fetch"  # the repository's remote is fetched; the tree stays
    FORWARD = "forward"  # and the tree moves on with its branch, if that loses nothing


class Rule(Record):
    """Which events wake which agent. What is left empty does not matter."""

    agent: str
    events: tuple[str, ...]  # kinds; `issue.*` and `*` are understood
    repos: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()  # it has one of these; of a label event: the new one is
    authors: tuple[str, ...] = ()  # it was opened by one of these
    actors: tuple[str, ...] = ()  # one of these did it
    branches: tuple[str, ...] = ()  # head branches; `feature/*` is understood
    mention: str | None = None  # @name stands in the new text
    command: str | None = None  # the new text has a line that begins with this: `/boss`
    reviewers: tuple[str, ...] = ()
    forks: bool = False  # also pull requests from forks: their code is a stranger's
    anyone: bool = False  # also people without write access
    comment: bool = False  # the agent's final words are posted as a comment
    update: Update = Update.FORWARD


class Match(Record):
    """A rule that applies."""

    rule: Rule
    command: str | None = None  # what follows the command on its line
    by_writer: bool = False  # the actor has write access; not found out where it makes no difference


class Meaning(StrEnum):
    """What the new text of an event is to the agent that it wakes."""

    TASK = "task"  # a command of a person with write access
    FEEDBACK = "feedback"  # the review of a person with write access who asks for changes
    DATA = "data"  # everything else


def meaning(match: Match, event: HookEvent) -> Meaning:
    """Of `event.text`, or of the description where that is what is new. All other texts of an event are data."""
    if not match.by_writer or not event.own_words:
        return Meaning.DATA
    if match.rule.command is not None:
        return Meaning.TASK
    return Meaning.FEEDBACK if event.kind == "pull.changes_requested" and event.text.strip() else Meaning.DATA


def needs_writer(match: Match, event: HookEvent) -> bool:
    """Does it matter whether the actor has write access: for being answered, or for what the text means?"""
    return not match.rule.anyone or meaning(match.replace(by_writer=True), event) is not Meaning.DATA


def is_repo(name: str) -> bool:
    """`owner/name`, of which a path can be made that stays where it belongs."""
    return REPO.match(name) is not None and ".." not in name and "." not in name.split("/")


def session_key(agent: str, repo: str, number: int) -> str:
    """`boss:charles/peon:4`. ValueError for what would make another key than it says."""
    if not AGENT.match(agent) or not is_repo(repo) or type(number) is not int or number < 1:
        raise ValueError(f"no session key can be made of {agent!r}, {repo!r}, {number!r}")
    return f"{agent}:{repo}:{number}"


def split_key(key: str) -> tuple[str, str, int]:
    """Agent, repository, number. ValueError for what is no key."""
    agent, _, rest = key.partition(":")
    repo, _, number = rest.rpartition(":")
    if not number.isascii() or not number.isdigit() or key != session_key(agent, repo, int(number)):
        raise ValueError(f"{key!r} is no session key: they look like boss:charles/peon:4")
    return agent, repo, int(number)


def route(rules: Sequence[Rule], event: HookEvent) -> tuple[Match, ...]:
    """Who is to act: each agent once, by the first of its rules that applies."""
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
    """What an issue or pull request says, when it is its opening that is told of."""
    told = event.kind.endswith((".opened", ".edited", ".reopened")) and event.actor.lower() == event.author.lower()
    return event.body if told else ""


def _any(patterns: Sequence[str], value: str) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def _named(names: Sequence[str], name: str) -> bool:
    return name.lower() in {each.lower() for each in names}


def _has_label(labels: Sequence[str], event: HookEvent) -> bool:
    if event.label is not None:  # not every forge says which one is new
        return event.label in labels
    return any(label in labels for label in event.labels)


def _mentions(name: str, text: str) -> bool:
    word = re.escape(name.removeprefix("@"))
    said = _CODE.sub("", _said(text))
    return re.search(rf"(?<![\w@/.-])@{word}(?![\w-]|/\w)", said, re.IGNORECASE) is not None


def _command(word: str, text: str) -> str | None:
    """What follows the command, on a line of its own that is no quotation and no code."""
    for line in _said(text).split("\n"):
        first, *rest = line.split(None, 1) or [""]
        if first == word:
            return rest[0].strip() if rest else ""
    return None


def _said(text: str) -> str:
    """Without quoted lines, code and hidden notes: what somebody says, not what they show."""
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
