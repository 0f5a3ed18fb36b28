-- Work to be done later, by whoever takes it. Times are milliseconds since 1970.
CREATE TABLE queue (
    -- Never used twice, so that a lease of a removed job fits no later one.
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    payload TEXT NOT NULL,
    -- When it is due; while it is worked on, when the lease ends.
    visible_at BIGINT NOT NULL,
    -- Counts the claims: a finish or failure must name the latest.
    lease_token BIGINT NOT NULL DEFAULT 0,
    -- Who works on it, or did when the lease ran out.
    holder TEXT,
    -- When it is due again, asked for while it was worked on.
    again_at BIGINT,
    period_ms BIGINT,
    attempts BIGINT NOT NULL DEFAULT 0,
    limited BIGINT NOT NULL DEFAULT 0,
    last_error TEXT,
    dead_at BIGINT,
    enqueued_at BIGINT NOT NULL,
    UNIQUE (kind, key)
);
CREATE INDEX queue_due ON queue (kind, visible_at);
CREATE INDEX queue_dead ON queue (dead_at) WHERE dead_at IS NOT NULL;
