-- name: search
-- The last that came first, in the index's own order: a word that is everywhere costs no more than a page.
SELECT turns.id, turns.thread_id, turns.role, turns.agent, turns.model, turns.created_at, turns.archived_at,
    substr(turns.text, 1, :most) AS text
FROM turn_words
    JOIN turn_numbers ON turn_numbers.n = turn_words.rowid
    JOIN turns ON turns.id = turn_numbers.turn_id
    JOIN threads ON threads.id = turns.thread_id
WHERE turn_words.text MATCH :words
    AND (:archived = 1 OR turns.archived_at IS NULL)
    AND (CAST(:kind AS TEXT) IS NULL OR threads.kind = :kind)
    AND (CAST(:below AS TEXT) IS NULL OR substr(threads.cwd || '/', 1, length(CAST(:below AS TEXT))) = :below)
    AND (CAST(:agent AS TEXT) IS NULL OR threads.agent = :agent)
ORDER BY turn_words.rowid DESC LIMIT :limit OFFSET :offset;
