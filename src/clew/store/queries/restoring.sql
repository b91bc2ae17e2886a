-- name: last_job_number
SELECT COALESCE(MAX(number), 0) AS number FROM jobs;
