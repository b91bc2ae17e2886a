-- Reviews: rounds over a diff. What a round compared is kept with it, so that the next one can say what changed since.

CREATE TABLE reviews (
    id TEXT NOT NULL PRIMARY KEY,
    day TEXT NOT NULL,
    number BIGINT NOT NULL,
    thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    top TEXT NOT NULL,
    scope TEXT NOT NULL,
    base TEXT,
    paths TEXT NOT NULL,
    focus TEXT NOT NULL,
    imported_from TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    UNIQUE (day, number)
);
CREATE INDEX reviews_by_time ON reviews (created_at);
CREATE INDEX reviews_by_thread ON reviews (thread_id);

CREATE TABLE review_rounds (
    review_id TEXT NOT NULL REFERENCES reviews (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    status TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT,
    owner_host TEXT NOT NULL,
    owner_pid BIGINT NOT NULL,
    owner_started DOUBLE PRECISION NOT NULL,
    message TEXT NOT NULL,
    base_commit TEXT,
    head_commit TEXT,
    changes TEXT NOT NULL,
    changed_since TEXT NOT NULL,
    run_id TEXT,
    first_run_id TEXT,
    runs BIGINT NOT NULL,
    session_resumed SMALLINT NOT NULL,
    reason TEXT,
    fallback SMALLINT NOT NULL,
    session_age_s DOUBLE PRECISION,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cache_read_input_tokens BIGINT NOT NULL,
    cache_creation_input_tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    prompt_chars BIGINT NOT NULL,
    transcript_chars BIGINT NOT NULL,
    answer TEXT,
    error TEXT,
    hint TEXT,
    error_code TEXT,
    started_at DOUBLE PRECISION NOT NULL,
    ended_at DOUBLE PRECISION,
    diff TEXT NOT NULL,
    files TEXT NOT NULL,
    PRIMARY KEY (review_id, number)
);
