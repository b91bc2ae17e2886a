"""Reads what GitHub, Gitea and Forgejo send into events of one form. Pure: bytes in, an event out.

A body may hold anything: its signature only proves that the sender knows the secret. So every field is checked before
it is used, and a bad one raises `NotAnEvent`, with one line that quotes nothing of it.

Where the three differ:
- Gitea and Forgejo send a review as `pull_request_approved`, `…_rejected` or `…_comment`, GitHub as
  `pull_request_review`. GitHub sends each comment on a line as an event of its own; a review that only
  contains such comments is ignored.
- Gitea and Forgejo sign the JSON, even where it is sent in a form; GitHub signs the body as it is sent.
- When labels or assignees change, Gitea and Forgejo often send only the new state, not the change.
- Comments on a pull request do not name its branches (except Forgejo's), so it is not known whether its code comes from
  a fork: `from_fork` is then false, and `branch` None.
- Forgejo names a deleted branch in full (`refs/heads/…`), the others by its short name.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any

from clew.core.hooks.hook import Forge, HookEvent, is_repo
from clew.core.record import Record
from clew.hosts.hooks.forge import fields
from clew.hosts.hooks.forge.fields import NUMBER_MAX, Part
from clew.hosts.hooks.forge.fields import NotAnEvent as NotAnEvent

# Whose headers are read, in this order: Forgejo also sends all of Gitea's, and its first versions sent only those.
_PREFIXES = {Forge.GITHUB: ("github",), Forge.GITEA: ("gitea",), Forge.FORGEJO: ("forgejo", "gitea")}
_HUB = "x-hub-signature-256"
_SIGNATURES = {
    Forge.GITHUB: (_HUB,),
    Forge.GITEA: ("x-gitea-signature",),
    Forge.FORGEJO: ("x-forgejo-signature", "x-gitea-signature", _HUB),
}

_SIGNED = re.compile(r"(?P<scheme>sha256=)?(?P<digest>[0-9a-f]{64})\Z")
_DELIVERY = re.compile(r"[!-~]{1,100}\Z")

_ISSUE_VERBS = {
    "opened": "opened",
    "reopened": "reopened",
    "edited": "edited",
    "labeled": "labeled",
    "label_updated": "labeled",
    "assigned": "assigned",
    "closed": "closed",
}
_PULL_VERBS = _ISSUE_VERBS | {
    "synchronize": "updated",
    "synchronized": "updated",
    "review_requested": "review_requested",
}
_REVIEW_VERBS = {  # by the `state` of GitHub, or the `type` of the others
    "approved": "approved",
    "changes_requested": "changes_requested",
    "rejected": "changes_requested",
    "commented": "reviewed",
    "comment": "reviewed",
}


class _Call(Record):
    """One message of a forge, with the fields that all messages have."""

    forge: Forge
    delivery: str
    repo: str
    actor: str
    payload: Part


def check_signature(forge: Forge, headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    """Whether the sender knows the secret. Header names are in lower case. An empty secret matches no signature."""
    name = next((name for name in _SIGNATURES[forge] if name in headers), None)
    given = _SIGNED.match(headers[name]) if name else None
    if not secret or given is None or bool(given["scheme"]) is not (name == _HUB):
        return False
    try:
        signed = signed_part(forge, headers, body)
        key = secret.encode("utf-8", "surrogateescape")  # the bytes of the secret in the environment
    except ValueError:
        return False
    return hmac.compare_digest(hmac.new(key, signed, hashlib.sha256).hexdigest(), given["digest"])


def signed_part(forge: Forge, headers: Mapping[str, str], body: bytes) -> bytes:
    """The bytes that the signature covers. Raises NotAnEvent."""
    return body if forge is Forge.GITHUB else fields.document(headers, body)


def delivery_of(forge: Forge, headers: Mapping[str, str]) -> str | None:
    """The forge's own id of this message; None: it is missing or malformed."""
    given = _header(forge, headers, "delivery")
    return given if _DELIVERY.match(given) else None


def read_event(forge: Forge, headers: Mapping[str, str], body: bytes) -> HookEvent | None:
    """The event. None for what Clew does not handle: pings, stars, edited comments. Raises NotAnEvent."""
    reader = _READERS.get(_header(forge, headers, "event"))
    if reader is None:
        return None
    delivery = delivery_of(forge, headers)
    if delivery is None:
        raise NotAnEvent("the message has no delivery id")
    payload = fields.payload(headers, body)
    repo = fields.text(fields.required(payload, "repository"), "full_name")
    if not is_repo(repo):
        raise NotAnEvent("repository.full_name is not of the form owner/name")
    actor = fields.login(payload, "sender") or fields.login(payload, "pusher")
    if not actor:
        raise NotAnEvent("sender.login is missing")
    return reader(_Call(forge, delivery, repo, actor, payload))


def _header(forge: Forge, headers: Mapping[str, str], name: str) -> str:
    return next((headers[key] for each in _PREFIXES[forge] if (key := f"x-{each}-{name}") in headers), "")


def _issue(call: _Call) -> HookEvent | None:
    return _changed(call, "issue", fields.required(call.payload, "issue"), _ISSUE_VERBS)


def _pull(call: _Call) -> HookEvent | None:
    return _changed(call, "pull", fields.required(call.payload, "pull_request"), _PULL_VERBS)


def _changed(call: _Call, noun: str, item: Part, verbs: Mapping[str, str]) -> HookEvent | None:
    """A change of an issue or a pull request itself."""
    payload = call.payload
    verb = verbs.get(fields.text(payload, "action"))
    label = assignee = reviewer = None
    if verb == "closed" and noun == "pull" and item.get("merged") is True:
        verb = "merged"
    elif verb == "edited":
        changes = fields.part(payload, "changes")
        if changes and not changes.keys() & {"title", "body"}:  # something else was edited, such as the base branch
            return None
    elif verb == "labeled":
        changes = fields.part(payload, "changes")  # newer versions of Gitea name the changed labels here
        new = fields.labels(changes, "added_labels")
        label = fields.text(fields.part(payload, "label"), "name") or (new[0] if len(new) == 1 else None)
        has = fields.labels(item)
        lost = not new and bool(fields.labels(changes, "removed_labels"))
        if not has or lost or (label is not None and label not in has):  # a label was removed
            return None
    elif verb == "assigned":
        named = fields.login(payload, "assignee")
        people = [fields.login_of(each) for each in fields.parts(item, "assignees")]
        assignee = named or (people[0] if len(people) == 1 else None)
    elif verb == "review_requested":
        team = fields.text(fields.part(payload, "requested_team"), "slug")
        reviewer = fields.login(payload, "requested_reviewer") or None
        if reviewer is None and team:
            reviewer = f"{call.repo.partition('/')[0]}/{team}"  # as in a mention: @owner/team
    if verb is None:
        return None
    pull = item if noun == "pull" else None
    return _event(call, f"{noun}.{verb}", item, item, pull, label=label, assignee=assignee, reviewer=reviewer)


def _comment(call: _Call) -> HookEvent | None:
    """A comment, possibly on a line of a pull request."""
    payload = call.payload
    if fields.text(payload, "action") != "created":
        return None
    comment, pull = fields.required(payload, "comment"), fields.part(payload, "pull_request")
    item = fields.part(payload, "issue") or pull
    is_pull = bool(pull or fields.part(item, "pull_request")) or payload.get("is_pull") is True
    return _event(
        call,
        "pull.commented" if is_pull else "issue.commented",
        item,
        comment,
        pull or None,
        text=fields.text(comment, "body"),
        comment_path=fields.text(comment, "path") or None,
        comment_line=fields.line(comment),
    )


def _review(call: _Call) -> HookEvent | None:
    payload = call.payload
    if "review" not in payload and "comment" in payload:
        return _comment(call)
    review = fields.required(payload, "review")
    state = (fields.text(review, "state") or fields.text(review, "type")).lower()
    verb = _REVIEW_VERBS.get(state.removeprefix("pull_request_").removeprefix("review_"))
    text = fields.text(review, "body") or fields.text(review, "content")
    if verb is None or fields.text(payload, "action") not in ("submitted", "reviewed"):
        return None
    if call.forge is Forge.GITHUB and verb == "reviewed" and not text:
        return None
    pull = fields.required(payload, "pull_request")
    return _event(call, f"pull.{verb}", pull, review, pull, text=text)


def _push(call: _Call) -> HookEvent | None:
    payload = call.payload
    ref, after = fields.text(payload, "ref"), fields.text(payload, "after")
    if not ref.startswith("refs/heads/"):
        return None
    if payload.get("deleted") is True or (after and not after.strip("0")):
        return _of_branch(call, "branch.deleted", ref)
    head = fields.part(payload, "head_commit")
    return _of_branch(
        call,
        "branch.pushed",
        ref,
        commit=fields.commit(payload, "after"),
        title=fields.text(head, "message").partition("\n")[0].strip(),
        url=fields.url(payload, "compare") or fields.url(payload, "compare_url"),
    )


def _delete(call: _Call) -> HookEvent | None:
    if fields.text(call.payload, "ref_type") != "branch":
        return None
    return _of_branch(call, "branch.deleted", fields.text(call.payload, "ref"))


_READERS: Mapping[str, Callable[[_Call], HookEvent | None]] = {
    "issues": _issue,
    "issue_assign": _issue,
    "issue_label": _issue,
    "issue_comment": _comment,
    "pull_request": _pull,
    "pull_request_assign": _pull,
    "pull_request_label": _pull,
    "pull_request_sync": _pull,
    "pull_request_review_request": _pull,
    "pull_request_review": _review,
    "pull_request_review_comment": _review,
    "pull_request_approved": _review,
    "pull_request_rejected": _review,
    "pull_request_comment": _review,
    "push": _push,
    "delete": _delete,
}


def _of_branch(call: _Call, kind: str, ref: str, **more: Any) -> HookEvent:
    branch = fields.branch(ref.removeprefix("refs/heads/"))
    return HookEvent(call.forge, call.delivery, kind, call.repo, None, call.actor, branch=branch, **more)


def _event(call: _Call, kind: str, item: Part, said: Part, pull: Part | None, **more: Any) -> HookEvent:
    """An event of an issue or pull request.

    `said` is what the actor wrote or changed; `pull` has the branches, if they are known.
    """
    number = item.get("number")
    if type(number) is not int or not 0 < number <= NUMBER_MAX:
        raise NotAnEvent("number is not a positive whole number")
    is_own = fields.login(said, "user").lower() == call.actor.lower()
    return HookEvent(
        call.forge,
        call.delivery,
        kind,
        call.repo,
        number,
        call.actor,
        association=(fields.text(said, "author_association") or None) if is_own else None,
        title=fields.text(item, "title"),
        body=fields.text(item, "body"),
        author=fields.login(item, "user"),
        labels=tuple(fields.labels(item)),
        url=fields.url(said, "html_url") or fields.url(item, "html_url"),
        own_words=is_own or said is item or not fields.login(said, "user"),  # not every forge names a review's author
        **(_branches(call, pull) if pull else {}),
        **more,
    )


def _branches(call: _Call, pull: Part) -> Part:
    head, base = fields.part(pull, "head"), fields.part(pull, "base")
    home = fields.text(fields.part(head, "repo"), "full_name").lower()
    ref, base_ref = fields.text(head, "ref"), fields.text(base, "ref")
    is_nameless = ref.startswith("refs/")  # the pull request was made without a branch, or the branch was deleted
    if is_nameless:
        label = fields.text(head, "label")
        ref = label if fields.is_branch(label) else ""
    return {
        "branch": fields.branch(ref) if ref else None,
        "base": fields.branch(base_ref) if base_ref else None,
        "from_fork": home != call.repo.lower() or (is_nameless and fields.text(pull, "state") == "open"),
        "commit": fields.commit(head, "sha"),
    }
