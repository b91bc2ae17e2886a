"""Jobs: their fields, their order, the changes of status that are allowed; workers and their heartbeats."""

from __future__ import annotations

from typing import Any

from clew.core.ids import RunId, ThreadId
from clew.core.jobs.job import IllegalJobMove, Job, JobStatus, Limits, ProgressMarker, StartMode
from clew.core.record import replace
from clew.core.runs.events import MessageSaid
from clew.core.thread import Permissions
from clew.errors import NotFound
from clew.store.rows.jobs import StoredWorker
from clew.store.store import Store
from clew.testing.store_contract.samples import ODD_TEXTS, OTHER, OWNER, a_run, a_thread, raises


def a_job(id: str = "job-1", **changes: Any) -> Job:
    thread = ThreadId("thread-1")
    job = Job(id, thread, "do it", "/project", "claude", "opus", Permissions.EDITS, JobStatus.QUEUED, key=id)
    return replace(job, **changes)


class JobContract:
    def test_a_job_is_read_back_unchanged(self, store: Store) -> None:
        store.threads.create(a_thread())
        job = a_job(
            prompt=ODD_TEXTS[4],
            key=ODD_TEXTS[3],
            limits=Limits(timeout_s=None, retries=0, deadline_at=5.5),
            checkpoint=True,
            start_mode=StartMode.FRESH,
            not_before=3.5,
            conflicts=("a", ODD_TEXTS[2]),
            priority=7,
            session_id="s",
            session_saved_at=4.5,
            created_at=1.0,
        )
        store.jobs.create(job)
        assert store.jobs.find("job-1") == store.jobs.require("job-1") == job
        assert store.jobs.find("nothing") is None
        with raises(NotFound):
            store.jobs.create(a_job("job-2", thread_id="nobody"))

    def test_a_job_changes_its_status_only_as_the_table_allows(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.jobs.create(a_job())
        store.jobs.update("job-1", status=JobStatus.RUNNING, worker="w", runs=1)
        ended = store.jobs.update("job-1", status=JobStatus.SUCCEEDED, result="done", ended_at=9.0)
        assert store.jobs.find("job-1") == ended and (ended.worker, ended.runs) == ("w", 1)
        with raises(IllegalJobMove):
            store.jobs.update("job-1", status=JobStatus.RUNNING, runs=2)
        assert store.jobs.find("job-1") == ended
        with raises(TypeError):
            store.jobs.update("job-1", prompt="other")
        with raises(TypeError):
            store.jobs.update("job-1", priority=1)
        with raises(NotFound):
            store.jobs.update("nothing", runs=1)

    def test_jobs_of_one_key_are_queued_in_order(self, store: Store) -> None:
        store.threads.create(a_thread())
        for number in range(3):
            store.jobs.create(a_job(f"job-{number}", key="k"))
        store.jobs.create(a_job("other", key="o"))
        before = store.jobs.predecessor("job-2")
        assert before is not None and before.id == "job-0"
        assert store.jobs.predecessor("job-0") is None and store.jobs.predecessor("other") is None
        store.jobs.update("job-0", status=JobStatus.BLOCKED)
        before = store.jobs.predecessor("job-2")
        assert before is not None and before.id == "job-1", "one that waits for a person does not hold up the rest"
        assert [job.id for job in store.jobs.newest(limit=2)] == ["other", "job-2"]
        assert [job.id for job in store.jobs.newest(key="k")] == ["job-2", "job-1", "job-0"]
        assert [
            job.id for job in store.jobs.newest(statuses=[JobStatus.BLOCKED, JobStatus.QUEUED], key="k", limit=2)
        ] == [
            "job-2",
            "job-1",
        ]

    def test_a_worker_claims_jobs_that_may_start_and_are_not_claimed(self, store: Store) -> None:
        store.threads.create(a_thread())
        for number in range(3):
            store.jobs.create(a_job(f"k-{number}", key="k"))
        store.jobs.create(a_job("free"))
        store.jobs.create(a_job("of-a-hook", kind="hook"))
        store.jobs.create(a_job("later", not_before=50.0))
        store.jobs.create(a_job("too-late", not_before=70.0, limits=Limits(deadline_at=60.0)))
        assert store.jobs.claim("w", 0.0, 9) == [], "nobody knows that worker"
        store.workers.save(StoredWorker("w", OWNER, 4, 1.0, 1.0, None))
        store.workers.save(StoredWorker("v", OTHER, 4, 1.0, 1.0, None))
        assert store.jobs.claimable(0.0, 9) == ["k-0", "free", "of-a-hook"]
        assert store.jobs.claim("w", 0.0, 1) == ["k-0"] == store.jobs.claimed_by("w")
        assert store.jobs.claim("v", 0.0, 9, own=False) == ["of-a-hook"]
        assert store.jobs.claim("v", 0.0, 9) == ["free"]
        assert store.jobs.claim("w", 50.0, 9) == ["later"]
        assert store.jobs.claim("w", 60.0, 9) == ["too-late"], "its deadline is to be seen in time"
        assert store.jobs.release_claim("w", "later", 80.0) and not store.jobs.release_claim("w", "later", 80.0)
        assert store.jobs.claimable(79.0, 9) == [] and store.jobs.claimable(80.0, 9) == ["later"]
        assert store.workers.forget("w")
        assert store.jobs.claimable(90.0, 9) == ["k-0", "later", "too-late"], "what a dead worker had"
        assert store.jobs.claimed_by("v") == ["free", "of-a-hook"]

    def test_the_next_job_of_a_key_may_start_when_the_one_before_it_has_ended(self, store: Store) -> None:
        store.threads.create(a_thread())
        for number in range(4):
            store.jobs.create(a_job(f"k-{number}", key="k"))
        store.workers.save(StoredWorker("w", OWNER, 4, 1.0, 1.0, None))

        def may_begin() -> list[str]:
            return store.jobs.claimable(10.0, 9)

        store.jobs.update("k-0", status=JobStatus.FAILED)
        assert may_begin() == ["k-1"]
        store.jobs.update("k-0", status=JobStatus.QUEUED)
        assert may_begin() == ["k-0"], "a retried one has its old place"
        store.jobs.update("k-0", status=JobStatus.FAILED)
        assert store.jobs.claim("w", 10.0, 9) == ["k-1"]
        store.jobs.update("k-1", status=JobStatus.RUNNING, started_at=5.0)
        store.jobs.update("k-0", status=JobStatus.QUEUED)
        assert may_begin() == [], "after the one that has begun"
        store.jobs.update("k-1", status=JobStatus.WAITING, wake_at=20.0)
        assert may_begin() == [] and store.jobs.claimed_by("w") == ["k-1"]
        store.jobs.update("k-1", status=JobStatus.FAILED)
        assert may_begin() == ["k-0"] and store.jobs.claimed_by("w") == []
        store.jobs.update("k-0", status=JobStatus.CANCELLED)
        store.jobs.update("k-2", status=JobStatus.CANCELLED)
        assert may_begin() == ["k-3"] and store.jobs.any_unfinished() and not store.jobs.any_unfinished(own=False)
        store.jobs.update("k-3", status=JobStatus.CANCELLED)
        assert may_begin() == [] and not store.jobs.any_unfinished()

    def test_the_most_urgent_job_is_claimed_first_and_of_equal_ones_the_oldest(self, store: Store) -> None:
        store.threads.create(a_thread())
        for id, priority in (("plain", 50), ("low", 90), ("urgent", 2), ("plain-too", 50), ("urgent-too", 2)):
            store.jobs.create(a_job(id, priority=priority))
        store.jobs.create(a_job("of-a-hook", kind="hook", priority=1))
        for number in range(40):  # more than a worker reads of the jobs that are due, and before those of the next line
            store.jobs.create(a_job(f"due-{number}", priority=60, not_before=1.0))
        store.jobs.create(a_job("urgent-due", priority=1, not_before=5.0))
        store.jobs.create(a_job("urgent-later", priority=1, not_before=50.0))
        store.workers.save(StoredWorker("w", OWNER, 4, 1.0, 1.0, None))
        order = ["of-a-hook", "urgent-due", "urgent", "urgent-too", "plain", "plain-too"]
        assert store.jobs.claim("w", 10.0, 3) == order[:3]
        assert store.jobs.claim("w", 10.0, 3) == order[3:]
        assert store.jobs.claim("w", 10.0, 2) == ["due-0", "due-1"]
        assert store.jobs.claim("w", 50.0, 1) == ["urgent-later"]
        rest = [*store.jobs.claim("w", 50.0, 20), *store.jobs.claim("w", 50.0, 20)]
        assert rest == [*(f"due-{number}" for number in range(2, 40)), "low"]

    def test_a_priority_changes_no_order_within_a_key_and_is_lent_to_the_jobs_before(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.jobs.create(a_job("k-0", key="k", priority=90))
        store.jobs.create(a_job("other", priority=50))
        store.workers.save(StoredWorker("w", OWNER, 4, 1.0, 1.0, None))
        assert store.jobs.claimable(0.0, 9) == ["other", "k-0"]
        store.jobs.create(a_job("k-1", key="k", priority=70))
        store.jobs.create(a_job("k-2", key="k", priority=1))
        assert store.jobs.claimable(0.0, 9) == ["k-0", "other"], "the urgent job waits for it"
        store.jobs.update("k-0", status=JobStatus.RUNNING, started_at=5.0)
        store.jobs.update("k-0", status=JobStatus.SUCCEEDED)
        assert store.jobs.claimable(0.0, 9) == ["k-1", "other"], "in the order in which they were submitted"
        store.jobs.update("k-2", status=JobStatus.CANCELLED)
        assert store.jobs.claimable(0.0, 9) == ["other", "k-1"], "nothing urgent waits for it any more"
        store.jobs.update("k-2", status=JobStatus.QUEUED)
        assert store.jobs.claimable(0.0, 9) == ["k-1", "other"], "a retried job keeps its priority"
        assert store.jobs.require("k-2").priority == 1

    def test_a_job_that_is_deleted_with_its_thread_leaves_the_queue(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.threads.create(a_thread("thread-2", "other"))
        store.jobs.create(a_job("one", key="k"))
        store.jobs.create(a_job("two", key="k", thread_id="thread-2"))
        assert store.jobs.claimable(0.0, 9) == ["one"]
        store.threads.delete("thread-1")
        assert store.jobs.claimable(0.0, 9) == ["two"]

    def test_a_queue_without_a_first_job_is_repaired(self, store: Store) -> None:
        """Two transactions that did not see each other can leave a queue without a first job."""
        store.threads.create(a_thread())
        for number in range(5):
            store.jobs.create(a_job(f"k-{number}", key="k" if number < 4 else "other"))
        store.database.session().connection.execute("UPDATE job_line SET is_next = 0")
        assert store.jobs.claimable(0.0, 9) == []
        steps = [store.jobs.repair_queue(0, 2)]
        while steps[-1]:
            steps.append(store.jobs.repair_queue(steps[-1], 2))
        assert len(steps) == 3 and store.jobs.claimable(0.0, 9) == ["k-0", "k-4"]

    def test_a_next_job_that_is_less_urgent_than_one_behind_it_is_repaired(self, store: Store) -> None:
        store.threads.create(a_thread())
        for id, key, priority in (("k-0", "k", 90), ("other", "o", 50), ("k-1", "k", 3), ("k-2", "k", 60)):
            store.jobs.create(a_job(id, key=key, priority=priority))
        store.database.session().connection.execute("UPDATE job_line SET urgency = 90 WHERE job_id = 'k-0'")
        assert store.jobs.claimable(0.0, 9) == ["other", "k-0"]
        assert store.jobs.repair_queue(0, 500) == 0
        assert store.jobs.claimable(0.0, 9) == ["k-0", "other"]

    def test_markers_are_kept_in_order(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.jobs.create(a_job())
        store.runs.create(a_run())
        store.events.append("run-1", [(1, 1.0, MessageSaid(ODD_TEXTS[4], "b")), (2, 2.0, MessageSaid("then"))])
        for seq, message_id in ((1, "b"), (2, None), (9, ODD_TEXTS[3])):
            store.jobs.add_marker("job-1", "run-1", seq, message_id, float(seq))
        run = RunId("run-1")
        known = [
            ProgressMarker(1, 1.0, ODD_TEXTS[4], run, "b"),
            ProgressMarker(2, 2.0, "then", run, None),
            ProgressMarker(3, 9.0, "", run, ODD_TEXTS[3]),
        ]
        assert store.jobs.markers("job-1") == known
        assert store.jobs.markers("job-1", limit=2) == known[1:], "the newest"
        assert store.jobs.markers("nothing") == []

    def test_workers_are_listed_until_they_are_removed(self, store: Store) -> None:
        worker = StoredWorker("w", OWNER, 4, 1.0, 1.0, None)
        store.workers.save(worker)
        store.workers.save(StoredWorker("v", OTHER, 1, 2.0, 2.0, None, hooks_only=True))
        assert store.workers.beat("w", 5.0)
        assert [(each.id, each.owner, each.heartbeat_at, each.hooks_only) for each in store.workers.all()] == [
            ("w", OWNER, 5.0, False),
            ("v", OTHER, 2.0, True),
        ]
        assert store.workers.forget("w") and not store.workers.forget("w")
        assert not store.workers.beat("w", 6.0)
