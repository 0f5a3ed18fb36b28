//! Pages and the JSON of what is on them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::repositories::Held;

/// Where a page begins and how long it is.
pub(super) struct PageQuery {
    pub(super) page: usize,
    pub(super) per_page: usize,
    pub(super) since: u64,
    pub(super) sort: String,
    pub(super) direction: String,
    /// The `ref` of a file.
    pub(super) at: Option<String>,
}

impl PageQuery {
    pub(super) fn read(query: &str) -> Self {
        let mut asked = Self {
            page: 1,
            per_page: 30,
            since: 0,
            sort: "created".to_owned(),
            direction: String::new(),
            at: None,
        };
        for (key, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match key {
                "page" => asked.page = value.parse().unwrap_or(1).max(1),
                "per_page" => asked.per_page = value.parse().unwrap_or(30).clamp(1, 100),
                "since" => asked.since = value.parse().unwrap_or_default(),
                "sort" => asked.sort = value.to_owned(),
                "direction" => asked.direction = value.to_owned(),
                "ref" => asked.at = Some(unescaped(value)),
                _ => {}
            }
        }
        asked
    }

    /// The part of `all` that is asked for, and whether more follows.
    pub(super) fn part<T>(&self, all: impl Iterator<Item = T>) -> (Vec<T>, bool) {
        let skipped = (self.page - 1).saturating_mul(self.per_page);
        let mut rest = all.skip(skipped);
        let part = rest.by_ref().take(self.per_page).collect();
        (part, rest.next().is_some())
    }
}

/// Reads `%2F` and the like.
pub(super) fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Seconds since 1970 as GitHub writes them.
pub(super) fn moment(at: i64) -> String {
    Timestamp::from_second(at).map_or_else(|_| "never".to_owned(), |at| at.to_string())
}

/// A repository in the short form, which the list of all repositories has.
pub(super) fn short(held: &Held, root: &str) -> Value {
    let repo = &held.repo;
    let name = &repo.full_name;
    let kind = if repo.of_user { "User" } else { "Organization" };
    json!({
        "id": held.id,
        "node_id": format!("R_{}", held.id),
        "name": name.split('/').next_back(),
        "full_name": name,
        "private": repo.is_hidden(),
        "visibility": repo.visibility(),
        "owner": { "login": repo.owner(), "id": 1, "type": kind },
        "html_url": format!("https://github.com/{name}"),
        "description": "made up",
        "fork": repo.fork,
        "url": format!("{root}/repos/{name}"),
    })
}

/// A repository in the long form.
pub(super) fn long(held: &Held, root: &str) -> Value {
    let repo = &held.repo;
    let ours = || format!("https://github.com/{}.git", repo.full_name);
    let more = json!({
        "archived": repo.archived,
        "disabled": false,
        "default_branch": repo.default_branch,
        "pushed_at": repo.pushed_at.map(moment),
        "clone_url": repo.clone_url.clone().unwrap_or_else(ours),
        "language": repo.language,
        "topics": repo.topics,
        "size": 1,
        "license": null,
    });
    let mut all = short(held, root);
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
        all.extend(more);
    }
    all
}

pub(super) fn tag(held: &Held, tag: &str, oid: &str, root: &str) -> Value {
    let name = &held.repo.full_name;
    json!({
        "name": tag,
        "zipball_url": format!("{root}/repos/{name}/zipball/refs/tags/{tag}"),
        "tarball_url": format!("{root}/repos/{name}/tarball/refs/tags/{tag}"),
        "commit": { "sha": oid, "url": format!("{root}/repos/{name}/commits/{oid}") },
        "node_id": "REF_made_up",
    })
}

/// What a tag is at.
pub(super) fn tag_ref(held: &Held, tag: &str, oid: &str) -> Value {
    let (sha, kind) = match held.annotated.get(tag) {
        Some((object, _)) => (object.as_str(), "tag"),
        None => (oid, "commit"),
    };
    json!({ "ref": format!("refs/tags/{tag}"), "object": { "sha": sha, "type": kind } })
}

pub(super) fn tag_object(held: &Held, object: &str) -> Option<Value> {
    let mut all = held.annotated.iter();
    let (tag, (_, at)) = all.find(|(_, (found, _))| found == object)?;
    Some(json!({
        "tag": tag,
        "sha": object,
        "tagger": { "name": "A", "email": "a@example.com", "date": moment(*at) },
        "object": { "type": "commit", "sha": held.tags.get(tag) },
    }))
}

pub(super) fn commit(held: &Held, oid: &str, at: i64, root: &str) -> Value {
    let name = &held.repo.full_name;
    let person = json!({ "name": "A", "email": "a@example.com", "date": moment(at) });
    json!({
        "sha": oid,
        "url": format!("{root}/repos/{name}/git/commits/{oid}"),
        "author": person,
        "committer": person,
        "message": "made up",
        "parents": [],
    })
}
