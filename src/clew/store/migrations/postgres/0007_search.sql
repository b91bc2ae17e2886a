-- Text search with the `simple` configuration, so that every word of a code is found as it is. PostgreSQL would take a
-- path or an address as one word, so what is neither letter nor digit in ASCII becomes a space first, as on SQLite.
-- NUL, the escape itself and half characters (store/database/text.py) are spaces too.
--
-- A function stands on one line from a semicolon to the next: the loader splits at those that end a line.

CREATE FUNCTION clew_words (text TEXT) RETURNS TSVECTOR LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE plain TEXT := regexp_replace(
    text, '\u001a[0-9a-f]{4}|[\u0021-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u007e]', ' ', 'g'); BEGIN
    RETURN to_tsvector('simple', plain); EXCEPTION WHEN program_limit_exceeded THEN
    RETURN to_tsvector('simple', left(plain, 100000)); END $$;

-- n: a larger one came later.
CREATE TABLE turn_words (
    turn_id TEXT NOT NULL PRIMARY KEY REFERENCES turns (id) ON DELETE CASCADE,
    n BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
    words TSVECTOR NOT NULL
);

INSERT INTO turn_words (turn_id, words)
SELECT id, clew_words(text) FROM turns ORDER BY created_at, thread_id, position;

CREATE INDEX turn_words_by_word ON turn_words USING gin (words);

CREATE FUNCTION clew_turn_added () RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO turn_words (turn_id, words) VALUES (new.id, clew_words(new.text)); IF new.archived_at IS NULL THEN
    UPDATE threads SET size_chars = size_chars + length(new.text) WHERE id = new.thread_id; END IF; RETURN NULL; END $$;

CREATE FUNCTION clew_turn_changed () RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
    IF new.text <> old.text THEN UPDATE turn_words SET words = clew_words(new.text) WHERE turn_id = new.id; END IF;  UPDATE threads
    SET size_chars = size_chars + (CASE WHEN new.archived_at IS NULL THEN length(new.text) ELSE 0 END)
        - (CASE WHEN old.archived_at IS NULL THEN length(old.text) ELSE 0 END) WHERE id = new.thread_id; RETURN NULL; END $$;

CREATE FUNCTION clew_turn_removed () RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN IF old.archived_at IS NULL THEN
    UPDATE threads SET size_chars = size_chars - length(old.text) WHERE id = old.thread_id; END IF; RETURN NULL; END $$;

CREATE FUNCTION clew_run_changed () RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN IF TG_OP <> 'INSERT' AND old.cost_usd <> 0 THEN
    UPDATE threads SET spent_usd = spent_usd - old.cost_usd WHERE id = old.thread_id; END IF; IF TG_OP <> 'DELETE' AND new.cost_usd <> 0 THEN
    UPDATE threads SET spent_usd = spent_usd + new.cost_usd WHERE id = new.thread_id; END IF; RETURN NULL; END $$;

CREATE TRIGGER turn_added AFTER INSERT ON turns FOR EACH ROW EXECUTE FUNCTION clew_turn_added ();
CREATE TRIGGER turn_changed AFTER UPDATE OF text, archived_at ON turns FOR EACH ROW EXECUTE FUNCTION clew_turn_changed ();
CREATE TRIGGER turn_removed AFTER DELETE ON turns FOR EACH ROW EXECUTE FUNCTION clew_turn_removed ();
CREATE TRIGGER run_added AFTER INSERT OR DELETE ON runs FOR EACH ROW EXECUTE FUNCTION clew_run_changed ();
CREATE TRIGGER run_changed AFTER UPDATE OF cost_usd ON runs FOR EACH ROW
    WHEN (old.cost_usd IS DISTINCT FROM new.cost_usd) EXECUTE FUNCTION clew_run_changed ();
