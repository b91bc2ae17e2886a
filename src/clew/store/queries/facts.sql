-- name: probe
SELECT body FROM probes WHERE path = :path AND stamp = :stamp;

-- name: save_probe
INSERT INTO probes (path, stamp, body, at) VALUES (:path, :stamp, :body, :at)
ON CONFLICT (path) DO UPDATE SET stamp = excluded.stamp, body = excluded.body, at = excluded.at;

-- name: fact
SELECT value FROM facts WHERE key = :key;

-- name: save_fact
INSERT INTO facts (key, value) VALUES (:key, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;
