-- A session file's fingerprint, as it was when its last turn ended: what is known of it must still stand there.

ALTER TABLE pins ADD COLUMN mark_digest TEXT;
ALTER TABLE pins ADD COLUMN mark_stamp TEXT;
