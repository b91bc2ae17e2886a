"""Jobs: as they were, in their order, only where their status leads; workers and their heartbeats."""

from __future__ import annotations

from typing import Any

from clew.core.events import MessageSaid
from clew.core.ids import RunId, ThreadId
from clew.core.job import IllegalJobMove, Job, JobStatus, Limits, Marker, Wish
from clew.core.record import replace
from clew.core.thread import Permissions
from clew.errors import NotFound
from clew.store.job_rows import Worker
from clew.store.store import Store
from clew.testing.store_contract.samples import ODD_TEXTS, OTHER, OWNER, a_run, a_thread, raises


def a_job(id: str = "job-1", **changes: Any) -> Job:
    thread = ThreadId("thread-1")
    job = Job(id, thread, "do it", "/project", "claude", "opus", Permissions.EDITS, JobStatus.QUEUED, key=id)
    return replace(job, **changes)


class JobContract:
    def test_a_job_comes_back_as_it_was(self, store: Store) -> None:
        store.create_thread(a_thread())
        job = a_job(
            prompt=ODD_TEXTS[4],
            key=ODD_TEXTS[3],
            limits=Limits(timeout_s=None, retries=0, deadline_at=5.5),
            checkpoint=True,
            wish=Wish.FRESH,
            not_before=3.5,
            conflicts=("a", ODD_TEXTS[2]),
            session_id="s",
            session_saved_at=4.5,
            created_at=1.0,
        )
        store.create_job(job)
        assert store.job("job-1") == store.require_job("job-1") == job
        assert store.job("nothing") is None
        with raises(NotFound):
            store.create_job(a_job("job-2", thread_id="nobody"))

    def test_a_job_goes_only_where_its_status_leads(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_job(a_job())
        store.update_job("job-1", status=JobStatus.RUNNING, worker="w", runs=1)
        ended = store.update_job("job-1", status=JobStatus.SUCCEEDED, result="done", ended_at=9.0)
        assert store.job("job-1") == ended and (ended.worker, ended.runs) == ("w", 1)
        with raises(IllegalJobMove):
            store.update_job("job-1", status=JobStatus.RUNNING, runs=2)
        assert store.job("job-1") == ended
        with raises(TypeError):
            store.update_job("job-1", prompt="other")
        with raises(NotFound):
            store.update_job("nothing", runs=1)

    def test_jobs_of_one_key_stand_in_line(self, store: Store) -> None:
        store.create_thread(a_thread())
        for number in range(3):
            store.create_job(a_job(f"job-{number}", key="k"))
        store.create_job(a_job("other", key="o"))
        before = store.job_before("job-2")
        assert before is not None and before.id == "job-0"
        assert store.job_before("job-0") is None and store.job_before("other") is None
        store.update_job("job-0", status=JobStatus.BLOCKED)
        before = store.job_before("job-2")
        assert before is not None and before.id == "job-1", "one that waits for a person does not hold up the rest"
        assert [job.id for job in store.jobs(limit=2)] == ["other", "job-2"]
        assert [job.id for job in store.jobs(key="k")] == ["job-2", "job-1", "job-0"]
        assert [job.id for job in store.jobs(statuses=[JobStatus.BLOCKED, JobStatus.QUEUED], key="k", limit=2)] == [
            "job-2",
            "job-1",
        ]

    def test_a_worker_claims_what_may_begin_and_nobody_has(self, store: Store) -> None:
        store.create_thread(a_thread())
        for number in range(3):
            store.create_job(a_job(f"k-{number}", key="k"))
        store.create_job(a_job("free"))
        store.create_job(a_job("of-a-hook", kind="hook"))
        store.create_job(a_job("later", not_before=50.0))
        store.create_job(a_job("too-late", not_before=70.0, limits=Limits(deadline_at=60.0)))
        assert store.claim_jobs("w", 0.0, 9) == [], "nobody knows that worker"
        store.save_worker(Worker("w", OWNER, 4, 1.0, 1.0, None))
        store.save_worker(Worker("v", OTHER, 4, 1.0, 1.0, None))
        assert store.claimable_jobs(0.0, 9) == ["k-0", "free", "of-a-hook"]
        assert store.claim_jobs("w", 0.0, 1) == ["k-0"] == store.claims("w")
        assert store.claim_jobs("v", 0.0, 9, own=False) == ["of-a-hook"]
        assert store.claim_jobs("v", 0.0, 9) == ["free"]
        assert store.claim_jobs("w", 50.0, 9) == ["later"]
        assert store.claim_jobs("w", 60.0, 9) == ["too-late"], "its deadline is to be seen in time"
        assert store.release_claim("w", "later", 80.0) and not store.release_claim("w", "later", 80.0)
        assert store.claimable_jobs(79.0, 9) == [] and store.claimable_jobs(80.0, 9) == ["later"]
        assert store.forget_worker("w")
        assert store.claimable_jobs(90.0, 9) == ["k-0", "later", "too-late"], "what a dead worker had"
        assert store.claims("v") == ["free", "of-a-hook"]

    def test_the_next_job_of_a_key_may_begin_when_the_one_before_it_is_over(self, store: Store) -> None:
        store.create_thread(a_thread())
        for number in range(4):
            store.create_job(a_job(f"k-{number}", key="k"))
        store.save_worker(Worker("w", OWNER, 4, 1.0, 1.0, None))

        def may_begin() -> list[str]:
            return store.claimable_jobs(10.0, 9)

        store.update_job("k-0", status=JobStatus.FAILED)
        assert may_begin() == ["k-1"]
        store.update_job("k-0", status=JobStatus.QUEUED)
        assert may_begin() == ["k-0"], "a retried one has its old place"
        store.update_job("k-0", status=JobStatus.FAILED)
        assert store.claim_jobs("w", 10.0, 9) == ["k-1"]
        store.update_job("k-1", status=JobStatus.RUNNING, started_at=5.0)
        store.update_job("k-0", status=JobStatus.QUEUED)
        assert may_begin() == [], "after the one that has begun"
        store.update_job("k-1", status=JobStatus.WAITING, wake_at=20.0)
        assert may_begin() == [] and store.claims("w") == ["k-1"]
        store.update_job("k-1", status=JobStatus.FAILED)
        assert may_begin() == ["k-0"] and store.claims("w") == []
        store.update_job("k-0", status=JobStatus.CANCELLED)
        store.update_job("k-2", status=JobStatus.CANCELLED)
        assert may_begin() == ["k-3"] and store.any_job_under_way() and not store.any_job_under_way(own=False)
        store.update_job("k-3", status=JobStatus.CANCELLED)
        assert may_begin() == [] and not store.any_job_under_way()

    def test_a_job_that_goes_with_its_thread_leaves_the_line(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_thread(a_thread("thread-2", "other"))
        store.create_job(a_job("one", key="k"))
        store.create_job(a_job("two", key="k", thread_id="thread-2"))
        assert store.claimable_jobs(0.0, 9) == ["one"]
        store.delete_thread("thread-1")
        assert store.claimable_jobs(0.0, 9) == ["two"]

    def test_a_line_that_nobody_leads_is_put_right(self, store: Store) -> None:
        """As two transactions leave it that did not see each other."""
        store.create_thread(a_thread())
        for number in range(5):
            store.create_job(a_job(f"k-{number}", key="k" if number < 4 else "other"))
        session = store._session()
        store._execute(session, "UPDATE job_line SET is_next = 0")
        assert store.claimable_jobs(0.0, 9) == []
        looks = [store.check_line(0, 2)]
        while looks[-1]:
            looks.append(store.check_line(looks[-1], 2))
        assert len(looks) == 3 and store.claimable_jobs(0.0, 9) == ["k-0", "k-4"]

    def test_markers_are_kept_in_order(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_job(a_job())
        store.create_run(a_run())
        store.append_events("run-1", [(1, 1.0, MessageSaid(ODD_TEXTS[4], "b")), (2, 2.0, MessageSaid("then"))])
        for seq, message_id in ((1, "b"), (2, None), (9, ODD_TEXTS[3])):
            store.add_marker("job-1", "run-1", seq, message_id, float(seq))
        run = RunId("run-1")
        known = [
            Marker(1, 1.0, ODD_TEXTS[4], run, "b"),
            Marker(2, 2.0, "then", run, None),
            Marker(3, 9.0, "", run, ODD_TEXTS[3]),
        ]
        assert store.markers("job-1") == known
        assert store.markers("job-1", limit=2) == known[1:], "the newest"
        assert store.markers("nothing") == []

    def test_workers_are_known_until_they_are_forgotten(self, store: Store) -> None:
        worker = Worker("w", OWNER, 4, 1.0, 1.0, None)
        store.save_worker(worker)
        store.save_worker(Worker("v", OTHER, 1, 2.0, 2.0, None, hooks_only=True))
        assert store.beat_worker("w", 5.0)
        assert [(each.id, each.owner, each.heartbeat_at, each.hooks_only) for each in store.workers()] == [
            ("w", OWNER, 5.0, False),
            ("v", OTHER, 2.0, True),
        ]
        assert store.forget_worker("w") and not store.forget_worker("w")
        assert not store.beat_worker("w", 6.0)
