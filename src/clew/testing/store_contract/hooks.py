"""Hooks: an event is stored once and handled in order, a key finds its thread, and replies are due after their jobs."""

from __future__ import annotations

from typing import Any

from clew.core.hooks.hook import Forge, HookEvent
from clew.core.jobs.job import JobStatus
from clew.errors import NotFound
from clew.store.rows.hooks import HookJob, HookKey
from clew.store.store import Store
from clew.testing.store_contract.jobs import a_job
from clew.testing.store_contract.samples import ODD_TEXTS, a_thread, raises

KEY = HookKey("boss:charles/Peon:4", "boss", "charles/Peon", 4, "gitea", "thread-1", None, 1.0, 2.0)


def an_event(delivery: str = "d-1", **changes: Any) -> HookEvent:
    given: dict[str, Any] = {"forge": Forge.GITEA, "kind": "issue.opened", "repo": "charles/Peon", "number": 4}
    return HookEvent(delivery=delivery, actor="alice", **given | changes)


def a_hook_job(job_id: str = "job-1", **changes: Any) -> HookJob:
    job = HookJob(job_id, "h-1", KEY.key, None, None, "forward", "waiting", None, None, 0, 3.0)
    return job._replace(**changes)


class HookContract:
    def test_an_event_is_read_back_unchanged_and_stored_once(self, store: Store) -> None:
        event = an_event(title=ODD_TEXTS[2], body=ODD_TEXTS[4], labels=("a", ODD_TEXTS[3]), from_fork=True)
        assert store.hooks.add_event("h-1", event, 1.5) == ("h-1", True)
        assert store.hooks.add_event("h-2", an_event(title="again"), 2.5) == ("h-1", False)
        assert store.hooks.add_event("h-3", an_event(forge=Forge.GITHUB), 3.5) == ("h-3", True)
        stored = store.hooks.event("h-1")
        assert stored is not None and (stored.event, stored.state, stored.received_at) == (event, "received", 1.5)
        assert store.hooks.event("h-2") is None
        changed = store.hooks.update_event("h-1", state="dispatched", why="so", jobs=("j",), done_at=4.5)
        assert store.hooks.event("h-1") == changed and changed.jobs == ("j",)
        with raises(NotFound):
            store.hooks.update_event("h-2", state="failed")

    def test_an_event_without_jobs_is_planned_again_when_it_is_sent_again(self, store: Store) -> None:
        for state in ("failed", "ignored", "dispatched"):
            store.hooks.add_event(state, an_event(state, title="first"), 1.0)
            store.hooks.update_event(state, state=state, why="a reason", tries=3, done_at=2.0)
            again = store.hooks.add_event("other", an_event(state, title="second"), 3.0)
            assert again == (state, state != "dispatched")
            known = store.hooks.event(state)
            assert known is not None
            if state == "dispatched":
                assert (known.state, known.event.title) == (state, "first")
            else:
                assert (known.state, known.why, known.tries, known.received_at) == ("received", None, 0, 3.0)
                assert known.event.title == "second"

    def test_events_of_one_issue_are_queued_in_order(self, store: Store) -> None:
        for number, at in (("1", 4), ("2", 5), ("3", 4)):
            store.hooks.add_event(f"h-{number}", an_event(f"d-{number}", number=at), 1.0)
        assert store.hooks.event_before("h-1") is None and store.hooks.event_before("h-2") is None
        assert store.hooks.event_before("h-3") == "h-1"
        store.hooks.update_event("h-1", state="ignored", done_at=5.0)
        assert store.hooks.event_before("h-3") is None

    def test_an_event_of_a_branch_is_queued_behind_those_of_every_issue(self, store: Store) -> None:
        for number, at in enumerate((4, None, 5, None), start=1):
            store.hooks.add_event(f"h-{number}", an_event(f"d-{number}", number=at), 1.0)
        store.hooks.add_event("h-5", an_event("d-5", number=5, repo="other/one"), 1.0)
        before = {number: store.hooks.event_before(f"h-{number}") for number in range(1, 6)}
        assert before == {1: None, 2: "h-1", 3: "h-2", 4: "h-1", 5: None}

    def test_a_signed_event_is_a_duplicate_under_another_delivery_id_too(self, store: Store) -> None:
        assert store.hooks.add_event("h-1", an_event("d-1"), 1.0, "digest") == ("h-1", True)
        assert store.hooks.add_event("h-2", an_event("d-2"), 2.0, "digest") == ("h-1", False)
        assert store.hooks.add_event("h-3", an_event("d-3"), 3.0, "another") == ("h-3", True)
        assert store.hooks.add_event("h-4", an_event("d-4", forge=Forge.GITHUB), 4.0, "digest") == ("h-4", True)
        for number in (5, 6):  # without a signature, the same event may come any number of times
            assert store.hooks.add_event(f"h-{number}", an_event(f"d-{number}"), 5.0) == (f"h-{number}", True)
        store.hooks.update_event("h-1", state="failed", why="a reason", done_at=6.0)
        assert store.hooks.add_event("h-7", an_event("d-7"), 7.0, "digest") == ("h-1", True), (
            "a failed event is planned again"
        )
        assert store.hooks.add_event("h-8", an_event("d-3"), 8.0, "digest") == ("h-3", False), (
            "its own delivery id takes precedence"
        )
        store.hooks.update_event("h-1", state="dispatched", done_at=9.0)
        assert store.hooks.forget_events(10.0) == 1
        assert store.hooks.add_event("h-9", an_event("d-9"), 11.0, "digest") == ("h-9", True), (
            "the digest is deleted with its event"
        )

    def test_the_last_state_of_an_issue_and_the_last_use_of_a_key_are_known(self, store: Store) -> None:
        store.threads.create(a_thread())
        assert store.hooks.issue_last(KEY.repo, 4) is None
        assert store.hooks.key_last_used(KEY.key) == (None, None)
        kinds = ("issue.opened", "issue.commented", "issue.closed", "issue.commented")
        for number, kind in enumerate(kinds, start=1):
            store.hooks.add_event(f"h-{number}", an_event(f"d-{number}", kind=kind), float(number))
        store.hooks.add_event("h-9", an_event("d-9", number=5, kind="issue.reopened"), 9.0)
        assert store.hooks.issue_last(KEY.repo, 4) == "issue.closed"
        for number, at in ((1, 3.0), (2, 4.0)):
            store.jobs.create(a_job(f"job-{number}"))
            store.hooks.add_job(a_hook_job(f"job-{number}", hook_id=f"h-{number}", at=at))
        assert store.hooks.key_last_used(KEY.key) == (4.0, "gitea"), "also for a key that was dropped"

    def test_events_are_listed_by_state_and_counted(self, store: Store) -> None:
        for number in range(4):
            store.hooks.add_event(f"h-{number}", an_event(f"d-{number}"), float(number))
        store.hooks.add_event("h-4", an_event(forge=Forge.GITHUB), 4.0)
        store.hooks.update_event("h-1", state="ignored", done_at=5.0)
        assert [each.id for each in store.hooks.events(limit=2)] == ["h-4", "h-3"]
        assert [each.id for each in store.hooks.events(state="received", limit=2)] == ["h-0", "h-2"]
        assert [each.id for each in store.hooks.events(state="received", limit=2, newest=True)] == ["h-4", "h-3"]
        assert store.hooks.count_events() == {
            ("gitea", "received"): 3,
            ("gitea", "ignored"): 1,
            ("github", "received"): 1,
        }
        assert store.hooks.forget_events(6.0) == 1
        assert store.hooks.event("h-1") is None and store.hooks.event("h-0") is not None

    def test_a_key_finds_its_thread(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.hooks.save_key(KEY)
        store.hooks.save_key(KEY._replace(used_at=9.0, branch="b"))
        assert store.hooks.key(KEY.key) == KEY._replace(used_at=9.0, branch="b")
        assert store.hooks.keys() == store.hooks.keys(repo=KEY.repo, issue=4) == [KEY._replace(used_at=9.0, branch="b")]
        assert store.hooks.keys(repo=KEY.repo, issue=5) == store.hooks.keys(repo="other/one") == []
        assert store.hooks.delete_key(KEY.key) and not store.hooks.delete_key(KEY.key)

    def test_the_last_event_that_started_the_agent_of_a_key_is_known(self, store: Store) -> None:
        store.threads.create(a_thread())
        assert store.hooks.last_events() == {}
        store.hooks.save_key(KEY)
        assert store.hooks.last_events() == {}
        for number in (1, 2, 3):
            store.hooks.add_event(f"h-{number}", an_event(f"d-{number}"), float(number))
        for number, at in ((1, 3.0), (2, 4.0)):
            store.jobs.create(a_job(f"job-{number}"))
            store.hooks.add_job(a_hook_job(f"job-{number}", hook_id=f"h-{number}", at=at))
        assert {key: each.id for key, each in store.hooks.last_events().items()} == {KEY.key: "h-2"}
        store.hooks.delete_key(KEY.key)
        assert store.hooks.last_events() == {}

    def test_a_reply_is_due_when_its_job_has_succeeded(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.jobs.create(a_job())
        store.hooks.add_job(a_hook_job())
        assert store.hooks.job("job-1") == a_hook_job() and store.hooks.job("job-2") is None
        assert store.hooks.replies_due() == []
        store.jobs.update("job-1", status=JobStatus.RUNNING, worker="w", runs=1)
        store.jobs.update("job-1", status=JobStatus.SUCCEEDED, result="done", ended_at=9.0)
        assert store.hooks.replies_due() == [a_hook_job()]
        assert store.hooks.update_job("job-1", reply="posted", url="u").url == "u"
        assert store.hooks.replies_due() == []
        with raises(NotFound):
            store.hooks.update_job("job-2", reply="posted")
