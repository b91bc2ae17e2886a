-- What a process that does not run the pair asks of it, what a replay still has to say, and where an import began.

ALTER TABLE pairs ADD COLUMN stop_requested SMALLINT NOT NULL DEFAULT 0;
-- JSON: the parts whose next run starts a fresh session.
ALTER TABLE pairs ADD COLUMN fresh_parts TEXT NOT NULL DEFAULT '[]';
-- JSON: [round, message] of a user, which a replay gives to the instructor in that round.
ALTER TABLE pairs ADD COLUMN planned_messages TEXT NOT NULL DEFAULT '[]';
-- The round in which an imported pair was.
ALTER TABLE pairs ADD COLUMN imported_round BIGINT;
