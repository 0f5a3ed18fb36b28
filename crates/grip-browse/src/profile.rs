//! Names of people (kind 0), as far as their profiles are served here.

use std::collections::{BTreeSet, HashMap};

use grip_nostr::{Filter, PublicKey};
use grip_store::{EventStore, ReadView, StoreError};
use serde::Deserialize;

use crate::query;

/// Longest name shown.
const MAX_NAME_CHARS: usize = 60;
/// Longest text about somebody.
const MAX_ABOUT_CHARS: usize = 1000;

/// What somebody says of himself; nobody has checked it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    pub name: String,
    pub about: String,
    pub website: Option<String>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Content {
    name: Option<String>,
    display_name: Option<String>,
    about: Option<String>,
    website: Option<String>,
}

impl Profile {
    fn parse(content: &str) -> Option<Self> {
        let content: Content = serde_json::from_str(content).ok()?;
        let names = [content.display_name, content.name];
        let mut names = names
            .into_iter()
            .flatten()
            .map(|name| plain(&name, MAX_NAME_CHARS));
        let is_web = |url: &String| url.starts_with("https://") || url.starts_with("http://");
        Some(Self {
            name: names.find(|name| !name.is_empty())?,
            about: plain(content.about.as_deref().unwrap_or(""), MAX_ABOUT_CHARS),
            website: content.website.filter(is_web).filter(|url| url.len() < 300),
        })
    }
}

/// One line without what turns or hides text: a name must not look like another's key.
fn plain(text: &str, max_chars: usize) -> String {
    let shown = |c: &char| {
        !c.is_control()
            && !matches!(*c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let text: String = text.chars().filter(shown).take(max_chars).collect();
    text.trim().to_owned()
}

/// The profiles of `keys` that are served here. Blocks.
pub fn profiles(
    store: &EventStore,
    keys: impl IntoIterator<Item = PublicKey>,
) -> Result<HashMap<PublicKey, Profile>, StoreError> {
    read(&store.read()?, keys)
}

pub(crate) fn read(
    view: &ReadView<'_>,
    keys: impl IntoIterator<Item = PublicKey>,
) -> Result<HashMap<PublicKey, Profile>, StoreError> {
    let keys: BTreeSet<[u8; 32]> = keys.into_iter().map(|key| key.to_bytes()).collect();
    let mut found = HashMap::new();
    if keys.is_empty() {
        return Ok(found);
    }
    let max = keys.len();
    let filter = Filter {
        kinds: Some(vec![0]),
        authors: Some(keys.into_iter().collect()),
        ..Filter::default()
    };
    query::each(view, filter, max, |event| {
        if let Some(profile) = Profile::parse(&event.content) {
            found.entry(event.pubkey).or_insert(profile);
        }
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_that_shows_itself_whole() {
        let name = |json: &str| Profile::parse(json).map(|profile| profile.name);
        assert_eq!(name(r#"{"name":" Ada "}"#).as_deref(), Some("Ada"));
        assert_eq!(
            name(r#"{"name":"a","display_name":""}"#).as_deref(),
            Some("a")
        );
        assert_eq!(
            name("{\"name\":\"a\u{202e}b\\nc\"}").as_deref(),
            Some("abc")
        );
        assert_eq!(name(r#"{"name":""}"#), None);
        assert_eq!(name("no JSON"), None);
        let web =
            Profile::parse(r#"{"name":"a","website":"javascript:alert(1)"}"#).map(|p| p.website);
        assert_eq!(web, Some(None));
    }
}
