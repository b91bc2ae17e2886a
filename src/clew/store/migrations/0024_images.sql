-- The images of a prompt, as JSON: name, media type, size and digest of each. The bytes are files under Clew's home. A
-- run has them as long as it is queued; the turn has them from then on.

ALTER TABLE turns ADD COLUMN images TEXT;
ALTER TABLE runs ADD COLUMN images TEXT;
