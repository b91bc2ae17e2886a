-- name: claimable_jobs
-- The oldest jobs that may start now. Each part reads only the rows of an index that it returns. The limit of a part is
-- a constant, because PostgreSQL would plan the query again each time if it were a parameter.
SELECT job_id FROM (
    SELECT job_id, number FROM (SELECT job_id, number FROM job_line
        WHERE is_next = 1 AND claimed_by IS NULL AND ready_at IS NULL AND own = 0 ORDER BY number LIMIT 32) AS a
    UNION ALL
    SELECT job_id, number FROM (SELECT job_id, number FROM job_line
        WHERE is_next = 1 AND claimed_by IS NULL AND ready_at IS NULL AND own = 1 AND CAST(:own AS INTEGER) = 1
        ORDER BY number LIMIT 32) AS b
    UNION ALL
    SELECT job_id, number FROM (SELECT job_id, number FROM job_line
        WHERE is_next = 1 AND claimed_by IS NULL AND ready_at IS NOT NULL AND ready_at <= :now AND own = 0
        ORDER BY ready_at LIMIT 32) AS c
    UNION ALL
    SELECT job_id, number FROM (SELECT job_id, number FROM job_line
        WHERE is_next = 1 AND claimed_by IS NULL AND ready_at IS NOT NULL AND ready_at <= :now AND own = 1 AND CAST(:own AS INTEGER) = 1
        ORDER BY ready_at LIMIT 32) AS d
) AS found ORDER BY number LIMIT :limit;

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
-- Some of the jobs that wait for another job of their key, and whether the key has a next job.
SELECT job_id, number, EXISTS (SELECT 1 FROM job_line AS other WHERE other.key = job_line.key AND other.is_next = 1)
    AS is_behind
FROM job_line WHERE is_next = 0 AND number > :after ORDER BY number LIMIT :limit;

-- name: put_next
-- locks: row
UPDATE job_line SET is_next = 1 WHERE job_id = :job_id
    AND NOT EXISTS (SELECT 1 FROM job_line AS other WHERE other.key = job_line.key AND other.is_next = 1);
