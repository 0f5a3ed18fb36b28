-- What operators tell the resolver. Times are milliseconds since 1970.

-- Manifests that are kept and provided whatever becomes of the repository.
CREATE TABLE resolve_pins (
    -- b3:<hex>
    id TEXT PRIMARY KEY,
    -- <npub>/<identifier>
    name TEXT NOT NULL,
    -- The canonical bytes, which are JSON.
    manifest TEXT NOT NULL,
    pinned_by TEXT NOT NULL,
    pinned_at BIGINT NOT NULL
);
CREATE INDEX resolve_pins_name ON resolve_pins (name);

-- One row for everything that an operator changed.
CREATE TABLE resolve_audit (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    outcome TEXT NOT NULL,
    correlation TEXT
);

-- Orders that were carried out, so that one sent twice is done once.
CREATE TABLE resolve_orders (
    actor TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    outcome TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (actor, idempotency_key)
);
CREATE INDEX resolve_orders_at ON resolve_orders (at);
