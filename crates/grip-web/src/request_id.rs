//! A name for each request, to find it again in the log.

use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Gives out names that do not repeat, also over restarts.
pub(crate) struct RequestIds {
    /// When this process began: tells its ids from those of the one before.
    epoch: u32,
    next: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new(unix_seconds: i64) -> Self {
        Self {
            epoch: unix_seconds as u32,
            next: AtomicU64::new(1),
        }
    }

    /// The client's own name if it is a plain short word, else a new one.
    pub(crate) fn name(&self, headers: &HeaderMap) -> String {
        headers
            .get(&HEADER)
            .and_then(|value| value.to_str().ok())
            .filter(|text| is_plain(text))
            .map_or_else(|| self.fresh(), str::to_owned)
    }

    fn fresh(&self) -> String {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{:08x}-{n:x}", self.epoch)
    }
}

/// Nothing that could break a log line or a page.
fn is_plain(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

pub(crate) fn value(id: &str) -> HeaderValue {
    HeaderValue::from_str(id).unwrap_or_else(|_| HeaderValue::from_static("unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_of_the_client_is_kept_and_any_other_replaced() {
        let ids = RequestIds::new(0x1234_5678);
        let mut headers = HeaderMap::new();
        assert_eq!(ids.name(&headers), "12345678-1");
        headers.insert(HEADER, HeaderValue::from_static("trace-7.a"));
        assert_eq!(ids.name(&headers), "trace-7.a");
        for bad in ["", "a b", "<script>", &"x".repeat(65)] {
            headers.insert(HEADER, HeaderValue::from_str(bad).unwrap());
            assert!(ids.name(&headers).starts_with("12345678-"), "{bad:?}");
        }
    }
}
