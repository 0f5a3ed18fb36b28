//! A filled feed, for tests and benchmarks of other crates.

use grip_db::{Column, Db, DbError};

/// Rows of one transaction.
const AT_ONCE: i64 = 100_000;
/// When the first of them was seen: 2020-01-01.
const FIRST_NS: i64 = 1_577_836_800_000_000_000;

grip_db::statements! {
    pub(crate) mod sql {
        // $1 first timestamp. Everything grows with the number, so that all indexes are written at
        // their ends.
        FILL = "INSERT INTO index_versions (first_seen_ns, path, version, created, \
                org_repo_name, tag_name, commit_oid) \
                SELECT $1 + rows.n * 1000000, rows.path, rows.version, $1 / 1000000 + rows.n, \
                rows.path, rows.version, rows.oid \
                FROM {rows $2: n bigint, path text, version text, oid text}";
        SET = "UPDATE index_clock SET last_ns = $1, versions = versions + $2 WHERE last_ns < $1";
        LOOK = "ANALYZE index_versions";
    }
}

/// Fills an empty feed with so many versions, made up and a millisecond apart. Says when the first
/// and the last were seen.
pub async fn fill(db: &Db, count: i64) -> Result<(i64, i64), DbError> {
    for first in (0..count).step_by(AT_ONCE as usize) {
        let last = (first + AT_ONCE).min(count);
        let texts = |text: fn(i64) -> String| Column::Texts((first..last).map(text).collect());
        let columns = [
            Column::Ints((first..last).collect()),
            texts(|n| format!("example.com/filled/m{:09}", n / 50)),
            texts(|n| format!("v1.0.{:02}", n % 50)),
            texts(|n| format!("{n:040}")),
        ];
        db.write(move |mut db| {
            Box::pin(async move {
                let first = [FIRST_NS.into()];
                db.execute_rows(&sql::FILL, &columns, &first).await
            })
        })
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
