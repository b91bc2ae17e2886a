-- Summaries of threads.

CREATE TABLE digests (
    id TEXT PRIMARY KEY,
    thread_id TEXT NOT NULL REFERENCES threads (id) ON DELETE CASCADE,
    about TEXT NOT NULL,
    text TEXT NOT NULL
);
