//! The statements.

/// Columns of the feed, in the order of [`super::Entry`].
macro_rules! entry {
    ($rest:literal) => {
        concat!(
            "SELECT path, version, first_seen_ns, created, (SELECT last_ns FROM index_clock) \
             FROM index_versions WHERE ",
            $rest
        )
    };
}

/// The same among those below a path ($1: the path, $2: with a slash, $3: the next after that),
/// found by path and then put in order: for few.
macro_rules! few {
    ($of:literal, $rest:literal) => {
        concat!(
            "WITH hits AS MATERIALIZED (SELECT path, version, first_seen_ns, created \
             FROM index_versions \
             WHERE path >= $1 AND path < $3 AND (path = $1 OR path >= $2) ",
            $of,
            ") \
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

/// Changes, with the commit that the version was logged at, where that is another.
macro_rules! changes {
    ($of:literal) => {
        concat!(
            "SELECT c.at_ns, c.op, c.path, c.version, c.created, c.org_repo_name, c.tag_name, \
             c.commit_oid, c.previous_oid, c.audience, r.commit_oid AS logged_oid \
             FROM index_changes AS c LEFT JOIN sumdb_records AS r ON r.path = c.path \
             AND r.version = c.version AND r.commit_oid <> c.commit_oid WHERE ",
            $of,
            "c.at_ns > $1 ORDER BY c.at_ns LIMIT $2"
        )
    };
}

grip_db::statements! {
    pub(crate) mod sql {
        // Sources and their listings.
        ADD_SOURCE = "INSERT INTO repo_indexing (source) VALUES ($1) ON CONFLICT DO NOTHING";
        HAS_LEFT = "SELECT left_at FROM repo_indexing WHERE source = $1";
        // Whoever has it in its settings says so again and again.
        CONFIGURED = "UPDATE repo_indexing SET configured_at = $2, left_at = NULL \
                      WHERE source {in $1}";
        LEFT = "SELECT source FROM repo_indexing WHERE configured_at <= $1 AND left_at IS NULL \
                ORDER BY source";
        SET_LEFT = "UPDATE repo_indexing SET left_at = $2, next_page = NULL WHERE source = $1";
        FORGET_SOURCE = "DELETE FROM repo_indexing WHERE source = $1";
        MEMBERS = "SELECT org_repo_name FROM repo_sources WHERE source = $1 \
                   AND org_repo_name > $2 ORDER BY org_repo_name LIMIT $3";
        DROP_MEMBER = "DELETE FROM repo_sources WHERE source = $1 AND org_repo_name = $2";
        SET_AUDIENCES = "UPDATE repos SET audience = $2 WHERE audience <> $2 \
                         AND org_repo_name {in $1} RETURNING org_repo_name";
        UNSEEN = "SELECT org_repo_name FROM repos WHERE audience > $2 AND org_repo_name {in $1}";
        SET_SHOWN = "UPDATE repos SET shown = audience WHERE org_repo_name = $1";
        CLAIMS_OF = "SELECT tag_name, path, version FROM repo_tags WHERE org_repo_name = $1 \
                     AND path IS NOT NULL AND tag_name > $2 ORDER BY tag_name LIMIT $3";
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
        SOURCES = "SELECT source, indexing_began, indexing_finished, listings, next_page, found, \
                   left_at FROM repo_indexing ORDER BY source";

        // One repository's turn.
        BEGIN_REPO = "UPDATE repos SET indexing_began = $2 WHERE org_repo_name = $1 \
                      RETURNING etag, policy, indexing_finished, audience, shown";
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
        DROP_REPO = "DELETE FROM repos WHERE org_repo_name = $1";
        DROP_MEMBERS = "DELETE FROM repo_sources WHERE org_repo_name = $1";

        // The feed.
        TAKE_CLOCK = "UPDATE index_clock SET last_ns = \
                      CASE WHEN last_ns < $1 THEN $1 ELSE last_ns END + $2 RETURNING last_ns";
        SET_CLOCK = "UPDATE index_clock SET last_ns = $1, versions = versions + $2";
        STAMP = "SELECT last_ns FROM index_clock";
        // Those of this transaction are known without it.
        CLAIMS = "SELECT t.path, t.version, t.org_repo_name, t.tag_name, t.commit_oid, \
                  t.created, t.proven, t.claimed_ns, r.audience \
                  FROM {rows $2: path text, version text} CROSS JOIN repo_tags AS t \
                  JOIN repos AS r ON r.org_repo_name = t.org_repo_name \
                  WHERE t.path = rows.path AND t.version = rows.version \
                  AND t.path IS NOT NULL AND t.claimed_ns <> $1 AND r.audience < 2";
        LIVE = "SELECT v.first_seen_ns, v.path, v.version, v.created, v.org_repo_name, \
                v.tag_name, v.commit_oid, v.audience \
                FROM {rows $1: path text, version text} CROSS JOIN index_versions AS v \
                WHERE v.path = rows.path AND v.version = rows.version";
        ADD_VERSIONS = "INSERT INTO index_versions (first_seen_ns, path, version, created, \
                        org_repo_name, tag_name, commit_oid, audience) \
                        SELECT rows.* FROM {rows $1: seen bigint, path text, version text, created bigint, \
                        repo text, tag text, oid text, audience bigint}";
        MOVE_VERSIONS = "UPDATE index_versions SET created = rows.created, org_repo_name = rows.repo, \
                         tag_name = rows.tag, commit_oid = rows.oid \
                         FROM {rows $1: seen bigint, path text, version text, created bigint, \
                         repo text, tag text, oid text, audience bigint} \
                         WHERE index_versions.first_seen_ns = rows.seen";
        DROP_VERSIONS = "DELETE FROM index_versions WHERE first_seen_ns {in $1}";
        ADD_CHANGES = "INSERT INTO index_changes (at_ns, op, path, version, created, \
                       org_repo_name, tag_name, commit_oid, previous_oid, audience) \
                       SELECT rows.* FROM {rows $1: at bigint, op text, path text, version text, \
                       created bigint, repo text, tag text, oid text, previous text, \
                       audience bigint}";
        // Each for all readers, and for anybody: the latter by an index of what these may see.
        SEEN = (entry!("first_seen_ns >= $1 ORDER BY first_seen_ns LIMIT $2"));
        SEEN_PUBLIC = (entry!("audience = 0 AND first_seen_ns >= $1 ORDER BY first_seen_ns LIMIT $2"));
        CREATED = (entry!("created >= $1 ORDER BY created DESC, first_seen_ns DESC LIMIT $2"));
        CREATED_PUBLIC = (entry!("audience = 0 AND created >= $1 \
                          ORDER BY created DESC, first_seen_ns DESC LIMIT $2"));
        COUNT_BELOW = "SELECT count(*) FROM (SELECT 1 FROM index_versions \
                       WHERE path >= $1 AND path < $3 AND (path = $1 OR path >= $2) LIMIT $4) \
                       AS below";
        // What a stranger may not see does not decide how long an answer takes.
        COUNT_BELOW_PUBLIC = "SELECT count(*) FROM (SELECT 1 FROM index_versions \
                       WHERE audience = 0 AND path >= $1 AND path < $3 \
                       AND (path = $1 OR path >= $2) LIMIT $4) AS below";
        FEW_SEEN = (few!("", "WHERE first_seen_ns >= $4 ORDER BY first_seen_ns LIMIT $5"));
        FEW_SEEN_PUBLIC =
            (few!("AND audience = 0", "WHERE first_seen_ns >= $4 ORDER BY first_seen_ns LIMIT $5"));
        FEW_CREATED =
            (few!("", "WHERE created >= $4 ORDER BY created DESC, first_seen_ns DESC LIMIT $5"));
        FEW_CREATED_PUBLIC = (few!("AND audience = 0",
            "WHERE created >= $4 ORDER BY created DESC, first_seen_ns DESC LIMIT $5"));
        MANY_SEEN = (many!("AND first_seen_ns >= $4 ORDER BY first_seen_ns LIMIT $5"));
        MANY_SEEN_PUBLIC =
            (many!("AND audience = 0 AND first_seen_ns >= $4 ORDER BY first_seen_ns LIMIT $5"));
        MANY_CREATED = (many!("AND created >= $4 ORDER BY created DESC, first_seen_ns DESC LIMIT $5"));
        MANY_CREATED_PUBLIC = (many!("AND audience = 0 AND created >= $4 \
                               ORDER BY created DESC, first_seen_ns DESC LIMIT $5"));
        VERSION = "SELECT path, version, first_seen_ns, created, org_repo_name, tag_name, \
                   commit_oid, audience FROM index_versions WHERE path = $1 AND version = $2";
        VERSIONS = "SELECT path, version, first_seen_ns, created, org_repo_name, tag_name, \
                    commit_oid, audience FROM index_versions WHERE path = $1 \
                    ORDER BY version LIMIT $2";
        CHANGES = (changes!(""));
        CHANGES_PUBLIC = (changes!("c.audience = 0 AND "));
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
        COUNTS_RESTRICTED = "SELECT count(*), count(gone_at), count(indexing_finished), \
                             CAST(coalesce(sum(tags), 0) AS BIGINT), \
                             CAST(coalesce(sum(claims), 0) AS BIGINT) FROM repos \
                             WHERE audience <> 0";
        COUNT_VERSIONS_RESTRICTED = "SELECT count(*) FROM index_versions WHERE audience <> 0";
        COUNT_MEMBERS_RESTRICTED = "SELECT m.source, count(*) FROM repo_sources AS m \
                                    JOIN repos AS r ON r.org_repo_name = m.org_repo_name \
                                    WHERE r.audience <> 0 GROUP BY m.source";
        // $3: the widest audience that is shown.
        REPOS = "SELECT org_repo_name, indexing_began, indexing_finished, gone_at, tags, claims, \
                 audience FROM repos WHERE org_repo_name > $1 AND audience <= $3 \
                 ORDER BY org_repo_name LIMIT $2";
        REPO = "SELECT org_repo_name, indexing_began, indexing_finished, gone_at, tags, claims, \
                audience FROM repos WHERE org_repo_name = $1";

        // Tag lists that are read in part.
        TAG_LIST = "SELECT occasion, pages, next_page, last_page, last_mark, marks, began_at \
                    FROM tag_lists WHERE org_repo_name = $1";
        PUT_TAG_LIST = "INSERT INTO tag_lists (org_repo_name, occasion, pages, next_page, last_page, \
                            last_mark, marks, began_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
                        ON CONFLICT (org_repo_name) DO UPDATE SET occasion = excluded.occasion, \
                            pages = excluded.pages, next_page = excluded.next_page, \
                            last_page = excluded.last_page, last_mark = excluded.last_mark, \
                            marks = excluded.marks, began_at = excluded.began_at";
        LISTED_TAGS = "SELECT page, place, tag_name, object_oid, commit_oid FROM listed_tags \
                       WHERE org_repo_name = $1 AND (page, place) > ($2, $3) \
                       ORDER BY page, place LIMIT $4";
        ADD_LISTED_TAGS = "INSERT INTO listed_tags (org_repo_name, page, place, tag_name, \
                               object_oid, commit_oid) \
                           SELECT $1, $2, rows.* FROM {rows $3: place bigint, tag text, \
                           object text, oid text} WHERE TRUE \
                           ON CONFLICT (org_repo_name, page, place) DO UPDATE SET \
                               tag_name = excluded.tag_name, object_oid = excluded.object_oid, \
                               commit_oid = excluded.commit_oid";
        DROP_TAG_LIST = "DELETE FROM tag_lists WHERE org_repo_name = $1";
        DROP_LISTED_TAGS = "DELETE FROM listed_tags WHERE org_repo_name = $1";
    }
}
