"""The line of the jobs that are under way, and which worker has claimed which of them.

The table `job_line` is kept by triggers on the jobs' rows (migration 0016): a job is in it while it is under way, and
the first one of each key is marked as next. So the jobs that may begin are the beginning of an index, however many
there are behind them. A claim is one statement: it takes no lock that another claim would wait for.
"""

from __future__ import annotations

from clew.store.versions import Versions

SPARE = 16  # looked at beyond what is wanted: another worker may claim some of them first


class JobLine(Versions):
    def claimable_jobs(self, now: float, limit: int, *, own: bool = True) -> list[str]:
        """Those that may begin now, the oldest first. `own=False`: only those that hooks made."""
        return [row["job_id"] for row in self._all("claimable_jobs", now=now, limit=limit, own=int(own))]

    def claim_jobs(self, worker_id: str, now: float, limit: int, *, own: bool = True) -> list[str]:
        """The oldest that may begin now and that nobody has: they are this worker's until it releases them or dies.

        None for a worker that the others have taken for dead.
        """
        claimed: list[str] = []
        for job_id in self.claimable_jobs(now, limit + SPARE, own=own):
            if len(claimed) == limit:
                break
            claimed += [row["job_id"] for row in self._all("claim_job", worker=worker_id, job_id=job_id)]
        return claimed

    def claims(self, worker_id: str) -> list[str]:
        """What it has claimed, the oldest first."""
        return [row["job_id"] for row in self._all("claims", worker=worker_id)]

    def release_claim(self, worker_id: str, job_id: str, ready_at: float | None) -> bool:
        """Anybody may claim it again from then on. False: it was not this worker's any more."""
        return self._do("release_claim", worker=worker_id, job_id=job_id, ready_at=ready_at) > 0

    def release_claims(self, worker_id: str) -> int:
        """All that it has; says how many those were."""
        return self._do("release_claims", worker=worker_id)

    def any_job_under_way(self, *, own: bool = True) -> bool:
        return self._one("any_job_under_way", own=int(own)) is not None

    def check_line(self, after: int, limit: int) -> int:
        """Looks at some of those behind others, and marks as next one that nobody goes before.

        Two that enter and leave a key's line in the same moment may not see each other, and then nobody is next. Says
        where the next look begins: 0 after the last one.
        """
        found = self._all("jobs_behind", after=after, limit=limit)
        for row in found:
            if not row["is_behind"]:
                self._do("put_next", job_id=row["job_id"])
        return int(found[-1]["number"]) if len(found) == limit else 0
