-- An FTS5 index without a copy of the texts. Its rows have numbers, turns have none of their own that would survive a
-- VACUUM, so a table gives them out; a larger one came later. NUL and the escape itself (store/database/text.py) are spaces to it.
--
-- A trigger stands on one line up to its END: the loader splits at semicolons that end a line.

CREATE TABLE turn_numbers (
    n INTEGER PRIMARY KEY,
    turn_id TEXT NOT NULL UNIQUE
);

CREATE VIRTUAL TABLE turn_words USING fts5 (text, content = '', tokenize = 'unicode61 remove_diacritics 0');

INSERT INTO turn_numbers (turn_id) SELECT id FROM turns ORDER BY created_at, thread_id, position;

INSERT INTO turn_words (rowid, text)
SELECT n, replace(replace(text, char(26) || '0000', ' '), char(26) || '001a', ' ')
FROM turn_numbers JOIN turns ON turns.id = turn_numbers.turn_id ORDER BY n;

CREATE TRIGGER turn_words_added AFTER INSERT ON turns BEGIN
    INSERT INTO turn_numbers (turn_id) VALUES (new.id); INSERT INTO turn_words (rowid, text)
        SELECT n, replace(replace(new.text, char(26) || '0000', ' '), char(26) || '001a', ' ') FROM turn_numbers WHERE turn_id = new.id; END;

CREATE TRIGGER turn_words_edited AFTER UPDATE OF text ON turns BEGIN
    INSERT INTO turn_words (turn_words, rowid, text)
        SELECT 'delete', n, replace(replace(old.text, char(26) || '0000', ' '), char(26) || '001a', ' ') FROM turn_numbers WHERE turn_id = old.id; INSERT INTO turn_words (rowid, text)
        SELECT n, replace(replace(new.text, char(26) || '0000', ' '), char(26) || '001a', ' ') FROM turn_numbers WHERE turn_id = new.id; END;

CREATE TRIGGER turn_words_removed AFTER DELETE ON turns BEGIN
    INSERT INTO turn_words (turn_words, rowid, text)
        SELECT 'delete', n, replace(replace(old.text, char(26) || '0000', ' '), char(26) || '001a', ' ') FROM turn_numbers WHERE turn_id = old.id; DELETE FROM turn_numbers WHERE turn_id = old.id; END;

CREATE TRIGGER thread_size_added AFTER INSERT ON turns WHEN new.archived_at IS NULL BEGIN
    UPDATE threads SET size_chars = size_chars + length(new.text) WHERE id = new.thread_id; END;

CREATE TRIGGER thread_size_edited AFTER UPDATE OF text, archived_at ON turns BEGIN
    UPDATE threads SET size_chars = size_chars + (CASE WHEN new.archived_at IS NULL THEN length(new.text) ELSE 0 END)
        - (CASE WHEN old.archived_at IS NULL THEN length(old.text) ELSE 0 END) WHERE id = new.thread_id; END;

CREATE TRIGGER thread_size_removed AFTER DELETE ON turns WHEN old.archived_at IS NULL BEGIN
    UPDATE threads SET size_chars = size_chars - length(old.text) WHERE id = old.thread_id; END;

CREATE TRIGGER thread_cost_added AFTER INSERT ON runs WHEN new.cost_usd <> 0 BEGIN
    UPDATE threads SET spent_usd = spent_usd + new.cost_usd WHERE id = new.thread_id; END;

CREATE TRIGGER thread_cost_changed AFTER UPDATE OF cost_usd ON runs WHEN new.cost_usd <> old.cost_usd BEGIN
    UPDATE threads SET spent_usd = spent_usd - old.cost_usd + new.cost_usd WHERE id = new.thread_id; END;

CREATE TRIGGER thread_cost_removed AFTER DELETE ON runs WHEN old.cost_usd <> 0 BEGIN
    UPDATE threads SET spent_usd = spent_usd - old.cost_usd WHERE id = old.thread_id; END;
