-- name: acquire_lease
-- locks: lease :key
-- Acquires a lease that is free, expired or held by this token. It is one statement, so two processes cannot both win.
INSERT INTO leases (key, token, host, pid, pid_started, run_id, acquired_at, heartbeat_at, expires_at)
VALUES (:key, :token, :host, :pid, :pid_started, :run_id, :now, :now, :expires_at)
ON CONFLICT (key) DO UPDATE SET token = excluded.token, host = excluded.host, pid = excluded.pid,
    pid_started = excluded.pid_started, run_id = excluded.run_id, acquired_at = excluded.acquired_at,
    heartbeat_at = excluded.heartbeat_at, expires_at = excluded.expires_at
WHERE leases.expires_at <= excluded.acquired_at OR leases.token = excluded.token;

-- name: take_lease
-- locks: lease :key
-- Takes the lease from a dead holder; the old token makes sure that it is still the same holder.
UPDATE leases SET token = :token, host = :host, pid = :pid, pid_started = :pid_started, run_id = :run_id,
    acquired_at = :now, heartbeat_at = :now, expires_at = :expires_at
WHERE key = :key AND token = :old_token;

-- name: renew_lease
-- locks: row
-- An expired lease that no other process has taken still belongs to its holder: the token has not changed.
UPDATE leases SET heartbeat_at = :now, expires_at = :expires_at WHERE token = :token;

-- name: release_lease
-- locks: row
DELETE FROM leases WHERE token = :token;

-- name: lease_by_key
-- locks: lease :key
SELECT * FROM leases WHERE key = :key;

-- name: leases_under
-- locks: leases :prefix
-- LIKE would not do, because a prefix may contain % or _; nor would a range, because PostgreSQL's order depends on its
-- locale. The table is small.
SELECT * FROM leases WHERE substr(key, 1, length(CAST(:prefix AS TEXT))) = :prefix ORDER BY key;
