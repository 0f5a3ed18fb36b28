//! Keys and query parameters of the resolver.
//!
//! Invariant: a parameter that is not known, or comes twice, is refused: a misspelt `fresh` must
//! not look like an answer from the network.

use grip_resolve::{Key, ResolveError, ResolveParams};

use crate::{
    error::{ResolvingError, WebError},
    query::{decoded, flag, limit_up_to, query_text, query_value, wrong},
};

/// Providers of one answer where nobody asks for more, and the most.
const LISTED: usize = 20;
const MOST: usize = 100;
/// Longest name of a region.
const MAX_REGION: usize = 32;

/// How a manifest is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ManifestParameters {
    pub(super) ask: ResolveParams,
    /// The bytes alone, without the facts about them.
    pub(super) is_raw: bool,
}

/// What a person asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) key: Option<String>,
    pub(crate) ask: ResolveParams,
}

/// Which providers are wanted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Providers {
    pub(super) ask: ResolveParams,
    pub(super) limit: usize,
    pub(super) region: Option<String>,
}

/// Reads a key as it stands in a path; escapes are undone once.
pub(super) fn key(text: &str) -> Result<Key, WebError> {
    read_key(&decoded(text, "the key")?)
}

/// Reads a key as a person writes it.
pub(crate) fn read_key(text: &str) -> Result<Key, WebError> {
    Key::parse(text).map_err(|e| ResolvingError::Failed(ResolveError::Malformed(e)).into())
}

/// Reads `fresh` and `raw`.
pub(super) fn manifest(query: Option<&str>) -> Result<ManifestParameters, WebError> {
    only(query, &["fresh", "raw"])?;
    Ok(ManifestParameters {
        ask: ask(query)?,
        is_raw: flag(query, "raw")?.unwrap_or(false),
    })
}

/// Reads `key` and `fresh` as a browser's form writes them.
pub(crate) fn form(query: Option<&str>) -> Result<Form, WebError> {
    only(query, &["key", "fresh"])?;
    let key = match query_value(query, "key") {
        // In a form a plus is a space.
        Some(text) => Some(decoded(&text.replace('+', "%20"), "the key")?),
        None => None,
    };
    let key = key.map(|key| key.trim().to_owned());
    Ok(Form {
        key: key.filter(|key| !key.is_empty()),
        ask: ask(query)?,
    })
}

/// Reads `limit`, `region` and `fresh`.
pub(super) fn providers(query: Option<&str>) -> Result<Providers, WebError> {
    only(query, &["limit", "region", "fresh"])?;
    Ok(Providers {
        ask: ask(query)?,
        limit: limit(query)?,
        region: region(query)?,
    })
}

/// Refuses parameters that are not known.
pub(super) fn only(query: Option<&str>, known: &[&str]) -> Result<(), WebError> {
    let mut seen = Vec::new();
    let pairs = query.unwrap_or_default().split('&');
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let (name, _) = pair.split_once('=').unwrap_or((pair, ""));
        if !known.contains(&name) {
            let why = match known {
                [] => "nothing may stand behind the question mark".to_owned(),
                known => format!("the parameters are {}, and no others", known.join(", ")),
            };
            return Err(WebError::Malformed(why));
        }
        if seen.contains(&name) {
            return Err(wrong(name, "it is there twice"));
        }
        seen.push(name);
    }
    Ok(())
}

/// Reads `fresh`.
fn ask(query: Option<&str>) -> Result<ResolveParams, WebError> {
    Ok(ResolveParams {
        fresh: flag(query, "fresh")?.unwrap_or(false),
        deadline: None,
    })
}

fn limit(query: Option<&str>) -> Result<usize, WebError> {
    query_value(query, "limit").map_or(Ok(LISTED), |text| limit_up_to(text, MOST))
}

fn region(query: Option<&str>) -> Result<Option<String>, WebError> {
    let region = query_text(query, "region")?;
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    match region {
        Some(region) if region.len() > MAX_REGION || !region.bytes().all(is_plain) => {
            let why = "it is up to 32 letters, digits and dashes in lower case, such as eu-west";
            Err(wrong("region", why))
        }
        region => Ok(region),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wrong_parameter_is_named_with_what_would_be_right() {
        for (query, sentence) in [
            ("fresh=yes", "fresh is wrong: it is true or false"),
            ("frsh=true", "fresh, raw, and no others"),
            ("%66resh=true", "no others"),
            ("fresh=true&fresh=false", "twice"),
            ("limit=3", "no others"),
        ] {
            let found = manifest(Some(query)).unwrap_err().caller();
            assert!(found.contains(sentence), "{query}: {found}");
        }
        for (query, sentence) in [
            ("limit=0", "from 1 to 100"),
            ("limit=101", "from 1 to 100"),
            ("limit=-1", "from 1 to 100"),
            ("limit=", "from 1 to 100"),
            ("region=EU", "such as eu-west"),
            ("region=%00", "such as eu-west"),
            ("region=%ff", "no UTF-8"),
            ("raw=true", "limit, region, fresh"),
        ] {
            let found = providers(Some(query)).unwrap_err().caller();
            assert!(found.contains(sentence), "{query}: {found}");
        }
    }

    #[test]
    fn parameters_have_defaults() {
        for query in [None, Some(""), Some("&"), Some("fresh=false&raw=0")] {
            let manifest = manifest(query).unwrap();
            assert_eq!(
                (manifest.ask.fresh, manifest.is_raw),
                (false, false),
                "{query:?}"
            );
        }
        let found = providers(Some("fresh&region=eu-west&limit=100")).unwrap();
        assert!(found.ask.fresh);
        assert_eq!(
            (found.limit, found.region.as_deref()),
            (100, Some("eu-west"))
        );
        assert_eq!(providers(None).unwrap().limit, LISTED);
    }

    proptest! {
        #[test]
        fn any_query_and_any_key_are_read_without_panic(text in "[ -~é]{0,80}") {
            let _ = (manifest(Some(&text)), providers(Some(&text)), key(&text));
            for name in ["fresh", "raw", "limit", "region"] {
                let query = format!("{name}={text}");
                let _ = (manifest(Some(&query)), providers(Some(&query)));
            }
        }
    }
}
