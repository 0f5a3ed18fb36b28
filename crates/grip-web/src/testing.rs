//! Values that unit tests of several modules need.

use http::{HeaderMap, HeaderName, HeaderValue};

/// Headers with these values, in this order.
pub(crate) fn headers<V: AsRef<[u8]>>(pairs: &[(&'static str, V)]) -> HeaderMap {
    let header = |(name, value): &(&'static str, V)| {
        let value = HeaderValue::from_bytes(value.as_ref()).unwrap();
        (HeaderName::from_static(name), value)
    };
    let mut headers = HeaderMap::new();
    for (name, value) in pairs.iter().map(header) {
        headers.append(name, value);
    }
    headers
}

/// One header with several values.
pub(crate) fn header<V: AsRef<[u8]> + Copy>(name: &'static str, values: &[V]) -> HeaderMap {
    let pairs: Vec<_> = values.iter().map(|value| (name, *value)).collect();
    headers(&pairs)
}
