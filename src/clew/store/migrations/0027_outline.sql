-- What a session absorbs of a turn: the length of its id, the id and the digest of what a model is shown (core's
-- `Absorbed`), and about how many characters it has in a transcript. It counts only while `absorbed_revision` is the
-- turn's revision. NULL: an older Clew wrote the turn; the next run of the thread completes it.
ALTER TABLE turns ADD COLUMN absorbed_as TEXT;
ALTER TABLE turns ADD COLUMN absorbed_revision BIGINT;
ALTER TABLE turns ADD COLUMN transcript_chars BIGINT;

-- Has all that a decision needs to know about a thread of which it reads no text.
CREATE INDEX turns_outline ON turns (thread_id, archived_at, position, absorbed_as, absorbed_revision, revision,
    transcript_chars, role, agent);
