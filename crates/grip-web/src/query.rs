//! Query strings and percent escapes.

use std::fmt::Display;

use grip_types::percent_decode;

use crate::error::WebError;

/// Last page of any list.
const MAX_PAGE: usize = 100_000;

/// Longest value that is read.
const MAX_BYTES: usize = 4 << 10;

/// The first value of `name` in a query string, as it is written.
pub(crate) fn query_value<'a>(query: Option<&'a str>, name: &str) -> Option<&'a str> {
    query?.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then_some(value)
    })
}

/// The same, decoded; an empty value is the same as none.
pub(crate) fn query_text(query: Option<&str>, name: &str) -> Result<Option<String>, WebError> {
    match query_value(query, name) {
        None | Some("") => Ok(None),
        Some(value) => decoded(value, name).map(Some),
    }
}

/// The same as the form of a page sends it, where a plus is a space.
pub(crate) fn query_words(query: Option<&str>, name: &str) -> Result<Option<String>, WebError> {
    match query_value(query, name) {
        None | Some("") => Ok(None),
        Some(value) => decoded(&value.replace('+', " "), name).map(Some),
    }
}

/// Reads which page of a list is wanted, from 1.
pub(crate) fn page_number(query: Option<&str>) -> Result<usize, WebError> {
    match query_value(query, "page") {
        None | Some("") => Ok(1),
        Some(text) => {
            let page = text.parse().ok();
            let page = page.filter(|page| (1..=MAX_PAGE).contains(page));
            page.ok_or_else(|| wrong("page", format!("it is a number from 1 to {MAX_PAGE}")))
        }
    }
}

/// Undoes percent escapes, once. A plus stands for itself, as in the offset of a time.
pub(crate) fn decoded(text: &str, name: &str) -> Result<String, WebError> {
    let wrong = |why: &str| WebError::Malformed(format!("{name} {why}"));
    if text.len() > MAX_BYTES {
        return Err(wrong("is too long"));
    }
    let bytes =
        percent_decode(text).ok_or_else(|| wrong("has a percent sign that is no escape"))?;
    String::from_utf8(bytes).map_err(|_| wrong("is no UTF-8"))
}

/// Reads true or false; a name alone is true.
pub(crate) fn flag(query: Option<&str>, name: &str) -> Result<Option<bool>, WebError> {
    match query_value(query, name) {
        None => Ok(None),
        Some("" | "true" | "1") => Ok(Some(true)),
        Some("false" | "0") => Ok(Some(false)),
        Some(_) => Err(wrong(name, "it is true or false")),
    }
}

/// Reads how many entries are wanted.
pub(crate) fn limit_up_to(text: &str, most: usize) -> Result<usize, WebError> {
    let limit = text.parse().ok();
    let limit = limit.filter(|limit| (1..=most).contains(limit));
    limit.ok_or_else(|| wrong("limit", format!("it is a number from 1 to {most}")))
}

/// The same for an optional `limit`.
pub(crate) fn limit_or(query: Option<&str>, usual: usize, most: usize) -> Result<usize, WebError> {
    match query_value(query, "limit") {
        None | Some("") => Ok(usual),
        Some(text) => limit_up_to(text, most),
    }
}

/// The error about a parameter, with what would be right.
pub(crate) fn wrong(name: &str, why: impl Display) -> WebError {
    WebError::Malformed(format!("{name} is wrong: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn query_values_come_in_any_order_with_others_beside() {
        let query = Some("a=b&service=git-upload-pack&service=second&flag");
        assert_eq!(query_value(query, "service"), Some("git-upload-pack"));
        assert_eq!(query_value(query, "flag"), Some(""));
        assert_eq!(query_value(query, "serv"), None);
        assert_eq!(query_value(None, "service"), None);
    }

    #[test]
    fn escapes_are_undone_once_and_a_wrong_one_is_named() {
        let of = |query| query_text(Some(query), "since");
        assert_eq!(
            of("since=a%2Fb%252F+c").unwrap().as_deref(),
            Some("a/b%2F+c")
        );
        assert_eq!(of("since=&x=y").unwrap(), None);
        for bad in ["since=%", "since=%4", "since=%zz", "since=%ff"] {
            let sentence = of(bad).unwrap_err().caller();
            assert!(sentence.contains("since"), "{sentence}");
        }
        let long = format!("since={}", "x".repeat(5000));
        assert!(of(&long).unwrap_err().caller().contains("too long"));
    }

    proptest! {
        #[test]
        fn any_query_is_read_without_panic(query in "[ -~é]{0,200}") {
            let _ = query_text(Some(&query), "a");
        }
    }
}
