//! The statements that do not depend on the list of fields.

/// When a push happened; when it was learned of, where GitHub does not say. Indexes are over these
/// very words.
macro_rules! event_time {
    () => {
        "coalesce(github_created_at, created_at)"
    };
}

/// A page of events, the latest first: $1, $2 where it begins, $3 how many.
macro_rules! page {
    ($wanted:literal) => {
        concat!(
            "SELECT id, event_id, delivery_id, actor_id, actor_login, repository_id, \
             repository_name, push_id, ref AS git_ref, head, \"before\", github_created_at, source, created_at, raw \
             FROM push_events WHERE (",
            event_time!(),
            ", id) < ($1, $2) ",
            $wanted,
            " ORDER BY ",
            event_time!(),
            " DESC, id DESC LIMIT $3"
        )
    };
}

/// People or repositories that nobody needs any more: $1 fetched before, $2 events kept from.
macro_rules! unneeded {
    ($table:literal, $column:literal) => {
        concat!(
            " FROM ",
            $table,
            " WHERE fetched_at < $1 AND NOT EXISTS (SELECT 1 FROM push_events \
             WHERE push_events.",
            $column,
            " = ",
            $table,
            ".id AND push_events.created_at >= $2)"
        )
    };
}

macro_rules! drop_unneeded {
    ($table:literal, $column:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE id IN (SELECT id",
            unneeded!($table, $column),
            " LIMIT $3)"
        )
    };
}

/// Fills `jsonb` in for a page of rows: $1 the row before it, as text, $2 how many; says which row was
/// the last, and how many there were. The rows cannot be deleted before the commit; what somebody else
/// writes meanwhile is newer, and stays. On SQLite, where views do this, nothing is left to be filled.
macro_rules! fill_json {
    ($table:literal, $id:literal, $columns:literal, $values:literal) => {
        concat!(
            "WITH page AS (SELECT id, ",
            $columns,
            " FROM ",
            $table,
            " WHERE id > ",
            $id,
            " ORDER BY id LIMIT $2 FOR KEY SHARE), filled AS (INSERT INTO ",
            $table,
            "_json (id, ",
            $columns,
            ") SELECT id, ",
            $values,
            " FROM page WHERE NOT EXISTS (SELECT 1 FROM ",
            $table,
            "_json AS kept WHERE kept.id = page.id) ON CONFLICT DO NOTHING) \
             SELECT CAST(max(id) AS TEXT), count(*) FROM page"
        )
    };
}

grip_db::statements! {
    pub(crate) mod sql {
        // Events. $source, $now, then the rows.
        ADD_EVENTS = "INSERT INTO push_events (id, actor_id, actor_login, repository_id, \
                          repository_name, push_id, ref, head, \"before\", github_created_at, raw, \
                          event_id, delivery_id, source, created_at, updated_at) \
                      SELECT rows.*, CASE WHEN rows.id NOT LIKE 'delivery %' THEN rows.id END, \
                          CASE WHEN rows.id LIKE 'delivery %' THEN substr(rows.id, 10) END, $1, $2, $2 \
                      FROM {rows $3: id text, actor_id bigint, actor_login text, repository_id bigint, \
                          repository_name text, push_id bigint, ref text, head text, before text, \
                          at bigint, raw text} WHERE TRUE \
                      ON CONFLICT (id) DO NOTHING RETURNING id";
        EVENT = "SELECT raw, created_at FROM push_events WHERE id = $1";
        EVENTS = (page!(""));
        EVENTS_OF_REPOSITORY = (page!("AND repository_id = $4"));
        EVENTS_OF_ACTOR = (page!("AND actor_id = $4"));
        // What cannot be read. $source, $now, then the rows.
        REJECT = "INSERT INTO ingest_rejected (digest, reason, raw, bytes, delivery_id, source, \
                      times, first_at, last_at) \
                  SELECT rows.*, $1, 1, $2, $2 \
                  FROM {rows $3: digest text, reason text, raw text, bytes bigint, \
                      delivery text} WHERE TRUE \
                  ON CONFLICT (digest) DO UPDATE SET times = ingest_rejected.times + 1, \
                      last_at = excluded.last_at RETURNING digest, times";
        REJECTED = "SELECT digest, source, raw, bytes, delivery_id FROM ingest_rejected \
                    WHERE digest > $1 ORDER BY digest LIMIT $2";
        REJECTED_LATELY = "SELECT source, reason, times, bytes, last_at FROM ingest_rejected \
                           ORDER BY last_at DESC LIMIT $1";
        FORGET_REJECTED = "DELETE FROM ingest_rejected WHERE digest {in $1}";
        // $source, then the rows.
        COUNT = "INSERT INTO ingest_counts (type, count, source) \
                 SELECT rows.*, $1 FROM {rows $2: type text, count bigint} WHERE TRUE \
                 ON CONFLICT (source, type) DO UPDATE \
                 SET count = ingest_counts.count + excluded.count";
        COUNTS = "SELECT source, type, count FROM ingest_counts ORDER BY source, type";

        // Lists that are read again and again.
        ADD_SOURCE = "INSERT INTO ingest_sources (source) VALUES ($1) ON CONFLICT DO NOTHING";
        SOURCE = "SELECT source, etag, poll_interval_ms, recent, newest_id, newest_at, polled_at, \
                  changed_at, polls, gaps FROM ingest_sources WHERE source = $1";
        SOURCES = "SELECT source, etag, poll_interval_ms, recent, newest_id, newest_at, polled_at, \
                   changed_at, polls, gaps FROM ingest_sources ORDER BY source";
        UNCHANGED = "UPDATE ingest_sources SET polled_at = $2, polls = polls + 1 \
                     WHERE source = $1";
        CHANGED = "UPDATE ingest_sources SET polled_at = $2, changed_at = $2, polls = polls + 1, \
                   etag = $3, poll_interval_ms = $4, recent = $5, newest_id = $6, newest_at = $7, \
                   gaps = gaps + $8 WHERE source = $1";

        // Holes.
        ADD_GAP = "INSERT INTO ingest_gaps (source, after_id, after_at, before_id, before_at, \
                   found_at) VALUES ($1, $2, $3, $4, $5, $6)";
        GAPS = "SELECT id, source, after_id, after_at, before_id, before_at, found_at, closed_at, \
                closed_by FROM ingest_gaps WHERE id > $1 ORDER BY id LIMIT $2";
        OPEN_GAPS = "SELECT id, source, after_id, after_at, before_id, before_at, found_at, \
                     closed_at, closed_by FROM ingest_gaps \
                     WHERE id > $1 AND closed_at IS NULL ORDER BY id LIMIT $2";
        // Those that lie within a time of which everything is known: $from, $to, $now, $by.
        CLOSE_GAPS = "UPDATE ingest_gaps SET closed_at = $3, closed_by = $4 \
                      WHERE closed_at IS NULL AND after_at >= $1 AND before_at <= $2";

        // People and repositories.
        KNOWN_USER = "SELECT login AS name, etag, fetched_at FROM github_users WHERE id = $1";
        KNOWN_REPOSITORY = "SELECT full_name AS name, etag, fetched_at FROM github_repositories \
                            WHERE id = $1";
        TOUCH_USER = "UPDATE github_users SET fetched_at = $2 WHERE id = $1";
        TOUCH_REPOSITORY = "UPDATE github_repositories SET fetched_at = $2 WHERE id = $1";
        USER = "SELECT * FROM github_users WHERE id = $1";
        USER_BY_LOGIN = "SELECT * FROM github_users WHERE lower(login) = $1 \
                         ORDER BY fetched_at DESC LIMIT 1";
        REPOSITORY = "SELECT * FROM github_repositories WHERE id = $1";
        REPOSITORY_BY_NAME = "SELECT * FROM github_repositories WHERE lower(full_name) = $1 \
                              ORDER BY fetched_at DESC LIMIT 1";
        TOTALS = "SELECT (SELECT count(*) FROM github_users) AS users, \
                  (SELECT count(*) FROM github_repositories) AS repositories, \
                  (SELECT count(*) FROM ingest_rejected) AS rejected, \
                  (SELECT count(*) FROM ingest_gaps WHERE closed_at IS NULL) AS open_gaps, \
                  (SELECT count(*) FROM push_events WHERE created_at >= $1) AS pushes_since, \
                  (SELECT min(created_at) FROM push_events) AS first_at, \
                  (SELECT max(created_at) FROM push_events) AS last_at";

        // Retention: each counts and drops the same rows.
        OLD_EVENTS = "SELECT count(*) FROM push_events WHERE created_at < $1";
        DROP_EVENTS = "DELETE FROM push_events WHERE id IN (SELECT id FROM push_events \
                       WHERE created_at < $1 ORDER BY created_at LIMIT $2)";
        OLD_USERS = (concat!("SELECT count(*)", unneeded!("github_users", "actor_id")));
        DROP_USERS = (drop_unneeded!("github_users", "actor_id"));
        OLD_REPOSITORIES =
            (concat!("SELECT count(*)", unneeded!("github_repositories", "repository_id")));
        DROP_REPOSITORIES = (drop_unneeded!("github_repositories", "repository_id"));
        OLD_REJECTED = "SELECT count(*) FROM ingest_rejected WHERE last_at < $1";
        DROP_REJECTED = "DELETE FROM ingest_rejected WHERE digest IN (SELECT digest \
                         FROM ingest_rejected WHERE last_at < $1 ORDER BY last_at LIMIT $2)";
        OLD_CLOSED_GAPS = "SELECT count(*) FROM ingest_gaps WHERE closed_at < $1";
        DROP_CLOSED_GAPS = "DELETE FROM ingest_gaps WHERE id IN (SELECT id FROM ingest_gaps \
                            WHERE closed_at < $1 LIMIT $2)";
        OLD_OPEN_GAPS = "SELECT count(*) FROM ingest_gaps \
                         WHERE closed_at IS NULL AND found_at < $1";
        DROP_OPEN_GAPS = "DELETE FROM ingest_gaps WHERE id IN (SELECT id FROM ingest_gaps \
                          WHERE closed_at IS NULL AND found_at < $1 LIMIT $2)";

        // Long work.
        BEGIN_WORK = "INSERT INTO ingest_work (work, place, done, failed, began_at, updated_at) \
                      VALUES ($1, '', 0, 0, $2, $2) ON CONFLICT (work) DO UPDATE SET \
                      place = '', done = 0, failed = 0, began_at = excluded.began_at, \
                      updated_at = excluded.updated_at, finished_at = NULL";
        WORK = "SELECT work, place, done, failed, began_at, updated_at, finished_at \
                FROM ingest_work WHERE work = $1";
        ALL_WORK = "SELECT work, place, done, failed, began_at, updated_at, finished_at \
                    FROM ingest_work ORDER BY work";
        // $work, $place, $done more, $failed more, $now, $finished or null
        STEP_WORK = "UPDATE ingest_work SET place = $2, done = done + $3, failed = failed + $4, \
                     updated_at = $5, finished_at = $6 WHERE work = $1";
        RAW_EVENTS = "SELECT id, raw, updated_at FROM push_events WHERE id > $1 \
                      ORDER BY id LIMIT $2";
        RAW_USERS = "SELECT id, raw, updated_at FROM github_users WHERE id > $1 \
                     ORDER BY id LIMIT $2";
        RAW_REPOSITORIES = "SELECT id, raw, updated_at FROM github_repositories WHERE id > $1 \
                            ORDER BY id LIMIT $2";
        FILL_EVENTS_JSON = {
            sqlite: "SELECT NULL, 0 WHERE $1 = $2",
            postgres: fill_json!("push_events", "$1", "raw", "jsonb_or_null(raw)"),
        };
        FILL_USERS_JSON = {
            sqlite: "SELECT NULL, 0 WHERE $1 = $2",
            postgres: fill_json!("github_users", "coalesce(CAST(nullif($1, '') AS BIGINT), 0)", "raw", "jsonb_or_null(raw)"),
        };
        FILL_REPOSITORIES_JSON = {
            sqlite: "SELECT NULL, 0 WHERE $1 = $2",
            postgres: fill_json!("github_repositories", "coalesce(CAST(nullif($1, '') AS BIGINT), 0)", "raw, topics",
                "jsonb_or_null(raw), jsonb_or_null(topics)"),
        };
    }
}

pub(crate) use sql::*;
