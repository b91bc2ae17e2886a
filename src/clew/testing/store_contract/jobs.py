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
