//! Routes and their responses.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    listing::{self, PageQuery},
    repositories::{Held, Repositories},
};

/// A call as the routes see it.
pub(super) struct Call<'a> {
    /// Below the base, with a slash at the beginning.
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) wants_raw: bool,
    pub(super) has_token: bool,
    /// What was posted.
    pub(super) body: &'a [u8],
    pub(super) root: &'a str,
}

/// What is to be answered.
pub(super) enum Made {
    Json(Value),
    /// A page, and the query of the next one.
    Page(Vec<Value>, Option<String>),
    Raw(Bytes),
    Moved(String),
    Refused(u16, String),
}

/// How an organisation denies a token for want of single sign-on.
pub(super) const SSO: &str = "Resource protected by organization SAML enforcement. You must grant your \
                              Personal Access token access to this organization.";

fn not_found() -> Made {
    Made::Refused(404, "Not Found".to_owned())
}

pub(super) fn answer(repositories: &Repositories, call: &Call<'_>) -> Made {
    let asked = PageQuery::read(call.query);
    if let Some(made) = super::events::answer(repositories, call, &asked) {
        return made;
    }
    let parts: Vec<_> = call.path.trim_matches('/').split('/').collect();
    if let ["orgs" | "repos", owner, ..] = parts.as_slice()
        && repositories.denies(owner)
    {
        return Made::Refused(403, SSO.to_owned());
    }
    match parts.as_slice() {
        ["orgs", owner, "repos"] => of_owner(repositories, call, &asked, owner, true),
        ["users", owner, "repos"] => of_owner(repositories, call, &asked, owner, false),
        ["repositories"] => everything(repositories, call, &asked),
        ["repositories", id, rest @ ..] => {
            match id.parse().ok().and_then(|id| seen(repositories, call, id)) {
                Some(held) => below(held, call, &asked, rest),
                None => not_found(),
            }
        }
        ["repos", owner, name, rest @ ..] => {
            by_name(repositories, call, &asked, &format!("{owner}/{name}"), rest)
        }
        _ => not_found(),
    }
}

/// A repository, unless it is hidden from the caller.
fn seen<'a>(repositories: &'a Repositories, call: &Call<'_>, id: u64) -> Option<&'a Held> {
    let held = repositories.repos.get(&id)?;
    (call.has_token || !held.repo.is_hidden()).then_some(held)
}

fn of_owner(
    repositories: &Repositories,
    call: &Call<'_>,
    asked: &PageQuery,
    owner: &str,
    only_org: bool,
) -> Made {
    let Some(ids) = repositories.of_owner(owner, only_org) else {
        return not_found();
    };
    let mut all: Vec<_> = ids
        .iter()
        .filter_map(|id| seen(repositories, call, *id))
        .collect();
    if asked.sort == "full_name" {
        all.sort_by_key(|held| held.repo.full_name.to_lowercase());
    }
    let default = if asked.sort == "full_name" {
        "asc"
    } else {
        "desc"
    };
    let direction = match asked.direction.as_str() {
        "" => default,
        direction => direction,
    };
    if direction == "desc" {
        all.reverse();
    }
    let (part, more) = asked.part(all.into_iter());
    let items = part.iter().map(|held| listing::long(held, call.root));
    Made::Page(items.collect(), more.then(|| next_page(call.query, asked)))
}

/// The query of the next page by number; all else in it stays.
pub(super) fn next_page(query: &str, asked: &PageQuery) -> String {
    let kept = query.split('&').filter(|pair| !pair.starts_with("page="));
    let next = format!("page={}", asked.page + 1);
    let kept = kept.filter(|pair| !pair.is_empty());
    kept.chain([next.as_str()]).collect::<Vec<_>>().join("&")
}

fn everything(repositories: &Repositories, call: &Call<'_>, asked: &PageQuery) -> Made {
    let after = repositories.repos.range(asked.since + 1..);
    let visible = after.filter(|(_, held)| call.has_token || !held.repo.is_hidden());
    let mut rest = visible.map(|(_, held)| held);
    let part: Vec<_> = rest.by_ref().take(asked.per_page).collect();
    let more = rest.next().is_some();
    let last = part.last().map_or(asked.since, |held| held.id);
    let items = part.iter().map(|held| listing::short(held, call.root));
    let next = format!("per_page={}&since={last}", asked.per_page);
    Made::Page(items.collect(), more.then_some(next))
}

fn by_name(
    repositories: &Repositories,
    call: &Call<'_>,
    asked: &PageQuery,
    name: &str,
    rest: &[&str],
) -> Made {
    if let Some(held) = repositories
        .id(name)
        .and_then(|id| seen(repositories, call, id))
    {
        return below(held, call, asked, rest);
    }
    match repositories
        .moved(name)
        .and_then(|id| seen(repositories, call, id))
    {
        Some(held) => {
            let rest: String = rest.iter().map(|part| format!("/{part}")).collect();
            let query = match call.query {
                "" => String::new(),
                query => format!("?{query}"),
            };
            Made::Moved(format!(
                "{}/repositories/{}{rest}{query}",
                call.root, held.id
            ))
        }
        None => not_found(),
    }
}

fn below(held: &Held, call: &Call<'_>, asked: &PageQuery, rest: &[&str]) -> Made {
    match rest {
        [] => Made::Json(listing::long(held, call.root)),
        ["tags"] => {
            let (part, more) = asked.part(held.tags.iter().rev());
            let items = part
                .iter()
                .map(|(tag, oid)| listing::tag(held, tag, oid, call.root));
            Made::Page(items.collect(), more.then(|| next_page(call.query, asked)))
        }
        ["git", "matching-refs", "tags"] => {
            let each = held.tags.iter();
            let items = each.map(|(tag, oid)| listing::tag_ref(held, tag, oid));
            Made::Page(items.collect(), None)
        }
        ["git", "ref", "tags", tag @ ..] => {
            let tag = listing::unescaped(&tag.join("/"));
            match held.tags.get(&tag) {
                Some(oid) => Made::Json(listing::tag_ref(held, &tag, oid)),
                None => not_found(),
            }
        }
        ["git", "tags", object] => {
            listing::tag_object(held, object).map_or_else(not_found, Made::Json)
        }
        ["git", "commits", oid] => match held.commits.get(*oid) {
            Some(at) => Made::Json(listing::commit(held, oid, *at, call.root)),
            None => not_found(),
        },
        ["contents", path @ ..] => contents(held, call, asked, &path.join("/")),
        _ => not_found(),
    }
}

fn contents(held: &Held, call: &Call<'_>, asked: &PageQuery, path: &str) -> Made {
    let path = listing::unescaped(path);
    let at = asked.at.as_deref().unwrap_or(&held.repo.default_branch);
    let Some(oid) = held.resolve(at) else {
        return Made::Refused(404, format!("No commit found for the ref {at}"));
    };
    match held.file(&oid, &path) {
        Some(bytes) if call.wants_raw => Made::Raw(bytes.clone()),
        Some(bytes) => Made::Json(json!({ "type": "file", "path": path, "size": bytes.len() })),
        None if held.is_directory(&oid, &path) => Made::Json(json!([])),
        None => not_found(),
    }
}
