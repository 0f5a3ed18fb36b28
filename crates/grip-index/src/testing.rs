//! What tests and benchmarks of other crates need.

use grip_db::{Db, DbError};

/// Rows of one transaction.
const AT_ONCE: i64 = 100_000;
/// When the first of them was seen: 2020-01-01.
const FIRST_NS: i64 = 1_577_836_800_000_000_000;

grip_db::statements! {
    pub(crate) mod sql {
        // $1 first number, $2 last number, $3 first moment. Everything grows with the number, so
        // that all indexes are written at their ends.
        FILL = {
            sqlite: "WITH RECURSIVE numbers (n) AS \
                         (SELECT $1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $2) \
                     INSERT INTO index_versions (first_seen_ns, path, version, created, \
                         org_repo_name, tag_name, commit_oid) \
                     SELECT $3 + n * 1000000, printf('example.com/filled/m%09d', n / 50), \
                         printf('v1.0.%02d', n % 50), $3 / 1000000 + n, \
                         printf('example.com/filled/m%09d', n / 50), \
                         printf('v1.0.%02d', n % 50), printf('%040d', n) FROM numbers",
            postgres: "INSERT INTO index_versions (first_seen_ns, path, version, created, \
                           org_repo_name, tag_name, commit_oid) \
                       SELECT $3 + n * 1000000, \
                           'example.com/filled/m' || lpad((n / 50)::text, 9, '0'), \
                           'v1.0.' || lpad((n % 50)::text, 2, '0'), $3 / 1000000 + n, \
                           'example.com/filled/m' || lpad((n / 50)::text, 9, '0'), \
                           'v1.0.' || lpad((n % 50)::text, 2, '0'), lpad(n::text, 40, '0') \
                       FROM generate_series($1::bigint, $2::bigint) AS n",
        };
        SET = "UPDATE index_clock SET last_ns = $1, versions = versions + $2 WHERE last_ns < $1";
        LOOK = {
            sqlite: "PRAGMA optimize",
            postgres: "ANALYZE index_versions",
        };
    }
}

/// Fills an empty feed with so many versions, made up and a millisecond apart. Says when the first
/// and the last were seen.
pub async fn fill(db: &Db, count: i64) -> Result<(i64, i64), DbError> {
    for first in (0..count).step_by(AT_ONCE as usize) {
        let last = (first + AT_ONCE).min(count) - 1;
        let asked = [first.into(), last.into(), FIRST_NS.into()];
        db.write(move |mut db| Box::pin(async move { db.execute(&sql::FILL, &asked).await }))
            .await?;
    }
    let last_ns = FIRST_NS + (count - 1).max(0) * 1_000_000;
    let set = [last_ns.into(), count.into()];
    db.write(move |mut db| {
        Box::pin(async move {
            db.execute(&sql::SET, &set).await?;
            db.execute(&sql::LOOK, &[]).await
        })
    })
    .await?;
    Ok((FIRST_NS, last_ns))
}
