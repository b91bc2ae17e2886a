-- name: insert_digest
-- locks: thread :thread_id
INSERT INTO digests (id, thread_id, about, text) VALUES (:id, :thread_id, :about, :text);

-- name: digests
SELECT * FROM digests ORDER BY id;

-- name: dump_digests
SELECT * FROM digests WHERE thread_id = :id;
