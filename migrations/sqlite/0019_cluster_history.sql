-- Histories of a cluster's log, told apart: each record has a digest of itself and of all before it.
-- Empty where a record was written without.
ALTER TABLE cluster_log ADD COLUMN digest TEXT NOT NULL DEFAULT '';
-- That of the last record.
ALTER TABLE clusters ADD COLUMN digest TEXT NOT NULL DEFAULT '';
-- The last record that is in a snapshot alone.
ALTER TABLE clusters ADD COLUMN trimmed BIGINT NOT NULL DEFAULT 0;

-- Objects that lead an empty copy to where the log had led.
CREATE TABLE cluster_snapshots (
    cluster TEXT NOT NULL,
    -- The last record that is in it, and the digest of that.
    seq BIGINT NOT NULL,
    digest TEXT NOT NULL,
    -- Names it in the object store.
    object TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    made_at BIGINT NOT NULL,
    PRIMARY KEY (cluster, seq)
);
