-- Removal of what nothing names any more from the object store of a cluster. Times are milliseconds since
-- 1970.

-- Part of the names that files are stored under from now on: it rises, so that no file which may be removed
-- at any moment is ever named again.
ALTER TABLE clusters ADD COLUMN generation BIGINT NOT NULL DEFAULT 0;
-- What was in the object store when it was last looked through.
ALTER TABLE clusters ADD COLUMN stored_files BIGINT NOT NULL DEFAULT 0;
ALTER TABLE clusters ADD COLUMN stored_bytes BIGINT NOT NULL DEFAULT 0;

-- Files of the object store that no record and no snapshot names.
CREATE TABLE cluster_unneeded (
    cluster TEXT COLLATE "C" NOT NULL,
    -- Names it in the object store.
    object TEXT COLLATE "C" NOT NULL,
    size_bytes BIGINT NOT NULL,
    -- When it was first found so, and the last record of the log at that time.
    since BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (cluster, object)
);
