-- name: probe
SELECT body FROM probes WHERE path = :path AND stamp = :stamp;

-- name: save_probe
-- locks: row
INSERT INTO probes (path, stamp, body, at) VALUES (:path, :stamp, :body, :at)
ON CONFLICT (path) DO UPDATE SET stamp = excluded.stamp, body = excluded.body, at = excluded.at;

-- name: key_value
-- locks: key_value :key
SELECT value FROM facts WHERE key = :key;

-- name: key_value_unlocked
-- The value may change at any time, so no decision may depend on it.
SELECT value FROM facts WHERE key = :key;

-- name: save_key_value
-- locks: key_value :key
INSERT INTO facts (key, value) VALUES (:key, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value;
