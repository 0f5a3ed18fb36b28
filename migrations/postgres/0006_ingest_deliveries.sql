-- Webhook deliveries that were taken in, so that none is taken twice. Times are milliseconds
-- since 1970.
CREATE TABLE ingest_deliveries (
    -- GitHub's id of the delivery.
    id TEXT PRIMARY KEY,
    event TEXT NOT NULL,
    at BIGINT NOT NULL
);
CREATE INDEX ingest_deliveries_at ON ingest_deliveries (at);
