//! GraphQL as far as our gateway asks: its queries by name, answered from their variables.

use serde_json::{Value, json};

use super::{
    listing::moment,
    repositories::{Held, Repositories},
    routes::{Call, SSO},
};

/// What the path of a query begins with, in records and scripts; its name follows.
pub(super) const PATH: &str = "/graphql/";
const PER_PAGE: usize = 100;
/// Texts longer than this are cut, as GitHub does.
const SHOWN_BYTES: usize = 512 << 10;

/// `/graphql/Tags` for a query of that name; none for a call that is no query.
pub(super) fn operation(path: &str, body: &[u8]) -> Option<String> {
    if path != "/graphql" && path != "/api/graphql" {
        return None;
    }
    let asked: Value = serde_json::from_slice(body).unwrap_or_default();
    let name = asked["operationName"].as_str().unwrap_or("Unnamed");
    Some(format!("{PATH}{name}"))
}

/// A response of status 200 that says what is wrong.
pub(super) fn error(kind: &str, message: &str) -> Value {
    json!({ "data": null, "errors": [{ "type": kind, "message": message }] })
}

pub(super) fn answer(repositories: &Repositories, call: &Call<'_>) -> Value {
    let asked: Value = serde_json::from_slice(call.body).unwrap_or_default();
    let text = asked["query"].as_str().unwrap_or_default();
    let variables = &asked["variables"];
    if text.matches('{').count() != text.matches('}').count() {
        return error("PARSE", "Expected one of END_OF_FILE");
    }
    let name = call.path.strip_prefix(PATH).unwrap_or_default();
    let owner = variables["login"].as_str().or(variables["owner"].as_str());
    if owner.is_some_and(|owner| repositories.denies(owner)) {
        let mut denied = error("FORBIDDEN", SSO);
        denied["errors"][0]["extensions"] = json!({ "saml_failure": true });
        return denied;
    }
    let found = match name {
        "Repositories" => owned(
            repositories,
            variables,
            text.contains("owner:organization("),
        ),
        _ => one(repositories, variables, name),
    };
    match found {
        Some(mut data) => {
            data["rateLimit"] = json!({ "cost": 1, "remaining": 4_000 });
            json!({ "data": data })
        }
        None => error(
            "NOT_FOUND",
            "Could not resolve to a Repository or owner with that name.",
        ),
    }
}

fn owned(repositories: &Repositories, variables: &Value, only_org: bool) -> Option<Value> {
    let ids = repositories.of_owner(variables["login"].as_str()?, only_org)?;
    let all: Vec<_> = ids
        .iter()
        .filter_map(|id| repositories.repos.get(id))
        .collect();
    let (part, page_info) = page(&all, variables);
    let nodes: Vec<_> = part.iter().map(|held| facts(held)).collect();
    let listed = json!({ "pageInfo": page_info, "nodes": nodes });
    Some(json!({ "owner": { "repositories": listed } }))
}

fn one(repositories: &Repositories, variables: &Value, name: &str) -> Option<Value> {
    let (owner, repo) = (variables["owner"].as_str()?, variables["name"].as_str()?);
    let held = repositories
        .repos
        .get(&repositories.id(&format!("{owner}/{repo}"))?)?;
    let mut found = match name {
        "Repository" => facts(held),
        "Tags" => {
            let mut found = facts(held);
            let all: Vec<_> = held.tags.iter().collect();
            let (part, page_info) = page(&all, variables);
            let with_go_mods = variables["mods"] == true;
            let nodes = part
                .iter()
                .map(|(tag, oid)| tag_node(held, tag, oid, with_go_mods));
            let nodes: Vec<_> = nodes.collect();
            found["refs"] = json!({ "pageInfo": page_info, "nodes": nodes });
            found
        }
        "Files" => each(variables, "f", |place| {
            let (oid, path) = place.split_once(':')?;
            blob(held, oid, path)
        }),
        "TagNames" => each(variables, "t", |name| {
            let tag = name.strip_prefix("refs/tags/")?;
            held.tags.contains_key(tag).then(|| json!({ "name": tag }))
        }),
        _ => return None,
    };
    found["__typename"] = "Repository".into();
    Some(json!({ "repository": found }))
}

/// The variables `f0`, `f1`, …, each with its answer.
fn each(variables: &Value, prefix: &str, answer: impl Fn(&str) -> Option<Value>) -> Value {
    let mut found = json!({});
    for n in 0.. {
        let name = format!("{prefix}{n}");
        let Some(asked) = variables[&name].as_str() else {
            return found;
        };
        found[name] = answer(asked).unwrap_or_default();
    }
    found
}

/// A page whose cursor counts, as GitHub's do for refs: what is removed before it shifts the rest.
fn page<'a, T>(all: &'a [T], variables: &Value) -> (&'a [T], Value) {
    let from = variables["after"].as_str();
    let from = from.and_then(|from| from.strip_prefix("at-")?.parse().ok());
    let from = from.unwrap_or(0_usize).min(all.len());
    let to = (from + PER_PAGE).min(all.len());
    let page_info = json!({ "hasNextPage": to < all.len(), "endCursor": format!("at-{to}") });
    (&all[from..to], page_info)
}

fn facts(held: &Held) -> Value {
    let repo = &held.repo;
    let root = held
        .file("HEAD", "go.mod")
        .map(|_| json!({ "__typename": "Blob" }));
    json!({
        "nameWithOwner": repo.full_name,
        "isPrivate": repo.is_hidden(),
        "visibility": repo.visibility().to_uppercase(),
        "primaryLanguage": repo.language.as_ref().map(|name| json!({ "name": name })),
        "root": root,
    })
}

fn tag_node(held: &Held, tag: &str, oid: &str, with_go_mods: bool) -> Value {
    let at = held.commits.get(oid).copied().unwrap_or_default();
    let mut commit = json!({ "oid": oid, "committedDate": moment(at) });
    if with_go_mods {
        let blob = blob(held, oid, "go.mod");
        commit["file"] = blob
            .map(|blob| json!({ "object": blob }))
            .unwrap_or_default();
    }
    let target = match held.annotated.get(tag) {
        None => commit,
        Some((object, at)) => {
            json!({ "oid": object, "tagger": { "date": moment(*at) }, "target": commit })
        }
    };
    json!({ "name": tag, "target": target })
}

fn blob(held: &Held, oid: &str, path: &str) -> Option<Value> {
    let bytes = held.file(oid, path)?;
    let text = std::str::from_utf8(bytes).ok();
    let is_cut = bytes.len() > SHOWN_BYTES;
    let shown = text.map(|text| if is_cut { &text[..SHOWN_BYTES] } else { text });
    Some(json!({
        "byteSize": bytes.len(),
        "isBinary": text.is_none(),
        "isTruncated": is_cut,
        "text": shown,
    }))
}
