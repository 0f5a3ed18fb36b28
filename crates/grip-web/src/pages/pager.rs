//! Pages of a list.

/// The links from one page of a list to those beside it.
pub(super) struct Pager {
    pub(super) previous: Option<String>,
    pub(super) next: Option<String>,
    pub(super) label: String,
}

impl Pager {
    /// Pages of a list whose length is known; `href` makes the address of a page, from 1.
    pub(super) fn of(page: usize, pages: usize, href: impl Fn(usize) -> String) -> Self {
        Self {
            previous: (page > 1).then(|| href(page - 1)),
            next: (page < pages).then(|| href(page + 1)),
            label: format!("page {page} of {}", pages.max(1)),
        }
    }

    /// Pages of a list of which only the beginning is known.
    pub(super) fn open(page: usize, is_more: bool, href: impl Fn(usize) -> String) -> Self {
        Self {
            previous: (page > 1).then(|| href(page - 1)),
            next: is_more.then(|| href(page + 1)),
            label: format!("page {page}"),
        }
    }

    pub(super) fn is_needed(&self) -> bool {
        self.previous.is_some() || self.next.is_some()
    }
}
