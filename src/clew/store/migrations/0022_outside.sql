-- Turns that were made outside Clew, in an agent's own CLI, and brought in; their runs have their tool calls and usage.
-- A run whose session was rewound names the last turn that the copy held, and the number that the turn had then. A
-- session that its agent has compacted holds the first turns only as a summary.

ALTER TABLE turns ADD COLUMN outside SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN outside SMALLINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN rewound_to BIGINT;
ALTER TABLE runs ADD COLUMN rewound_to_turn_id TEXT;
ALTER TABLE pins ADD COLUMN summarised BIGINT NOT NULL DEFAULT 0;
