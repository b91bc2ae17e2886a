-- Requests that carry a key: sent again, they are answered with what the first one was answered. Kept for a day.

CREATE TABLE requests (
    key TEXT PRIMARY KEY,  -- a digest of who asks, what for, and the key
    sent TEXT NOT NULL,  -- a digest of the body
    made_id TEXT NOT NULL,  -- the id that is given to what the request makes
    created_at DOUBLE PRECISION NOT NULL,
    status BIGINT,  -- NULL: not answered yet
    location TEXT,
    answer TEXT
);

CREATE INDEX requests_by_age ON requests (created_at);
