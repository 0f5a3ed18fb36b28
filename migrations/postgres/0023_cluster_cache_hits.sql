-- Requests of clients since a node started, by whether all packs that they needed were on its disk.
ALTER TABLE cluster_nodes ADD COLUMN cache_hits BIGINT NOT NULL DEFAULT 0;
ALTER TABLE cluster_nodes ADD COLUMN cache_misses BIGINT NOT NULL DEFAULT 0;
