//! The statements. A row is leased while it has a holder; see the migration for the columns.

/// What a request does to a row that is there: the placeholder says whether it revives.
macro_rules! again {
    ($revive:literal) => {
        concat!(
            "payload = excluded.payload, capability = excluded.capability, \
             period_ms = coalesce(excluded.period_ms, queue.period_ms), \
             asked = queue.asked + 1, \
             again_at = CASE \
                 WHEN queue.holder IS NULL THEN queue.again_at \
                 WHEN queue.again_at <= excluded.visible_at THEN queue.again_at \
                 ELSE excluded.visible_at END, \
             visible_at = CASE \
                 WHEN queue.holder IS NOT NULL THEN queue.visible_at \
                 WHEN ",
            $revive,
            " = 0 \
                     AND (queue.dead_at IS NOT NULL OR queue.attempts + queue.limited > 0) \
                     THEN queue.visible_at \
                 WHEN queue.visible_at <= excluded.visible_at THEN queue.visible_at \
                 ELSE excluded.visible_at END, \
             attempts = CASE WHEN ",
            $revive,
            " = 1 AND queue.holder IS NULL THEN 0 \
                 ELSE queue.attempts END, \
             limited = CASE WHEN ",
            $revive,
            " = 1 AND queue.holder IS NULL THEN 0 \
                 ELSE queue.limited END, \
             dead_at = CASE WHEN ",
            $revive,
            " = 1 THEN NULL ELSE queue.dead_at END \
             RETURNING asked"
        )
    };
}

/// Takes jobs that are due: $kind, $now, $most, $end, $holder.
macro_rules! claim {
    ($able:literal, $locked:literal, $among:literal) => {
        concat!(
            "WITH c AS MATERIALIZED (SELECT id FROM queue \
             WHERE kind = $1 AND visible_at <= $2 ",
            $able,
            "ORDER BY visible_at LIMIT $3",
            $locked,
            ") ",
            claimed!($among)
        )
    };
}

/// A page of rows by id: $after, $kind or null, $now, $limit.
macro_rules! list {
    ($state:literal) => {
        concat!(
            "SELECT ",
            facts!(),
            " FROM queue WHERE id > $1 \
             AND (CAST($2 AS TEXT) IS NULL OR kind = $2) AND (CAST($3 AS BIGINT) IS NOT NULL) ",
            $state,
            " ORDER BY id LIMIT $4"
        )
    };
}

macro_rules! facts {
    () => {
        "id, kind, key, payload, visible_at, holder, period_ms, attempts, limited, lost, asked, \
         last_error, dead_at, enqueued_at"
    };
}

/// What a claim does to the rows it took. A row that has a holder was lost by that one. A request
/// for now is met by this claim, one for later is not.
macro_rules! claimed {
    ($among:literal) => {
        concat!(
            "UPDATE queue SET visible_at = $4, lease_token = lease_token + 1, \
             lost = lost + CASE WHEN holder IS NULL THEN 0 ELSE 1 END, holder = $5, \
             again_at = CASE WHEN again_at > $2 THEN again_at END \
             WHERE id ",
            $among,
            " RETURNING id, lease_token, key, payload, attempts, limited, lost, asked, \
             period_ms"
        )
    };
}

grip_db::statements! {
    pub(crate) mod sql {
        // $now, $revive, then the rows. Counting how often it was asked for tells a new row apart.
        ENQUEUE = (concat!(
            "INSERT INTO queue (kind, key, payload, visible_at, period_ms, capability, enqueued_at) \
             SELECT rows.kind, rows.key, rows.payload, rows.visible_at, rows.period_ms, \
             rows.capability, $1 \
             FROM {rows $3: kind text, key text, payload text, visible_at bigint, \
             period_ms bigint, capability text} WHERE TRUE \
             ON CONFLICT (kind, key) DO UPDATE SET ",
            again!("$2")
        ));
        CLAIM = {
            sqlite: claim!("", "", "IN (SELECT id FROM c)"),
            // An array, because the planner knows little of a limit it cannot see.
            postgres: claim!("", " FOR UPDATE SKIP LOCKED", "= ANY(ARRAY(SELECT id FROM c))"),
        };
        // The same by who can do only some: $6 what it can do.
        CLAIM_ABLE = {
            sqlite: claim!("AND capability {in $6} ", "", "IN (SELECT id FROM c)"),
            postgres: claim!("AND capability {in $6} ", " FOR UPDATE SKIP LOCKED", "= ANY(ARRAY(SELECT id FROM c))"),
        };
        // The holder stays: the next claim counts the lease as one that was lost.
        RECLAIM = "UPDATE queue SET visible_at = $1, lease_token = lease_token + 1 \
                     WHERE holder IS NOT NULL AND visible_at > $1 AND dead_at IS NULL \
                     AND substr(holder, 1, length(CAST($2 AS TEXT))) = CAST($2 AS TEXT)";
        NEXT_DUE = "SELECT min(visible_at) FROM queue WHERE kind = $1";
        NEXT_DUE_ABLE = "SELECT min(visible_at) FROM queue WHERE kind = $1 AND capability {in $2}";
        REASSIGN = "UPDATE queue SET capability = $3 WHERE kind = $1 AND key = $2";
        HAND_OVER = "UPDATE queue SET capability = $3, visible_at = $4, holder = NULL, \
                     lease_token = lease_token + 1, lost = 0 WHERE id = $1 AND lease_token = $2";
        RENEW = "UPDATE queue SET visible_at = $1 FROM {rows $2: id bigint, token bigint} \
                 WHERE queue.id = rows.id AND queue.lease_token = rows.token \
                 RETURNING queue.id";
        RELEASE = "UPDATE queue SET visible_at = $1, holder = NULL, \
                   lease_token = lease_token + 1, lost = 0 \
                   FROM {rows $2: id bigint, token bigint} \
                   WHERE queue.id = rows.id AND queue.lease_token = rows.token";
        // Changes nothing, but holds the row until the commit.
        HOLD = "UPDATE queue SET lost = lost WHERE id = $1 AND lease_token = $2";
        DROP_PAYLOAD = "UPDATE queue SET payload = '' \
                        WHERE id = $1 AND lease_token = $2 AND again_at IS NULL";
        // Nobody asked for it again and it has no period.
        FINISH_GONE = "DELETE FROM queue WHERE id = $1 AND lease_token = $2 \
                       AND again_at IS NULL AND period_ms IS NULL";
        FINISH_STAYS = "UPDATE queue SET visible_at = CASE \
                            WHEN again_at IS NULL THEN $3 + coalesce(period_ms, 0) \
                            WHEN again_at > $3 + coalesce(period_ms, again_at) \
                                THEN $3 + period_ms \
                            ELSE again_at END, \
                        holder = NULL, lease_token = lease_token + 1, again_at = NULL, \
                        attempts = 0, limited = 0, lost = 0, last_error = NULL \
                        WHERE id = $1 AND lease_token = $2 RETURNING visible_at, period_ms";
        REMOVE_GONE = "DELETE FROM queue WHERE id = $1 AND lease_token = $2 AND again_at IS NULL";
        REMOVE_STAYS = "UPDATE queue SET visible_at = again_at, \
                        holder = NULL, lease_token = lease_token + 1, again_at = NULL, \
                        attempts = 0, limited = 0, lost = 0 \
                        WHERE id = $1 AND lease_token = $2 AND again_at IS NOT NULL";
        // $3 visible_at, $4 attempts, $5 limited, $6 reason, $7 dead_at, $8 whether given up: then
        // a request that came in the meantime counts more.
        FAIL = "UPDATE queue SET \
                    visible_at = CASE WHEN $8 = 1 AND again_at IS NOT NULL THEN again_at \
                                 ELSE $3 END, \
                    attempts = CASE WHEN $8 = 1 AND again_at IS NOT NULL THEN 0 ELSE $4 END, \
                    limited = CASE WHEN $8 = 1 AND again_at IS NOT NULL THEN 0 ELSE $5 END, \
                    dead_at = CASE WHEN again_at IS NULL THEN CAST($7 AS BIGINT) END, \
                    again_at = CASE WHEN $8 = 0 AND again_at > $3 THEN again_at END, \
                    last_error = $6, holder = NULL, lease_token = lease_token + 1, lost = 0 \
                WHERE id = $1 AND lease_token = $2 RETURNING visible_at, dead_at";
        POSTPONE = "UPDATE queue SET visible_at = $3, last_error = $4, \
                    again_at = CASE WHEN again_at > $3 THEN again_at END, \
                    holder = NULL, lease_token = lease_token + 1, lost = 0 \
                    WHERE id = $1 AND lease_token = $2";
        // By hand: starts over, or runs once more after the work under way, whose end counts on
        // from what it was claimed with.
        RETRY = "UPDATE queue SET \
                     visible_at = CASE WHEN holder IS NULL THEN $3 ELSE visible_at END, \
                     again_at = CASE WHEN holder IS NULL THEN NULL ELSE CAST($3 AS BIGINT) END, \
                     attempts = CASE WHEN holder IS NULL THEN 0 ELSE attempts END, \
                     limited = CASE WHEN holder IS NULL THEN 0 ELSE limited END, \
                     dead_at = NULL, lost = 0, asked = asked + 1 \
                 WHERE kind = $1 AND key = $2";
        // $kind or null, $most. What failed and waits for its next period counts beside what is dead.
        CAUSES = "SELECT kind, last_error AS reason, count(dead_at) AS dead, \
                      count(*) - count(dead_at) AS waiting, min(coalesce(dead_at, 0)) AS first_ms, \
                      max(coalesce(dead_at, 0)) AS last_ms \
                  FROM queue WHERE last_error IS NOT NULL AND holder IS NULL \
                      AND (dead_at IS NOT NULL OR attempts = 0) \
                      AND (CAST($1 AS TEXT) IS NULL OR kind = $1) \
                  GROUP BY kind, last_error ORDER BY count(*) DESC, kind, last_error LIMIT $2";
        // $kind or null, $cause or null, $now, $most. Without a cause only what is dead.
        REVIVE = "UPDATE queue SET visible_at = $3, attempts = 0, limited = 0, lost = 0, \
                      dead_at = NULL, last_error = NULL, asked = asked + 1 \
                  WHERE id IN (SELECT id FROM queue \
                      WHERE holder IS NULL AND (dead_at IS NOT NULL OR \
                          (CAST($2 AS TEXT) IS NOT NULL AND attempts = 0 AND visible_at > $3)) \
                      AND (CAST($1 AS TEXT) IS NULL OR kind = $1) \
                      AND (CAST($2 AS TEXT) IS NULL OR last_error = $2) \
                      ORDER BY id LIMIT $4) RETURNING kind";
        // $kind, $now, $end of any lease, $now with some slack, $horizon, $never. What is brought
        // back is spread over its period, or over a minute.
        ADJUST_TO_CLOCK = "UPDATE queue SET visible_at = CASE WHEN holder IS NOT NULL THEN $3 \
                          ELSE $2 + id * 7919 % coalesce(period_ms, 60000) END \
                      WHERE kind = $1 AND visible_at > $3 AND visible_at < $6 AND (holder IS NOT NULL \
                          OR visible_at > $4 + CASE WHEN period_ms > $5 THEN period_ms ELSE $5 END)";
        // What comes again and again is still wanted, and nobody might ask for it a second time.
        FORGET_DEAD = "DELETE FROM queue WHERE kind = $1 AND visible_at = $3 AND dead_at < $2 \
                       AND period_ms IS NULL";
        MISSING = "SELECT rows.key FROM {rows $2: key text} WHERE NOT EXISTS \
                   (SELECT 1 FROM queue WHERE queue.kind = $1 AND queue.key = rows.key)";
        REMOVE = "DELETE FROM queue WHERE kind = $1 AND key = $2";
        SIZE = {
            sqlite: "SELECT 0",
            postgres: "SELECT pg_relation_size('queue')",
        };
        ANALYZE = "ANALYZE queue";
        FIND = (concat!("SELECT ", facts!(), " FROM queue WHERE kind = $1 AND key = $2"));
        LIST_ALL = (list!(""));
        LIST_DUE = (list!("AND visible_at <= $3"));
        LIST_WAITING = (list!("AND visible_at > $3 AND dead_at IS NULL AND holder IS NULL"));
        LIST_LEASED = (list!("AND visible_at > $3 AND holder IS NOT NULL"));
        LIST_DEAD = (list!("AND dead_at IS NOT NULL"));
        // $now, $end of the longest lease, $never. Steps from kind to kind by the index; what is
        // leased lies between now and the end of the longest lease.
        STATS = "WITH RECURSIVE kinds (kind) AS ( \
                     SELECT min(kind) FROM queue \
                     UNION ALL \
                     SELECT (SELECT min(queue.kind) FROM queue WHERE queue.kind > kinds.kind) \
                     FROM kinds WHERE kinds.kind IS NOT NULL), \
                 counts AS (SELECT kind, \
                     (SELECT count(*) FROM queue WHERE queue.kind = kinds.kind \
                         AND visible_at <= $1) AS due, \
                     (SELECT count(*) FROM queue WHERE queue.kind = kinds.kind \
                         AND visible_at > $1 AND visible_at < $3) AS later, \
                     (SELECT count(*) FROM queue WHERE queue.kind = kinds.kind \
                         AND visible_at > $1 AND visible_at <= $2 AND holder IS NOT NULL) \
                         AS leased, \
                     (SELECT count(*) FROM queue WHERE queue.kind = kinds.kind \
                         AND visible_at = $3) AS dead, \
                     (SELECT min(visible_at) FROM queue WHERE queue.kind = kinds.kind \
                         AND visible_at <= $1) AS oldest \
                     FROM kinds WHERE kind IS NOT NULL) \
                 SELECT kind, due, later - leased AS waiting, leased, dead, \
                     $1 - coalesce(oldest, $1) AS oldest_due_age_ms FROM counts ORDER BY kind";
    }
}

pub(crate) use sql::*;
