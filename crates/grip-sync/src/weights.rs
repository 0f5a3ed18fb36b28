//! Bytes that entries of a [`grip_types::ByteLru`] take beside their own size.

use grip_types::Identifier;
use url::Url;

/// What the text of a URL takes.
pub(crate) fn of_url(url: &Url) -> usize {
    url.as_str().len()
}

/// What the texts of a pair take.
pub(crate) fn of_pair((identifier, url): &(Identifier, Url)) -> usize {
    identifier.as_str().len() + of_url(url)
}
