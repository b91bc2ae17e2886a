-- name: insert_turn
-- A write transaction is alone, so the next position cannot be taken twice.
INSERT INTO turns (id, thread_id, position, role, text, agent, model, partial, message_id, run_id, revision, created_at)
VALUES (:id, :thread_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM turns WHERE thread_id = :thread_id),
    :role, :text, :agent, :model, :partial, :message_id, :run_id, :revision, :created_at);

-- name: turn_by_id
SELECT * FROM turns WHERE id = :id;

-- name: history
SELECT * FROM turns WHERE thread_id = :thread_id AND archived_at IS NULL ORDER BY position;

-- name: all_turns
SELECT * FROM turns WHERE thread_id = :thread_id ORDER BY position;

-- name: keep_revision
INSERT INTO turn_revisions (turn_id, revision, text, replaced_at)
SELECT id, revision, text, CAST(:at AS DOUBLE PRECISION) FROM turns WHERE id = :id;

-- name: edit_turn
UPDATE turns SET text = :text, revision = revision + 1 WHERE id = :id;

-- name: archive_turns
UPDATE turns SET archived_at = :at, archived_why = :why
WHERE thread_id = :thread_id AND position >= :position AND archived_at IS NULL;

-- name: revisions
SELECT * FROM turn_revisions WHERE turn_id = :turn_id ORDER BY revision;
