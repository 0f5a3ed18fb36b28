//! Lists, a page at a time.

use std::{fmt, str::FromStr};

use url::Url;

use crate::{Etag, error::GitHubError};

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the list goes on; none at its end.
    pub next: Option<Cursor>,
    /// The mark of this page alone: the next one may change without it.
    pub etag: Option<Etag>,
}

/// A place in a list, for the same list only. As text it can be kept over a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub(crate) place: Place,
    /// Pages before this one.
    pub(crate) pages: u32,
}

/// How a list names its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// By number, from 1.
    Page(u32),
    /// By the id of the last item before.
    After(u64),
}

/// Why a text is no place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a place in a list, such as `page 2` or `after 700 of 7`")]
pub struct InvalidCursor;

impl Cursor {
    pub(crate) const FIRST_PAGE: Self = Self {
        place: Place::Page(1),
        pages: 0,
    };

    pub(crate) const FIRST_ID: Self = Self {
        place: Place::After(0),
        pages: 0,
    };

    /// A page by its number, from 1.
    pub fn page(number: u32) -> Self {
        let number = number.max(1);
        Self {
            place: Place::Page(number),
            pages: number - 1,
        }
    }

    /// The place after this one that `next` names; `last` is the highest id on the page.
    ///
    /// It must be further on, and not further than `most` pages from the beginning.
    pub(crate) fn advance(
        self,
        next: &Url,
        last: Option<u64>,
        most: u32,
    ) -> Result<Self, GitHubError> {
        let number = |key: &str| {
            let mut pairs = next.query_pairs();
            let found = pairs.find(|(name, _)| name == key);
            found.and_then(|(_, value)| value.parse::<u64>().ok())
        };
        let stuck = || GitHubError::malformed("the next page is not after this one");
        let pages = self.pages.saturating_add(1);
        let place = match self.place {
            Place::Page(page) => {
                let next = number("page").and_then(|next| u32::try_from(next).ok());
                Place::Page(next.filter(|next| *next > page).ok_or_else(stuck)?)
            }
            Place::After(id) => {
                let named = number("since")
                    .filter(|next| *next > id)
                    .ok_or_else(stuck)?;
                // Our own count where there is one: nothing is left out between two pages.
                let next = last.unwrap_or(named);
                Place::After(Some(next).filter(|next| *next > id).ok_or_else(stuck)?)
            }
        };
        let is_far = matches!(place, Place::Page(page) if page > most);
        if is_far || pages >= most {
            return Err(GitHubError::malformed(format!(
                "the list has more than {most} pages"
            )));
        }
        Ok(Self { place, pages })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Page(page) => write!(f, "page {page}"),
            Place::After(id) => write!(f, "after {id} of {}", self.pages),
        }
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        fn number<T: FromStr>(text: &str) -> Result<T, InvalidCursor> {
            text.parse().map_err(|_| InvalidCursor)
        }
        if let Some(page) = text.strip_prefix("page ") {
            let page: u32 = number(page)?;
            let pages = page.checked_sub(1).ok_or(InvalidCursor)?;
            let place = Place::Page(page);
            return Ok(Self { place, pages });
        }
        let after = text.strip_prefix("after ").ok_or(InvalidCursor)?;
        let (id, pages) = after.split_once(" of ").ok_or(InvalidCursor)?;
        let place = Place::After(number(id)?);
        let pages = number(pages)?;
        Ok(Self { place, pages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(from: &str, query: &str, last: Option<u64>) -> Result<String, String> {
        let url = Url::parse(&format!("https://a.example/x?{query}")).unwrap();
        let next = from.parse::<Cursor>().unwrap().advance(&url, last, 5);
        next.map(|cursor| cursor.to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn places_go_forward_and_are_kept_as_text() {
        assert_eq!(next("page 1", "per_page=9&page=2", None).unwrap(), "page 2");
        assert_eq!(
            next("after 0 of 0", "since=70", Some(70)).unwrap(),
            "after 70 of 1"
        );
        assert_eq!(
            next("after 7 of 1", "since=90", Some(70)).unwrap(),
            "after 70 of 2"
        );
        assert_eq!(
            next("after 7 of 1", "since=90", None).unwrap(),
            "after 90 of 2"
        );
    }

    #[test]
    fn a_list_that_does_not_go_on_is_nonsense() {
        for (from, query, last) in [
            ("page 2", "page=2", None),
            ("page 2", "page=1", None),
            ("page 2", "since=9", None),
            ("page 2", "page=99999999999999999999", None),
            ("after 7 of 1", "since=7", None),
            ("after 7 of 1", "page=2", None),
            ("after 7 of 1", "since=9", Some(7)),
            ("after 7 of 1", "since=9", Some(3)),
        ] {
            let error = next(from, query, last).unwrap_err();
            assert!(
                error.contains("not after this one"),
                "{from} {query}: {error}"
            );
        }
    }

    #[test]
    fn a_list_without_end_has_one() {
        for (from, query) in [
            ("page 4", "page=6"),
            ("page 5", "page=6"),
            ("after 7 of 4", "since=9"),
        ] {
            let error = next(from, query, None).unwrap_err();
            assert!(error.contains("more than 5 pages"), "{from}: {error}");
        }
        assert!(next("page 4", "page=5", None).is_ok());
    }

    #[test]
    fn other_texts_are_no_places() {
        for text in [
            "",
            "page",
            "page 0",
            "page -1",
            "page x",
            "after 1",
            "after 1 of x",
            "2",
        ] {
            assert_eq!(text.parse::<Cursor>(), Err(InvalidCursor), "{text}");
        }
    }
}
