-- A job counts all its resumes; those of the session that it has now, which `max_resumes` is about, are counted apart.
ALTER TABLE jobs ADD COLUMN session_resumes BIGINT NOT NULL DEFAULT 0;
UPDATE jobs SET session_resumes = resume_count;

-- A marker leads to what the agent said: the event of that number. NULL: it was written before this was kept.
ALTER TABLE job_markers ADD COLUMN run_id TEXT;
ALTER TABLE job_markers ADD COLUMN seq BIGINT;

-- A daemon that carries out what hooks set going, and leaves other jobs to workers.
ALTER TABLE workers ADD COLUMN hooks_only SMALLINT NOT NULL DEFAULT 0;
