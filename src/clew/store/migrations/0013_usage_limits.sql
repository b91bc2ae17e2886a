-- When the account's usage limit resets that a run met, in epoch seconds. NULL: it met none, or the agent did not say.

ALTER TABLE runs ADD COLUMN resets_at DOUBLE PRECISION;
