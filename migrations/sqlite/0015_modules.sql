-- Jobs say what one has to be able to do them, so that instances with other settings leave them alone.
ALTER TABLE queue ADD COLUMN capability TEXT NOT NULL DEFAULT '';
UPDATE queue SET capability = key WHERE kind = 'index-list';
UPDATE queue SET capability = coalesce((SELECT min(s.source) FROM repo_sources AS s
    WHERE s.org_repo_name = queue.key), '') WHERE kind = 'index-repo';
-- In the index itself, so that a claim steps over what it cannot do without reading the rows.
DROP INDEX queue_due;
CREATE INDEX queue_due ON queue (kind, visible_at, capability);

-- Who may see a repository and its versions: 0 anybody, 1 readers of restricted repositories, 2 nobody.
-- `shown` is what its lines in the feed were last written with.
ALTER TABLE repos ADD COLUMN audience BIGINT NOT NULL DEFAULT 0;
ALTER TABLE repos ADD COLUMN shown BIGINT NOT NULL DEFAULT 0;
ALTER TABLE index_versions ADD COLUMN audience BIGINT NOT NULL DEFAULT 0;
ALTER TABLE index_changes ADD COLUMN audience BIGINT NOT NULL DEFAULT 0;
CREATE INDEX index_versions_public ON index_versions (first_seen_ns) WHERE audience = 0;
CREATE INDEX index_versions_public_created ON index_versions (created, first_seen_ns)
    WHERE audience = 0;
CREATE INDEX index_changes_public ON index_changes (at_ns) WHERE audience = 0;

-- When an instance last had the source in its settings, and since when it is known that none has.
ALTER TABLE repo_indexing ADD COLUMN configured_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE repo_indexing ADD COLUMN left_at BIGINT;

-- Tag lists that are read in part, to go on with after a rate limit or a restart.
CREATE TABLE tag_lists (
    org_repo_name TEXT PRIMARY KEY,
    -- Why the repository has its turn: a list of another turn is not gone on with.
    occasion TEXT NOT NULL,
    pages BIGINT NOT NULL,
    -- Where the list goes on; none once it is whole.
    next_page TEXT,
    -- The place and the mark of the latest page.
    last_page TEXT,
    last_mark TEXT,
    -- The marks of all pages as a JSON array; none where one page has none.
    marks TEXT,
    began_at BIGINT NOT NULL
);
CREATE TABLE listed_tags (
    org_repo_name TEXT NOT NULL,
    page BIGINT NOT NULL,
    place BIGINT NOT NULL,
    tag_name TEXT NOT NULL,
    object_oid TEXT NOT NULL,
    commit_oid TEXT NOT NULL,
    PRIMARY KEY (org_repo_name, page, place)
) WITHOUT ROWID;

-- The webhook's id of a delivery that could not be read: without it nobody could read it again.
ALTER TABLE ingest_rejected ADD COLUMN delivery_id TEXT;
-- What was kept aside counts as never come, so that it may be delivered again.
DELETE FROM ingest_deliveries WHERE event = 'push' AND NOT EXISTS
    (SELECT 1 FROM push_events WHERE push_events.delivery_id = ingest_deliveries.id);
