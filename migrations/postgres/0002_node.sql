-- Several nodes share a server: each has held entries of its own.
ALTER TABLE purgatory ADD COLUMN node TEXT NOT NULL DEFAULT '';
ALTER TABLE purgatory DROP CONSTRAINT purgatory_pkey;
ALTER TABLE purgatory ADD PRIMARY KEY (node, class, key);
