-- Modules of other hosts that this node serves.

-- The sums that versions of restricted repositories had when they were first served. They are in no
-- log, because that is public; a version stays what it was all the same.
CREATE TABLE sumdb_restricted (
    path TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    zip_sum TEXT NOT NULL,
    go_mod_sum TEXT NOT NULL,
    org_repo_name TEXT COLLATE "C" NOT NULL,
    tag_name TEXT COLLATE "C",
    commit_oid TEXT NOT NULL,
    -- In milliseconds since 1970.
    logged_at BIGINT NOT NULL,
    PRIMARY KEY (path, version)
);

-- What anybody may see below a path.
CREATE INDEX index_versions_public_path ON index_versions (path) WHERE audience = 0;

-- What not everybody may see, to be left out of totals.
CREATE INDEX index_versions_restricted ON index_versions (audience) WHERE audience <> 0;
CREATE INDEX repos_restricted ON repos (org_repo_name) WHERE audience <> 0;
