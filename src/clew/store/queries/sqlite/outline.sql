-- name: outline
-- locks: thread :thread_id
-- The whole thread in one row, from the index alone, which has every column that is named here. `listed` has the turns
-- in order: SQLite adds the rows as the inner query sorts them.
SELECT COUNT(*) AS n, COUNT(CASE WHEN absorbed_revision = revision THEN 1 END) AS outlined,
    CAST(COALESCE(SUM(transcript_chars), 0) AS BIGINT) AS chars, group_concat(absorbed_as, ';') AS listed
FROM (SELECT absorbed_as, absorbed_revision, revision, transcript_chars FROM turns
    WHERE thread_id = :thread_id AND archived_at IS NULL ORDER BY position);

-- name: absorbed_listed
-- locks: pin :pin_id
SELECT COUNT(*) AS n, group_concat(entry, ';') AS listed
FROM (SELECT length(turn_id) || ':' || turn_id || ':' || COALESCE(digest, '') AS entry
    FROM pin_absorbed WHERE pin_id = :pin_id ORDER BY n);
