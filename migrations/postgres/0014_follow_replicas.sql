-- What each node knows of the replicas of its repositories on other servers.
CREATE TABLE follow_replicas (
    node TEXT NOT NULL,
    -- npub/identifier.git
    repo TEXT NOT NULL,
    -- JSON
    replicas TEXT NOT NULL,
    -- Milliseconds since 1970.
    saved_at BIGINT NOT NULL,
    PRIMARY KEY (node, repo)
);

-- How all that a relay has differs from what is here of what is wanted of it (JSON).
ALTER TABLE follow_relays ADD COLUMN everything TEXT NOT NULL DEFAULT '';
