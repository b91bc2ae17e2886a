-- The priority of a job: 1 is the most urgent. Triggers (in the folder of each database) keep `urgency`, which workers
-- go by: the priority of the most urgent job of the key, because that job waits for all jobs of the key before it.
ALTER TABLE jobs ADD COLUMN priority BIGINT NOT NULL DEFAULT 50;
ALTER TABLE job_line ADD COLUMN priority BIGINT NOT NULL DEFAULT 50;
ALTER TABLE job_line ADD COLUMN urgency BIGINT NOT NULL DEFAULT 50;

CREATE INDEX job_line_by_priority ON job_line (key, priority);
DROP INDEX job_line_ready;
CREATE INDEX job_line_ready ON job_line (own, urgency, number)
    WHERE is_next = 1 AND claimed_by IS NULL AND ready_at IS NULL;
