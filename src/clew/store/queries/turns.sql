-- name: insert_turn
-- locks: thread :thread_id
-- The thread is locked, so the next position cannot be taken twice.
INSERT INTO turns (id, thread_id, position, role, text, agent, model, partial, message_id, run_id, revision, created_at,
    outside, images, typed, absorbed_as, absorbed_revision, transcript_chars)
VALUES (:id, :thread_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM turns WHERE thread_id = :thread_id),
    :role, :text, :agent, :model, :partial, :message_id, :run_id, :revision, :created_at, :outside, :images, :typed,
    :absorbed_as, :absorbed_revision, :transcript_chars);

-- name: insert_turn_at
-- locks: thread :thread_id
INSERT INTO turns (id, thread_id, position, role, text, agent, model, partial, message_id, run_id, revision, created_at,
    outside, images, typed, absorbed_as, absorbed_revision, transcript_chars)
VALUES (:id, :thread_id, :position, :role, :text, :agent, :model, :partial, :message_id, :run_id, :revision,
    :created_at, :outside, :images, :typed, :absorbed_as, :absorbed_revision, :transcript_chars);

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

-- name: newest_turns
-- locks: thread :thread_id
-- The newest first, without as many as `after` says.
SELECT * FROM turns WHERE thread_id = :thread_id AND archived_at IS NULL
ORDER BY position DESC LIMIT :count OFFSET :after;

-- name: chars_of_turns
-- locks: thread :thread_id
SELECT COALESCE(SUM(transcript_chars), 0) AS n FROM (SELECT transcript_chars FROM turns
    WHERE thread_id = :thread_id AND archived_at IS NULL ORDER BY position LIMIT :count OFFSET :first) AS part;

-- name: end_of_others
-- locks: thread :thread_id
-- How many turns there are up to the last answer of another agent, among the first `stop` turns.
SELECT COUNT(*) AS n FROM turns WHERE thread_id = :thread_id AND archived_at IS NULL AND position <= (
    SELECT MAX(position) FROM turns WHERE thread_id = :thread_id AND archived_at IS NULL
        AND role = 'assistant' AND (agent IS NULL OR agent <> :agent)
        AND position < COALESCE((SELECT position FROM turns WHERE thread_id = :thread_id AND archived_at IS NULL
            ORDER BY position LIMIT 1 OFFSET :stop), 9223372036854775807));

-- name: not_outlined
-- locks: thread :thread_id
SELECT * FROM turns WHERE thread_id = :thread_id AND archived_at IS NULL
    AND (absorbed_as IS NULL OR absorbed_revision <> revision);

-- name: write_outline
-- locks: turn :id
UPDATE turns SET absorbed_as = :absorbed_as, absorbed_revision = :absorbed_revision,
    transcript_chars = :transcript_chars WHERE id = :id AND revision = :absorbed_revision;

-- name: all_turns
-- locks: thread :thread_id
SELECT * FROM turns WHERE thread_id = :thread_id ORDER BY position;

-- name: keep_revision
-- locks: turn :id
INSERT INTO turn_revisions (turn_id, revision, text, replaced_at)
SELECT id, revision, text, CAST(:at AS DOUBLE PRECISION) FROM turns WHERE id = :id;

-- name: edit_turn
-- locks: turn :id
UPDATE turns SET text = :text, typed = :typed, revision = revision + 1, absorbed_as = :absorbed_as,
    absorbed_revision = :absorbed_revision, transcript_chars = :transcript_chars WHERE id = :id;

-- name: archive_turns
-- locks: thread :thread_id
UPDATE turns SET archived_at = :at, archived_why = :why
WHERE thread_id = :thread_id AND position >= :position AND archived_at IS NULL;

-- name: revisions
-- locks: turn :turn_id
SELECT * FROM turn_revisions WHERE turn_id = :turn_id ORDER BY revision;

-- name: images_named
-- All images that a turn or a run names, of every thread. Only a thread with images that was removed asks for them.
SELECT images FROM turns WHERE images IS NOT NULL UNION SELECT images FROM runs WHERE images IS NOT NULL;

-- name: images_of_thread
-- locks: thread :thread_id
SELECT images FROM turns WHERE thread_id = :thread_id AND images IS NOT NULL
UNION SELECT images FROM runs WHERE thread_id = :thread_id AND images IS NOT NULL;
