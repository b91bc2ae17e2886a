-- What the transcript would have cost, in tokens that no cache has: the agents that report no price have an estimate too.

ALTER TABLE runs ADD COLUMN estimate_new_tokens BIGINT;

-- Estimates until now were far too low: they took all of a new session's beginning for cached.
UPDATE runs SET estimate_usd = NULL WHERE session_resumed = 1;
