-- A forge's message is known by what it signed, too: its delivery id is a header, which the signature does not cover.

-- Of the signed body; NULL: it came some other way.
ALTER TABLE hook_events ADD COLUMN digest TEXT;
CREATE UNIQUE INDEX hook_events_by_digest ON hook_events (forge, digest);
