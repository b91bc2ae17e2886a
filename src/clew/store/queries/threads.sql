-- name: insert_thread
-- locks: thread :id, name :name
INSERT INTO threads (id, name, cwd, agent, model, permissions, trust, visibility, standing, kind, origin,
    tool_rules, created_at, updated_at)
VALUES (:id, :name, :cwd, :agent, :model, :permissions, :trust, :visibility, :standing, :kind, :origin,
    :tool_rules, :created_at, :updated_at);

-- name: thread_by_id
-- locks: thread :id
SELECT * FROM threads WHERE id = :id;

-- name: thread_by_name
-- locks: name :name
SELECT * FROM threads WHERE name = :name;

-- name: is_thread_name
-- A quick check without a lock: a name that seems to be free is checked again.
SELECT 1 AS taken FROM threads WHERE name = :name;

-- name: threads_newest
SELECT * FROM threads ORDER BY updated_at DESC, created_at DESC, id DESC LIMIT :limit OFFSET :offset;

-- name: threads_in
SELECT * FROM threads WHERE cwd = :cwd
ORDER BY updated_at DESC, created_at DESC, id DESC LIMIT :limit OFFSET :offset;

-- name: threads_with_permissions
-- The newest few, each with the number of all.
SELECT name, COUNT(*) OVER () AS n FROM threads WHERE permissions = :permissions
ORDER BY updated_at DESC, created_at DESC, id DESC LIMIT :limit;

-- name: latest_thread
SELECT * FROM threads WHERE cwd = :cwd AND kind = :kind
ORDER BY updated_at DESC, created_at DESC, id DESC LIMIT 1;

-- name: threads_below
-- Those of a directory and of all directories below it.
SELECT * FROM threads WHERE kind = :kind
    AND substr(cwd || '/', 1, length(CAST(:below AS TEXT))) = :below
ORDER BY updated_at DESC, created_at DESC, id DESC LIMIT :limit OFFSET :offset;

-- name: thread_names
-- For the hint about a name that does not exist: the newest threads are the most likely ones.
SELECT name FROM threads ORDER BY updated_at DESC LIMIT :limit;

-- name: write_thread
-- locks: thread :id, name :name
UPDATE threads SET name = :name, cwd = :cwd, agent = :agent, model = :model, permissions = :permissions,
    trust = :trust, visibility = :visibility, standing = :standing, kind = :kind, origin = :origin,
    tool_rules = :tool_rules, updated_at = :updated_at
WHERE id = :id;

-- name: touch_thread
-- locks: thread :id
-- If the clock was set back, the thread must not look older than it is.
UPDATE threads SET updated_at = :at WHERE id = :id AND updated_at < :at;

-- name: delete_thread
-- locks: thread :id
-- ON DELETE CASCADE deletes its turns, runs, events and pins too.
DELETE FROM threads WHERE id = :id;

-- name: dump_turns
SELECT * FROM turns WHERE thread_id = :id ORDER BY position;

-- name: dump_turn_revisions
SELECT turn_revisions.* FROM turn_revisions JOIN turns ON turns.id = turn_revisions.turn_id
WHERE turns.thread_id = :id ORDER BY turns.position, turn_revisions.revision;

-- name: dump_runs
SELECT * FROM runs WHERE thread_id = :id ORDER BY position;

-- name: dump_attempts
SELECT attempts.* FROM attempts JOIN runs ON runs.id = attempts.run_id
WHERE runs.thread_id = :id ORDER BY runs.position, attempts.number;

-- name: dump_events
SELECT events.* FROM events JOIN runs ON runs.id = events.run_id
WHERE runs.thread_id = :id ORDER BY runs.position, events.seq;

-- name: dump_questions
SELECT * FROM questions WHERE thread_id = :id ORDER BY asked_at, id;

-- name: dump_pins
SELECT * FROM pins WHERE thread_id = :id ORDER BY position;

-- name: dump_pin_absorbed
SELECT pin_absorbed.* FROM pin_absorbed JOIN pins ON pins.id = pin_absorbed.pin_id
WHERE pins.thread_id = :id ORDER BY pins.position, pin_absorbed.n;
