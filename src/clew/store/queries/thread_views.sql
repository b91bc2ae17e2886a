-- name: thread_summaries
-- Threads with the figures that a list shows. NULL as id, q, cwd or kind matches all threads.
SELECT threads.*,
    (SELECT COUNT(*) FROM turns WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL) AS turn_count,
    (SELECT COALESCE(SUM(runs.cost_usd), 0.0) FROM runs WHERE runs.thread_id = threads.id) AS total_usd,
    (SELECT COUNT(*) FROM questions WHERE questions.state = 'open' AND questions.thread_id = threads.id
        AND questions.reply IS NULL) AS question_count,
    (SELECT substr(COALESCE(turns.typed, turns.text), 1, 200) FROM turns WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL
        ORDER BY turns.position DESC LIMIT 1) AS last_text
FROM threads
WHERE (CAST(:id AS TEXT) IS NULL OR threads.id = :id)
    AND (CAST(:cwd AS TEXT) IS NULL OR threads.cwd = :cwd)
    AND (CAST(:kind AS TEXT) IS NULL OR threads.kind = :kind)
    AND threads.version > :after
    AND (CAST(:q AS TEXT) IS NULL OR lower(threads.name) LIKE :q ESCAPE '!' OR lower(threads.cwd) LIKE :q ESCAPE '!'
        OR EXISTS (SELECT 1 FROM turns WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL
            AND lower(turns.text) LIKE :q ESCAPE '!'))
ORDER BY threads.updated_at DESC, threads.created_at DESC, threads.id DESC LIMIT :limit OFFSET :offset;

-- name: count_threads
SELECT COUNT(*) AS n FROM threads
WHERE (CAST(:cwd AS TEXT) IS NULL OR threads.cwd = :cwd)
    AND (CAST(:kind AS TEXT) IS NULL OR threads.kind = :kind)
    AND (CAST(:q AS TEXT) IS NULL OR lower(threads.name) LIKE :q ESCAPE '!' OR lower(threads.cwd) LIKE :q ESCAPE '!'
        OR EXISTS (SELECT 1 FROM turns WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL
            AND lower(turns.text) LIKE :q ESCAPE '!'));

-- name: turns_before
-- locks: thread :thread_id
-- One page of a long conversation, the newest turns first.
SELECT turns.*, COALESCE(runs.tools, 0) AS tools
FROM turns LEFT JOIN runs ON runs.id = turns.run_id
WHERE turns.thread_id = :thread_id AND turns.archived_at IS NULL
    AND (CAST(:before AS BIGINT) IS NULL OR turns.position < :before)
ORDER BY turns.position DESC LIMIT :limit;

-- name: place_of_turn
-- locks: thread :thread_id
SELECT position, archived_at FROM turns WHERE id = :id AND thread_id = :thread_id;
