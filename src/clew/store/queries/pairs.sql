-- name: insert_pair
-- locks: pair :id, name :name
INSERT INTO pairs (id, name, task, cwd, agent, instructor_thread_id, worker_thread_id, instructor_model, worker_model,
    models, thinking, max_rounds, last_round, number, phase, is_finished, asking, asked_at, run_id, asked_again, message,
    changed_files, error, hint, error_code, imported_from, imported_round, stop_requested, fresh_parts,
    planned_messages, created_at, updated_at)
VALUES (:id, :name, :task, :cwd, :agent, :instructor_thread_id, :worker_thread_id, :instructor_model, :worker_model,
    :models, :thinking, :max_rounds, :last_round, :number, :phase, :is_finished, :asking, :asked_at, :run_id,
    :asked_again, :message, :changed_files, :error, :hint, :error_code, :imported_from, :imported_round,
    :stop_requested, :fresh_parts, :planned_messages, :created_at, :updated_at);

-- name: write_pair
-- locks: pair :id, name :name
UPDATE pairs SET name = :name, task = :task, cwd = :cwd, agent = :agent, instructor_model = :instructor_model,
    worker_model = :worker_model, models = :models, thinking = :thinking, max_rounds = :max_rounds,
    last_round = :last_round, number = :number, phase = :phase, is_finished = :is_finished, asking = :asking,
    asked_at = :asked_at, run_id = :run_id, asked_again = :asked_again, message = :message,
    changed_files = :changed_files, error = :error, hint = :hint, error_code = :error_code, imported_round = :imported_round,
    stop_requested = :stop_requested, fresh_parts = :fresh_parts, planned_messages = :planned_messages,
    updated_at = :updated_at
WHERE id = :id;

-- name: pair_by_id
-- locks: pair :id
SELECT * FROM pairs WHERE id = :id;

-- name: pair_by_name
-- locks: name :name
SELECT * FROM pairs WHERE name = :name;

-- name: pairs_newest
-- The last used first.
SELECT * FROM pairs WHERE (CAST(:cwd AS TEXT) IS NULL OR cwd = :cwd)
ORDER BY updated_at DESC, created_at DESC, id DESC LIMIT :limit;

-- name: insert_pair_round
-- locks: pair :pair_id
INSERT INTO pair_rounds (pair_id, number, message, changed_files, instructor_order, instructor_run_id, worker_run_id,
    worker_model, result, started_at, ended_at)
VALUES (:pair_id, :number, :message, :changed_files, :instructor_order, :instructor_run_id, :worker_run_id,
    :worker_model, :result, :started_at, :ended_at);

-- name: write_pair_round
-- locks: pair :pair_id
UPDATE pair_rounds SET message = :message, changed_files = :changed_files, instructor_order = :instructor_order,
    instructor_run_id = :instructor_run_id, worker_run_id = :worker_run_id, worker_model = :worker_model,
    result = :result, ended_at = :ended_at
WHERE pair_id = :pair_id AND number = :number;

-- name: rounds_of_pair
-- locks: pair :pair_id
SELECT * FROM pair_rounds WHERE pair_id = :pair_id ORDER BY number;

-- name: pair_round
-- locks: pair :pair_id
SELECT * FROM pair_rounds WHERE pair_id = :pair_id AND number = :number;

-- name: forget_pair_files
-- locks: pair :pair_id
DELETE FROM pair_files WHERE pair_id = :pair_id;

-- name: keep_pair_files
-- locks: pair :pair_id
INSERT INTO pair_files (pair_id, run_id, base_commit, files)
VALUES (:pair_id, :run_id, :base_commit, :files);

-- name: pair_files
-- locks: pair :pair_id
SELECT * FROM pair_files WHERE pair_id = :pair_id;

-- name: dump_pairs
SELECT * FROM pairs WHERE instructor_thread_id = :id OR worker_thread_id = :id ORDER BY id;

-- name: dump_pair_rounds
SELECT pair_rounds.* FROM pair_rounds JOIN pairs ON pairs.id = pair_rounds.pair_id
WHERE pairs.instructor_thread_id = :id OR pairs.worker_thread_id = :id ORDER BY pair_rounds.pair_id, pair_rounds.number;
