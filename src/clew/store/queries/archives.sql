-- name: thread_uses
-- locks: thread :id
-- What prevents a thread from being archived.
SELECT
    (SELECT COUNT(*) FROM runs WHERE thread_id = :id AND status IN ('running', 'waiting')) AS running,
    (SELECT COUNT(*) FROM runs WHERE thread_id = :id AND status = 'queued') AS queued,
    (SELECT COUNT(*) FROM jobs WHERE thread_id = :id AND status IN ('queued', 'running', 'waiting')) AS jobs,
    (SELECT COUNT(*) FROM questions WHERE thread_id = :id AND state = 'open') AS questions;

-- name: unused_threads
SELECT * FROM threads WHERE updated_at < :before AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
ORDER BY updated_at, created_at, id;

-- name: companions
-- locks: thread :id
-- The other thread of a pair.
SELECT worker_thread_id AS id FROM pairs WHERE instructor_thread_id = :id AND worker_thread_id <> :id
UNION SELECT instructor_thread_id AS id FROM pairs WHERE worker_thread_id = :id AND instructor_thread_id <> :id;

-- name: forget_deleted
-- locks: thread :id
DELETE FROM deleted_threads WHERE id = :id;
