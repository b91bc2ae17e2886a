-- name: run_totals
-- The sums over ended runs, by kind of thread. The figures of an active run may still change. Runs that were made
-- outside Clew do not count.
SELECT threads.kind AS kind, runs.agent AS agent, runs.session_resumed AS session_resumed, runs.reason AS reason,
    runs.outcome AS outcome,
    COUNT(*) AS runs,
    COUNT(runs.rewound_to) AS rewound,
    CAST(SUM(runs.fallback) AS BIGINT) AS fallbacks,
    CAST(SUM(runs.input_tokens) AS BIGINT) AS input_tokens,
    CAST(SUM(runs.output_tokens) AS BIGINT) AS output_tokens,
    CAST(SUM(runs.cache_read_input_tokens) AS BIGINT) AS cache_read_input_tokens,
    CAST(SUM(runs.cache_creation_input_tokens) AS BIGINT) AS cache_creation_input_tokens,
    SUM(runs.cost_usd) AS cost_usd
FROM runs JOIN threads ON threads.id = runs.thread_id
WHERE runs.ended_at IS NOT NULL AND runs.outside = 0
GROUP BY threads.kind, runs.agent, runs.session_resumed, runs.reason, runs.outcome
ORDER BY threads.kind, runs.agent, runs.session_resumed, runs.reason, runs.outcome;

-- name: count_live_runs
SELECT COUNT(*) AS n FROM runs WHERE status IN ('queued', 'running', 'waiting');

-- name: count_jobs
SELECT status, COUNT(*) AS n FROM jobs GROUP BY status ORDER BY status;
