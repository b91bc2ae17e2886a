-- The line of the jobs that are under way: what a worker looks at to find its next ones. Triggers on `jobs` keep it (in
-- the folder of each database), so it holds what the jobs' own rows say, in narrow rows with indexes for this one use.

CREATE TABLE job_line (
    job_id TEXT NOT NULL PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    key TEXT NOT NULL,
    own SMALLINT NOT NULL,                  -- somebody submitted it; 0: a hook made it
    begun SMALLINT NOT NULL,
    ready_at DOUBLE PRECISION,              -- NULL: at once
    is_next SMALLINT NOT NULL DEFAULT 0,    -- no other job of its key goes before it
    claimed_by TEXT                         -- the worker that has it
);
CREATE INDEX job_line_by_key ON job_line (key, begun DESC, number);
CREATE INDEX job_line_next ON job_line (key) WHERE is_next = 1;
CREATE INDEX job_line_behind ON job_line (number) WHERE is_next = 0;
CREATE INDEX job_line_claims ON job_line (claimed_by) WHERE claimed_by IS NOT NULL;
CREATE INDEX job_line_ready ON job_line (own, number) WHERE is_next = 1 AND claimed_by IS NULL AND ready_at IS NULL;
CREATE INDEX job_line_later ON job_line (own, ready_at) WHERE is_next = 1 AND claimed_by IS NULL AND ready_at IS NOT NULL;

-- What a worker has done and does: for its log.
CREATE INDEX jobs_by_worker ON jobs (worker, ended_at);
