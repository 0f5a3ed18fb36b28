-- Work to be done later, by whoever takes it. Times are milliseconds since 1970.
CREATE TABLE queue (
    -- Never used twice, so that a lease of a removed job fits no later one.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    payload TEXT NOT NULL,
    -- When it is due; while it is worked on, when the lease ends.
    visible_at BIGINT NOT NULL,
    -- Changes with each claim and with each end of one: only who knows it may end the lease.
    lease_token BIGINT NOT NULL DEFAULT 0,
    -- Who works on it, or did when the lease ran out; nobody once the lease was ended.
    holder TEXT,
    -- When it is due again, asked for while it was worked on.
    again_at BIGINT,
    period_ms BIGINT,
    -- Failures in a row, those for a rate limit, and leases that ran out.
    attempts BIGINT NOT NULL DEFAULT 0,
    limited BIGINT NOT NULL DEFAULT 0,
    lost BIGINT NOT NULL DEFAULT 0,
    -- How often it was asked for again.
    asked BIGINT NOT NULL DEFAULT 0,
    last_error TEXT,
    -- When it was given up; `visible_at` is then the end of time, so that no claim sees it.
    dead_at BIGINT,
    enqueued_at BIGINT NOT NULL,
    UNIQUE (kind, key)
);
CREATE INDEX queue_due ON queue (kind, visible_at);
CREATE INDEX queue_dead ON queue (id) WHERE dead_at IS NOT NULL;
