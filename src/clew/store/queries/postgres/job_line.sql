-- name: move_due_jobs
-- locks: row
-- Jobs whose time has come join those that are ready at once, where the most urgent one is found. Two workers that do
-- this at the same time must not wait for each other's rows.
UPDATE job_line SET ready_at = NULL WHERE job_id IN (SELECT job_id FROM job_line
    WHERE is_next = 1 AND claimed_by IS NULL AND ready_at IS NOT NULL AND ready_at <= :now AND own IN (0, 1)
    LIMIT :limit FOR UPDATE SKIP LOCKED);
