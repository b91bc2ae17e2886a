-- name: search
-- The last stored turns first. The index of words finds all turns with a word at once, without an order; the index by
-- number reads turns in order, whatever words they contain. Which one is faster depends on the number of hits, and the
-- planner's estimate is wrong for rare words. So up to 2,001 hits are counted, and one of the two halves below runs.
WITH found AS MATERIALIZED (
    SELECT turn_words.turn_id, turn_words.n FROM turn_words
    WHERE turn_words.words @@ to_tsquery('simple', :words) LIMIT 2001
),
few AS MATERIALIZED (SELECT COUNT(*) <= 2000 AS are_few FROM found)
(SELECT turns.id, turns.thread_id, turns.role, turns.agent, turns.model, turns.created_at, turns.archived_at,
    substr(turns.text, 1, :chars) AS text, found.n
FROM found
    JOIN turns ON turns.id = found.turn_id
    JOIN threads ON threads.id = turns.thread_id
WHERE (SELECT are_few FROM few)
    AND (:archived = 1 OR turns.archived_at IS NULL)
    AND (CAST(:kind AS TEXT) IS NULL OR threads.kind = :kind)
    AND (CAST(:below AS TEXT) IS NULL OR substr(threads.cwd || '/', 1, length(CAST(:below AS TEXT))) = :below)
    AND (CAST(:agent AS TEXT) IS NULL OR threads.agent = :agent)
ORDER BY found.n DESC LIMIT :limit OFFSET :offset)
UNION ALL
(SELECT turns.id, turns.thread_id, turns.role, turns.agent, turns.model, turns.created_at, turns.archived_at,
    substr(turns.text, 1, :chars) AS text, turn_words.n
FROM turn_words
    JOIN turns ON turns.id = turn_words.turn_id
    JOIN threads ON threads.id = turns.thread_id
WHERE NOT (SELECT are_few FROM few)
    AND turn_words.words @@ to_tsquery('simple', :words)
    AND (:archived = 1 OR turns.archived_at IS NULL)
    AND (CAST(:kind AS TEXT) IS NULL OR threads.kind = :kind)
    AND (CAST(:below AS TEXT) IS NULL OR substr(threads.cwd || '/', 1, length(CAST(:below AS TEXT))) = :below)
    AND (CAST(:agent AS TEXT) IS NULL OR threads.agent = :agent)
ORDER BY turn_words.n DESC LIMIT :limit OFFSET :offset)
ORDER BY n DESC;

-- name: search_space
-- The numbers of the turns of some threads.
SELECT turn_words.n FROM threads
    JOIN turns ON turns.thread_id = threads.id
    JOIN turn_words ON turn_words.turn_id = turns.id
WHERE (CAST(:kind AS TEXT) IS NULL OR threads.kind = :kind)
    AND (CAST(:below AS TEXT) IS NULL OR substr(threads.cwd || '/', 1, length(CAST(:below AS TEXT))) = :below)
    AND (CAST(:agent AS TEXT) IS NULL OR threads.agent = :agent)
LIMIT :limit;

-- name: search_within
-- Like `search`, but only among these turns.
SELECT turns.id, turns.thread_id, turns.role, turns.agent, turns.model, turns.created_at, turns.archived_at,
    substr(turns.text, 1, :chars) AS text
FROM turn_words JOIN turns ON turns.id = turn_words.turn_id
WHERE turn_words.n IN (SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST(:numbers AS JSON)) AS each (value))
    AND turn_words.words @@ to_tsquery('simple', :words)
    AND (:archived = 1 OR turns.archived_at IS NULL)
ORDER BY turn_words.n DESC LIMIT :limit OFFSET :offset;
