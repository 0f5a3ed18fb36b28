-- What each node remembers of the relays it follows: progress, pauses, health.
CREATE TABLE follow_relays (
    node TEXT NOT NULL,
    relay TEXT NOT NULL,
    -- JSON
    memory TEXT NOT NULL,
    -- Milliseconds since 1970.
    saved_at BIGINT NOT NULL,
    PRIMARY KEY (node, relay)
);
