-- A trigger stands on one line from a semicolon to the next: the loader splits at those that end a line.

DROP TRIGGER job_line_added;
DROP TRIGGER job_line_moved;
DROP TRIGGER job_line_left;
DROP TRIGGER job_added;
DROP TRIGGER job_changed;

CREATE TRIGGER job_line_added AFTER INSERT ON job_line BEGIN
    UPDATE job_line SET is_next = 0 WHERE key = new.key AND is_next = 1; UPDATE job_line SET is_next = 1,
    urgency = (SELECT MIN(priority) FROM job_line WHERE key = new.key) WHERE job_id =
    (SELECT job_id FROM job_line WHERE key = new.key ORDER BY begun DESC, number LIMIT 1); END;

CREATE TRIGGER job_line_moved AFTER UPDATE OF begun ON job_line WHEN new.begun <> old.begun BEGIN
    UPDATE job_line SET is_next = 0 WHERE key = new.key AND is_next = 1; UPDATE job_line SET is_next = 1,
    urgency = (SELECT MIN(priority) FROM job_line WHERE key = new.key) WHERE job_id =
    (SELECT job_id FROM job_line WHERE key = new.key ORDER BY begun DESC, number LIMIT 1); END;

CREATE TRIGGER job_line_left AFTER DELETE ON job_line BEGIN
    UPDATE job_line SET is_next = 1, urgency = (SELECT MIN(priority) FROM job_line WHERE key = old.key) WHERE job_id =
    (SELECT job_id FROM job_line WHERE key = old.key ORDER BY begun DESC, number LIMIT 1); END;

CREATE TRIGGER job_added AFTER INSERT ON jobs
WHEN new.number > 0 AND new.status IN ('queued', 'running', 'waiting') BEGIN
    INSERT INTO job_line (job_id, number, key, priority, own, begun, ready_at)
    VALUES (new.id, new.number, new.key, new.priority, new.kind = 'job', new.started_at IS NOT NULL,
        MIN(NULLIF(MAX(COALESCE(new.not_before, 0), COALESCE(new.wake_at, 0)), 0),
            COALESCE(json_extract(new.limits, '$.deadline_at'), 9e99))); END;

CREATE TRIGGER job_changed AFTER UPDATE OF number, status, started_at, not_before, wake_at, limits ON jobs
WHEN new.number > 0 AND new.status IN ('queued', 'running', 'waiting') BEGIN
    INSERT INTO job_line (job_id, number, key, priority, own, begun, ready_at)
    VALUES (new.id, new.number, new.key, new.priority, new.kind = 'job', new.started_at IS NOT NULL,
        MIN(NULLIF(MAX(COALESCE(new.not_before, 0), COALESCE(new.wake_at, 0)), 0),
            COALESCE(json_extract(new.limits, '$.deadline_at'), 9e99)))
    ON CONFLICT (job_id) DO UPDATE SET begun = excluded.begun, ready_at = excluded.ready_at; END;
