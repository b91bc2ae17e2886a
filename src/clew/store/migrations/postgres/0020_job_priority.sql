-- A function stands on one line from a semicolon to the next: the loader splits at those that end a line.

-- The urgency of a job that another transaction changes is skipped: waiting for it here could end in a deadlock, since
-- a job is added in the last step of a transaction. The heartbeat of a worker makes up for it.
CREATE OR REPLACE FUNCTION clew_job_line_changed () RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE changed TEXT := CASE WHEN TG_OP = 'DELETE' THEN old.key ELSE new.key END; first TEXT; lowest BIGINT; BEGIN
    SELECT job_id INTO first FROM job_line WHERE key = changed ORDER BY begun DESC, number LIMIT 1; SELECT MIN(priority)
    INTO lowest FROM job_line WHERE key = changed; IF TG_OP <> 'DELETE' THEN
    UPDATE job_line SET is_next = 0 WHERE key = changed AND is_next = 1 AND job_id <> first; END IF; UPDATE job_line
    SET is_next = 1, urgency = lowest WHERE job_id = first AND is_next = 0; UPDATE job_line SET urgency = lowest
    WHERE job_id = (SELECT job_id FROM job_line WHERE job_id = first AND urgency <> lowest FOR UPDATE SKIP LOCKED); RETURN
    NULL; END $$;

CREATE OR REPLACE FUNCTION clew_job_changed () RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
    IF new.status IN ('queued', 'running', 'waiting') THEN
    INSERT INTO job_line (job_id, number, key, priority, own, begun, ready_at)
    VALUES (new.id, new.number, new.key, new.priority, CASE WHEN new.kind = 'job' THEN 1 ELSE 0 END,
        CASE WHEN new.started_at IS NULL THEN 0 ELSE 1 END,
        CASE WHEN GREATEST(new.not_before, new.wake_at) IS NOT NULL
            THEN LEAST(GREATEST(new.not_before, new.wake_at), (new.limits::json ->> 'deadline_at')::double precision) END)
    ON CONFLICT (job_id) DO UPDATE SET begun = excluded.begun, ready_at = excluded.ready_at; ELSE
    DELETE FROM job_line WHERE job_id = new.id; END IF; RETURN NULL; END $$;
