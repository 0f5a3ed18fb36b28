//! Gate of a private service (GRASP-08): proof of membership before anything is looked up.
//!
//! A route of the table is for members unless its row says otherwise. A proof is an event of kind
//! 27235 (NIP-98) of a member, made for the repository, or for any other path as it is asked for,
//! within a minute. It counts as often as it comes: git sends one header with several requests.
//!
//! Invariant: every refusal is the same bytes, and is decided before the repository is looked up
//! and before the body of the request is read.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use grip_nostr::PublicKey;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};

use crate::{
    admin::{self, signature},
    body::Body,
    error::WebError,
    request_context::RequestContext,
    respond,
    routes::{self, Reader},
    settings::Private,
};

/// Longest `Authorization` that is read: a token, in base64 once more.
const MAX_AUTHORIZATION: usize = 16 << 10;

/// Marks the one refusal, to which nothing is added that differs between requests.
#[derive(Clone, Copy)]
pub(crate) struct Refused;

/// Lets a request pass that is for anybody, or shows a proof.
pub(crate) fn check(cx: &RequestContext<'_>) -> Result<(), WebError> {
    if cx.matched.route.reader != Reader::Member || is_member(cx) {
        Ok(())
    } else {
        Err(WebError::NotAMember)
    }
}

/// Whether all may be shown to the client: the service is public, or it has shown a proof.
pub(crate) fn is_member(cx: &RequestContext<'_>) -> bool {
    let Some(private) = &cx.settings.private else {
        return true;
    };
    if cx.is_operator() {
        return true;
    }
    let key = proved_key(cx, private);
    // Last, so that the time of an answer does not tell who is a member.
    key.is_some_and(|key| private.access.members.contains(&key))
}

/// Resolves once a client that was let in has to go: its key is no member's any more (G08-21). Never for
/// the operator, or where the service is public.
pub(crate) fn revoked(cx: &RequestContext<'_>) -> impl Future<Output = ()> + Send + use<> {
    let private = cx.settings.private.as_ref();
    let private = private.filter(|_| !cx.is_operator());
    let member = private.map(|private| {
        let members = private.access.members.clone();
        (members, proved_key(cx, private))
    });
    async move {
        match member {
            None => std::future::pending().await,
            Some((members, Some(key))) => members.revoked(&key).await,
            // Its proof was as old as it may be when it was let in.
            Some((_, None)) => {}
        }
    }
}

/// The key that a request proves for what it asks for.
fn proved_key(cx: &RequestContext<'_>, private: &Private) -> Option<PublicKey> {
    let base = cx.settings.service.base();
    let path = routes::proof_path(cx.head.uri.path(), base);
    let url = format!("{}{path}", private.origin);
    prove(cx.headers(), &url, admin::now())
}

/// The key that a request proves, for `url` and now (G08-7).
fn prove(headers: &HeaderMap, url: &str, now: u64) -> Option<PublicKey> {
    let event = signature::decode(&token(headers)?)?;
    let one = |name| match &signature::values(&event, name)[..] {
        [value] => Some(*value),
        _ => None,
    };
    let is_for_this = event.kind.as_u16() == signature::KIND
        && one("u") == Some(url)
        && one("method") == Some("GET")
        && event.created_at.as_secs().abs_diff(now) <= signature::WINDOW;
    (is_for_this && event.verify().is_ok()).then_some(event.pubkey)
}

/// The proof of `Authorization: Nostr <token>`, or of the password of `Basic`: helpers of git's
/// know no other way.
fn token(headers: &HeaderMap) -> Option<String> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let value = all.next().filter(|_| all.next().is_none())?;
    let value = value.to_str().ok()?;
    if value.len() > MAX_AUTHORIZATION {
        return None;
    }
    let (scheme, rest) = value.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("nostr") {
        return Some(rest.to_owned());
    }
    password(scheme, rest)
}

/// The password of `Authorization: Basic`.
pub(crate) fn password(scheme: &str, rest: &str) -> Option<String> {
    if !scheme.eq_ignore_ascii_case("basic") || rest.len() > MAX_AUTHORIZATION {
        return None;
    }
    let pair = String::from_utf8(STANDARD.decode(rest).ok()?).ok()?;
    let (_, password) = pair.split_once(':')?;
    Some(password.to_owned())
}

/// The one answer to everybody who shows no proof (G08-10).
pub(crate) fn refusal(private: &Private) -> Response<Body> {
    let mut response = respond::bare(StatusCode::UNAUTHORIZED, Body::empty());
    response.extensions_mut().insert(Refused);
    let realm = private.access.service.authority();
    let headers = response.headers_mut();
    for scheme in [
        format!("Nostr realm=\"{realm}\", method=\"GET\""),
        format!("Basic realm=\"{realm}\""),
    ] {
        if let Ok(value) = HeaderValue::try_from(scheme) {
            headers.append(header::WWW_AUTHENTICATE, value);
        }
    }
    headers.insert(header::CACHE_CONTROL, NOT_SHARED);
    headers.insert(
        HeaderName::from_static("access-control-expose-headers"),
        HeaderValue::from_static("WWW-Authenticate"),
    );
    response
}

/// Keeps answers for members out of caches: some may be kept for long on a public service.
pub(crate) fn keep_out_of_caches(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, NOT_SHARED);
}

const NOT_SHARED: HeaderValue = HeaderValue::from_static("private, no-store");

#[cfg(test)]
mod tests;
