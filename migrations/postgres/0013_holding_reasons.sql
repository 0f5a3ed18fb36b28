-- Why an event was taken out of service (nip09, blacklist, whitelist), and which repository it belongs
-- to (`npub/identifier.git`), if any.
ALTER TABLE holding ADD COLUMN reason TEXT NOT NULL DEFAULT 'blacklist';
ALTER TABLE holding ADD COLUMN coordinate TEXT NOT NULL DEFAULT '';
CREATE INDEX holding_coordinate ON holding (node, coordinate);
