-- name: insert_job
-- locks: thread :thread_id
INSERT INTO jobs (id, thread_id, number, prompt, cwd, agent, model, permissions, status, key, limits, checkpoint,
    not_before, wish, keep_files, tries, runs, resume_count, session_resumes, troubles, session_id, session_saved_at, run_id, saved_run_id,
    reason, outcome, result, error, hint, conflicts, worker, cancel_requested, created_at, started_at, wake_at, ended_at, kind,
    full_prompt, allowed_tools, prompt_turn_id, priority)
VALUES (:id, :thread_id, :number, :prompt, :cwd, :agent, :model, :permissions,
    :status, :key, :limits, :checkpoint, :not_before, :wish, :keep_files, :tries, :runs, :resume_count,
    :session_resumes, :troubles, :session_id, :session_saved_at, :run_id, :saved_run_id, :reason, :outcome, :result, :error, :hint, :conflicts, :worker,
    :cancel_requested, :created_at, :started_at, :wake_at, :ended_at, :kind, :full_prompt, :allowed_tools, :prompt_turn_id, :priority);

-- name: number_job
-- locks: commit
-- Numbers follow the order in which jobs become visible: when a job is visible, all smaller numbers are visible too.
UPDATE jobs SET number = (SELECT COALESCE(MAX(number), 0) + 1 FROM jobs WHERE number > 0) WHERE id = :id;

-- name: write_job
-- locks: job :id
-- All columns except the job's task and its number, which are fixed.
UPDATE jobs SET status = :status, limits = :limits, checkpoint = :checkpoint, not_before = :not_before, wish = :wish,
    keep_files = :keep_files, tries = :tries, runs = :runs, resume_count = :resume_count, session_resumes = :session_resumes,
    troubles = :troubles, session_id = :session_id, session_saved_at = :session_saved_at, run_id = :run_id, saved_run_id = :saved_run_id, reason = :reason,
    outcome = :outcome, result = :result, error = :error, hint = :hint, conflicts = :conflicts, worker = :worker,
    cancel_requested = :cancel_requested, started_at = :started_at, wake_at = :wake_at, ended_at = :ended_at,
    prompt_turn_id = :prompt_turn_id
WHERE id = :id;

-- name: job_by_id
-- locks: job :id
SELECT * FROM jobs WHERE id = :id;

-- name: jobs_newest
SELECT * FROM jobs WHERE (CAST(:key AS TEXT) IS NULL OR key = :key) ORDER BY number DESC LIMIT :limit;

-- name: jobs_with_status
SELECT * FROM jobs WHERE status = :status AND (CAST(:key AS TEXT) IS NULL OR key = :key)
ORDER BY number DESC LIMIT :limit;

-- name: job_before
-- locks: key_of_job :id
-- The first job of the same key that must end before this one: one that has started, else the oldest.
SELECT jobs.* FROM jobs, jobs AS mine
WHERE mine.id = :id AND jobs.id <> mine.id
    AND jobs.id = (SELECT job_id FROM job_line WHERE key = (SELECT key FROM jobs WHERE id = :id)
        ORDER BY begun DESC, number LIMIT 1)
    AND ((jobs.started_at IS NOT NULL AND mine.started_at IS NULL)
        OR ((jobs.started_at IS NULL) = (mine.started_at IS NULL) AND jobs.number < mine.number));

-- name: jobs_of_worker
-- The jobs that the worker has or had, without those that ended before that time.
SELECT * FROM jobs WHERE worker = :worker AND (ended_at IS NULL OR ended_at >= :since) ORDER BY number;

-- name: prompt_turns_of_key
-- The prompt turns of the other jobs of a job's key, in its thread.
SELECT prompt_turn_id FROM jobs
WHERE key = :key AND thread_id = :thread_id AND id <> :id AND prompt_turn_id IS NOT NULL;

-- name: add_marker
-- locks: job :job_id
INSERT INTO job_markers (job_id, n, message_id, at, run_id, seq)
VALUES (:job_id, (SELECT COALESCE(MAX(n), 0) + 1 FROM job_markers WHERE job_id = :job_id), :message_id, :at, :run_id,
    :seq);

-- name: newest_markers
-- locks: job :job_id
-- With the event that has the agent's message, where it is stored.
SELECT job_markers.*, events.body FROM job_markers
LEFT JOIN events ON events.run_id = job_markers.run_id AND events.seq = job_markers.seq
WHERE job_markers.job_id = :job_id ORDER BY job_markers.n DESC LIMIT :limit;

-- name: dump_jobs
SELECT * FROM jobs WHERE thread_id = :id ORDER BY number;

-- name: dump_job_markers
SELECT job_markers.* FROM job_markers JOIN jobs ON jobs.id = job_markers.job_id
WHERE jobs.thread_id = :id ORDER BY jobs.number, job_markers.n;

-- name: save_worker
-- locks: row
INSERT INTO workers (id, host, pid, pid_started, concurrency, started_at, heartbeat_at, stopped_at, hooks_only)
VALUES (:id, :host, :pid, :pid_started, :concurrency, :started_at, :heartbeat_at, :stopped_at, :hooks_only)
ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, pid_started = excluded.pid_started,
    concurrency = excluded.concurrency, started_at = excluded.started_at, heartbeat_at = excluded.heartbeat_at,
    stopped_at = excluded.stopped_at, hooks_only = excluded.hooks_only;

-- name: beat_worker
-- locks: row
UPDATE workers SET heartbeat_at = :at WHERE id = :id;

-- name: workers
SELECT * FROM workers ORDER BY started_at;

-- name: forget_silent_worker
-- locks: row
-- Unless it has sent a heartbeat in the meantime.
DELETE FROM workers WHERE id = :id AND heartbeat_at = :heartbeat_at;

-- name: forget_worker
-- locks: row
DELETE FROM workers WHERE id = :id;
