-- name: outline
-- locks: thread :thread_id
-- The whole thread in one row, from the index alone, which has every column that is named here. `listed` has the turns
-- in order.
SELECT COUNT(*) AS n, COUNT(CASE WHEN absorbed_revision = revision THEN 1 END) AS outlined,
    CAST(COALESCE(SUM(transcript_chars), 0) AS BIGINT) AS chars, string_agg(absorbed_as, ';' ORDER BY position) AS listed
FROM turns WHERE thread_id = :thread_id AND archived_at IS NULL;

-- name: absorbed_listed
-- locks: pin :pin_id
SELECT COUNT(*) AS n, string_agg(length(turn_id) || ':' || turn_id || ':' || COALESCE(digest, ''), ';' ORDER BY n) AS listed
FROM pin_absorbed WHERE pin_id = :pin_id;
