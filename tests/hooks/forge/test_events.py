"""What the three forges send becomes one kind of event, or is refused; the payloads follow their documentation.

A payload's file is called `forge.event.what.json`; the event is what the forge's header says.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.hooks.hook import KINDS, Forge, HookEvent
from clew.hosts.hooks.forge.events import NotAnEvent, check_signature, delivery_of, read_event

PAYLOADS = Path(__file__).parents[1] / "payloads"
FORM = {"content-type": "application/x-www-form-urlencoded"}
HEAD, HEAD2 = "4f1c3b2a" * 5, "9e8d7c6b" * 5
SECRET = "not-a-real-one"

KIND_OF = {
    "github": {
        "issues.opened": "issue.opened",
        "issues.closed": "issue.closed",
        "issues.reopened": "issue.reopened",
        "issues.edited": "issue.edited",
        "issues.labeled": "issue.labeled",
        "issues.assigned": "issue.assigned",
        "issue_comment.created": "issue.commented",
        "issue_comment.created_on_pull": "pull.commented",
        "issue_comment.edited": None,
        "pull_request.opened": "pull.opened",
        "pull_request.opened_from_fork": "pull.opened",
        "pull_request.review_requested": "pull.review_requested",
        "pull_request.synchronize": "pull.updated",
        "pull_request.closed": "pull.closed",
        "pull_request.merged": "pull.merged",
        "pull_request.reopened": "pull.reopened",
        "pull_request_review.changes_requested": "pull.changes_requested",
        "pull_request_review.approved": "pull.approved",
        "pull_request_review.commented_without_text": None,
        "pull_request_review_comment.created": "pull.commented",
        "push.pushed": "branch.pushed",
        "push.deleted": "branch.deleted",
        "push.tag": None,
        "delete.branch": "branch.deleted",
        "delete.tag": None,
        "ping.ping": None,
        "star.created": None,
    },
    "gitea": {
        "issues.opened": "issue.opened",
        "issues.closed": "issue.closed",
        "issues.reopened": "issue.reopened",
        "issues.edited": "issue.edited",
        "issues.label_updated": "issue.labeled",
        "issues.assigned": "issue.assigned",
        "issue_comment.created": "issue.commented",
        "issue_comment.created_on_pull": "pull.commented",
        "issue_comment.deleted": None,
        "pull_request.opened": "pull.opened",
        "pull_request.opened_from_fork": "pull.opened",
        "pull_request.opened_without_branch": "pull.opened",
        "pull_request.review_requested": "pull.review_requested",
        "pull_request.synchronized": "pull.updated",
        "pull_request.closed": "pull.closed",
        "pull_request.merged": "pull.merged",
        "pull_request.reopened": "pull.reopened",
        "pull_request_rejected.changes_requested": "pull.changes_requested",
        "pull_request_approved.approved": "pull.approved",
        "pull_request_comment.reviewed": "pull.reviewed",
        "push.pushed": "branch.pushed",
        "delete.branch": "branch.deleted",
        "repository.created": None,
    },
}
KIND_OF["forgejo"] = KIND_OF["gitea"]
ALL = [f"{forge}.{name}" for forge, kinds in KIND_OF.items() for name in kinds]


def payload_of(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((PAYLOADS / f"{name}.json").read_bytes())
    return content


def headers_of(name: str) -> dict[str, str]:
    forge, event, _ = name.split(".")
    return {f"x-{forge}-event": event, f"x-{forge}-delivery": "d-1", "content-type": "application/json"}


def read(name: str, payload: Any = None, **more: str) -> HookEvent | None:
    body = json.dumps(payload_of(name) if payload is None else payload).encode()
    return read_event(Forge(name.split(".")[0]), headers_of(name) | more, body)


def must_read(name: str, payload: Any = None) -> HookEvent:
    event = read(name, payload)
    assert event is not None
    return event


def sign(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


# Reading


def test_every_payload_is_listed_and_every_kind_is_known() -> None:
    assert sorted(path.stem for path in PAYLOADS.iterdir()) == sorted(ALL)
    assert {kind for kinds in KIND_OF.values() for kind in kinds.values() if kind} <= KINDS.keys()


@pytest.mark.parametrize("name", ALL)
def test_a_payload_is_read_as_its_kind(name: str) -> None:
    forge, _, what = name.partition(".")
    event, kind = read(name), KIND_OF[forge][what]
    if kind is None:
        assert event is None
        return
    assert event is not None
    number = None if kind.startswith("branch.") else event.number
    assert (event.forge, event.delivery, event.kind, event.repo) == (Forge(forge), "d-1", kind, "alice/maze")
    assert number in ({"issue": (4,), "pull": (5, 6), "branch": (None,)}[kind.partition(".")[0]])


@pytest.mark.parametrize("forge", list(KIND_OF))
def test_an_opened_issue_has_all_its_texts(forge: str) -> None:
    event = must_read(f"{forge}.issues.opened")
    assert event == HookEvent(
        Forge(forge),
        "d-1",
        "issue.opened",
        "alice/maze",
        4,
        "bob",
        association="CONTRIBUTOR" if forge == "github" else None,
        title="The longer exit is taken",
        body="When there are two exits, the shorter one is not taken.\r\n\r\n/boss look into it",
        author="bob",
        labels=("bug",),
        url="https://forge.example/alice/maze/issues/4",
    )


@pytest.mark.parametrize("forge", list(KIND_OF))
def test_a_comment_is_what_is_new(forge: str) -> None:
    event = must_read(f"{forge}.issue_comment.created")
    assert event.text.strip() == "/boss please take this one"
    assert (event.actor, event.author, event.comment_path) == ("alice", "bob", None)
    assert "#issuecomment-" in event.url


@pytest.mark.parametrize("forge", list(KIND_OF))
def test_a_pull_request_tells_its_branches(forge: str) -> None:
    event = must_read(f"{forge}.pull_request.opened")
    assert (event.branch, event.base, event.commit, event.from_fork) == ("fix/shorter-exit", "main", HEAD, False)
    assert must_read(f"{forge}.pull_request.{'synchronize' if forge == 'github' else 'synchronized'}").commit == HEAD2


@pytest.mark.parametrize("forge", list(KIND_OF))
def test_a_head_in_another_repository_is_a_forks(forge: str) -> None:
    event = must_read(f"{forge}.pull_request.opened_from_fork")
    assert (event.from_fork, event.branch, event.author) == (True, "main", "mallory")


@pytest.mark.parametrize("forge", list(KIND_OF))
def test_a_head_whose_repository_is_gone_is_a_forks(forge: str) -> None:
    payload = payload_of(f"{forge}.pull_request.closed")
    payload["pull_request"]["head"]["repo"] = None
    assert must_read(f"{forge}.pull_request.closed", payload).from_fork
    payload["pull_request"]["head"] = None
    event = must_read(f"{forge}.pull_request.closed", payload)
    assert (event.from_fork, event.branch, event.commit) == (True, None, None)


@pytest.mark.parametrize("forge", ["gitea", "forgejo"])
def test_a_pull_request_that_was_pushed_without_a_branch_counts_as_a_forks(forge: str) -> None:
    event = must_read(f"{forge}.pull_request.opened_without_branch")
    assert (event.from_fork, event.branch) == (True, "mallory/topic")


@pytest.mark.parametrize("forge", ["gitea", "forgejo"])
def test_a_merged_pull_request_keeps_the_name_of_its_deleted_branch(forge: str) -> None:
    event = must_read(f"{forge}.pull_request.merged")
    assert (event.from_fork, event.branch) == (False, "fix/shorter-exit")


@pytest.mark.parametrize("forge", list(KIND_OF))
def test_a_review_tells_what_is_wanted(forge: str) -> None:
    name = "pull_request_review.changes_requested" if forge == "github" else "pull_request_rejected.changes_requested"
    event = must_read(f"{forge}.{name}")
    assert event.text == "Please add a test with two exits of the same length."
    assert (event.actor, event.author, event.branch) == ("carol", "bob", "fix/shorter-exit")
    assert event.association == ("COLLABORATOR" if forge == "github" else None)


def test_a_comment_on_a_line_tells_where() -> None:
    event = must_read("github.pull_request_review_comment.created")
    assert (event.comment_path, event.comment_line) == ("src/maze/way.py", 12)
    assert (event.number, event.branch, event.text) == (
        5,
        "fix/shorter-exit",
        "This loops for ever when there is no exit.",
    )


@pytest.mark.parametrize("forge", list(KIND_OF))
def test_a_text_with_another_author_is_not_the_actors_own_words(forge: str) -> None:
    name = f"{forge}.issue_comment.created"
    assert must_read(name).own_words
    payload = payload_of(name)
    payload["comment"]["user"]["login"] = "mallory"
    assert not must_read(name, payload).own_words
    review = "pull_request_review.changes_requested" if forge == "github" else "pull_request_rejected.changes_requested"
    assert must_read(f"{forge}.{review}").own_words, "Gitea and Forgejo name nobody: a review is the sender's"


@pytest.mark.parametrize("forge", list(KIND_OF))
def test_who_is_asked_for_a_review(forge: str) -> None:
    name = f"{forge}.pull_request.review_requested"
    assert must_read(name).reviewer == "carol"
    payload = payload_of(name)
    del payload["requested_reviewer"]
    payload["requested_team"] = {"name": "Guides", "slug": "guides"}
    assert must_read(name, payload).reviewer == "alice/guides"


def test_a_new_label_is_named_where_the_forge_names_it() -> None:
    assert must_read("github.issues.labeled").label == "agent"
    assert must_read("forgejo.issues.label_updated").label == "agent"
    event = must_read("gitea.issues.label_updated")
    assert (event.label, event.labels) == (None, ("bug", "agent"))


def test_gitea_tells_what_changed_among_the_labels_where_it_is_new_enough() -> None:
    payload = payload_of("gitea.issues.label_updated")
    bug, agent = payload["issue"]["labels"]

    def told(added: list[Any] | None, removed: list[Any] | None) -> HookEvent | None:
        payload["changes"] = {"added_labels": added, "removed_labels": removed}
        return read("gitea.issues.label_updated", payload)

    found = told([agent], None)
    assert found is not None and (found.label, found.labels) == ("agent", ("bug", "agent"))
    several = told([bug, agent], None)
    assert several is not None and several.label is None, "each of them may match a rule"
    assert told(None, [{"name": "other"}]) is None, "a label was removed"
    unsaid = told(None, None)
    assert unsaid is not None and unsaid.label is None


def test_a_removed_label_is_no_event() -> None:
    payload = payload_of("gitea.issues.label_updated")
    payload["issue"]["labels"] = []
    assert read("gitea.issues.label_updated", payload) is None
    payload = payload_of("forgejo.issues.label_updated")
    payload["issue"]["labels"] = payload["issue"]["labels"][:1]
    assert read("forgejo.issues.label_updated", payload) is None


@pytest.mark.parametrize("forge", list(KIND_OF))
def test_the_assignee_is_named_when_it_is_certain(forge: str) -> None:
    name = f"{forge}.issues.assigned"
    payload = payload_of(name)
    assert must_read(name).assignee == "carol"
    payload["issue"]["assignees"].append(payload["sender"])
    assert must_read(name, payload).assignee == ("carol" if forge == "github" else None)


@pytest.mark.parametrize(("forge", "change"), [("github", "base"), ("gitea", "ref"), ("forgejo", "ref")])
def test_a_new_base_branch_is_not_an_edit_of_the_text(forge: str, change: str) -> None:
    payload = payload_of(f"{forge}.pull_request.opened") | {"action": "edited", "changes": {change: {"from": "old"}}}
    assert read(f"{forge}.pull_request.opened", payload) is None
    payload["changes"]["title"] = {"from": "Old"}
    assert must_read(f"{forge}.pull_request.opened", payload).kind == "pull.edited"


def test_the_association_is_only_that_of_the_actor() -> None:
    assert must_read("github.issues.reopened").association == "CONTRIBUTOR"
    assert must_read("github.issues.closed").association is None, "alice closed what bob wrote"


@pytest.mark.parametrize("forge", list(KIND_OF))
def test_a_push_tells_its_branch_and_commit(forge: str) -> None:
    event = must_read(f"{forge}.push.pushed")
    assert (event.branch, event.commit, event.number, event.actor) == ("fix/shorter-exit", HEAD2, None, "bob")
    assert (event.title, event.text) == ("Stop when there is no exit", "")
    assert "/compare/" in event.url


@pytest.mark.parametrize("forge", list(KIND_OF))
def test_a_push_of_nothing_deletes_the_branch(forge: str) -> None:
    event = must_read(f"{forge}.push.pushed", payload_of(f"{forge}.push.pushed") | {"after": "0" * 40})
    assert (event.kind, event.branch, event.commit) == ("branch.deleted", "fix/shorter-exit", None)
    assert must_read(f"{forge}.delete.branch").branch == "fix/shorter-exit"


def test_forgejo_is_read_by_giteas_headers_too() -> None:
    body = json.dumps(payload_of("forgejo.issues.opened")).encode()
    event = read_event(Forge.FORGEJO, headers_of("gitea.issues.opened"), body)
    assert event is not None
    assert (event.forge, event.kind) == (Forge.FORGEJO, "issue.opened")


def test_a_forge_is_not_read_by_anothers_headers() -> None:
    assert read_event(Forge.GITEA, headers_of("github.issues.opened"), b"{}") is None


def test_unknown_actions_and_events_are_ignored() -> None:
    assert read("github.issues.opened", payload_of("github.issues.opened") | {"action": "pinned"}) is None
    assert read("github.pull_request.opened", payload_of("github.pull_request.opened") | {"action": "locked"}) is None
    review = payload_of("github.pull_request_review.approved")
    assert read("github.pull_request_review.approved", review | {"action": "dismissed"}) is None
    assert read_event(Forge.GITHUB, {"x-github-event": "deployment_status"}, b"not even JSON") is None
    assert read_event(Forge.GITHUB, {}, b"") is None


@pytest.mark.parametrize("forge", list(KIND_OF))
def test_a_form_is_read_as_its_payload(forge: str) -> None:
    payload = payload_of(f"{forge}.issue_comment.created")
    payload["comment"]["body"] = "é + & = % \U0001f9f5"
    body = urlencode({"payload": json.dumps(payload, ensure_ascii=False)}).encode()
    event = read_event(Forge(forge), headers_of(f"{forge}.issue_comment.created") | FORM, body)
    assert event is not None
    assert event.text == "é + & = % \U0001f9f5"


# Refusals


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"action": "\xff"}', "not JSON"),
        (b'{"action": NaN}', "not JSON"),
        (b'{"action": "\\ud800"}', "not JSON"),
        (b"[]", "not an object"),
        (b"null", "not an object"),
        (b"[" * 100_000, "too deep"),
        (b'{"a":' * 100_000, "too deep"),
        (b"{}", "repository is missing"),
        (b'{"repository": []}', "repository is not an object"),
        (b'{"repository": {"full_name": 4}}', "full_name is not a text"),
    ],
)
def test_a_malformed_body_is_refused_in_one_line(body: bytes, why: str) -> None:
    with pytest.raises(NotAnEvent, match=why) as refused:
        read_event(Forge.GITHUB, headers_of("github.issues.opened"), body)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "repo",
    ["maze", "alice/maze/x", "../etc", "alice/..", "./maze", "alice/.", "alice/ma ze", "alice/maze\n", "é/x", ""],
)
def test_a_repository_that_is_not_owner_and_name_is_refused(repo: str) -> None:
    payload = payload_of("github.issues.opened")
    payload["repository"]["full_name"] = repo
    with pytest.raises(NotAnEvent, match="owner/name"):
        read("github.issues.opened", payload)


@pytest.mark.parametrize("number", [0, -1, True, 4.0, "4", None, [4], 2**63])
def test_a_malformed_number_is_refused(number: object) -> None:
    payload = payload_of("gitea.pull_request.opened")
    payload["pull_request"]["number"] = number
    with pytest.raises(NotAnEvent, match="positive whole number"):
        read("gitea.pull_request.opened", payload)


@pytest.mark.parametrize(
    "ref",
    ["-x", "--upload-pack=x", "a b", "a..b", "a//b", "/a", "a/", "a.lock", "a\nb", "a~1", "x" * 256, ".a", "a/.b"],
)
def test_a_branch_name_that_git_does_not_allow_is_refused(ref: str) -> None:
    payload = payload_of("github.pull_request.opened")
    payload["pull_request"]["head"]["ref"] = ref
    with pytest.raises(NotAnEvent, match="name of a branch"):
        read("github.pull_request.opened", payload)


@pytest.mark.parametrize("ref", ["main", "fix/4-über", "a.b", "v1.0", "feature/x/y", "user@host", "x" * 255])
def test_a_branch_that_git_allows_is_read(ref: str) -> None:
    payload = payload_of("github.push.pushed") | {"ref": f"refs/heads/{ref}"}
    assert must_read("github.push.pushed", payload).branch == ref


@pytest.mark.parametrize("login", ["", "a b", "a\nb", "x" * 256, None, 4, ["a"]])
def test_an_actor_without_a_name_is_refused(login: object) -> None:
    payload = payload_of("github.issues.opened")
    payload["sender"]["login"] = login
    with pytest.raises(NotAnEvent, match="login"):
        read("github.issues.opened", payload)


def test_a_malformed_link_is_left_out() -> None:
    payload = payload_of("github.issues.opened")
    for url in ("javascript:alert(1)", "https://x/ y", "ftp://x", "https://x/" + "y" * 3000):
        payload["issue"]["html_url"] = url
        assert must_read("github.issues.opened", payload).url == ""


def test_a_message_without_a_delivery_id_is_refused() -> None:
    headers = headers_of("github.issues.opened") | {"x-github-delivery": "é"}
    with pytest.raises(NotAnEvent, match="delivery"):
        read_event(Forge.GITHUB, headers, json.dumps(payload_of("github.issues.opened")).encode())


@pytest.mark.parametrize(
    "body", [b"", b"x=1", b"payload=", b"payload", b"payload={}&payload={}", b"payload=%7", b"%00"]
)
def test_a_form_without_one_payload_is_refused(body: bytes) -> None:
    with pytest.raises(NotAnEvent):
        read_event(Forge.GITHUB, headers_of("github.issues.opened") | FORM, body)


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.rest
@settings(max_examples=300, deadline=None)
@given(data=st.data(), name=st.sampled_from(ALL))
def test_any_value_in_a_field_gives_an_event_or_a_refusal(data: st.DataObject, name: str) -> None:
    payload = part = payload_of(name)
    for _ in range(data.draw(st.integers(1, 4))):
        key = data.draw(st.sampled_from(sorted(part)))
        if not isinstance(part[key], dict) or not part[key] or data.draw(st.booleans()):
            part[key] = data.draw(_anything)
            break
        part = part[key]
    try:
        event = read(name, payload)
    except NotAnEvent as refused:
        assert str(refused)
    else:
        assert event is None or event.kind in KINDS


# Signatures

SIGNED_BY = {
    Forge.GITHUB: ["x-hub-signature-256"],
    Forge.GITEA: ["x-gitea-signature"],
    Forge.FORGEJO: ["x-forgejo-signature", "x-gitea-signature", "x-hub-signature-256"],
}
SIGNATURES = [(forge, header) for forge, headers in SIGNED_BY.items() for header in headers]


def value_of(header: str, digest: str) -> str:
    return f"sha256={digest}" if header == "x-hub-signature-256" else digest


@pytest.mark.parametrize(("forge", "header"), SIGNATURES)
def test_a_valid_signature_is_accepted(forge: Forge, header: str) -> None:
    headers = {header: value_of(header, sign(b"{}"))}
    assert check_signature(forge, headers, b"{}", SECRET)
    assert not check_signature(forge, headers, b"{} ", SECRET)
    assert not check_signature(forge, headers, b"{}", "another")
    assert not check_signature(forge, headers, b"{}", "")
    assert not check_signature(forge, {header: value_of(header, sign(b"{}", ""))}, b"{}", "")


@pytest.mark.parametrize(("forge", "header"), SIGNATURES)
@pytest.mark.parametrize(
    "wrong",
    ["", "sha256=", "x" * 64, "0" * 64, "é" * 64, "\ud800", "sha1=" + "0" * 40, "0" * 1_000_000],
)
def test_a_malformed_signature_is_refused(forge: Forge, header: str, wrong: str) -> None:
    assert not check_signature(forge, {header: wrong}, b"{}", SECRET)


@pytest.mark.parametrize(("forge", "header"), SIGNATURES)
def test_a_signature_is_accepted_only_in_the_forges_own_form(forge: Forge, header: str) -> None:
    digest = sign(b"{}")
    written = value_of(header, digest)
    for other in (written.upper(), value_of(header, digest.upper()), f" {written}", f"{written}\n", f"{written}, x"):
        assert not check_signature(forge, {header: other}, b"{}", SECRET)
    prefixed = digest if header == "x-hub-signature-256" else f"sha256={digest}"
    assert not check_signature(forge, {header: prefixed}, b"{}", SECRET)


def test_an_unsigned_message_is_refused() -> None:
    for forge in Forge:
        assert not check_signature(forge, {}, b"{}", SECRET)
    assert not check_signature(Forge.GITHUB, {"x-gitea-signature": sign(b"{}")}, b"{}", SECRET)
    assert not check_signature(Forge.GITHUB, {"x-hub-signature": "sha1=" + "0" * 40}, b"{}", SECRET)
    assert not check_signature(Forge.GITEA, {"x-forgejo-signature": sign(b"{}")}, b"{}", SECRET)


def test_forgejos_own_signature_decides() -> None:
    headers = {"x-forgejo-signature": "0" * 64, "x-gitea-signature": sign(b"{}")}
    assert not check_signature(Forge.FORGEJO, headers, b"{}", SECRET)


def test_github_signs_a_form_and_the_others_sign_what_is_in_it() -> None:
    document = '{"a": "é + b"}'.encode()
    body = b"payload=" + quote_plus(document).encode()
    assert check_signature(Forge.GITHUB, FORM | {"x-hub-signature-256": "sha256=" + sign(body)}, body, SECRET)
    assert not check_signature(Forge.GITHUB, FORM | {"x-hub-signature-256": "sha256=" + sign(document)}, body, SECRET)
    for forge in (Forge.GITEA, Forge.FORGEJO):
        assert check_signature(forge, FORM | {"x-gitea-signature": sign(document)}, body, SECRET)
        twice = body + b"&" + body
        assert not check_signature(forge, FORM | {"x-gitea-signature": sign(document)}, twice, SECRET)
        assert not check_signature(forge, FORM | {"x-gitea-signature": sign(b"")}, b"x=1", SECRET)


def test_any_text_can_be_the_secret() -> None:
    headers = {"x-gitea-signature": sign(b"{}", "gehé\U0001f9f5")}
    assert check_signature(Forge.GITEA, headers, b"{}", "gehé\U0001f9f5")
    assert not check_signature(Forge.GITEA, headers, b"{}", "\ud800"), "it cannot be encoded"


@pytest.mark.parametrize(
    ("given", "found"),
    [("72d3162e-cc78-11e3-81ab-4c9367dc0958", True), ("x" * 100, True), ("x" * 101, False), ("", False)]
    + [(each, False) for each in ("a b", "a\n", "é", "a\x7f", "\ud800")],
)
def test_a_delivery_id_is_visible_ascii(given: str, found: bool) -> None:
    for forge in Forge:
        assert delivery_of(forge, {f"x-{forge}-delivery": given}) == (given if found else None)
    assert delivery_of(Forge.FORGEJO, {"x-gitea-delivery": given}) == (given if found else None)
    assert delivery_of(Forge.GITEA, {"x-forgejo-delivery": given}) is None
