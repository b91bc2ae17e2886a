"""Session keys are unambiguous, and rules match by kind, label, person, branch, mention and command."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.hooks.hook import (
    CLEAN_UP,
    KINDS,
    Forge,
    HookEvent,
    Match,
    Meaning,
    Rule,
    is_repo,
    matches,
    meaning,
    needs_writer,
    route,
    session_key,
    split_key,
)


def an_event(kind: str = "issue.commented", **more: object) -> HookEvent:
    known: dict[str, object] = {"number": None if kind.startswith("branch.") else 4, "actor": "alice", "author": "bob"}
    return HookEvent(forge=Forge.GITEA, delivery="d-1", kind=kind, repo="charles/peon", **(known | more))  # type: ignore[arg-type]


def a_rule(**more: object) -> Rule:
    return Rule(**({"agent": "boss", "events": ("*",)} | more))  # type: ignore[arg-type]


def said(rule: Rule, text: str) -> Match | None:
    return matches(rule, an_event(text=text))


# Keys


def test_a_key_names_agent_repository_and_number() -> None:
    assert session_key("boss", "charles/peon", 4) == "boss:charles/peon:4"
    assert split_key("boss:charles/peon:4") == ("boss", "charles/peon", 4)


_agents = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}", fullmatch=True)
_names = st.from_regex(r"[A-Za-z0-9_.-]{1,100}", fullmatch=True)


@given(agent=_agents, owner=_names, name=_names, number=st.integers(1, 2**63))
def test_a_key_is_split_into_what_it_was_made_of(agent: str, owner: str, name: str, number: int) -> None:
    repo = f"{owner}/{name}"
    if is_repo(repo):
        assert split_key(session_key(agent, repo, number)) == (agent, repo, number)
    else:
        with pytest.raises(ValueError, match="no session key"):
            session_key(agent, repo, number)


@pytest.mark.parametrize(
    ("agent", "repo", "number"),
    [
        ("", "charles/peon", 4),
        ("boss:x", "charles/peon", 4),
        ("-boss", "charles/peon", 4),
        ("a" * 41, "charles/peon", 4),
        ("boss\n", "charles/peon", 4),
        ("boss", "peon", 4),
        ("boss", "charles/peon/x", 4),
        ("boss", "charles/peon:4", 4),
        ("boss", "../peon", 4),
        ("boss", "charles/..", 4),
        ("boss", "charles/.", 4),
        ("boss", "./peon", 4),
        ("boss", "charles/peon\n", 4),
        ("boss", "charles/peon", 0),
        ("boss", "charles/peon", -4),
        ("boss", "charles/peon", True),
        ("boss", "charles/peon", 4.0),
        ("boss", "charles/peon", "4"),
        ("boss", "charles/peon", None),
    ],
)
def test_parts_that_would_make_another_key_are_refused(agent: str, repo: str, number: int) -> None:
    with pytest.raises(ValueError, match="no session key"):
        session_key(agent, repo, number)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "boss",
        "boss:charles/peon",
        "boss:charles/peon:",
        "boss:charles/peon:04",
        "boss:charles/peon:+4",
        "boss:charles/peon:٤",
        "boss:charles/peon:4 ",
        ":charles/peon:4",
        "boss:peon:4",
        "boss:a/b:4:4",
        "boss:charles/peon:" + "9" * 5000,
        "boss:../peon:4",
    ],
)
def test_a_malformed_key_is_not_split(key: str) -> None:
    with pytest.raises(ValueError, match=r"session key|integer string"):
        split_key(key)


@given(st.text(max_size=40))
def test_whatever_is_split_is_a_key_or_refused(key: str) -> None:
    try:
        parts = split_key(key)
    except ValueError:
        return
    assert session_key(*parts) == key


# Rules


def test_what_cleans_up_is_a_known_kind() -> None:
    assert KINDS.keys() > CLEAN_UP


def test_each_agent_acts_once_by_its_first_rule_that_applies() -> None:
    unfit = a_rule(events=("issue.opened",))
    first, second = a_rule(events=("issue.*",)), a_rule(events=("*",))
    other = a_rule(agent="reviewer", events=("issue.commented",))
    assert route([unfit, first, second, other], an_event()) == (Match(first), Match(other))
    assert route([unfit], an_event()) == ()


@pytest.mark.parametrize(
    ("pattern", "kind", "applies"),
    [
        ("issue.opened", "issue.opened", True),
        ("issue.opened", "issue.closed", False),
        ("issue.*", "issue.closed", True),
        ("issue.*", "pull.closed", False),
        ("*.closed", "pull.closed", True),
        ("*", "branch.deleted", True),
        ("Issue.Opened", "issue.opened", False),
    ],
)
def test_a_rule_names_kinds(pattern: str, kind: str, applies: bool) -> None:
    assert (matches(a_rule(events=(pattern,)), an_event(kind)) is not None) is applies


@pytest.mark.parametrize(
    ("rule", "event", "applies"),
    [
        ({"repos": ("charles/*",)}, {}, True),
        ({"repos": ("daisy/*",)}, {}, False),
        ({"authors": ("Bob",)}, {}, True),
        ({"authors": ("alice",)}, {}, False),
        ({"actors": ("ALICE", "x")}, {}, True),
        ({"actors": ("bob",)}, {}, False),
        ({"reviewers": ("carol",)}, {"reviewer": "Carol"}, True),
        ({"reviewers": ("carol",)}, {}, False),
        ({"branches": ("feature/*",)}, {"branch": "feature/a/b"}, True),
        ({"branches": ("feature/*",)}, {"branch": "main"}, False),
        ({"branches": ("*",)}, {}, False),
        ({"labels": ("agent",)}, {"labels": ("bug", "agent")}, True),
        ({"labels": ("agent",)}, {"labels": ("bug",)}, False),
        ({}, {"from_fork": True}, False),
        ({"forks": True}, {"from_fork": True}, True),
    ],
)
def test_a_rule_filters(rule: dict[str, object], event: dict[str, object], applies: bool) -> None:
    assert (matches(a_rule(**rule), an_event(**event)) is not None) is applies


def test_of_a_label_event_the_new_label_counts() -> None:
    rule = a_rule(labels=("agent",))
    old, new = ("agent", "bug"), ("bug", "agent")
    assert matches(rule, an_event("issue.labeled", labels=old, label="bug")) is None
    assert matches(rule, an_event("issue.labeled", labels=new, label="agent")) is not None


def test_where_the_forge_does_not_say_which_label_is_new_any_of_them_counts() -> None:
    assert matches(a_rule(labels=("agent",)), an_event("issue.labeled", labels=("bug", "agent"))) is not None
    assert matches(a_rule(labels=("agent",)), an_event("issue.labeled", labels=("bug",))) is None


# Mentions and commands


@pytest.mark.parametrize(
    "text",
    ["@boss", "hey @boss!", "@BOSS: look", "(@boss)", "x\r\n@boss.\r\n", "@boss, @reviewer", "**@boss**", "@boss/ ok"],
)
@pytest.mark.parametrize("mention", ["boss", "@boss"])
def test_a_mention_is_found(mention: str, text: str) -> None:
    assert said(a_rule(mention=mention), text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "boss",
        "@bossy",
        "@boss-2",
        "@boss_x",
        "me@boss",
        "x/@boss",
        "@@boss",
        "@boss/team",
        "a.@boss",
        "> @boss said",
        "  > @boss",
        "`@boss`",
        "    @boss",
        "\t@boss",
        "<!-- @boss -->",
        "<!-- @boss",
        "```\n@boss\n```",
    ],
)
def test_other_text_is_not_a_mention(text: str) -> None:
    assert said(a_rule(mention="boss"), text) is None


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("/boss", ""),
        ("/boss fix it", "fix it"),
        ("  /boss   fix  it  ", "fix  it"),
        ("/boss\tfix", "fix"),
        ("Hello.\r\n\r\n/boss fix\r\nThanks.", "fix"),
        ("/boss fix `way.py` and `exit.py`", "fix `way.py` and `exit.py`"),
        ("```\ncode\n```\n/boss fix", "fix"),
        ("```foo``` is code\n/boss fix", "fix"),
        ("~~~ python\n```\n~~~\n/boss fix", "fix"),
        ("> /boss old\n\n/boss new", "new"),
        ("<!-- a\nnote -->\n/boss fix", "fix"),
        ("/boss one\n/boss two", "one"),
    ],
)
def test_a_command_is_found_with_the_text_after_it(text: str, rest: str) -> None:
    match = said(a_rule(command="/boss"), text)
    assert match is not None
    assert match.command == rest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "please /boss",
        "/bossy",
        "/BOSS",
        "> /boss",
        "   > /boss",
        "    /boss",
        "\t/boss",
        "`/boss`",
        "```\n/boss\n```",
        "```\n/boss",
        "```\n/boss\n~~~",
        "````\n```\n/boss\n````",
        "```\n```python\n/boss\n```",
        "~~~~\n~~~\n/boss\n~~~~",
        "```\r\n/boss\r\n```",
        "<!-- /boss -->",
        "<!--\n/boss\n-->",
        "<!--\n/boss",
        "a\u2028/boss",
        "a\x0b/boss",
    ],
)
def test_quoted_code_or_hidden_text_is_not_a_command(text: str) -> None:
    assert said(a_rule(command="/boss"), text) is None


def test_a_new_issue_is_matched_by_its_description_and_a_comment_by_its_text() -> None:
    rule = a_rule(command="/boss")
    assert matches(rule, an_event("issue.opened", body="/boss go", author="alice")) == Match(rule, "go")
    assert matches(rule, an_event("issue.edited", body="/boss go", author="mallory")) is None, (
        "the actor did not write it"
    )
    assert matches(rule, an_event("issue.commented", body="/boss go", text="Thanks.")) is None
    assert matches(rule, an_event("issue.commented", body="/boss go", text="")) is None
    assert matches(rule, an_event("issue.closed", body="/boss go")) is None


@pytest.mark.parametrize("piece", ["`", "```\n", "<!--", "@boss", "/boss\n", "> ", "~~~\n", "`a`", "<!-- -->", "@"])
def test_a_long_text_is_read_to_its_end(piece: str) -> None:
    """In less than a second; a pattern that backtracks would need 25 minutes, far beyond a test's limit."""
    rule = a_rule(mention="nobody", command="/nothing")
    assert said(rule, piece * (1_000_000 // len(piece))) is None


# The meaning of the new text


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in CLEAN_UP])
def test_only_a_command_is_a_task_and_only_a_request_for_changes_is_feedback(kind: str) -> None:
    told = an_event(kind, text="/boss fix it")
    command, plain = Match(a_rule(command="/boss"), "fix it", by_writer=True), Match(a_rule(), by_writer=True)
    mention = Match(a_rule(mention="boss"), by_writer=True)
    assert meaning(command, told) is Meaning.TASK
    assert meaning(plain, told) is (Meaning.FEEDBACK if kind == "pull.changes_requested" else Meaning.DATA)
    assert meaning(mention, told) is meaning(plain, told)


@pytest.mark.parametrize("kind", ["issue.commented", "pull.changes_requested"])
def test_what_somebody_without_write_access_says_is_data_and_so_are_words_that_the_actor_did_not_write(
    kind: str,
) -> None:
    told = an_event(kind, text="/boss fix it")
    for rule in (a_rule(command="/boss"), a_rule()):
        assert meaning(Match(rule, "fix it"), told) is Meaning.DATA
        assert meaning(Match(rule, "fix it", by_writer=True), told.replace(own_words=False)) is Meaning.DATA


def test_a_review_without_words_gives_no_feedback() -> None:
    match = Match(a_rule(), by_writer=True)
    assert meaning(match, an_event("pull.changes_requested", text=" \n")) is Meaning.DATA


def test_for_a_rule_for_anyone_write_access_matters_only_where_it_changes_what_the_text_means() -> None:
    told, review = an_event(text="/boss fix it"), an_event("pull.changes_requested", text="Add a test.")
    assert needs_writer(Match(a_rule()), told)
    assert not needs_writer(Match(a_rule(anyone=True)), told)
    assert needs_writer(Match(a_rule(anyone=True, command="/boss"), "fix it"), told)
    assert needs_writer(Match(a_rule(anyone=True)), review)
