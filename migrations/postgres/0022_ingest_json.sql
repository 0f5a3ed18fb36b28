-- What GitHub wrote, as jsonb, beside the text that stays as it came. Triggers keep it, so that instances
-- which do not know these tables write it as well; rows of before are filled by a job.

-- NULL where jsonb cannot hold the value: `\u0000`, half a surrogate pair, a number out of range, too deep.
CREATE FUNCTION jsonb_or_null(value TEXT) RETURNS JSONB LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN value::JSONB;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;

CREATE TABLE push_events_json (
    id TEXT PRIMARY KEY REFERENCES push_events (id) ON DELETE CASCADE,
    raw JSONB
);
CREATE INDEX push_events_json_raw ON push_events_json USING gin (raw jsonb_path_ops);

CREATE TABLE github_users_json (
    id BIGINT PRIMARY KEY REFERENCES github_users (id) ON DELETE CASCADE,
    raw JSONB
);
CREATE INDEX github_users_json_raw ON github_users_json USING gin (raw jsonb_path_ops);

CREATE TABLE github_repositories_json (
    id BIGINT PRIMARY KEY REFERENCES github_repositories (id) ON DELETE CASCADE,
    raw JSONB,
    topics JSONB
);
CREATE INDEX github_repositories_json_raw ON github_repositories_json USING gin (raw jsonb_path_ops);
CREATE INDEX github_repositories_json_topics ON github_repositories_json USING gin (topics);

-- The search path of now: sessions of operators and of restores may have another.
CREATE FUNCTION put_push_events_json() RETURNS TRIGGER LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO push_events_json AS kept (id, raw) VALUES (NEW.id, jsonb_or_null(NEW.raw))
    ON CONFLICT (id) DO UPDATE SET raw = excluded.raw WHERE kept.raw IS DISTINCT FROM excluded.raw;
    RETURN NULL;
END $$;
CREATE FUNCTION put_github_users_json() RETURNS TRIGGER LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO github_users_json AS kept (id, raw) VALUES (NEW.id, jsonb_or_null(NEW.raw))
    ON CONFLICT (id) DO UPDATE SET raw = excluded.raw WHERE kept.raw IS DISTINCT FROM excluded.raw;
    RETURN NULL;
END $$;
CREATE FUNCTION put_github_repositories_json() RETURNS TRIGGER LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO github_repositories_json AS kept (id, raw, topics)
    VALUES (NEW.id, jsonb_or_null(NEW.raw), jsonb_or_null(NEW.topics))
    ON CONFLICT (id) DO UPDATE SET raw = excluded.raw, topics = excluded.topics
    WHERE (kept.raw, kept.topics) IS DISTINCT FROM (excluded.raw, excluded.topics);
    RETURN NULL;
END $$;
CREATE TRIGGER put_json AFTER INSERT OR UPDATE OF raw ON push_events
    FOR EACH ROW EXECUTE FUNCTION put_push_events_json();
CREATE TRIGGER put_json AFTER INSERT OR UPDATE OF raw ON github_users
    FOR EACH ROW EXECUTE FUNCTION put_github_users_json();
CREATE TRIGGER put_json AFTER INSERT OR UPDATE OF raw, topics ON github_repositories
    FOR EACH ROW EXECUTE FUNCTION put_github_repositories_json();
