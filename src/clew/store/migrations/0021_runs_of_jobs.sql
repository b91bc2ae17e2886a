-- Which job a run belongs to: a hook's thread has runs of several jobs. NULL: of none, or it is older than this column
-- and is not the first or the last run of its job.
ALTER TABLE runs ADD COLUMN job_id TEXT;
UPDATE runs SET job_id = (SELECT MIN(jobs.id) FROM jobs WHERE jobs.thread_id = runs.thread_id
    AND (jobs.run_id = runs.id OR jobs.prompt_turn_id = runs.prompt_turn_id))
WHERE thread_id IN (SELECT thread_id FROM jobs);
CREATE INDEX runs_by_job ON runs (job_id) WHERE job_id IS NOT NULL;
