//! Clone URLs of an announcement.

use std::collections::BTreeSet;

use grip_nostr::Announcement;
use grip_types::Domain;
use url::Url;

/// Most URLs of one announcement; of more, the first in order.
const MAX_URLS: usize = 64;
/// Longest URL.
const MAX_LEN: usize = 2_048;

/// What the owner names as clone URLs: http and https only, normalised, sorted, each once.
///
/// A function of the announcement alone, so that all nodes come to the same list.
pub(super) fn of(announcement: &Announcement) -> Vec<Url> {
    let texts = announcement.clone.iter().map(String::as_str);
    let urls: BTreeSet<Url> = texts.filter_map(read).collect();
    urls.into_iter().take(MAX_URLS).collect()
}

/// A URL of a repository; none if it is of another kind or carries what nobody should send.
pub(crate) fn read(text: &str) -> Option<Url> {
    if text.len() > MAX_LEN {
        return None;
    }
    let mut url = Url::parse(text.trim()).ok()?;
    url.set_fragment(None);
    let is_plain = url.username().is_empty() && url.password().is_none();
    let is_http = matches!(url.scheme(), "http" | "https");
    let fits = url.as_str().len() <= MAX_LEN && Domain::of(&url).is_some();
    (is_http && is_plain && fits).then_some(url)
}
