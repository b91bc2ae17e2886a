-- name: belongings_of_runs
-- The threads of these runs, and the jobs, reviews and pairs that they are part of. A run that is older than `job_id`
-- belongs to its thread's job, unless the thread has many.
SELECT runs.id AS run_id, threads.name AS thread, threads.kind,
    COALESCE(runs.job_id, CASE WHEN threads.kind = 'job' THEN
        (SELECT MIN(jobs.id) FROM jobs WHERE jobs.thread_id = runs.thread_id) END) AS job_id,
    (SELECT MIN(reviews.id) FROM reviews WHERE reviews.thread_id = runs.thread_id) AS review_id,
    pairs.id AS pair_id, pairs.name AS pair_name
FROM runs JOIN threads ON threads.id = runs.thread_id
    LEFT JOIN pairs ON pairs.instructor_thread_id = runs.thread_id OR pairs.worker_thread_id = runs.thread_id
WHERE runs.id IN (SELECT value FROM json_array_elements_text(CAST(:ids AS JSON)) AS each (value));
