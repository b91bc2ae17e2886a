-- Pairs: an instructor's thread and a worker's, and where their rounds stand.

CREATE TABLE pairs (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    task TEXT NOT NULL,
    cwd TEXT NOT NULL,
    agent TEXT NOT NULL,
    instructor_thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    worker_thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    instructor_model TEXT,
    worker_model TEXT,
    models TEXT NOT NULL,
    thinking SMALLINT NOT NULL,
    max_rounds BIGINT NOT NULL,
    last_round BIGINT NOT NULL,
    number BIGINT NOT NULL,
    phase TEXT NOT NULL,
    is_finished SMALLINT NOT NULL,
    asking TEXT NOT NULL,
    asked_at DOUBLE PRECISION NOT NULL,
    run_id TEXT,
    asked_again SMALLINT NOT NULL,
    message TEXT NOT NULL,
    changed_files TEXT NOT NULL,
    error TEXT,
    hint TEXT,
    error_code TEXT,
    imported_from TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX pairs_by_place ON pairs (cwd, updated_at);
CREATE INDEX pairs_by_instructor ON pairs (instructor_thread_id);
CREATE INDEX pairs_by_worker ON pairs (worker_thread_id);

CREATE TABLE pair_rounds (
    pair_id TEXT NOT NULL REFERENCES pairs (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    message TEXT NOT NULL,
    changed_files TEXT NOT NULL,
    instructor_order TEXT,
    instructor_run_id TEXT,
    worker_run_id TEXT,
    worker_model TEXT,
    result TEXT,
    started_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION,
    PRIMARY KEY (pair_id, number)
);

-- What the files were when the worker last stopped, to tell what somebody else has changed since.
CREATE TABLE pair_files (
    pair_id TEXT NOT NULL PRIMARY KEY REFERENCES pairs (id) ON DELETE CASCADE,
    run_id TEXT,
    base_commit TEXT,
    changes TEXT NOT NULL,
    files TEXT NOT NULL
);
