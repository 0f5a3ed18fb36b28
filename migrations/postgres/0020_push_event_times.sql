-- Pushes are listed by when they happened, not by when they were learned of: a backfill brings old ones.
CREATE INDEX push_events_at ON push_events (coalesce(github_created_at, created_at), id);
CREATE INDEX push_events_repository_at
    ON push_events (repository_id, coalesce(github_created_at, created_at), id);
CREATE INDEX push_events_actor_at
    ON push_events (actor_id, coalesce(github_created_at, created_at), id);
-- Only the list of a person's pushes was read by it.
DROP INDEX push_events_actor;
