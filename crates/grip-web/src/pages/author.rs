//! The page of somebody who owns repositories.

use askama::Template;
use grip_browse::{Profile, profiles};
use grip_nostr::RepoAddr;
use http::StatusCode;

use super::{Frame, catalog::RepositoryLine, short_npub, time::Now};
use crate::{
    error::WebError,
    request_context::{HttpResult, RequestContext},
};

#[derive(Template)]
#[template(path = "author.html")]
struct AuthorPage {
    frame: Frame,
    name: String,
    npub: String,
    profile: Option<Profile>,
    lines: Vec<RepositoryLine>,
    maintained: Vec<RepositoryLine>,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let [npub, _] = cx.params();
    let key = RepoAddr::parse_npub(npub).ok_or(WebError::NoSuchPage)?;
    let catalog = cx.app.catalog.get(cx.app).await?;
    let store = cx.app.web.store.clone();
    let found = cx
        .app
        .blocking("catalog", move || profiles(&store, [key]))
        .await?;
    let mut found = found.map_err(|e| WebError::internal("a profile cannot be read", e))?;
    let profile = found.remove(&key);
    let name = profile
        .as_ref()
        .map_or_else(|| short_npub(npub), |profile| profile.name.clone());
    let frame = cx
        .frame()
        .about(&*name, format!("Repositories of {name} on this node"));
    let (own, others) = catalog.of(&key);
    let now = Now::new();
    let line = |entry| RepositoryLine::new(entry, &catalog, &frame, now);
    let page = AuthorPage {
        lines: own.into_iter().take(200).map(line).collect(),
        maintained: others.into_iter().take(200).map(line).collect(),
        npub: npub.to_owned(),
        name,
        profile,
        frame: frame.clone(),
    };
    super::render(StatusCode::OK, &page)
}
