-- What GitHub wrote, as JSON, under the names that tables of jsonb have on Postgres. SQLite reads JSON from
-- the text, so nothing is kept twice.
CREATE VIEW push_events_json AS
    SELECT id, CASE WHEN json_valid(raw) THEN raw END AS raw FROM push_events;
CREATE VIEW github_users_json AS
    SELECT id, CASE WHEN json_valid(raw) THEN raw END AS raw FROM github_users;
CREATE VIEW github_repositories_json AS
    SELECT id, CASE WHEN json_valid(raw) THEN raw END AS raw,
        CASE WHEN json_valid(topics) THEN topics END AS topics FROM github_repositories;
