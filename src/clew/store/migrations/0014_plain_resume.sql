-- What a plain `--resume` every turn would have cost, and the sizes of the two sessions that it is estimated from.

ALTER TABLE runs ADD COLUMN plain_resume_usd DOUBLE PRECISION;
ALTER TABLE runs ADD COLUMN context_tokens BIGINT;
ALTER TABLE runs ADD COLUMN plain_context_tokens BIGINT;
