-- name: search
-- The last that came first.
SELECT turns.id, turns.thread_id, turns.role, turns.agent, turns.model, turns.created_at, turns.archived_at,
    substr(turns.text, 1, :most) AS text
FROM turn_words
    JOIN turns ON turns.id = turn_words.turn_id
    JOIN threads ON threads.id = turns.thread_id
WHERE turn_words.words @@ to_tsquery('simple', :words)
    AND (:archived = 1 OR turns.archived_at IS NULL)
    AND (CAST(:kind AS TEXT) IS NULL OR threads.kind = :kind)
    AND (CAST(:below AS TEXT) IS NULL OR substr(threads.cwd || '/', 1, length(CAST(:below AS TEXT))) = :below)
    AND (CAST(:agent AS TEXT) IS NULL OR threads.agent = :agent)
ORDER BY turn_words.n DESC LIMIT :limit OFFSET :offset;
