//! Pages of pushes, without those that the reader may not see.

use grip_db::DbError;
use grip_ingest::{EventCursor, EventQuery, Ingest, StoredEvent};
use serde::Deserialize;

/// Pushes that are read at a time: what GitHub said of each comes with it.
const STEP: usize = 20;
/// Bytes of what GitHub said that go through one page. The page ends there, and another begins.
const MOST_BYTES: usize = 16 << 20;
/// Pushes that are looked at for one page.
const MOST_LOOKED: usize = 2_000;

/// Which pushes are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PushQuery {
    /// `limit` is that of the page.
    pub(crate) events: EventQuery,
    /// None that happened before.
    pub(crate) since_ms: Option<i64>,
    /// Sees also what is not public.
    pub(crate) is_operator: bool,
}

/// Pushes, the latest first.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) pushes: Vec<StoredEvent>,
    /// Where the next page begins; none if this is the last.
    pub(crate) next: Option<EventCursor>,
}

/// A page of pushes. It may be shorter than wanted and still not be the last.
pub(crate) async fn pushes(ingest: &Ingest, wanted: PushQuery) -> Result<Page, DbError> {
    let (mut page, mut query) = (Page::default(), wanted.events);
    let (limit, mut bytes, mut looked) = (query.limit, 0, 0);
    let since = wanted.since_ms.unwrap_or(i64::MIN);
    loop {
        query.limit = STEP.min(limit - page.pushes.len());
        let found = ingest.events(&query).await?;
        let is_last = found.len() < query.limit;
        for push in found {
            if push.at() < since {
                return Ok(page);
            }
            query.after = Some(push.cursor());
            looked += 1;
            bytes += push.raw.len();
            if wanted.is_operator || is_public(&push.raw) {
                page.pushes.push(push);
            }
        }
        if is_last {
            return Ok(page);
        }
        if page.pushes.len() >= limit || bytes >= MOST_BYTES || looked >= MOST_LOOKED {
            page.next = query.after;
            return Ok(page);
        }
    }
}

/// Says whether everybody may know of a push: GitHub's lists say so of the event, its webhooks of
/// the repository. What says nothing, or something odd, is not public.
fn is_public(raw: &str) -> bool {
    #[derive(Deserialize)]
    struct Visibility {
        public: Option<bool>,
        repository: Option<Repository>,
    }
    #[derive(Deserialize)]
    struct Repository {
        private: Option<bool>,
        visibility: Option<String>,
    }
    let Ok(event) = serde_json::from_str::<Visibility>(raw) else {
        return false;
    };
    let repository = event.repository.map(|repository| {
        let how = repository.visibility;
        let is_public = how.is_none_or(|how| how == "public");
        repository
            .private
            .map(|is_private| is_public && !is_private)
    });
    match (event.public, repository.flatten()) {
        (None, None) => false,
        (public, repository) => public != Some(false) && repository != Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_to_be_public_is() {
        for raw in [
            r#"{"public":true}"#,
            r#"{"public":true,"repository":{}}"#,
            r#"{"repository":{"private":false}}"#,
            r#"{"repository":{"private":false,"visibility":"public","x":[{}]}}"#,
        ] {
            assert!(is_public(raw), "{raw}");
        }
        for raw in [
            "",
            "{}",
            "[]",
            r#"{"public":false}"#,
            r#"{"public":"true"}"#,
            r#"{"public":true,"public":false}"#,
            r#"{"public":true,"repository":{"private":true}}"#,
            r#"{"public":true,"repository":7}"#,
            r#"{"repository":{"private":true}}"#,
            r#"{"repository":{"private":null}}"#,
            r#"{"repository":{"private":false,"visibility":"internal"}}"#,
        ] {
            assert!(!is_public(raw), "{raw}");
        }
    }
}
