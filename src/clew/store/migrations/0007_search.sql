-- Finding threads: how large and how dear each is, and an index of the words of all turns. What keeps both in step are
-- triggers, so that no code path can forget it; they are spelled by each database in its own way: see the folders.

-- The characters of the turns that stand, and what all runs cost: a list sorts by them without adding up.
ALTER TABLE threads ADD COLUMN size_chars BIGINT NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN spent_usd DOUBLE PRECISION NOT NULL DEFAULT 0;

UPDATE threads SET
    size_chars = (SELECT COALESCE(SUM(length(turns.text)), 0) FROM turns
        WHERE turns.thread_id = threads.id AND turns.archived_at IS NULL),
    spent_usd = (SELECT COALESCE(SUM(runs.cost_usd), 0) FROM runs WHERE runs.thread_id = threads.id);

CREATE INDEX threads_by_size ON threads (size_chars, updated_at, id);
CREATE INDEX threads_by_cost ON threads (spent_usd, updated_at, id);

-- Is a thread in use? Asked of every thread that a clean-up looks at.
CREATE INDEX jobs_by_thread ON jobs (thread_id);
