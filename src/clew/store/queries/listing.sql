-- name: listed_by_updated
-- Threads with the figures that a list shows, the last used first. Each order has its own query, so that an index finds
-- the first page.
SELECT threads.*, threads.spent_usd AS total_usd,
    (SELECT COUNT(*) FROM turns WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL) AS turn_count,
    (SELECT COUNT(*) FROM questions WHERE questions.state = 'open' AND questions.thread_id = threads.id
        AND questions.reply IS NULL) AS question_count,
    (SELECT substr(COALESCE(turns.typed, turns.text), 1, 200) FROM turns WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL
        ORDER BY turns.position DESC LIMIT 1) AS last_text
FROM threads
WHERE (CAST(:kind AS TEXT) IS NULL OR threads.kind = :kind)
    AND (CAST(:cwd AS TEXT) IS NULL OR threads.cwd = :cwd)
    AND (CAST(:below AS TEXT) IS NULL OR substr(threads.cwd || '/', 1, length(CAST(:below AS TEXT))) = :below)
    AND (CAST(:agent AS TEXT) IS NULL OR threads.agent = :agent)
    AND (CAST(:before AS DOUBLE PRECISION) IS NULL OR threads.updated_at < :before)
    AND (CAST(:after AS DOUBLE PRECISION) IS NULL OR threads.updated_at >= :after)
    AND (CAST(:q AS TEXT) IS NULL OR lower(threads.name) LIKE :q ESCAPE '!' OR lower(threads.cwd) LIKE :q ESCAPE '!'
        OR EXISTS (SELECT 1 FROM turns WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL
            AND lower(turns.text) LIKE :q ESCAPE '!'))
ORDER BY threads.updated_at DESC, threads.created_at DESC, threads.id DESC LIMIT :limit OFFSET :offset;

-- name: listed_by_size
-- The largest first.
SELECT threads.*, threads.spent_usd AS total_usd,
    (SELECT COUNT(*) FROM turns WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL) AS turn_count,
    (SELECT COUNT(*) FROM questions WHERE questions.state = 'open' AND questions.thread_id = threads.id
        AND questions.reply IS NULL) AS question_count,
    (SELECT substr(COALESCE(turns.typed, turns.text), 1, 200) FROM turns WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL
        ORDER BY turns.position DESC LIMIT 1) AS last_text
FROM threads
WHERE (CAST(:kind AS TEXT) IS NULL OR threads.kind = :kind)
    AND (CAST(:cwd AS TEXT) IS NULL OR threads.cwd = :cwd)
    AND (CAST(:below AS TEXT) IS NULL OR substr(threads.cwd || '/', 1, length(CAST(:below AS TEXT))) = :below)
    AND (CAST(:agent AS TEXT) IS NULL OR threads.agent = :agent)
    AND (CAST(:before AS DOUBLE PRECISION) IS NULL OR threads.updated_at < :before)
    AND (CAST(:after AS DOUBLE PRECISION) IS NULL OR threads.updated_at >= :after)
    AND (CAST(:q AS TEXT) IS NULL OR lower(threads.name) LIKE :q ESCAPE '!' OR lower(threads.cwd) LIKE :q ESCAPE '!'
        OR EXISTS (SELECT 1 FROM turns WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL
            AND lower(turns.text) LIKE :q ESCAPE '!'))
ORDER BY threads.size_chars DESC, threads.updated_at DESC, threads.id DESC LIMIT :limit OFFSET :offset;

-- name: listed_by_cost
-- The most expensive first.
SELECT threads.*, threads.spent_usd AS total_usd,
    (SELECT COUNT(*) FROM turns WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL) AS turn_count,
    (SELECT COUNT(*) FROM questions WHERE questions.state = 'open' AND questions.thread_id = threads.id
        AND questions.reply IS NULL) AS question_count,
    (SELECT substr(COALESCE(turns.typed, turns.text), 1, 200) FROM turns WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL
        ORDER BY turns.position DESC LIMIT 1) AS last_text
FROM threads
WHERE (CAST(:kind AS TEXT) IS NULL OR threads.kind = :kind)
    AND (CAST(:cwd AS TEXT) IS NULL OR threads.cwd = :cwd)
    AND (CAST(:below AS TEXT) IS NULL OR substr(threads.cwd || '/', 1, length(CAST(:below AS TEXT))) = :below)
    AND (CAST(:agent AS TEXT) IS NULL OR threads.agent = :agent)
    AND (CAST(:before AS DOUBLE PRECISION) IS NULL OR threads.updated_at < :before)
    AND (CAST(:after AS DOUBLE PRECISION) IS NULL OR threads.updated_at >= :after)
    AND (CAST(:q AS TEXT) IS NULL OR lower(threads.name) LIKE :q ESCAPE '!' OR lower(threads.cwd) LIKE :q ESCAPE '!'
        OR EXISTS (SELECT 1 FROM turns WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL
            AND lower(turns.text) LIKE :q ESCAPE '!'))
ORDER BY threads.spent_usd DESC, threads.updated_at DESC, threads.id DESC LIMIT :limit OFFSET :offset;
