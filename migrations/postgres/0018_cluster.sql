-- Clusters: several nodes that serve the same repositories. Times are milliseconds since 1970.

-- The leader of each cluster, and the end of its log.
CREATE TABLE clusters (
    name TEXT COLLATE "C" PRIMARY KEY,
    -- Rises with every change of the leader. Part of a key, so that a transaction which shares the
    -- key of the row keeps the epoch and nothing else from changing.
    epoch BIGINT NOT NULL,
    leader TEXT NOT NULL,
    -- Where other nodes reach the leader.
    address TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    -- The last record of the log.
    seq BIGINT NOT NULL,
    -- How many of the records are of this epoch.
    appended BIGINT NOT NULL,
    UNIQUE (name, epoch)
);

-- Every change of events, refs, repositories and packs, in the order in which it was made.
CREATE TABLE cluster_log (
    cluster TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    number BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    payload BYTEA NOT NULL,
    PRIMARY KEY (cluster, seq),
    UNIQUE (cluster, epoch, number)
);

CREATE TABLE cluster_nodes (
    cluster TEXT COLLATE "C" NOT NULL,
    node TEXT COLLATE "C" NOT NULL,
    address TEXT NOT NULL,
    -- Up to where it has applied the log.
    seq BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (cluster, node)
);

-- Keys that all nodes of a cluster have in their data directories, hexadecimal.
CREATE TABLE cluster_keys (
    cluster TEXT COLLATE "C" NOT NULL,
    file TEXT COLLATE "C" NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (cluster, file)
);
