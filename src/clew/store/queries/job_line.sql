-- name: claimable_jobs
-- The jobs that may start now, the most urgent first, and of those the oldest. Each part reads only the rows of an index
-- that it returns. The limit of a part is a constant, because PostgreSQL would plan the query again each time if it were
-- a parameter. The parts for jobs that are due are in the order of their time; `move_due_jobs` makes them ready.
SELECT job_id, is_due FROM (
    SELECT job_id, urgency, number, 0 AS is_due FROM (SELECT job_id, urgency, number FROM job_line
        WHERE is_next = 1 AND claimed_by IS NULL AND ready_at IS NULL AND own = 0 ORDER BY urgency, number LIMIT 32) AS a
    UNION ALL
    SELECT job_id, urgency, number, 0 AS is_due FROM (SELECT job_id, urgency, number FROM job_line
        WHERE is_next = 1 AND claimed_by IS NULL AND ready_at IS NULL AND own = 1 AND CAST(:own AS INTEGER) = 1
        ORDER BY urgency, number LIMIT 32) AS b
    UNION ALL
    SELECT job_id, urgency, number, 1 AS is_due FROM (SELECT job_id, urgency, number FROM job_line
        WHERE is_next = 1 AND claimed_by IS NULL AND ready_at IS NOT NULL AND ready_at <= :now AND own = 0
        ORDER BY ready_at LIMIT 32) AS c
    UNION ALL
    SELECT job_id, urgency, number, 1 AS is_due FROM (SELECT job_id, urgency, number FROM job_line
        WHERE is_next = 1 AND claimed_by IS NULL AND ready_at IS NOT NULL AND ready_at <= :now AND own = 1 AND CAST(:own AS INTEGER) = 1
        ORDER BY ready_at LIMIT 32) AS d
) AS found ORDER BY urgency, number LIMIT :limit;

-- name: claim_job
-- locks: row
-- One statement needs no lock: when two workers try, the second one changes nothing. A worker that the others consider
-- dead changes nothing either.
UPDATE job_line SET claimed_by = :worker
WHERE job_id = :job_id AND claimed_by IS NULL AND is_next = 1 AND EXISTS (SELECT 1 FROM workers WHERE id = :worker)
RETURNING job_id;

-- name: release_claim
-- locks: row
UPDATE job_line SET claimed_by = NULL, ready_at = :ready_at WHERE job_id = :job_id AND claimed_by = :worker;

-- name: claims
SELECT job_id FROM job_line WHERE claimed_by = :worker ORDER BY number;

-- name: release_claims
-- locks: row
UPDATE job_line SET claimed_by = NULL WHERE claimed_by = :worker;

-- name: any_unfinished_job
SELECT job_id FROM job_line WHERE own = 0 OR CAST(:own AS INTEGER) = 1 LIMIT 1;

-- name: jobs_behind
-- Some of the jobs that wait for another job of their key, and the urgency of the key's next job. NULL: it has none.
SELECT job_id, number, priority, (SELECT MIN(other.urgency) FROM job_line AS other
    WHERE other.key = job_line.key AND other.is_next = 1) AS urgency
FROM job_line WHERE is_next = 0 AND number > :after ORDER BY number LIMIT :limit;

-- name: put_next
-- locks: row
UPDATE job_line SET is_next = 1,
    urgency = (SELECT MIN(other.priority) FROM job_line AS other WHERE other.key = job_line.key)
WHERE job_id = :job_id
    AND NOT EXISTS (SELECT 1 FROM job_line AS other WHERE other.key = job_line.key AND other.is_next = 1);

-- name: lend_priority
-- locks: row
UPDATE job_line SET urgency = :priority
WHERE key = (SELECT key FROM job_line WHERE job_id = :job_id) AND is_next = 1 AND urgency > :priority;
