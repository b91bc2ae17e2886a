-- name: insert_turn
-- locks: thread :thread_id
-- The thread is locked, so the next position cannot be taken twice.
INSERT INTO turns (id, thread_id, position, role, text, agent, model, partial, message_id, run_id, revision, created_at,
    outside, typed)
VALUES (:id, :thread_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM turns WHERE thread_id = :thread_id),
    :role, :text, :agent, :model, :partial, :message_id, :run_id, :revision, :created_at, :outside, :typed);

-- name: insert_turn_at
-- locks: thread :thread_id
INSERT INTO turns (id, thread_id, position, role, text, agent, model, partial, message_id, run_id, revision, created_at,
    outside, typed)
VALUES (:id, :thread_id, :position, :role, :text, :agent, :model, :partial, :message_id, :run_id, :revision,
    :created_at, :outside, :typed);

-- name: make_room
-- locks: thread :thread_id
UPDATE turns SET position = -(position + 1) WHERE thread_id = :thread_id AND position >= :position;

-- name: take_room
-- locks: thread :thread_id
UPDATE turns SET position = -position WHERE thread_id = :thread_id AND position < 0;

-- name: turn_by_id
-- locks: turn :id
SELECT * FROM turns WHERE id = :id;

-- name: history
-- locks: thread :thread_id
SELECT * FROM turns WHERE thread_id = :thread_id AND archived_at IS NULL ORDER BY position;

-- name: all_turns
-- locks: thread :thread_id
SELECT * FROM turns WHERE thread_id = :thread_id ORDER BY position;

-- name: keep_revision
-- locks: turn :id
INSERT INTO turn_revisions (turn_id, revision, text, replaced_at)
SELECT id, revision, text, CAST(:at AS DOUBLE PRECISION) FROM turns WHERE id = :id;

-- name: edit_turn
-- locks: turn :id
UPDATE turns SET text = :text, typed = :typed, revision = revision + 1 WHERE id = :id;

-- name: archive_turns
-- locks: thread :thread_id
UPDATE turns SET archived_at = :at, archived_why = :why
WHERE thread_id = :thread_id AND position >= :position AND archived_at IS NULL;

-- name: revisions
-- locks: turn :turn_id
SELECT * FROM turn_revisions WHERE turn_id = :turn_id ORDER BY revision;
