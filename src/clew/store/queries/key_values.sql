-- name: probe
SELECT body FROM probes WHERE path = :path AND stamp = :stamp;

-- name: save_probe
-- locks: row
INSERT INTO probes (path, stamp, body, at) VALUES (:path, :stamp, :body, :at)
ON CONFLICT (path) DO UPDATE SET stamp = excluded.stamp, body = excluded.body, at = excluded.at;

-- name: fact
-- locks: fact :key
SELECT value FROM facts WHERE key = :key;

-- name: fact_seen
SELECT value FROM facts WHERE key = :key;

-- name: save_fact
-- locks: fact :key
INSERT INTO facts (key, value) VALUES (:key, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;
