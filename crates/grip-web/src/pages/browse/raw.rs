//! Files as they are.
//!
//! A browser must never take one for a page of this node: text is plain text, pictures are shown
//! in a sandbox without scripts, everything else and what can name other hosts is a download.

use grip_git::{EntryKind, FileAt};
use http::{HeaderValue, StatusCode, header};

use super::Visit;
use crate::{
    error::WebError,
    request_context::{HttpResult, RequestContext},
    respond::{self, WithHeader as _},
};

/// Largest file that is sent; it is in memory until it is.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// Nothing runs, nothing is loaded, and the document has an origin of its own.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

pub(crate) async fn file(cx: &RequestContext<'_>) -> HttpResult {
    let mut visit = Visit::open(cx, "code").await?;
    let target = visit.target(cx.params()[0]).await?;
    let etag = visit.etag(&target.commit);
    if etag.is_known(cx.headers()) {
        return Ok(etag.unchanged());
    }
    let (commit, path) = (target.commit, target.path.clone());
    let found = visit
        .read(move |repositories, repo| {
            let entry = repositories.path_entry(&repo.identifier, &commit, &path)?;
            let entry =
                entry.filter(|entry| entry.kind.is_blob() && entry.kind != EntryKind::Symlink);
            let read = |oid| repositories.blob(&repo.identifier, &oid, MAX_BYTES);
            entry.map(|entry| read(entry.oid)).transpose()
        })
        .await?;
    let bytes = match found {
        Some(FileAt::Bytes(bytes)) => bytes,
        Some(FileAt::TooLarge(_)) => return Err(WebError::NotShown("the file is too large")),
        _ => {
            return Err(WebError::NotInRepository(
                "file of that name at this commit",
            ));
        }
    };
    let is_text = !grip_browse::diff::is_binary(&bytes);
    let kind = match picture_type(&target.path) {
        Some(kind) => kind,
        None if is_text => "text/plain; charset=utf-8",
        None => "application/octet-stream",
    };
    let mut response = respond::typed(StatusCode::OK, kind, bytes::Bytes::from(bytes))
        .with(header::CONTENT_SECURITY_POLICY, POLICY)
        .with(header::REFERRER_POLICY, "no-referrer");
    // An SVG is shown within pages alone: as a document of its own it makes browsers connect to the
    // hosts of its frames, though the policy forbids to load them.
    if matches!(kind, "application/octet-stream" | "image/svg+xml") {
        let value = HeaderValue::from_static("attachment");
        response
            .headers_mut()
            .insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(if target.is_pinned {
        etag.put_for_good(response)
    } else {
        etag.put_on(response)
    })
}

/// The type of a picture that browsers show, by its name.
pub(super) fn picture_type(path: &str) -> Option<&'static str> {
    let extension = path.rsplit_once('.')?.1.to_ascii_lowercase();
    Some(match &*extension {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "ico" => "image/x-icon",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}
