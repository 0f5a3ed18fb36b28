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
        ADD_REPOS = {
            sqlite: "INSERT INTO repos (org_repo_name) SELECT value FROM json_each($1) WHERE TRUE \
                     ON CONFLICT (org_repo_name) DO UPDATE SET gone_at = NULL \
                     WHERE repos.gone_at IS NOT NULL RETURNING org_repo_name",
            postgres: "INSERT INTO repos (org_repo_name) SELECT * FROM UNNEST($1::text[]) \
                       ON CONFLICT (org_repo_name) DO UPDATE SET gone_at = NULL \
                       WHERE repos.gone_at IS NOT NULL RETURNING org_repo_name",
        };
        ADD_MEMBERS = {
            sqlite: "INSERT INTO repo_sources (source, org_repo_name, listing) \
                     SELECT $2, value, $3 FROM json_each($1) WHERE TRUE \
                     ON CONFLICT (source, org_repo_name) DO NOTHING RETURNING org_repo_name",
            postgres: "INSERT INTO repo_sources (source, org_repo_name, listing) \
                       SELECT $2, name, $3 FROM UNNEST($1::text[]) AS listed (name) \
                       ON CONFLICT (source, org_repo_name) DO NOTHING RETURNING org_repo_name",
        };
        SEE_MEMBERS = {
            sqlite: "UPDATE repo_sources SET listing = $3 WHERE source = $2 AND listing < $3 \
                     AND org_repo_name IN (SELECT value FROM json_each($1))",
            postgres: "UPDATE repo_sources SET listing = $3 WHERE source = $2 AND listing < $3 \
                       AND org_repo_name = ANY($1)",
        };
        // Those named apart from the listings count as in the latest.
        NAME_MEMBERS = {
            sqlite: "INSERT INTO repo_sources (source, org_repo_name, listing) \
                     SELECT i.source, e.value, i.listings \
                     FROM json_each($1) AS e CROSS JOIN repo_indexing AS i WHERE i.source = $2 \
                     ON CONFLICT (source, org_repo_name) DO UPDATE SET listing = excluded.listing \
                     WHERE repo_sources.listing < excluded.listing",
            postgres: "INSERT INTO repo_sources (source, org_repo_name, listing) \
                       SELECT i.source, n.name, i.listings FROM UNNEST($1::text[]) AS n (name) \
                       CROSS JOIN repo_indexing AS i WHERE i.source = $2 \
                       ON CONFLICT (source, org_repo_name) DO UPDATE \
                       SET listing = excluded.listing \
                       WHERE repo_sources.listing < excluded.listing",
        };
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
        TIMES = {
            sqlite: "SELECT object_oid, created FROM tag_times \
                     WHERE org_repo_name = $1 AND object_oid IN (SELECT value FROM json_each($2))",
            postgres: "SELECT object_oid, created FROM tag_times \
                       WHERE org_repo_name = $1 AND object_oid = ANY($2)",
        };
        GO_MODS = {
            sqlite: "SELECT commit_oid, dir, path, why FROM go_mods \
                     WHERE org_repo_name = $1 AND commit_oid IN (SELECT value FROM json_each($2))",
            postgres: "SELECT commit_oid, dir, path, why FROM go_mods \
                       WHERE org_repo_name = $1 AND commit_oid = ANY($2)",
        };
        ADD_TIMES = {
            sqlite: "INSERT INTO tag_times (org_repo_name, object_oid, created) \
                     SELECT $2, e.value ->> 0, e.value ->> 1 FROM json_each($1) AS e WHERE TRUE \
                     ON CONFLICT DO NOTHING",
            postgres: "INSERT INTO tag_times (org_repo_name, object_oid, created) \
                       SELECT $3, * FROM UNNEST($1::text[], $2::bigint[]) ON CONFLICT DO NOTHING",
        };
        ADD_GO_MODS = {
            sqlite: "INSERT INTO go_mods (org_repo_name, commit_oid, dir, path, why) \
                     SELECT $2, e.value ->> 0, e.value ->> 1, e.value ->> 2, e.value ->> 3 \
                     FROM json_each($1) AS e WHERE TRUE ON CONFLICT DO NOTHING",
            postgres: "INSERT INTO go_mods (org_repo_name, commit_oid, dir, path, why) \
                       SELECT $5, * FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[]) \
                       ON CONFLICT DO NOTHING",
        };
        PUT_TAGS = {
            sqlite: "INSERT INTO repo_tags (org_repo_name, claimed_ns, tag_name, object_oid, \
                         commit_oid, created, path, version, proven, why, settled) \
                     SELECT $2, $3, e.value ->> 0, e.value ->> 1, e.value ->> 2, e.value ->> 3, \
                         e.value ->> 4, e.value ->> 5, e.value ->> 6, e.value ->> 7, e.value ->> 8 \
                     FROM json_each($1) AS e WHERE TRUE \
                     ON CONFLICT (org_repo_name, tag_name) DO UPDATE SET \
                         object_oid = excluded.object_oid, commit_oid = excluded.commit_oid, \
                         created = excluded.created, path = excluded.path, \
                         version = excluded.version, proven = excluded.proven, \
                         why = excluded.why, settled = excluded.settled, \
                         claimed_ns = CASE WHEN repo_tags.path = excluded.path \
                             AND repo_tags.version = excluded.version \
                             THEN repo_tags.claimed_ns ELSE excluded.claimed_ns END",
            postgres: "INSERT INTO repo_tags (org_repo_name, claimed_ns, tag_name, object_oid, \
                         commit_oid, created, path, version, proven, why, settled) \
                     SELECT $10, $11, * FROM UNNEST($1::text[], $2::text[], $3::text[], \
                         $4::bigint[], $5::text[], $6::text[], $7::bigint[], $8::text[], \
                         $9::bigint[]) \
                     ON CONFLICT (org_repo_name, tag_name) DO UPDATE SET \
                         object_oid = excluded.object_oid, commit_oid = excluded.commit_oid, \
                         created = excluded.created, path = excluded.path, \
                         version = excluded.version, proven = excluded.proven, \
                         why = excluded.why, settled = excluded.settled, \
                         claimed_ns = CASE WHEN repo_tags.path = excluded.path \
                             AND repo_tags.version = excluded.version \
                             THEN repo_tags.claimed_ns ELSE excluded.claimed_ns END",
        };
        DROP_TAGS = {
            sqlite: "DELETE FROM repo_tags \
                     WHERE org_repo_name = $1 AND tag_name IN (SELECT value FROM json_each($2))",
            postgres: "DELETE FROM repo_tags WHERE org_repo_name = $1 AND tag_name = ANY($2)",
        };
        DROP_SOME_TAGS = "DELETE FROM repo_tags WHERE org_repo_name = $1 AND tag_name IN \
                          (SELECT tag_name FROM repo_tags WHERE org_repo_name = $1 \
                          ORDER BY tag_name LIMIT $2) RETURNING path, version";
        // Each engine is quadratic in the other's way of saying it.
        DROP_TIMES = {
            sqlite: "DELETE FROM tag_times WHERE org_repo_name = $1 AND object_oid NOT IN \
                     (SELECT object_oid FROM repo_tags WHERE org_repo_name = $1)",
            postgres: "DELETE FROM tag_times AS k WHERE org_repo_name = $1 AND NOT EXISTS \
                       (SELECT FROM repo_tags AS t WHERE t.org_repo_name = $1 \
                       AND t.object_oid = k.object_oid)",
        };
        DROP_GO_MODS = {
            sqlite: "DELETE FROM go_mods WHERE org_repo_name = $1 AND commit_oid NOT IN \
                     (SELECT commit_oid FROM repo_tags WHERE org_repo_name = $1)",
            postgres: "DELETE FROM go_mods AS k WHERE org_repo_name = $1 AND NOT EXISTS \
                       (SELECT FROM repo_tags AS t WHERE t.org_repo_name = $1 \
                       AND t.commit_oid = k.commit_oid)",
        };
        END_REPO = "UPDATE repos SET indexing_finished = $2, etag = $3, policy = $4, \
                    gone_at = NULL, tags = tags + $5, claims = claims + $6 \
                    WHERE org_repo_name = $1";
        // What the source said to recognise the tags by holds for none of the parts alone.
        PART_OF_REPO = "UPDATE repos SET etag = NULL, tags = tags + $2, claims = claims + $3 \
                        WHERE org_repo_name = $1";
        // Of one that never was in the index nothing is left, not even its name.
        FORGET_REPO = "DELETE FROM repos WHERE org_repo_name = $1 AND indexing_finished IS NULL";
        REPO_GONE = "UPDATE repos SET indexing_finished = $2, gone_at = $2, etag = NULL, \
                     policy = NULL, tags = 0, claims = 0 WHERE org_repo_name = $1";
        DROP_MEMBERS = "DELETE FROM repo_sources WHERE org_repo_name = $1";

        // The feed.
        TAKE_CLOCK = "UPDATE index_clock SET last_ns = \
                      CASE WHEN last_ns < $1 THEN $1 ELSE last_ns END + 1 RETURNING last_ns";
        SET_CLOCK = "UPDATE index_clock SET last_ns = $1, versions = versions + $2";
        STAMP = "SELECT last_ns FROM index_clock";
        // Those of this transaction are known without it.
        CLAIMS = {
            sqlite: "SELECT t.path, t.version, t.org_repo_name, t.tag_name, t.commit_oid, \
                         t.created, t.proven, t.claimed_ns \
                     FROM json_each($1) AS e CROSS JOIN repo_tags AS t \
                     WHERE t.path = e.value ->> 0 AND t.version = e.value ->> 1 \
                     AND t.path IS NOT NULL AND t.claimed_ns <> $2",
            postgres: "SELECT t.path, t.version, t.org_repo_name, t.tag_name, t.commit_oid, \
                           t.created, t.proven, t.claimed_ns \
                       FROM UNNEST($1::text[], $2::text[]) AS k (path, version) \
                       JOIN repo_tags AS t ON t.path = k.path AND t.version = k.version \
                       AND t.path IS NOT NULL AND t.claimed_ns <> $3",
        };
        LIVE = {
            sqlite: "SELECT v.first_seen_ns, v.path, v.version, v.created, v.org_repo_name, \
                         v.tag_name, v.commit_oid \
                     FROM json_each($1) AS e CROSS JOIN index_versions AS v \
                     WHERE v.path = e.value ->> 0 AND v.version = e.value ->> 1",
            postgres: "SELECT v.first_seen_ns, v.path, v.version, v.created, v.org_repo_name, \
                           v.tag_name, v.commit_oid \
                       FROM UNNEST($1::text[], $2::text[]) AS k (path, version) \
                       JOIN index_versions AS v ON v.path = k.path AND v.version = k.version",
        };
        ADD_VERSIONS = {
            sqlite: "INSERT INTO index_versions (first_seen_ns, path, version, created, \
                         org_repo_name, tag_name, commit_oid) \
                     SELECT e.value ->> 0, e.value ->> 1, e.value ->> 2, e.value ->> 3, \
                         e.value ->> 4, e.value ->> 5, e.value ->> 6 FROM json_each($1) AS e",
            postgres: "INSERT INTO index_versions (first_seen_ns, path, version, created, \
                           org_repo_name, tag_name, commit_oid) \
                       SELECT * FROM UNNEST($1::bigint[], $2::text[], $3::text[], $4::bigint[], \
                           $5::text[], $6::text[], $7::text[])",
        };
        MOVE_VERSIONS = {
            sqlite: "UPDATE index_versions SET created = e.value ->> 3, \
                         org_repo_name = e.value ->> 4, tag_name = e.value ->> 5, \
                         commit_oid = e.value ->> 6 \
                     FROM json_each($1) AS e WHERE index_versions.first_seen_ns = e.value ->> 0",
            postgres: "UPDATE index_versions SET created = m.created, \
                           org_repo_name = m.repo, tag_name = m.tag, commit_oid = m.oid \
                       FROM UNNEST($1::bigint[], $2::text[], $3::text[], $4::bigint[], \
                           $5::text[], $6::text[], $7::text[]) \
                           AS m (seen, path, version, created, repo, tag, oid) \
                       WHERE index_versions.first_seen_ns = m.seen",
        };
        DROP_VERSIONS = {
            sqlite: "DELETE FROM index_versions \
                     WHERE first_seen_ns IN (SELECT value FROM json_each($1))",
            postgres: "DELETE FROM index_versions WHERE first_seen_ns = ANY($1)",
        };
        ADD_CHANGES = {
            sqlite: "INSERT INTO index_changes (at_ns, op, path, version, created, \
                         org_repo_name, tag_name, commit_oid, previous_oid) \
                     SELECT e.value ->> 0, e.value ->> 1, e.value ->> 2, e.value ->> 3, \
                         e.value ->> 4, e.value ->> 5, e.value ->> 6, e.value ->> 7, \
                         e.value ->> 8 FROM json_each($1) AS e",
            postgres: "INSERT INTO index_changes (at_ns, op, path, version, created, \
                           org_repo_name, tag_name, commit_oid, previous_oid) \
                       SELECT * FROM UNNEST($1::bigint[], $2::text[], $3::text[], $4::text[], \
                           $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[])",
        };
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
        CHANGES = "SELECT at_ns, op, path, version, created, org_repo_name, tag_name, commit_oid, \
                   previous_oid FROM index_changes WHERE at_ns > $1 ORDER BY at_ns LIMIT $2";
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
