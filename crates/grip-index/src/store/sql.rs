//! The statements.

/// Columns of the feed, in the order of [`super::Entry`].
macro_rules! entry {
    ($rest:literal) => {
        concat!(
            "SELECT path, version, first_seen_ns, created, (SELECT last_ns FROM index_clock) \
             FROM index_versions ",
            $rest
        )
    };
}

/// The same among those below a path ($1: the path, $2: with a slash, $3: the next after that),
/// found by path and then put in order: for few.
macro_rules! few {
    ($rest:literal) => {
        concat!(
            "WITH hits AS MATERIALIZED (SELECT path, version, first_seen_ns, created \
             FROM index_versions \
             WHERE path >= $1 AND path < $3 AND (path = $1 OR path >= $2)) \
             SELECT path, version, first_seen_ns, created, (SELECT last_ns FROM index_clock) \
             FROM hits ",
            $rest
        )
    };
}

/// The same, found in order and looked at one by one: for many. The empty text keeps the planner
/// from going by path.
macro_rules! many {
    ($rest:literal) => {
        concat!(
            "SELECT path, version, first_seen_ns, created, (SELECT last_ns FROM index_clock) \
             FROM index_versions \
             WHERE path || '' >= $1 AND path || '' < $3 AND (path = $1 OR path || '' >= $2) ",
            $rest
        )
    };
}

grip_db::statements! {
    pub(crate) mod sql {
        // Sources and their listings.
        ADD_SOURCE = "INSERT INTO repo_indexing (source) VALUES ($1) ON CONFLICT DO NOTHING";
        BEGIN_LISTING = "UPDATE repo_indexing SET indexing_began = $2 WHERE source = $1 \
                         RETURNING listings, next_page, found";
        PAGE_LISTED = "UPDATE repo_indexing SET next_page = $2, found = found + $3 \
                       WHERE source = $1";
        FORGET_PAGE = "UPDATE repo_indexing SET next_page = NULL, found = 0 WHERE source = $1";
        END_LISTING = "UPDATE repo_indexing SET next_page = NULL, found = 0, \
                       listings = listings + 1, indexing_finished = $2 WHERE source = $1";
        ADD_REPOS = "INSERT INTO repos (org_repo_name) SELECT rows.name FROM {rows $1: name text} \
                     WHERE TRUE ON CONFLICT (org_repo_name) DO UPDATE SET gone_at = NULL \
                     WHERE repos.gone_at IS NOT NULL RETURNING org_repo_name";
        ADD_MEMBERS = "INSERT INTO repo_sources (source, org_repo_name, listing) \
                       SELECT $2, rows.name, $3 FROM {rows $1: name text} WHERE TRUE \
                       ON CONFLICT (source, org_repo_name) DO NOTHING RETURNING org_repo_name";
        SEE_MEMBERS = "UPDATE repo_sources SET listing = $3 WHERE source = $2 AND listing < $3 \
                       AND org_repo_name {in $1}";
        // Those named apart from the listings count as in the latest.
        NAME_MEMBERS = "INSERT INTO repo_sources (source, org_repo_name, listing) \
                        SELECT i.source, rows.name, i.listings FROM {rows $1: name text} \
                        CROSS JOIN repo_indexing AS i WHERE i.source = $2 \
                        ON CONFLICT (source, org_repo_name) DO UPDATE \
                        SET listing = excluded.listing WHERE repo_sources.listing < excluded.listing";
        MISSED = "SELECT org_repo_name FROM repo_sources \
                  WHERE source = $1 AND org_repo_name > $2 AND listing < $3 \
                  ORDER BY org_repo_name LIMIT $4";
        DROP_MISSED = "DELETE FROM repo_sources WHERE source = $1 AND listing < $2";
        SOURCES = "SELECT source, indexing_began, indexing_finished, listings, next_page, found \
                   FROM repo_indexing ORDER BY source";

        // One repository's turn.
        BEGIN_REPO = "UPDATE repos SET indexing_began = $2 WHERE org_repo_name = $1 \
                      RETURNING etag, policy, indexing_finished";
        SOURCES_OF = "SELECT m.source, CAST(CASE WHEN m.listing < i.listings THEN 1 ELSE 0 END AS BIGINT) \
                      FROM repo_sources AS m JOIN repo_indexing AS i ON i.source = m.source \
                      WHERE m.org_repo_name = $1 ORDER BY m.source";
        TAGS = "SELECT tag_name, object_oid, commit_oid, created, path, version, proven, why, \
                settled FROM repo_tags WHERE org_repo_name = $1 AND tag_name > $2 \
                ORDER BY tag_name LIMIT $3";
        TIMES = "SELECT object_oid, created FROM tag_times \
                 WHERE org_repo_name = $1 AND object_oid {in $2}";
        GO_MODS = "SELECT commit_oid, dir, path, why FROM go_mods \
                   WHERE org_repo_name = $1 AND commit_oid {in $2}";
        ADD_TIMES = "INSERT INTO tag_times (org_repo_name, object_oid, created) \
                     SELECT $1, rows.* FROM {rows $2: oid text, created bigint} \
                     WHERE TRUE ON CONFLICT DO NOTHING";
        ADD_GO_MODS = "INSERT INTO go_mods (org_repo_name, commit_oid, dir, path, why) \
                       SELECT $1, rows.* FROM {rows $2: oid text, dir text, path text, why text} \
                       WHERE TRUE ON CONFLICT DO NOTHING";
        PUT_TAGS = "INSERT INTO repo_tags (org_repo_name, claimed_ns, tag_name, object_oid, \
                        commit_oid, created, path, version, proven, why, settled) \
                    SELECT $1, $2, rows.* FROM {rows $3: tag text, object text, oid text, \
                        created bigint, path text, version text, proven bigint, why text, \
                        settled bigint} WHERE TRUE \
                    ON CONFLICT (org_repo_name, tag_name) DO UPDATE SET \
                        object_oid = excluded.object_oid, commit_oid = excluded.commit_oid, \
                        created = excluded.created, path = excluded.path, \
                        version = excluded.version, proven = excluded.proven, \
                        why = excluded.why, settled = excluded.settled, \
                        claimed_ns = CASE WHEN repo_tags.path = excluded.path \
                            AND repo_tags.version = excluded.version \
                            THEN repo_tags.claimed_ns ELSE excluded.claimed_ns END";
        DROP_TAGS = "DELETE FROM repo_tags WHERE org_repo_name = $1 AND tag_name {in $2}";
        DROP_SOME_TAGS = "DELETE FROM repo_tags WHERE org_repo_name = $1 AND tag_name IN \
                          (SELECT tag_name FROM repo_tags WHERE org_repo_name = $1 \
                          ORDER BY tag_name LIMIT $2) RETURNING path, version";
        // By EXCEPT: NOT IN is quadratic on Postgres, NOT EXISTS on SQLite.
        DROP_TIMES = "DELETE FROM tag_times WHERE org_repo_name = $1 AND object_oid IN \
                      (SELECT object_oid FROM tag_times WHERE org_repo_name = $1 \
                      EXCEPT SELECT object_oid FROM repo_tags WHERE org_repo_name = $1)";
        DROP_GO_MODS = "DELETE FROM go_mods WHERE org_repo_name = $1 AND commit_oid IN \
                        (SELECT commit_oid FROM go_mods WHERE org_repo_name = $1 \
                        EXCEPT SELECT commit_oid FROM repo_tags WHERE org_repo_name = $1)";
        END_REPO = "UPDATE repos SET indexing_finished = $2, etag = $3, policy = $4, \
                    gone_at = NULL, tags = tags + $5, claims = claims + $6 \
                    WHERE org_repo_name = $1";
        // What the source said to recognise the tags by holds for none of the batches alone.
        PART_OF_REPO = "UPDATE repos SET etag = NULL, tags = tags + $2, claims = claims + $3 \
                        WHERE org_repo_name = $1";
        // Of one that never was in the index nothing is left, not even its name.
        FORGET_REPO = "DELETE FROM repos WHERE org_repo_name = $1 AND indexing_finished IS NULL";
        REPO_GONE = "UPDATE repos SET indexing_finished = $2, gone_at = $2, etag = NULL, \
                     policy = NULL, tags = 0, claims = 0 WHERE org_repo_name = $1";
        DROP_MEMBERS = "DELETE FROM repo_sources WHERE org_repo_name = $1";

        // The feed.
        TAKE_CLOCK = "UPDATE index_clock SET last_ns = \
                      CASE WHEN last_ns < $1 THEN $1 ELSE last_ns END + $2 RETURNING last_ns";
        SET_CLOCK = "UPDATE index_clock SET last_ns = $1, versions = versions + $2";
        STAMP = "SELECT last_ns FROM index_clock";
        // Those of this transaction are known without it.
        CLAIMS = "SELECT t.path, t.version, t.org_repo_name, t.tag_name, t.commit_oid, \
                  t.created, t.proven, t.claimed_ns \
                  FROM {rows $2: path text, version text} CROSS JOIN repo_tags AS t \
                  WHERE t.path = rows.path AND t.version = rows.version \
                  AND t.path IS NOT NULL AND t.claimed_ns <> $1";
        LIVE = "SELECT v.first_seen_ns, v.path, v.version, v.created, v.org_repo_name, \
                v.tag_name, v.commit_oid \
                FROM {rows $1: path text, version text} CROSS JOIN index_versions AS v \
                WHERE v.path = rows.path AND v.version = rows.version";
        ADD_VERSIONS = "INSERT INTO index_versions (first_seen_ns, path, version, created, \
                        org_repo_name, tag_name, commit_oid) \
                        SELECT rows.* FROM {rows $1: seen bigint, path text, version text, created bigint, \
                        repo text, tag text, oid text}";
        MOVE_VERSIONS = "UPDATE index_versions SET created = rows.created, org_repo_name = rows.repo, \
                         tag_name = rows.tag, commit_oid = rows.oid \
                         FROM {rows $1: seen bigint, path text, version text, created bigint, \
                         repo text, tag text, oid text} \
                         WHERE index_versions.first_seen_ns = rows.seen";
        DROP_VERSIONS = "DELETE FROM index_versions WHERE first_seen_ns {in $1}";
        ADD_CHANGES = "INSERT INTO index_changes (at_ns, op, path, version, created, \
                       org_repo_name, tag_name, commit_oid, previous_oid) \
                       SELECT rows.* FROM {rows $1: at bigint, op text, path text, version text, \
                       created bigint, repo text, tag text, oid text, previous text}";
        SEEN = (entry!("WHERE first_seen_ns >= $1 ORDER BY first_seen_ns LIMIT $2"));
        CREATED = (entry!("WHERE created >= $1 ORDER BY created DESC, first_seen_ns DESC LIMIT $2"));
        COUNT_BELOW = "SELECT count(*) FROM (SELECT 1 FROM index_versions \
                       WHERE path >= $1 AND path < $3 AND (path = $1 OR path >= $2) LIMIT $4) \
                       AS below";
        FEW_SEEN = (few!("WHERE first_seen_ns >= $4 ORDER BY first_seen_ns LIMIT $5"));
        FEW_CREATED = (few!("WHERE created >= $4 ORDER BY created DESC, first_seen_ns DESC LIMIT $5"));
        MANY_SEEN = (many!("AND first_seen_ns >= $4 ORDER BY first_seen_ns LIMIT $5"));
        MANY_CREATED = (many!("AND created >= $4 ORDER BY created DESC, first_seen_ns DESC LIMIT $5"));
        VERSION = "SELECT path, version, first_seen_ns, created, org_repo_name, tag_name, \
                   commit_oid FROM index_versions WHERE path = $1 AND version = $2";
        VERSIONS = "SELECT path, version, first_seen_ns, created, org_repo_name, tag_name, \
                    commit_oid FROM index_versions WHERE path = $1 ORDER BY version LIMIT $2";
        // With the commit that the version was logged at, where that is another.
        CHANGES = "SELECT c.at_ns, c.op, c.path, c.version, c.created, c.org_repo_name, \
                   c.tag_name, c.commit_oid, c.previous_oid, r.commit_oid AS logged_oid \
                   FROM index_changes AS c LEFT JOIN sumdb_records AS r ON r.path = c.path \
                   AND r.version = c.version AND r.commit_oid <> c.commit_oid \
                   WHERE c.at_ns > $1 ORDER BY c.at_ns LIMIT $2";
        FORGOTTEN = "SELECT forgotten_ns FROM index_clock";
        FORGET = "DELETE FROM index_changes WHERE at_ns IN \
                  (SELECT at_ns FROM index_changes WHERE at_ns < $1 ORDER BY at_ns LIMIT $2) \
                  RETURNING at_ns";
        SET_FORGOTTEN = "UPDATE index_clock SET forgotten_ns = $1 WHERE forgotten_ns < $1";

        // What people ask.
        COUNTS = "SELECT count(*), count(gone_at), count(indexing_finished), \
                  CAST(coalesce(sum(tags), 0) AS BIGINT), \
                  CAST(coalesce(sum(claims), 0) AS BIGINT) FROM repos";
        CLOCK = "SELECT last_ns, versions FROM index_clock";
        COUNT_MEMBERS = "SELECT source, count(*) FROM repo_sources GROUP BY source";
        REPOS = "SELECT org_repo_name, indexing_began, indexing_finished, gone_at, tags, claims \
                 FROM repos WHERE org_repo_name > $1 ORDER BY org_repo_name LIMIT $2";
        REPO = "SELECT org_repo_name, indexing_began, indexing_finished, gone_at, tags, claims \
                FROM repos WHERE org_repo_name = $1";
    }
}
