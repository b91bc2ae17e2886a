-- Threads that were made of others: what they came from, and sessions that they may go on from but not in.

-- JSON: {"how": "fork", "of": [{"id": …, "name": …}], "round": 3}.
ALTER TABLE threads ADD COLUMN origin TEXT;

-- The agent's own id of the message up to which another thread's session may be copied. NULL: the session is its own.
ALTER TABLE pins ADD COLUMN borrowed_at TEXT;

-- What a program can do is asked anew: there is one more thing to know.
DELETE FROM probes;
