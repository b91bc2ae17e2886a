-- What a daemon and its page need: to tell what changed, questions that outlive the process that was asked, and prompts
-- that wait for the next daemon when one dies.

-- One row: counts every change of any thread, in the order in which they became durable.
CREATE TABLE versions (
    n BIGINT NOT NULL
);
INSERT INTO versions (n) VALUES (0);

ALTER TABLE threads ADD COLUMN version BIGINT NOT NULL DEFAULT 0;
CREATE INDEX threads_by_version ON threads (version);

CREATE TABLE deleted_threads (
    id TEXT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);
CREATE INDEX deleted_threads_by_version ON deleted_threads (version);

-- How it was asked for (JSON), so that another process can carry a queued run out; and how many tools it started.
ALTER TABLE runs ADD COLUMN asked TEXT NOT NULL DEFAULT '{}';
ALTER TABLE runs ADD COLUMN tools BIGINT NOT NULL DEFAULT 0;

CREATE INDEX runs_by_prompt ON runs (prompt_turn_id, created_at);

-- reply is an answer on its way to the agent (JSON); the question is answered when the agent has been told.
CREATE TABLE questions (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    input TEXT NOT NULL,
    is_form SMALLINT NOT NULL,
    state TEXT NOT NULL,
    allowed SMALLINT,
    reply TEXT,
    asked_at DOUBLE PRECISION NOT NULL,
    answered_at DOUBLE PRECISION,
    PRIMARY KEY (run_id, id)
);
CREATE INDEX questions_by_state ON questions (state, thread_id);
