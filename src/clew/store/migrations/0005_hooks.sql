-- Hooks: what forges told, by which key an agent finds its thread again, and what is to be said back.

CREATE TABLE hook_events (
    id TEXT NOT NULL PRIMARY KEY,
    number BIGINT NOT NULL UNIQUE,
    forge TEXT NOT NULL,
    delivery TEXT NOT NULL,
    kind TEXT NOT NULL,
    repo TEXT NOT NULL,
    issue BIGINT,
    state TEXT NOT NULL,
    why TEXT,
    tries BIGINT NOT NULL,
    event TEXT NOT NULL,
    jobs TEXT NOT NULL,
    received_at DOUBLE PRECISION NOT NULL,
    done_at DOUBLE PRECISION,
    UNIQUE (forge, delivery)
);
CREATE INDEX hook_events_by_state ON hook_events (state, number);

CREATE TABLE hook_keys (
    key TEXT NOT NULL PRIMARY KEY,
    agent TEXT NOT NULL,
    repo TEXT NOT NULL,
    issue BIGINT NOT NULL,
    forge TEXT,
    thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    branch TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    used_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX hook_keys_by_issue ON hook_keys (repo, issue);
CREATE INDEX hook_keys_by_thread ON hook_keys (thread_id);

-- What a job of a hook is for, and an agent's final words on their way to the forge: said at most once.
CREATE TABLE hook_jobs (
    job_id TEXT NOT NULL PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    hook_id TEXT NOT NULL,
    key TEXT NOT NULL,
    branch TEXT,
    fetch_ref TEXT,
    tree_update TEXT NOT NULL,
    reply TEXT NOT NULL,
    why TEXT,
    url TEXT,
    tries BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL
);
CREATE INDEX hook_jobs_by_reply ON hook_jobs (reply, at);

-- A job may be one of many in a thread, and may tell a fresh session more than one that goes on.
ALTER TABLE jobs ADD COLUMN kind TEXT NOT NULL DEFAULT 'job';
ALTER TABLE jobs ADD COLUMN full_prompt TEXT;
ALTER TABLE jobs ADD COLUMN allowed_tools TEXT NOT NULL DEFAULT '[]';
ALTER TABLE jobs ADD COLUMN prompt_turn_id TEXT;
