//! Queries of the feed.

use grip_db::{DbError, Statement, Value};

use super::{Reader, Store, sql::sql};
use crate::{
    Audience,
    feed::{Clock, FeedQuery, Page},
};

/// Below how many versions those of a path are found by path and then put in order.
const FEW: i64 = 50_000;

/// A version in the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub path: String,
    pub version: String,
    /// When it was first seen, in nanoseconds since 1970: unique.
    pub first_seen_ns: i64,
    /// The date of the tag in milliseconds since 1970.
    pub created: i64,
}

/// A version, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionAt {
    pub path: String,
    pub version: String,
    /// In nanoseconds since 1970.
    pub first_seen_ns: i64,
    /// The date of the tag in milliseconds since 1970.
    pub created: i64,
    pub repo: String,
    pub tag: String,
    pub commit: String,
    /// Who may see it.
    pub audience: Audience,
}

grip_db::from_row!(VersionAt {
    path,
    version,
    first_seen_ns,
    created,
    repo: "org_repo_name",
    tag: "tag_name",
    commit: "commit_oid",
    audience: [i64],
});

impl Store {
    pub(crate) async fn feed(&self, query: &FeedQuery) -> Result<Page, DbError> {
        if let Some(page) = self.filled(query).await? {
            return Ok(page);
        }
        // No line says how far the feed had come. What came in between makes the page new, so that
        // is read before it.
        let stamp_ns = self.stamp().await?;
        let filled = self.filled(query).await?;
        Ok(filled.unwrap_or(Page {
            entries: Vec::new(),
            stamp_ns,
        }))
    }

    /// A page that has lines.
    async fn filled(&self, query: &FeedQuery) -> Result<Option<Page>, DbError> {
        let page = self.lines(query, query.limit).await?;
        let unit_end = query.since_ns.saturating_add(query.unit_ns());
        let is_in_unit = |entry: &Entry| entry.first_seen_ns < unit_end;
        let ends_in_unit = |page: &Page| {
            page.entries.len() == query.limit && page.entries.last().is_some_and(is_in_unit)
        };
        if query.clock == Clock::Created || !page.as_ref().is_some_and(ends_in_unit) {
            return Ok(page);
        }
        let mut page = self.lines(query, FeedQuery::MOST + 1).await?;
        if let Some(page) = &mut page {
            let beyond = page.entries.iter().position(|entry| !is_in_unit(entry));
            let end = beyond.map_or(page.entries.len(), |first| first + 1);
            page.entries.truncate(end.max(query.limit));
        }
        Ok(page)
    }

    async fn lines(&self, query: &FeedQuery, limit: usize) -> Result<Option<Page>, DbError> {
        let since = match query.clock {
            Clock::Seen => query.since_ns,
            // The first millisecond that is not before.
            Clock::Created => {
                query.since_ns.div_euclid(1_000_000)
                    + i64::from(query.since_ns.rem_euclid(1_000_000) > 0)
            }
        };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rest = [Value::from(since), Value::from(limit)];
        match &query.path {
            None => {
                let statement = match (query.clock, query.reader) {
                    (Clock::Seen, Reader::All) => &sql::SEEN,
                    (Clock::Seen, Reader::Anybody) => &sql::SEEN_PUBLIC,
                    (Clock::Created, Reader::All) => &sql::CREATED,
                    (Clock::Created, Reader::Anybody) => &sql::CREATED_PUBLIC,
                };
                self.page(statement, rest.to_vec()).await
            }
            Some(path) => self.feed_below(path, query, rest).await,
        }
    }

    async fn feed_below(
        &self,
        path: &str,
        query: &FeedQuery,
        rest: [Value; 2],
    ) -> Result<Option<Page>, DbError> {
        let path = path.trim_end_matches('/');
        // "0" is the character after the slash.
        let below = [
            path.into(),
            format!("{path}/").into(),
            format!("{path}0").into(),
        ];
        let count = self.count_below(&below, query.reader).await?;
        let statement = match (count < FEW, query.clock, query.reader) {
            (true, Clock::Seen, Reader::All) => &sql::FEW_SEEN,
            (true, Clock::Seen, Reader::Anybody) => &sql::FEW_SEEN_PUBLIC,
            (true, Clock::Created, Reader::All) => &sql::FEW_CREATED,
            (true, Clock::Created, Reader::Anybody) => &sql::FEW_CREATED_PUBLIC,
            (false, Clock::Seen, Reader::All) => &sql::MANY_SEEN,
            (false, Clock::Seen, Reader::Anybody) => &sql::MANY_SEEN_PUBLIC,
            (false, Clock::Created, Reader::All) => &sql::MANY_CREATED,
            (false, Clock::Created, Reader::Anybody) => &sql::MANY_CREATED_PUBLIC,
        };
        self.page(statement, [&below[..], &rest].concat()).await
    }

    /// How many lines below a path this reader may see, as far as that matters.
    pub(super) async fn count_below(
        &self,
        below: &[Value; 3],
        reader: Reader,
    ) -> Result<i64, DbError> {
        let statement = match reader {
            Reader::All => &sql::COUNT_BELOW,
            Reader::Anybody => &sql::COUNT_BELOW_PUBLIC,
        };
        let asked = [&below[..], &[FEW.into()]].concat();
        let (count,): (i64,) = self.db.fetch_one(statement, &asked).await?;
        Ok(count)
    }

    async fn page(
        &self,
        statement: &'static Statement,
        values: Vec<Value>,
    ) -> Result<Option<Page>, DbError> {
        // By place and not by name: to look up the name of every column of every line costs a good
        // part of what the query does. The stamp is in every line: asked for apart, it would be a
        // second round trip and another point in time.
        let rows: Vec<(String, String, i64, i64, i64)> =
            self.db.fetch_all(statement, &values).await?;
        let Some(stamp_ns) = rows.first().map(|row| row.4) else {
            return Ok(None);
        };
        let entry = |(path, version, first_seen_ns, created, _)| Entry {
            path,
            version,
            first_seen_ns,
            created,
        };
        let entries = rows.into_iter().map(entry).collect();
        Ok(Some(Page { entries, stamp_ns }))
    }

    /// The latest timestamp at which the feed has changed.
    pub(crate) async fn stamp(&self) -> Result<i64, DbError> {
        let stamp: (i64,) = self.db.fetch_one(&sql::STAMP, &[]).await?;
        Ok(stamp.0)
    }

    pub(crate) async fn version(
        &self,
        path: &str,
        version: &str,
    ) -> Result<Option<VersionAt>, DbError> {
        let asked = [path.into(), version.into()];
        self.db.fetch_optional(&sql::VERSION, &asked).await
    }

    pub(crate) async fn versions(
        &self,
        path: &str,
        limit: usize,
    ) -> Result<Vec<VersionAt>, DbError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let asked = [path.into(), limit.into()];
        self.db.fetch_all(&sql::VERSIONS, &asked).await
    }
}
