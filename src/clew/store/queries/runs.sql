-- name: insert_run
-- locks: thread :thread_id
INSERT INTO runs (id, thread_id, position, prompt_turn_id, prompt, agent, model, status, owner_host, owner_pid,
    owner_started, answer_turn_id, session_id, session_resumed, reason, fallback, outcome, error, input_tokens, output_tokens,
    cache_read_input_tokens, cache_creation_input_tokens, cost_usd, prompt_chars, transcript_chars, estimate_usd,
    estimate_new_tokens, plain_resume_usd, context_tokens, plain_context_tokens, resets_at, cancel_requested,
    created_at, started_at, ended_at, asked, job_id, outside, rewound_to, rewound_to_turn_id,
    images, typed)
VALUES (:id, :thread_id, (SELECT COALESCE(MAX(position), 0) + 1 FROM runs WHERE thread_id = :thread_id),
    :prompt_turn_id, :prompt, :agent, :model, :status, :owner_host, :owner_pid, :owner_started,
    :answer_turn_id, :session_id, :session_resumed, :reason, :fallback, :outcome, :error, :input_tokens, :output_tokens,
    :cache_read_input_tokens, :cache_creation_input_tokens, :cost_usd, :prompt_chars, :transcript_chars, :estimate_usd,
    :estimate_new_tokens, :plain_resume_usd, :context_tokens, :plain_context_tokens, :resets_at, :cancel_requested,
    :created_at, :started_at, :ended_at, :asked, :job_id, :outside, :rewound_to,
    :rewound_to_turn_id, :images, :typed);

-- name: write_run
-- locks: run :id
-- All columns except the run's thread, job, prompt (as it is sent and as it was typed), images and `outside`, which
-- are fixed.
UPDATE runs SET agent = :agent, model = :model, status = :status,
    owner_host = :owner_host, owner_pid = :owner_pid, owner_started = :owner_started, answer_turn_id = :answer_turn_id,
    session_id = :session_id, session_resumed = :session_resumed, reason = :reason, fallback = :fallback,
    outcome = :outcome, error = :error, input_tokens = :input_tokens, output_tokens = :output_tokens,
    cache_read_input_tokens = :cache_read_input_tokens, cache_creation_input_tokens = :cache_creation_input_tokens,
    cost_usd = :cost_usd, prompt_chars = :prompt_chars, transcript_chars = :transcript_chars,
    estimate_usd = :estimate_usd, estimate_new_tokens = :estimate_new_tokens, plain_resume_usd = :plain_resume_usd,
    context_tokens = :context_tokens, plain_context_tokens = :plain_context_tokens,
    resets_at = :resets_at, cancel_requested = :cancel_requested, created_at = :created_at,
    started_at = :started_at, ended_at = :ended_at, asked = :asked, rewound_to = :rewound_to,
    rewound_to_turn_id = :rewound_to_turn_id
WHERE id = :id;

-- name: run_by_id
-- locks: run :id
SELECT * FROM runs WHERE id = :id;

-- name: last_run_of_prompt
-- locks: turn :prompt_turn_id
SELECT * FROM runs WHERE prompt_turn_id = :prompt_turn_id ORDER BY created_at DESC, position DESC LIMIT 1;

-- name: runs_newest
SELECT * FROM runs ORDER BY created_at DESC, position DESC LIMIT :limit;

-- name: runs_of_thread
-- locks: thread :thread_id
SELECT * FROM runs WHERE thread_id = :thread_id ORDER BY created_at DESC, position DESC LIMIT :limit;

-- name: runs_with_status
-- One query for each status: an index finds the few active runs among any number of ended ones.
SELECT * FROM runs WHERE status = :status ORDER BY created_at DESC, position DESC LIMIT :limit;

-- name: runs_of_thread_with_status
-- locks: thread :thread_id
SELECT * FROM runs WHERE thread_id = :thread_id AND status = :status
ORDER BY created_at DESC, position DESC LIMIT :limit;

-- name: runs_of_job
-- locks: job :job_id
SELECT * FROM runs WHERE job_id = :job_id ORDER BY created_at, position;

-- name: edit_prompt
-- locks: run :id
-- Only while the run is queued: once it has started, the prompt is a turn.
UPDATE runs SET prompt = :prompt, typed = :typed WHERE id = :id AND status = 'queued';

-- name: claim_run
-- locks: run :id
-- Claims a queued run whose daemon died: the first process to ask gets it.
UPDATE runs SET owner_host = :owner_host, owner_pid = :owner_pid, owner_started = :owner_started
WHERE id = :id AND status = 'queued' AND owner_host IS NULL;

-- name: count_tools
-- locks: run :id
UPDATE runs SET tools = tools + :tools WHERE id = :id;

-- name: runs_decided
-- The ended runs that had a decision, the newest first. No decision of Clew's led to an outside run.
SELECT * FROM runs
WHERE ended_at IS NOT NULL AND started_at IS NOT NULL AND outside = 0
    AND (CAST(:thread_id AS TEXT) IS NULL OR thread_id = :thread_id)
    AND (CAST(:since AS DOUBLE PRECISION) IS NULL OR created_at >= :since)
ORDER BY created_at DESC, position DESC LIMIT :limit;

-- name: last_measured_run
-- locks: thread :thread_id
-- The last run of an agent in a thread for which the size of the session is known.
SELECT * FROM runs
WHERE thread_id = :thread_id AND agent = :agent AND context_tokens IS NOT NULL AND ended_at IS NOT NULL
ORDER BY ended_at DESC, position DESC LIMIT 1;

-- name: last_measured_run_of_session
-- locks: thread :thread_id
-- The last run in a session of a thread for which the size of the session is known.
SELECT * FROM runs
WHERE thread_id = :thread_id AND session_id = :session_id AND context_tokens IS NOT NULL AND ended_at IS NOT NULL
ORDER BY ended_at DESC, position DESC LIMIT 1;

-- name: request_cancel
-- locks: run :id
UPDATE runs SET cancel_requested = 1, cancel_requested_at = COALESCE(cancel_requested_at, :at)
WHERE id = :id AND status IN ('queued', 'running', 'waiting');

-- name: cancel_requested
-- locks: run :id
SELECT cancel_requested FROM runs WHERE id = :id;

-- name: insert_attempt
-- locks: run :run_id
INSERT INTO attempts (id, run_id, number, session_id, user_uuid, resumed, mark, pid, pid_started, outcome,
    exit_status, stderr_tail, started_at, ended_at)
VALUES (:id, :run_id, :number, :session_id, :user_uuid, :resumed, :mark, :pid, :pid_started, :outcome, :exit_status,
    :stderr_tail, :started_at, :ended_at);

-- name: write_attempt
-- locks: attempt :id
UPDATE attempts SET number = :number, session_id = :session_id, user_uuid = :user_uuid, resumed = :resumed,
    mark = :mark, pid = :pid, pid_started = :pid_started, outcome = :outcome, exit_status = :exit_status, stderr_tail = :stderr_tail,
    started_at = :started_at, ended_at = :ended_at
WHERE id = :id;

-- name: attempt_by_id
-- locks: attempt :id
SELECT * FROM attempts WHERE id = :id;

-- name: attempts
-- locks: run :run_id
SELECT * FROM attempts WHERE run_id = :run_id ORDER BY number;

-- name: stats
-- Every fresh session has a reason and every ended run an outcome: grouped by both, no run is counted twice.
-- estimated_* covers only the runs that have that estimate, and plain_resume_* those that have the other one:
-- core/costs/savings.py says how the other runs count. ROUND makes every database round the day down in the same way; a
-- cast alone does not. What was done outside Clew is not counted: Clew neither decided nor paid for it.
SELECT CAST(ROUND(runs.created_at - 0.5) AS BIGINT) / 86400 AS day, threads.kind AS kind,
    CASE WHEN CAST(:by_directory AS INTEGER) = 1 THEN threads.cwd END AS directory,
    runs.agent AS agent, runs.model AS model, session_resumed, reason, outcome,
    COUNT(*) AS runs,
    COUNT(rewound_to) AS rewound,
    CAST(SUM(fallback) AS BIGINT) AS fallbacks,
    CAST(SUM(input_tokens) AS BIGINT) AS input_tokens,
    CAST(SUM(output_tokens) AS BIGINT) AS output_tokens,
    CAST(SUM(cache_read_input_tokens) AS BIGINT) AS cache_read_input_tokens,
    CAST(SUM(cache_creation_input_tokens) AS BIGINT) AS cache_creation_input_tokens,
    SUM(cost_usd) AS cost_usd,
    CAST(SUM(prompt_chars) AS BIGINT) AS prompt_chars,
    CAST(SUM(transcript_chars) AS BIGINT) AS transcript_chars,
    COUNT(estimate_usd) AS estimated_runs,
    COALESCE(SUM(CASE WHEN estimate_usd IS NOT NULL THEN cost_usd END), 0.0) AS estimated_cost_usd,
    COALESCE(SUM(estimate_usd), 0.0) AS estimate_usd,
    COUNT(plain_resume_usd) AS plain_resume_runs,
    COALESCE(SUM(CASE WHEN plain_resume_usd IS NOT NULL THEN cost_usd END), 0.0) AS plain_resume_cost_usd,
    COALESCE(SUM(plain_resume_usd), 0.0) AS plain_resume_usd,
    COUNT(CASE
        WHEN cost_usd = 0
            AND input_tokens + output_tokens + cache_read_input_tokens + cache_creation_input_tokens > 0
        THEN 1
    END) AS unpriced_runs
FROM runs JOIN threads ON threads.id = runs.thread_id
WHERE runs.outside = 0 AND (CAST(:thread_id AS TEXT) IS NULL OR runs.thread_id = :thread_id)
    AND (CAST(:since AS DOUBLE PRECISION) IS NULL OR runs.created_at >= :since)
GROUP BY 1, 2, 3, 4, 5, session_resumed, reason, outcome
ORDER BY 1, 2, 3, 4, 5, session_resumed, reason, outcome;
