-- What is held until its proof arrives: one row per entry, rewritten whole when it changes.
-- Times are milliseconds since 1970, UTC.
CREATE TABLE purgatory (
    class TEXT NOT NULL,
    key TEXT NOT NULL,
    identifier TEXT NOT NULL,
    payload TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (class, key)
);
