//! The HTTP requests of git.

use bytes::Bytes;
use grip_egress::Request;
use grip_git::remote::{MAX_ASIDE_BYTES, Version};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{ACCEPT, CONTENT_TYPE},
};
use url::Url;

const GIT_PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");

/// `POST git-upload-pack` with `body`.
pub(super) fn post(url: &Url, version: Version, body: Bytes, max_bytes: u64) -> Request {
    let mut headers = HeaderMap::new();
    let text = HeaderValue::from_static;
    headers.insert(CONTENT_TYPE, text("application/x-git-upload-pack-request"));
    headers.insert(ACCEPT, text("application/x-git-upload-pack-result"));
    if version == Version::V2 {
        headers.insert(GIT_PROTOCOL, text("version=2"));
    }
    Request {
        method: Method::POST,
        url: below(url, "git-upload-pack"),
        headers,
        body,
        max_bytes,
    }
}

/// `GET info/refs` in the oldest version, which lists the refs at once.
pub(super) fn info_refs(url: &Url, max_bytes: u64) -> Request {
    let mut url = below(url, "info/refs");
    url.set_query(Some("service=git-upload-pack"));
    Request {
        method: Method::GET,
        url,
        headers: HeaderMap::new(),
        body: Bytes::new(),
        max_bytes,
    }
}

fn below(url: &Url, path: &str) -> Url {
    let mut below = url.clone();
    below.set_query(None);
    below.set_fragment(None);
    below.set_path(&format!("{}/{path}", url.path().trim_end_matches('/')));
    below
}

/// The size of an answer with a pack of that size: five bytes around each of the smallest packets
/// that servers send, and what comes beside the pack.
pub(super) fn max_pack_answer(max_pack_bytes: u64) -> u64 {
    let around = max_pack_bytes / 128;
    max_pack_bytes
        .saturating_add(around)
        .saturating_add(2 * MAX_ASIDE_BYTES as u64)
}

/// The size of a list of that many refs with names of reasonable length.
pub(super) fn max_refs_bytes(max_refs: usize) -> u64 {
    (max_refs as u64)
        .saturating_mul(256)
        .saturating_add(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::url;

    #[test]
    fn requests_go_below_the_clone_url_however_it_ends() {
        for clone in [
            "https://a.example/x.git",
            "https://a.example/x.git//",
            "https://a.example/x.git?q#f",
        ] {
            let request = post(&url(clone), Version::V2, Bytes::new(), 1);
            assert_eq!(
                request.url.as_str(),
                "https://a.example/x.git/git-upload-pack"
            );
            let request = info_refs(&url(clone), 1);
            assert_eq!(
                request.url.as_str(),
                "https://a.example/x.git/info/refs?service=git-upload-pack"
            );
        }
        let odd = post(
            &url("https://a.example/%20ä%2F/"),
            Version::V2,
            Bytes::new(),
            1,
        );
        assert_eq!(
            odd.url.as_str(),
            "https://a.example/%20%C3%A4%2F/git-upload-pack"
        );
    }

    #[test]
    fn only_the_new_version_is_announced() {
        let new = post(&url("https://a.example/x"), Version::V2, Bytes::new(), 1);
        assert_eq!(new.headers["git-protocol"], "version=2");
        let old = post(&url("https://a.example/x"), Version::V0, Bytes::new(), 1);
        assert!(!old.headers.contains_key("git-protocol"));
    }
}
