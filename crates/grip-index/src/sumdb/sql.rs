//! The statements.

/// Columns of a record, in the order of [`super::Record`].
macro_rules! record {
    ($rest:literal) => {
        concat!(
            "SELECT r.id, r.path, r.version, r.zip_sum, r.go_mod_sum, r.org_repo_name, \
             r.tag_name, r.commit_oid FROM ",
            $rest
        )
    };
}

grip_db::statements! {
    pub(super) mod sql {
        HEAD = "SELECT size, root FROM sumdb_log";
        SET_VERIFIER = "UPDATE sumdb_log SET verifier = $1 WHERE verifier IS NULL";
        VERIFIER = "SELECT verifier FROM sumdb_log";

        // Locks the row until the commit.
        LOCK = "UPDATE sumdb_log SET size = size RETURNING size, frontier, verifier";
        ADVANCE = "UPDATE sumdb_log SET size = $1, frontier = $2, root = $3";
        ADD = "INSERT INTO sumdb_records (id, path, version, zip_sum, go_mod_sum, record_hash, \
               org_repo_name, tag_name, commit_oid, logged_at) \
               SELECT rows.id, rows.path, rows.version, rows.zip, rows.go_mod, rows.hash, \
               rows.repo, rows.tag, rows.oid, $1 \
               FROM {rows $2: id bigint, path text, version text, zip text, go_mod text, hash text, \
               repo text, tag text, oid text}";
        ADD_NODES = "INSERT INTO sumdb_nodes (level, number, hash) \
                     SELECT rows.* FROM {rows $1: level bigint, number bigint, hash text}";

        FIND = (record!("sumdb_records AS r WHERE r.path = $1 AND r.version = $2"));
        // Numbered below all records of the log.
        FIND_RESTRICTED = "SELECT CAST(-1 AS BIGINT) AS id, path, version, zip_sum, go_mod_sum, \
                           org_repo_name, tag_name, commit_oid FROM sumdb_restricted \
                           WHERE path = $1 AND version = $2";
        KEEP_RESTRICTED = "INSERT INTO sumdb_restricted (path, version, zip_sum, go_mod_sum, \
                           org_repo_name, tag_name, commit_oid, logged_at) \
                           VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING";
        LAST_ROOM = "SELECT id FROM sumdb_records WHERE org_repo_name = $1 LIMIT 1 OFFSET $2 - 1";
        KNOWN = (record!("{rows $1: path text, version text} CROSS JOIN sumdb_records AS r \
                          WHERE r.path = rows.path AND r.version = rows.version"));
        RECORDS = (record!("sumdb_records AS r WHERE r.id >= $1 AND r.id < $2 ORDER BY r.id"));
        RECORD_HASHES = "SELECT record_hash FROM sumdb_records \
                         WHERE id >= $1 AND id < $2 ORDER BY id";
        NODES = "SELECT hash FROM sumdb_nodes \
                 WHERE level = $1 AND number >= $2 AND number < $3 ORDER BY number";

        // Tags that lead to something else than what was logged.
        FORGET_MOVES = "DELETE FROM sumdb_moves WHERE (path, version) IN \
                        (SELECT rows.path, rows.version FROM {rows $1: path text, version text})";
        NOTE_MOVES = "INSERT INTO sumdb_moves (path, version, org_repo_name, tag_name, commit_oid, \
                      logged_oid, seen_at, differs) \
                      SELECT rows.path, rows.version, rows.repo, rows.tag, rows.oid, r.commit_oid, $1, 0 \
                      FROM {rows $2: path text, version text, repo text, tag text, oid text} \
                      JOIN repos AS q ON q.org_repo_name = rows.repo AND q.audience = 0 \
                      CROSS JOIN sumdb_records AS r WHERE r.path = rows.path \
                      AND r.version = rows.version AND r.commit_oid <> rows.oid";
        UNDECIDED = "SELECT path, version, org_repo_name, tag_name, commit_oid, logged_oid, seen_at \
                     FROM sumdb_moves WHERE differs = 0 AND (path > $1 OR (path = $1 AND version > $2)) \
                     ORDER BY path, version LIMIT $3";
        DIFFERS = "UPDATE sumdb_moves SET differs = 1 \
                   WHERE path = $1 AND version = $2 AND commit_oid = $3";
        FORGET_MOVE = "DELETE FROM sumdb_moves \
                       WHERE path = $1 AND version = $2 AND commit_oid = $3";
        RELOCATE = "UPDATE sumdb_records SET org_repo_name = $4, tag_name = $5, commit_oid = $3 \
                    WHERE path = $1 AND version = $2";
        MOVES = "SELECT path, version, org_repo_name, tag_name, commit_oid, logged_oid, seen_at \
                 FROM sumdb_moves WHERE differs = 1 ORDER BY seen_at DESC LIMIT $1";
        COUNT_MOVES = "SELECT count(*) FROM sumdb_moves WHERE differs = 1";

        // The recorder's way through the feed.
        PROGRESS = "SELECT first_seen_ns FROM sumdb_progress WHERE node = $1";
        SET_PROGRESS = "INSERT INTO sumdb_progress (node, first_seen_ns) VALUES ($1, $2) \
                        ON CONFLICT (node) DO UPDATE SET first_seen_ns = excluded.first_seen_ns";
        LISTED = "SELECT v.first_seen_ns, v.path, v.version FROM index_versions AS v \
                  WHERE v.first_seen_ns > $1 ORDER BY v.first_seen_ns LIMIT $2";
    }
}
