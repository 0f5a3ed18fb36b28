-- A push that came by a webhook and by a list of events is one row that knows both names.
ALTER TABLE push_events ADD COLUMN event_id TEXT;
ALTER TABLE push_events ADD COLUMN delivery_id TEXT;
UPDATE push_events SET event_id = id WHERE id NOT LIKE 'delivery %';
UPDATE push_events SET delivery_id = substr(id, 10) WHERE id LIKE 'delivery %';
-- Both hold few rows: deliveries whose event has not come yet, and those whose event has.
CREATE INDEX push_events_lone ON push_events (head) WHERE event_id IS NULL;
CREATE UNIQUE INDEX push_events_paired ON push_events (event_id) WHERE event_id <> id;
