-- name: schema_version
SELECT MAX(version) AS version FROM schema_version;

-- name: record_version
-- locks: row
INSERT INTO schema_version (version, name) VALUES (:version, :name);
