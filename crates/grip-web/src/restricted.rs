//! Readers of the restricted repositories of the index.
//!
//! Restricted are repositories that not everybody may see on their own host. On a private service
//! a client that passed its gate is a member and reads them; on a public one a token of the settings
//! opens them, as `Bearer` or as the password of `Basic`, which is what the go command and git send
//! from `.netrc`. The operator reads them always.

use grip_index::Reader;
use http::header;

use crate::{admin, private, request_context::RequestContext};

/// Kinds of jobs of which there is one for a repository: how many there are tells of repositories that
/// the reader may not see.
pub(crate) const JOB_KINDS: [&str; 2] = ["index-repo", "tag-event"];

/// For whom an answer about the index is made.
pub(crate) fn reader(cx: &RequestContext<'_>) -> Reader {
    let is_reader = cx.settings.private.is_some() || has_token(cx) || cx.is_operator();
    if is_reader {
        Reader::All
    } else {
        Reader::Anybody
    }
}

fn has_token(cx: &RequestContext<'_>) -> bool {
    let readers = &cx.settings.index_readers;
    if readers.is_empty() {
        return false;
    }
    let is_one = |given: &str| {
        readers
            .iter()
            .fold(false, |any, token| any | token.is(given))
    };
    if let Some(given) = admin::bearer(cx.headers()) {
        return is_one(given);
    }
    let given = cx.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|given| given.to_str().ok()?.split_once(' '));
    let given = given.and_then(|(scheme, rest)| private::password(scheme, rest.trim()));
    given.is_some_and(|given| is_one(&given))
}
