-- The first schema. Migrations only ever add: a later version writes 0002_*.sql and leaves this file alone.
--
-- Written so that SQLite and PostgreSQL both take it: times are epoch seconds, flags are 0 or 1, JSON is TEXT.
-- Every statement ends with a semicolon at the end of its line; the loader splits there.

CREATE TABLE schema_version (
    version BIGINT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL
);

CREATE TABLE threads (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    cwd TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT,
    permissions TEXT NOT NULL,
    trust TEXT NOT NULL,
    visibility TEXT NOT NULL,
    standing TEXT,
    kind TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX threads_by_age ON threads (updated_at, created_at, id);
CREATE INDEX threads_by_cwd ON threads (cwd, updated_at);

-- A turn is never deleted while its thread lives; truncating sets archived_at.
CREATE TABLE turns (
    id TEXT NOT NULL PRIMARY KEY,
    thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    agent TEXT,
    model TEXT,
    partial SMALLINT NOT NULL,
    message_id TEXT,
    run_id TEXT,
    revision BIGINT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    archived_at DOUBLE PRECISION,
    archived_why TEXT,
    UNIQUE (thread_id, position)
);

-- The texts that edits replaced, each under the revision number it had.
CREATE TABLE turn_revisions (
    turn_id TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    revision BIGINT NOT NULL,
    text TEXT NOT NULL,
    replaced_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (turn_id, revision)
);

-- The run keeps the prompt itself: its turn joins the thread only when the run starts, so prompt_turn_id may name a turn
-- that is not there yet. position orders the runs of a thread that were created at the same instant.
CREATE TABLE runs (
    id TEXT NOT NULL PRIMARY KEY,
    thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    prompt_turn_id TEXT NOT NULL,
    prompt TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT,
    status TEXT NOT NULL,
    owner_host TEXT,
    owner_pid BIGINT,
    owner_started DOUBLE PRECISION,
    answer_turn_id TEXT,
    session_id TEXT,
    session_resumed SMALLINT NOT NULL,
    reason TEXT,
    fallback SMALLINT NOT NULL,
    outcome TEXT,
    error TEXT,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cache_read_input_tokens BIGINT NOT NULL,
    cache_creation_input_tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    prompt_chars BIGINT NOT NULL,
    transcript_chars BIGINT NOT NULL,
    estimate_usd DOUBLE PRECISION,
    cancel_requested SMALLINT NOT NULL,
    cancel_requested_at DOUBLE PRECISION,
    created_at DOUBLE PRECISION NOT NULL,
    started_at DOUBLE PRECISION,
    ended_at DOUBLE PRECISION,
    UNIQUE (thread_id, position)
);
CREATE INDEX runs_by_age ON runs (created_at);
CREATE INDEX runs_by_status ON runs (status, created_at);

CREATE TABLE attempts (
    id TEXT NOT NULL PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    session_id TEXT NOT NULL,
    user_uuid TEXT NOT NULL,
    resumed SMALLINT NOT NULL,
    pid BIGINT,
    pid_started DOUBLE PRECISION,
    outcome TEXT,
    exit_status BIGINT,
    stderr_tail TEXT NOT NULL,
    started_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION,
    UNIQUE (run_id, number)
);

CREATE TABLE events (
    run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- absorbed_count and absorbed_digest summarise pin_absorbed, so that a save can tell cheaply what is new.
CREATE TABLE pins (
    id TEXT NOT NULL PRIMARY KEY,
    thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    session_id TEXT NOT NULL,
    state TEXT NOT NULL,
    work_dir TEXT NOT NULL,
    runtime TEXT NOT NULL,
    pending TEXT,
    held_back_turn_id TEXT,
    held_back_chars BIGINT,
    held_back_digest TEXT,
    standing TEXT,
    mark_size_bytes BIGINT,
    mark_last_entry TEXT,
    resume_count BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    cost_total_usd DOUBLE PRECISION NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    used_at DOUBLE PRECISION NOT NULL,
    absorbed_count BIGINT NOT NULL,
    absorbed_digest TEXT NOT NULL,
    UNIQUE (thread_id, position)
);
CREATE INDEX pins_by_session ON pins (session_id);

CREATE TABLE pin_absorbed (
    pin_id TEXT NOT NULL REFERENCES pins (id) ON DELETE CASCADE,
    n BIGINT NOT NULL,
    turn_id TEXT NOT NULL,
    digest TEXT,
    PRIMARY KEY (pin_id, n)
);

-- Who may do what alone. A row whose expires_at has passed is free for the taking.
CREATE TABLE leases (
    key TEXT NOT NULL PRIMARY KEY,
    token TEXT NOT NULL UNIQUE,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    pid_started DOUBLE PRECISION NOT NULL,
    run_id TEXT,
    acquired_at DOUBLE PRECISION NOT NULL,
    heartbeat_at DOUBLE PRECISION NOT NULL,
    expires_at DOUBLE PRECISION NOT NULL
);

-- What a binary can do, as long as it bears the same stamp.
CREATE TABLE probes (
    path TEXT NOT NULL PRIMARY KEY,
    stamp TEXT NOT NULL,
    body TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL
);

CREATE TABLE facts (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
