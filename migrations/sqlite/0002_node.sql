-- Several nodes may share a server: each has held entries of its own. In a file there is one
-- node, and it has no name.
CREATE TABLE purgatory_by_node (
    node TEXT NOT NULL DEFAULT '',
    class TEXT NOT NULL,
    key TEXT NOT NULL,
    identifier TEXT NOT NULL,
    payload TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (node, class, key)
);
INSERT INTO purgatory_by_node (class, key, identifier, payload, expires_at)
SELECT class, key, identifier, payload, expires_at FROM purgatory;
DROP TABLE purgatory;
ALTER TABLE purgatory_by_node RENAME TO purgatory;
