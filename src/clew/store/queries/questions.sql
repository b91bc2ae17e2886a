-- name: open_question
-- locks: run :run_id
INSERT INTO questions (run_id, id, thread_id, tool, input, is_form, tool_rule, state, asked_at)
SELECT id, CAST(:id AS TEXT), thread_id, CAST(:tool AS TEXT), CAST(:input AS TEXT), CAST(:is_form AS SMALLINT),
    CAST(:tool_rule AS TEXT), 'open', CAST(:at AS DOUBLE PRECISION)
FROM runs WHERE id = :run_id
ON CONFLICT (run_id, id) DO NOTHING;

-- name: close_question
-- locks: run :run_id
UPDATE questions SET state = :state, allowed = :allowed, answered_at = :at
WHERE run_id = :run_id AND id = :id AND state = 'open';

-- name: withdraw_of_run
-- locks: run :run_id
UPDATE questions SET state = 'withdrawn', answered_at = :at WHERE run_id = :run_id AND state = 'open';

-- name: withdraw_of_thread
-- locks: thread :thread_id
-- The user has continued with another prompt, so the open questions of earlier runs are withdrawn.
UPDATE questions SET state = 'withdrawn', answered_at = :at
WHERE thread_id = :thread_id AND run_id <> :except_run_id AND state = 'open' AND reply IS NULL;

-- name: reply_to_question
-- locks: run :run_id
-- Only once: the first answer counts.
UPDATE questions SET reply = :reply, answered_at = :at WHERE run_id = :run_id AND id = :id AND state = 'open' AND reply IS NULL;

-- name: reopen_question
-- locks: run :run_id
UPDATE questions SET state = 'open' WHERE run_id = :run_id AND id = :id AND state = 'answered' AND reply IS NOT NULL;

-- name: question
-- locks: run :run_id
SELECT * FROM questions WHERE run_id = :run_id AND id = :id;

-- name: questions_of_run
-- locks: run :run_id
SELECT * FROM questions WHERE run_id = :run_id ORDER BY asked_at, id;

-- name: open_questions_of_thread
-- locks: thread :thread_id
SELECT * FROM questions WHERE state = 'open' AND thread_id = :thread_id ORDER BY asked_at, id;

-- name: open_questions
SELECT * FROM questions WHERE state = 'open' ORDER BY asked_at, id;
