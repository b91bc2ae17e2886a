-- name: claim_request
-- locks: row
INSERT INTO requests (key, sent, made_id, created_at) VALUES (:key, :sent, :made_id, :created_at)
ON CONFLICT (key) DO NOTHING;

-- name: request
SELECT * FROM requests WHERE key = :key;

-- name: finish_request
-- locks: row
UPDATE requests SET status = :status, location = :location, answer = :answer WHERE key = :key;

-- name: release_request
-- locks: row
DELETE FROM requests WHERE key = :key AND status IS NULL;

-- name: forget_requests
-- locks: row
DELETE FROM requests WHERE created_at < :before;
