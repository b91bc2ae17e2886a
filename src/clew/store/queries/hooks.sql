-- name: insert_hook_event
-- locks: hook :id, delivery :delivery, digest :digest
INSERT INTO hook_events (id, number, forge, delivery, digest, kind, repo, issue, state, why, tries, event, jobs,
    received_at, done_at)
VALUES (:id, :number, :forge, :delivery, :digest, :kind, :repo, :issue,
    :state, :why, :tries, :event, :jobs, :received_at, :done_at);

-- name: number_hook_event
-- locks: commit
-- Numbers follow the order in which events become visible, like those of jobs.
UPDATE hook_events SET number = (SELECT COALESCE(MAX(number), 0) + 1 FROM hook_events WHERE number > 0) WHERE id = :id;

-- name: known_hook_event
-- locks: delivery :delivery, digest :digest
-- An event with the same delivery id, or with the same signed content under another delivery id.
SELECT id FROM hook_events WHERE forge = :forge AND (delivery = :delivery OR digest = :digest)
ORDER BY CASE WHEN delivery = :delivery THEN 0 ELSE 1 END LIMIT 1;

-- name: reopen_hook_event
-- locks: hook :id
-- An event that failed or was ignored is handled again: the cause may have been fixed since.
UPDATE hook_events SET state = 'received', why = NULL, tries = 0, done_at = NULL, event = :event,
    received_at = :received_at
WHERE id = :id AND state IN ('failed', 'ignored');

-- name: hook_event_by_id
-- locks: hook :id
SELECT * FROM hook_events WHERE id = :id;

-- name: hook_events_with_state
SELECT * FROM hook_events WHERE state = :state ORDER BY number LIMIT :limit;

-- name: hook_events_newest
SELECT * FROM hook_events ORDER BY number DESC LIMIT :limit;

-- name: hook_events_newest_with_state
SELECT * FROM hook_events WHERE state = :state ORDER BY number DESC LIMIT :limit;

-- name: hook_events_last_by_key
-- By session key: the last event that started a job.
SELECT hook_events.*, hook_keys.key FROM hook_keys
JOIN hook_jobs ON hook_jobs.key = hook_keys.key JOIN hook_events ON hook_events.id = hook_jobs.hook_id
WHERE hook_jobs.at = (SELECT MAX(later.at) FROM hook_jobs AS later WHERE later.key = hook_keys.key);

-- name: count_hook_events
SELECT forge, state, COUNT(*) AS count FROM hook_events GROUP BY forge, state ORDER BY forge, state;

-- name: hook_event_before
-- The oldest event that must be handled first: one of the same issue, or of a branch, which may concern any issue.
SELECT earlier.id FROM hook_events AS earlier, hook_events AS mine
WHERE mine.id = :id AND earlier.repo = mine.repo AND earlier.number < mine.number AND earlier.state = 'received'
    AND (earlier.issue = mine.issue OR earlier.issue IS NULL OR mine.issue IS NULL)
ORDER BY earlier.number LIMIT 1;

-- name: hook_issue_last
-- The last event that says whether an issue or a pull request is open.
SELECT kind FROM hook_events WHERE repo = :repo AND issue = :issue AND kind IN ('issue.opened', 'issue.reopened',
    'issue.closed', 'pull.opened', 'pull.reopened', 'pull.closed', 'pull.merged')
ORDER BY number DESC LIMIT 1;

-- name: write_hook_event
-- locks: hook :id
UPDATE hook_events SET state = :state, why = :why, tries = :tries, jobs = :jobs, done_at = :done_at WHERE id = :id;

-- name: forget_hook_events
-- locks: row
-- Forges do not send an event again after weeks.
DELETE FROM hook_events WHERE state <> 'received' AND done_at < :before;

-- name: save_hook_key
-- locks: hook_key :key, thread :thread_id
-- Not every event of a pull request names its branch, so a known branch is kept.
INSERT INTO hook_keys (key, agent, repo, issue, forge, thread_id, branch, created_at, used_at)
VALUES (:key, :agent, :repo, :issue, :forge, :thread_id, :branch, :created_at, :used_at)
ON CONFLICT (key) DO UPDATE SET forge = excluded.forge, thread_id = excluded.thread_id,
    branch = COALESCE(excluded.branch, hook_keys.branch), used_at = excluded.used_at;

-- name: hook_key
-- locks: hook_key :key
SELECT * FROM hook_keys WHERE key = :key;

-- name: hook_keys
SELECT * FROM hook_keys WHERE (CAST(:repo AS TEXT) IS NULL OR repo = :repo)
    AND (CAST(:issue AS BIGINT) IS NULL OR issue = :issue) ORDER BY repo, issue, agent;

-- name: delete_hook_key
-- locks: hook_key :key
DELETE FROM hook_keys WHERE key = :key;

-- name: insert_hook_job
-- locks: job :job_id
INSERT INTO hook_jobs (job_id, hook_id, key, branch, fetch_ref, tree_update, reply, why, url, tries, at)
VALUES (:job_id, :hook_id, :key, :branch, :fetch_ref, :tree_update, :reply, :why, :url, :tries, :at);

-- name: hook_job
-- locks: job :job_id
SELECT * FROM hook_jobs WHERE job_id = :job_id;

-- name: hook_key_last_used
-- Also for a key that was dropped.
SELECT MAX(hook_jobs.at) AS at, MAX(hook_events.forge) AS forge
FROM hook_jobs LEFT JOIN hook_events ON hook_events.id = hook_jobs.hook_id WHERE hook_jobs.key = :key;

-- name: hook_replies_due
-- The jobs that have a reply which no worker has begun to post.
SELECT hook_jobs.* FROM hook_jobs JOIN jobs ON jobs.id = hook_jobs.job_id
WHERE hook_jobs.reply = 'waiting' AND jobs.status = 'succeeded' ORDER BY hook_jobs.at LIMIT :limit;

-- name: write_hook_job
-- locks: job :job_id
UPDATE hook_jobs SET reply = :reply, why = :why, url = :url, tries = :tries, at = :at WHERE job_id = :job_id;

-- name: dump_hook_keys
SELECT * FROM hook_keys WHERE thread_id = :id ORDER BY key;

-- name: dump_hook_jobs
SELECT hook_jobs.* FROM hook_jobs JOIN jobs ON jobs.id = hook_jobs.job_id
WHERE jobs.thread_id = :id ORDER BY hook_jobs.job_id;
