-- A function stands on one line from a semicolon to the next: the loader splits at those that end a line.

CREATE FUNCTION clew_job_line_changed () RETURNS TRIGGER LANGUAGE plpgsql AS $$
DECLARE changed TEXT := CASE WHEN TG_OP = 'DELETE' THEN old.key ELSE new.key END; first TEXT; BEGIN
    SELECT job_id INTO first FROM job_line WHERE key = changed ORDER BY begun DESC, number LIMIT 1; IF TG_OP <> 'DELETE' THEN
    UPDATE job_line SET is_next = 0 WHERE key = changed AND is_next = 1 AND job_id <> first; END IF; UPDATE job_line
    SET is_next = 1 WHERE job_id = first AND is_next = 0; RETURN NULL; END $$;

CREATE FUNCTION clew_job_changed () RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
    IF new.status IN ('queued', 'running', 'waiting') THEN
    INSERT INTO job_line (job_id, number, key, own, begun, ready_at)
    VALUES (new.id, new.number, new.key, CASE WHEN new.kind = 'job' THEN 1 ELSE 0 END,
        CASE WHEN new.started_at IS NULL THEN 0 ELSE 1 END,
        CASE WHEN GREATEST(new.not_before, new.wake_at) IS NOT NULL
            THEN LEAST(GREATEST(new.not_before, new.wake_at), (new.limits::json ->> 'deadline_at')::double precision) END)
    ON CONFLICT (job_id) DO UPDATE SET begun = excluded.begun, ready_at = excluded.ready_at; ELSE
    DELETE FROM job_line WHERE job_id = new.id; END IF; RETURN NULL; END $$;

CREATE TRIGGER job_line_changed AFTER INSERT OR DELETE ON job_line
    FOR EACH ROW EXECUTE FUNCTION clew_job_line_changed ();
CREATE TRIGGER job_line_moved AFTER UPDATE OF begun ON job_line FOR EACH ROW
    WHEN (old.begun <> new.begun) EXECUTE FUNCTION clew_job_line_changed ();
-- A job has its number from the last step of the transaction that adds it, and enters the line with it.
CREATE TRIGGER job_added AFTER INSERT ON jobs FOR EACH ROW WHEN (new.number > 0) EXECUTE FUNCTION clew_job_changed ();
CREATE TRIGGER job_changed AFTER UPDATE OF number, status, started_at, not_before, wake_at, limits ON jobs FOR EACH ROW
    WHEN (new.number > 0) EXECUTE FUNCTION clew_job_changed ();

-- Those that are under way already: by the trigger.
UPDATE jobs SET status = status WHERE status IN ('queued', 'running', 'waiting');
