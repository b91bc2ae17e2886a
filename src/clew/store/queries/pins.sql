-- name: insert_pin
-- locks: thread :thread_id, session :session_id
INSERT INTO pins (id, thread_id, position, agent, model, session_id, state, work_dir, runtime, pending,
    held_back_turn_id, held_back_chars, held_back_digest, standing, mark_size_bytes, mark_last_entry, mark_digest, mark_stamp, resume_count, failures,
    cost_total_usd, borrowed_at, summarised, created_at, used_at, absorbed_count, absorbed_digest)
VALUES (:id, :thread_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM pins WHERE thread_id = :thread_id),
    :agent, :model, :session_id, :state, :work_dir, :runtime, :pending,
    :held_back_turn_id, :held_back_chars, :held_back_digest, :standing, :mark_size_bytes, :mark_last_entry, :mark_digest, :mark_stamp, :resume_count, :failures,
    :cost_total_usd, :borrowed_at, :summarised, :created_at, :used_at, :absorbed_count, :absorbed_digest);

-- name: write_pin
-- locks: pin :id, session :session_id
UPDATE pins SET agent = :agent, model = :model, session_id = :session_id, state = :state, work_dir = :work_dir,
    runtime = :runtime, pending = :pending, held_back_turn_id = :held_back_turn_id, held_back_chars = :held_back_chars,
    held_back_digest = :held_back_digest,
    standing = :standing, mark_size_bytes = :mark_size_bytes, mark_last_entry = :mark_last_entry, mark_digest = :mark_digest, mark_stamp = :mark_stamp,
    resume_count = :resume_count, failures = :failures, cost_total_usd = :cost_total_usd, created_at = :created_at,
    borrowed_at = :borrowed_at, summarised = :summarised, used_at = :used_at, absorbed_count = :absorbed_count, absorbed_digest = :absorbed_digest
WHERE id = :id;

-- name: pin_summary
-- locks: pin :id, session_of_pin :id
-- What a save needs to know about the stored pin, without reading its absorbed turns.
SELECT state, absorbed_count, absorbed_digest FROM pins WHERE id = :id;

-- name: pins_of_thread
-- locks: thread :thread_id
SELECT * FROM pins WHERE thread_id = :thread_id ORDER BY position;

-- name: pins_of_session
-- locks: session :session_id
-- Without pins that only borrow the session.
SELECT * FROM pins WHERE session_id = :session_id AND borrowed_at IS NULL ORDER BY created_at, position;

-- name: give_up_session
-- locks: session :session_id
-- A poisoned pin stays poisoned: like a retired one, it is never resumed.
UPDATE pins SET state = 'retired'
WHERE session_id = :session_id AND borrowed_at IS NULL AND state IN ('provisional', 'good');

-- name: absorbed
-- locks: pin :pin_id
SELECT turn_id, digest FROM pin_absorbed WHERE pin_id = :pin_id ORDER BY n;

-- name: insert_absorbed
-- locks: pin :pin_id
INSERT INTO pin_absorbed (pin_id, n, turn_id, digest) VALUES (:pin_id, :n, :turn_id, :digest);

-- name: clear_absorbed
-- locks: pin :pin_id
DELETE FROM pin_absorbed WHERE pin_id = :pin_id;

-- name: pins_miscounted
-- For `Store.check`: the count in the pin's row must be the number of absorbed turns.
SELECT pins.id FROM pins
WHERE pins.absorbed_count <> (SELECT COUNT(*) FROM pin_absorbed WHERE pin_absorbed.pin_id = pins.id) LIMIT :limit;
