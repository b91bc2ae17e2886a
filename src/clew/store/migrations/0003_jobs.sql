-- Jobs, and the workers that carry them out. What a queue engine keeps of them is its own; these rows are the truth.

CREATE TABLE jobs (
    id TEXT NOT NULL PRIMARY KEY,
    thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    number BIGINT NOT NULL UNIQUE,
    prompt TEXT NOT NULL,
    cwd TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT,
    permissions TEXT NOT NULL,
    status TEXT NOT NULL,
    key TEXT NOT NULL,
    limits TEXT NOT NULL,
    checkpoint SMALLINT NOT NULL,
    not_before DOUBLE PRECISION,
    wish TEXT,
    keep_files SMALLINT NOT NULL,
    tries BIGINT NOT NULL,
    runs BIGINT NOT NULL,
    resume_count BIGINT NOT NULL,
    troubles BIGINT NOT NULL,
    session_id TEXT,
    session_saved_at DOUBLE PRECISION,
    run_id TEXT,
    saved_run_id TEXT,
    reason TEXT,
    outcome TEXT,
    result TEXT,
    error TEXT,
    hint TEXT,
    conflicts TEXT NOT NULL,
    worker TEXT,
    cancel_requested SMALLINT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    started_at DOUBLE PRECISION,
    wake_at DOUBLE PRECISION,
    ended_at DOUBLE PRECISION
);
CREATE INDEX jobs_by_status ON jobs (status, number);
CREATE INDEX jobs_by_key ON jobs (key, number);

-- The agent's own message ids as they pass: how far a job had come when it was cut off.
CREATE TABLE job_markers (
    job_id TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    message_id TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (job_id, n)
);

CREATE TABLE workers (
    id TEXT NOT NULL PRIMARY KEY,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    pid_started DOUBLE PRECISION NOT NULL,
    concurrency BIGINT NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    heartbeat_at DOUBLE PRECISION NOT NULL,
    stopped_at DOUBLE PRECISION
);
