-- name: append_event
-- locks: run :run_id
-- The writer numbers its events, so an event that is written again after a failure is ignored.
INSERT INTO events (run_id, seq, at, kind, body) VALUES (:run_id, :seq, :at, :kind, :body)
ON CONFLICT (run_id, seq) DO NOTHING;

-- name: events_after
-- locks: run :run_id
SELECT * FROM events WHERE run_id = :run_id AND seq > :after_seq AND seq <= :last_seq ORDER BY seq;

-- name: event_sizes
SELECT seq, LENGTH(body) AS size FROM events WHERE run_id = :run_id AND seq > :after_seq ORDER BY seq LIMIT :limit;

-- name: steps
-- locks: run :run_id
SELECT * FROM events WHERE run_id = :run_id AND kind NOT IN ('text_streamed', 'text_withdrawn', 'tokens_counted') ORDER BY seq;

-- name: last_activity
-- locks: run :run_id
SELECT at FROM events WHERE run_id = :run_id AND kind <> 'run_ended' ORDER BY seq DESC LIMIT 1;

-- name: last_event
-- locks: run :run_id
SELECT seq, kind FROM events WHERE run_id = :run_id ORDER BY seq DESC LIMIT 1;
