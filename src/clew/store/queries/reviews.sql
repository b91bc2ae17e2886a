-- name: insert_review
-- locks: thread :thread_id, day :day
INSERT INTO reviews (id, day, number, thread_id, top, scope, base, paths, focus, imported_from, created_at)
VALUES (:id, :day, :number, :thread_id, :top, :scope, :base, :paths, :focus, :imported_from, :created_at);

-- name: last_review_of_day
-- locks: day :day
SELECT COALESCE(MAX(number), 0) AS n FROM reviews WHERE day = :day;

-- name: review_by_id
-- locks: review :id
SELECT * FROM reviews WHERE id = :id;

-- name: reviews_newest
SELECT * FROM reviews WHERE (CAST(:top AS TEXT) IS NULL OR top = :top)
ORDER BY created_at DESC, id DESC LIMIT :limit OFFSET :offset;

-- name: count_reviews
SELECT COUNT(*) AS n FROM reviews WHERE (CAST(:top AS TEXT) IS NULL OR top = :top);

-- name: insert_round
-- locks: review :review_id
INSERT INTO review_rounds (review_id, number, status, agent, model, owner_host, owner_pid, owner_started, message,
    base_commit, head_commit, changes, changed_since, run_id, first_run_id, runs, session_resumed, reason, fallback, session_age_s,
    input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens, cost_usd, prompt_chars,
    transcript_chars, answer, error, hint, error_code, started_at, ended_at, diff, files)
VALUES (:review_id, :number, :status, :agent, :model, :owner_host, :owner_pid, :owner_started, :message,
    :base_commit, :head_commit, :changes, :changed_since, :run_id, :first_run_id, :runs, :session_resumed, :reason, :fallback,
    :session_age_s, :input_tokens, :output_tokens, :cache_read_input_tokens, :cache_creation_input_tokens, :cost_usd,
    :prompt_chars, :transcript_chars, :answer, :error, :hint, :error_code, :started_at, :ended_at, :diff, :files);

-- name: write_round
-- locks: review :review_id
-- All columns except those that say what the round compared, which are fixed.
UPDATE review_rounds SET status = :status, model = :model, run_id = :run_id, runs = :runs,
    session_resumed = :session_resumed, reason = :reason, fallback = :fallback, session_age_s = :session_age_s,
    input_tokens = :input_tokens, output_tokens = :output_tokens, cache_read_input_tokens = :cache_read_input_tokens,
    cache_creation_input_tokens = :cache_creation_input_tokens, cost_usd = :cost_usd, prompt_chars = :prompt_chars,
    transcript_chars = :transcript_chars, answer = :answer, error = :error, hint = :hint, error_code = :error_code,
    ended_at = :ended_at
WHERE review_id = :review_id AND number = :number;

-- name: rounds_of_review
-- locks: review :review_id
-- Without the diff and the files, which are large: a list needs neither.
SELECT review_id, number, status, agent, model, owner_host, owner_pid, owner_started, message, base_commit, head_commit,
    changes, changed_since, run_id, first_run_id, runs, session_resumed, reason, fallback, session_age_s, input_tokens, output_tokens,
    cache_read_input_tokens, cache_creation_input_tokens, cost_usd, prompt_chars, transcript_chars, answer, error, hint,
    error_code, started_at, ended_at
FROM review_rounds WHERE review_id = :review_id ORDER BY number;

-- name: rounds_since
-- For the figures of reviews: without the texts, which are most of the data.
SELECT review_id, number, status, agent, model, owner_host, owner_pid, owner_started, '' AS message, base_commit,
    head_commit, '[]' AS changes, '[]' AS changed_since, run_id, first_run_id, runs, session_resumed, reason, fallback, session_age_s,
    input_tokens, output_tokens, cache_read_input_tokens, cache_creation_input_tokens, cost_usd, prompt_chars,
    transcript_chars, NULL AS answer, NULL AS error, NULL AS hint, error_code, started_at, ended_at
FROM review_rounds WHERE (CAST(:since AS DOUBLE PRECISION) IS NULL OR started_at >= :since)
    AND (CAST(:thread_id AS TEXT) IS NULL OR review_id IN (SELECT id FROM reviews WHERE thread_id = :thread_id))
ORDER BY review_id, number;

-- name: round_diff
SELECT diff FROM review_rounds WHERE review_id = :review_id AND number = :number;

-- name: round_files
SELECT files FROM review_rounds WHERE review_id = :review_id AND number = :number;

-- name: dump_reviews
SELECT * FROM reviews WHERE thread_id = :id ORDER BY id;

-- name: dump_review_rounds
SELECT review_rounds.* FROM review_rounds JOIN reviews ON reviews.id = review_rounds.review_id
WHERE reviews.thread_id = :id ORDER BY review_rounds.review_id, review_rounds.number;
