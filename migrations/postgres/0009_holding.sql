-- Events that the operator's rules took out of service, kept to be brought back when the rules change.
-- Times are milliseconds since 1970, UTC.
CREATE TABLE holding (
    node TEXT NOT NULL,
    id TEXT NOT NULL,
    author TEXT NOT NULL,
    event TEXT NOT NULL,
    held_at BIGINT NOT NULL,
    PRIMARY KEY (node, id)
);
CREATE INDEX holding_author ON holding (node, author);
