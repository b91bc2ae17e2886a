-- name: search
-- The last stored turns first, in the order of the index: a word that is in every turn costs no more than one page.
SELECT turns.id, turns.thread_id, turns.role, turns.agent, turns.model, turns.created_at, turns.archived_at,
    substr(turns.text, 1, :chars) AS text
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

-- name: search_space
-- The numbers of the turns of some threads. CROSS makes SQLite start with the threads, which are fewer than the turns.
SELECT turn_numbers.n FROM threads
    CROSS JOIN turns ON turns.thread_id = threads.id
    CROSS JOIN turn_numbers ON turn_numbers.turn_id = turns.id
WHERE (CAST(:kind AS TEXT) IS NULL OR threads.kind = :kind)
    AND (CAST(:below AS TEXT) IS NULL OR substr(threads.cwd || '/', 1, length(CAST(:below AS TEXT))) = :below)
    AND (CAST(:agent AS TEXT) IS NULL OR threads.agent = :agent)
LIMIT :limit;

-- name: search_within
-- Like `search`, but only among these turns. CROSS makes SQLite look up each of these turns in the index of words,
-- instead of reading all hits of the index.
SELECT turns.id, turns.thread_id, turns.role, turns.agent, turns.model, turns.created_at, turns.archived_at,
    substr(turns.text, 1, :chars) AS text
FROM json_each(:numbers) AS asked
    CROSS JOIN turn_words ON turn_words.rowid = asked.value
    CROSS JOIN turn_numbers ON turn_numbers.n = asked.value
    CROSS JOIN turns ON turns.id = turn_numbers.turn_id
WHERE turn_words.text MATCH :words
    AND (:archived = 1 OR turns.archived_at IS NULL)
ORDER BY asked.value DESC LIMIT :limit OFFSET :offset;
