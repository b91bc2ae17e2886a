-- What a pair remembers of the files tells one state of them from another, and holds nothing that stands in them.

-- What was kept until now held their contents. Without it nothing is told of the first resume after this.
DROP TABLE pair_files;

CREATE TABLE pair_files (
    pair_id TEXT NOT NULL PRIMARY KEY REFERENCES pairs (id) ON DELETE CASCADE,
    run_id TEXT,
    base_commit TEXT,
    -- JSON: by name, [size, time of the last change, digest].
    files TEXT NOT NULL
);
