-- The index of module versions. Times are milliseconds since 1970, and nanoseconds where named so.
-- Names are ordered by their bytes, as in a file.

-- The listing of each source's repositories.
CREATE TABLE repo_indexing (
    source TEXT COLLATE "C" PRIMARY KEY,
    indexing_began BIGINT,
    indexing_finished BIGINT,
    -- How often all of it was listed.
    listings BIGINT NOT NULL DEFAULT 0,
    -- Where the listing under way goes on after an interruption, and what it has found so far.
    next_page TEXT,
    found BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE repos (
    -- Such as "github.com/corp/my-repo".
    org_repo_name TEXT COLLATE "C" PRIMARY KEY,
    indexing_began BIGINT,
    indexing_finished BIGINT,
    -- Since when there is no such repository any more.
    gone_at BIGINT,
    -- What the source said to recognise the same tags by, and how they were judged.
    etag TEXT,
    policy TEXT,
    tags BIGINT NOT NULL DEFAULT 0,
    -- Tags that claim a version of a module.
    claims BIGINT NOT NULL DEFAULT 0
);

-- Who lists a repository, and the latest listing it was in.
CREATE TABLE repo_sources (
    source TEXT COLLATE "C" NOT NULL,
    org_repo_name TEXT COLLATE "C" NOT NULL,
    listing BIGINT NOT NULL,
    PRIMARY KEY (source, org_repo_name)
);
CREATE INDEX repo_sources_repo ON repo_sources (org_repo_name);

-- Of the repositories above; a reference would have each row of a hundred thousand looked up.
CREATE TABLE repo_tags (
    org_repo_name TEXT COLLATE "C" NOT NULL,
    tag_name TEXT COLLATE "C" NOT NULL,
    object_oid TEXT NOT NULL,
    commit_oid TEXT NOT NULL,
    -- When the tag was made; not asked for tags that claim nothing.
    created BIGINT,
    -- The version it claims, whether its place proves that, and since when it does.
    path TEXT COLLATE "C",
    version TEXT COLLATE "C",
    proven BIGINT NOT NULL,
    claimed_ns BIGINT,
    -- Why it claims none, where its name says a version; 0 if that is to be asked again.
    why TEXT,
    settled BIGINT NOT NULL,
    PRIMARY KEY (org_repo_name, tag_name)
);
CREATE INDEX repo_tags_claims ON repo_tags (path, version) WHERE path IS NOT NULL;

-- What was learned about the insides of a repository, so that it is asked once.
CREATE TABLE tag_times (
    org_repo_name TEXT COLLATE "C" NOT NULL,
    object_oid TEXT NOT NULL,
    created BIGINT NOT NULL,
    PRIMARY KEY (org_repo_name, object_oid)
);
CREATE TABLE go_mods (
    org_repo_name TEXT COLLATE "C" NOT NULL,
    commit_oid TEXT NOT NULL,
    dir TEXT COLLATE "C" NOT NULL,
    -- The module it names, or why it names none; neither where there is no such file.
    path TEXT COLLATE "C",
    why TEXT,
    PRIMARY KEY (org_repo_name, commit_oid, dir)
);

-- The feed.
CREATE TABLE index_versions (
    first_seen_ns BIGINT PRIMARY KEY,
    path TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    org_repo_name TEXT COLLATE "C" NOT NULL,
    tag_name TEXT COLLATE "C" NOT NULL,
    commit_oid TEXT NOT NULL
);
CREATE UNIQUE INDEX index_versions_path ON index_versions (path, version);
CREATE INDEX index_versions_created ON index_versions (created, first_seen_ns);

CREATE TABLE index_changes (
    at_ns BIGINT PRIMARY KEY,
    op TEXT NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    org_repo_name TEXT COLLATE "C" NOT NULL,
    tag_name TEXT COLLATE "C" NOT NULL,
    commit_oid TEXT NOT NULL,
    previous_oid TEXT
);

-- The latest moment given out. Who changes the feed holds this row until the commit.
CREATE TABLE index_clock (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    last_ns BIGINT NOT NULL,
    versions BIGINT NOT NULL,
    -- Changes up to here are no longer kept.
    forgotten_ns BIGINT NOT NULL
);
INSERT INTO index_clock (id, last_ns, versions, forgotten_ns) VALUES (1, 0, 0, 0);
