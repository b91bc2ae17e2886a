-- name: count_change
-- locks: commit
UPDATE versions SET n = n + 1;

-- name: version
SELECT n FROM versions;

-- name: mark_thread
-- locks: commit
UPDATE threads SET version = (SELECT n FROM versions) WHERE id = :id;

-- name: mark_deleted
-- locks: commit
INSERT INTO deleted_threads (id, version) SELECT CAST(:id AS TEXT), n FROM versions WHERE n > 0
ON CONFLICT (id) DO UPDATE SET version = excluded.version;

-- name: deleted_after
SELECT id FROM deleted_threads WHERE version > :after ORDER BY version;
