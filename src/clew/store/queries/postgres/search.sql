-- name: search
-- Those stored last come first. The index of words brings all turns of a word at once, in no order; the one by number
-- brings them in order, whatever they hold. Which is quick depends on how many there are, and the planner's guess is
-- wrong for words that are rare: so the first 2,001 are counted, and one of the two halves below runs.
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
-- The numbers of turns of some threads.
SELECT turn_words.n FROM threads
    JOIN turns ON turns.thread_id = threads.id
    JOIN turn_words ON turn_words.turn_id = turns.id
WHERE (CAST(:kind AS TEXT) IS NULL OR threads.kind = :kind)
    AND (CAST(:below AS TEXT) IS NULL OR substr(threads.cwd || '/', 1, length(CAST(:below AS TEXT))) = :below)
    AND (CAST(:agent AS TEXT) IS NULL OR threads.agent = :agent)
LIMIT :limit;

-- name: search_within
-- As `search`, among these turns alone.
SELECT turns.id, turns.thread_id, turns.role, turns.agent, turns.model, turns.created_at, turns.archived_at,
    substr(turns.text, 1, :chars) AS text
FROM turn_words JOIN turns ON turns.id = turn_words.turn_id
WHERE turn_words.n IN (SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST(:numbers AS JSON)) AS each (value))
    AND turn_words.words @@ to_tsquery('simple', :words)
    AND (:archived = 1 OR turns.archived_at IS NULL)
ORDER BY turn_words.n DESC LIMIT :limit OFFSET :offset;
