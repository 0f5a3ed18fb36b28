-- The checksum database: a log of the sums that each version of a module had when it was first
-- served. Hashes are base64. Times are milliseconds since 1970.

-- The right edge of the log. Who appends holds this row until the commit.
CREATE TABLE sumdb_log (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    -- The key that heads are signed with, under the name of the database; set once.
    verifier TEXT,
    size BIGINT NOT NULL,
    -- Roots of the complete subtrees, the largest first, separated by spaces.
    frontier TEXT NOT NULL,
    root TEXT NOT NULL
);
INSERT INTO sumdb_log (id, verifier, size, frontier, root)
VALUES (1, NULL, 0, '', '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=');

CREATE TABLE sumdb_records (
    id BIGINT PRIMARY KEY,
    path TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    zip_sum TEXT NOT NULL,
    go_mod_sum TEXT NOT NULL,
    record_hash TEXT NOT NULL,
    -- Where these sums were found; no part of the record.
    org_repo_name TEXT COLLATE "C" NOT NULL,
    tag_name TEXT COLLATE "C",
    commit_oid TEXT NOT NULL,
    logged_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX sumdb_records_path ON sumdb_records (path, version);
CREATE INDEX sumdb_records_repo ON sumdb_records (org_repo_name);

-- Nodes over 256 records, 65536, and so on: what the tiles above the lowest consist of.
CREATE TABLE sumdb_nodes (
    level BIGINT NOT NULL,
    number BIGINT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (level, number)
);

-- Versions whose tag leads to another commit than the one that was logged.
CREATE TABLE sumdb_moves (
    path TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    org_repo_name TEXT COLLATE "C" NOT NULL,
    tag_name TEXT COLLATE "C" NOT NULL,
    commit_oid TEXT NOT NULL,
    logged_oid TEXT NOT NULL,
    seen_at BIGINT NOT NULL,
    -- 1 once the sums there were compared, and differ.
    differs BIGINT NOT NULL,
    PRIMARY KEY (path, version)
);
CREATE INDEX sumdb_moves_seen ON sumdb_moves (differs, seen_at);

-- How far each node has gone through the feed.
CREATE TABLE sumdb_progress (
    node TEXT COLLATE "C" PRIMARY KEY,
    first_seen_ns BIGINT NOT NULL
);
