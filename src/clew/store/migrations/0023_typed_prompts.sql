-- What the user typed, where `text` and `prompt` have what it stood for: the files that it mentioned with @, the text of
-- its slash command. NULL: it is the same.

ALTER TABLE turns ADD COLUMN typed TEXT;
ALTER TABLE runs ADD COLUMN typed TEXT;
