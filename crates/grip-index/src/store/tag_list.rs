//! Tag lists that are read in part, kept over rate limits and restarts.
//!
//! A list that fits one page is never kept. Of longer ones each page is written as it comes, so that
//! a list that no budget covers is read all the same, by whichever instance.

use std::time::Duration;

use grip_db::{Column, DbError, Value};
use grip_types::Oid;

use super::{Store, sql::sql};
use crate::{TagAt, claim_rules};

/// Tags that are read back at a time.
const AT_ONCE: i64 = 5_000;
/// How old the beginning of a list may be.
const FRESH: Duration = Duration::from_secs(6 * 60 * 60);

/// A tag list as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartialTagList {
    pub(crate) tags: Vec<TagAt>,
    pub(crate) pages: i64,
    pub(crate) next: Option<String>,
    /// The place and the mark of the latest page.
    pub(crate) last_page: Option<String>,
    pub(crate) last_mark: Option<String>,
    /// The marks of all pages; none where one page has none.
    pub(crate) marks: Option<Vec<String>>,
    pub(crate) began_ms: i64,
}

struct Row {
    occasion: String,
    pages: i64,
    next_page: Option<String>,
    last_page: Option<String>,
    last_mark: Option<String>,
    marks: Option<String>,
    began_at: i64,
}

grip_db::from_row!(Row {
    occasion,
    pages,
    next_page,
    last_page,
    last_mark,
    marks,
    began_at,
});

type TagLine = (i64, i64, String, String, String);

impl Store {
    /// What was kept of a repository's list on the same occasion, if it is fresh.
    pub(crate) async fn tag_list(
        &self,
        repo: &str,
        occasion: &str,
    ) -> Result<Option<PartialTagList>, DbError> {
        let row: Option<Row> = self
            .db
            .fetch_optional(&sql::TAG_LIST, &[repo.into()])
            .await?;
        let fresh = i64::try_from(FRESH.as_millis()).unwrap_or(i64::MAX);
        let is_fit = |row: &Row| {
            row.occasion == occasion && row.began_at.saturating_add(fresh) > self.now_ms()
        };
        let Some(row) = row.filter(is_fit) else {
            return Ok(None);
        };
        let marks = row
            .marks
            .and_then(|marks| serde_json::from_str(&marks).ok());
        let mut list = PartialTagList {
            tags: Vec::new(),
            pages: row.pages,
            next: row.next_page,
            last_page: row.last_page,
            last_mark: row.last_mark,
            marks,
            began_ms: row.began_at,
        };
        let (mut page, mut place) = (-1, -1);
        loop {
            let values = [repo.into(), page.into(), Value::Int(place), AT_ONCE.into()];
            let lines: Vec<TagLine> = self.db.fetch_all(&sql::LISTED_TAGS, &values).await?;
            let Some(last) = lines.last() else {
                return Ok(Some(list));
            };
            (page, place) = (last.0, last.1);
            // A page that was written before its list was is read again.
            let kept = lines.into_iter().filter(|line| line.0 < list.pages);
            list.tags.extend(kept.filter_map(read));
        }
    }

    /// Keeps a list after one more page, whose tags are the last `new` ones.
    pub(crate) async fn keep_tag_list(
        &self,
        repo: &str,
        occasion: &str,
        list: &PartialTagList,
        new: usize,
    ) -> Result<(), DbError> {
        let tags = &list.tags[list.tags.len() - new..];
        let places = (0_i64..).zip(tags).map(|(place, _)| place).collect();
        // No engine keeps every character that a host may put into a name.
        let names = tags
            .iter()
            .map(|tag| claim_rules::kept_name(&tag.name).into_owned());
        let columns = [
            Column::Ints(places),
            Column::Texts(names.collect()),
            Column::Texts(tags.iter().map(|tag| tag.object.to_hex()).collect()),
            Column::Texts(tags.iter().map(|tag| tag.commit.to_hex()).collect()),
        ];
        let page = [repo.into(), (list.pages - 1).into()];
        let marks = list.marks.as_ref();
        let marks = marks.and_then(|marks| serde_json::to_string(marks).ok());
        let values = [
            repo.into(),
            occasion.into(),
            list.pages.into(),
            list.next.clone().into(),
            list.last_page.clone().into(),
            list.last_mark.clone().into(),
            marks.into(),
            list.began_ms.into(),
        ];
        let is_first = list.pages == 1;
        let repo = repo.to_owned();
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    if is_first {
                        db.execute(&sql::DROP_LISTED_TAGS, &[repo.into()]).await?;
                    }
                    db.execute(&sql::PUT_TAG_LIST, &values).await?;
                    if !columns[0].is_empty() {
                        db.execute_rows(&sql::ADD_LISTED_TAGS, &columns, &page)
                            .await?;
                    }
                    Ok(())
                })
            })
            .await
    }
}

fn read((_, _, name, object, commit): TagLine) -> Option<TagAt> {
    Some(TagAt {
        name,
        object: Oid::from_hex(object.as_bytes()).ok()?,
        commit: Oid::from_hex(commit.as_bytes()).ok()?,
    })
}
