//! A visit to a repository: who is asked for, at which commit, below which path.

use std::sync::Arc;

use askama::Template;
use grip_git::{RefSnapshot, RepoError, Repositories};
use grip_grasp::RepositoryStatus;
use grip_nostr::{EventId, RepoAddr};
use grip_store::EventView as _;
use grip_types::{Oid, RefName};
use http::StatusCode;

use super::{encode_path, unreadable};
use crate::{
    error::WebError,
    etag::ETag,
    pages::{self, Frame, catalog},
    query,
    request_context::{HttpResult, RequestContext},
};

/// Tips from which commits are reached; those beyond are not browsed.
const MAX_TIPS: usize = 5000;

/// A served repository, and the request that asks for a part of it.
pub(crate) struct Visit<'a> {
    pub(crate) cx: &'a RequestContext<'a>,
    pub(crate) repo: RepoAddr,
    pub(crate) refs: Arc<RefSnapshot>,
    pub(crate) header: Header,
}

/// The head of every page of a repository.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) owner: String,
    pub(crate) owner_href: String,
    /// The address of its page, without a slash at the end.
    pub(crate) base: String,
    /// The revision that links lead to, encoded; empty where there is none.
    pub(crate) at: String,
    /// The part that is shown.
    pub(crate) tab: &'static str,
}

impl Header {
    /// Marks a tab as the present one.
    pub(crate) fn is(&self, tab: &str) -> bool {
        self.tab == tab
    }
}

/// A commit and a path in it.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) commit: Oid,
    /// As it was named: a branch, a tag or the id of a commit.
    pub(crate) name: String,
    /// Named by its id, and so the same for ever.
    pub(crate) is_pinned: bool,
    /// Without a slash at either end; empty for the top directory.
    pub(crate) path: String,
}

impl<'a> Visit<'a> {
    /// Opens the repository of the path, if it is served.
    pub(crate) async fn open(
        cx: &'a RequestContext<'a>,
        tab: &'static str,
    ) -> Result<Self, WebError> {
        let repo = cx.repository()?.clone();
        let status = cx.app.web.grasp.repository(&repo);
        if status != Some(RepositoryStatus::Served) {
            return Err(WebError::NoSuchRepository);
        }
        let (refs, known) = (cx.app.refs(&repo).await?, cx.app.catalog.get(cx.app).await?);
        let frame = cx.frame();
        let name = known.get(&repo).map(|entry| entry.name.clone());
        let head = refs.head_ref().map(|head| encode_path(head.name.short()));
        let header = Header {
            name: name.unwrap_or_else(|| repo.identifier.as_str().to_owned()),
            owner: catalog::person(&repo.owner, &known),
            owner_href: frame.author(&repo.owner),
            base: frame.repository(&repo),
            at: head.unwrap_or_default(),
            tab,
        };
        Ok(Self {
            cx,
            repo,
            refs,
            header,
        })
    }

    /// Reads objects where it may block, in one of the few turns for it.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Repositories, &RepoAddr) -> Result<T, RepoError> + Send + 'static,
    ) -> Result<T, WebError> {
        let app = self.cx.app;
        let browsing = &app.browsing;
        if app.web.repositories.is_cold(&self.repo.identifier) {
            // A download holds up no other page.
            let (repositories, repo) = (app.web.repositories.clone(), self.repo.clone());
            let warming = app.blocking("browse", move || repositories.warm(&repo.identifier));
            warming.await?.map_err(unreadable)?;
        }
        let turn = Arc::clone(&browsing.turns).acquire_owned().await;
        let turn = turn.map_err(|e| WebError::internal("pages are not read any more", e))?;
        let (repositories, repo) = (app.web.repositories.clone(), self.repo.clone());
        let read = move || {
            // Kept by the work itself: a request that was given up still takes its turn.
            let _turn = turn;
            work(&repositories, &repo)
        };
        let reading = app
            .group
            .spawn_low_priority(&browsing.threads, "browse", read);
        let stopped = |e| WebError::internal("a reading task was stopped", e);
        reading.await.map_err(stopped)?.map_err(unreadable)
    }

    /// Finds the revision at the beginning of an encoded path; the rest is a path in it.
    pub(crate) async fn target(&mut self, encoded: &str) -> Result<Target, WebError> {
        let text = query::decoded(encoded, "the path")?;
        let text = text.trim_matches('/');
        if text.contains('\0') {
            return Err(WebError::NotInRepository("path of that name"));
        }
        let mut ends: Vec<usize> = text.match_indices('/').map(|(at, _)| at).collect();
        ends.push(text.len());
        for end in ends {
            let (name, path) = (&text[..end], text[end..].trim_start_matches('/'));
            if let Some((commit, is_pinned)) = self.revision(name).await? {
                self.header.at = encode_path(name);
                return Ok(Target {
                    commit,
                    name: name.to_owned(),
                    is_pinned,
                    path: path.to_owned(),
                });
            }
        }
        Err(WebError::NotInRepository(
            "branch, tag or commit of that name",
        ))
    }

    /// The tip of the branch that HEAD names.
    pub(crate) fn head(&self) -> Option<Target> {
        let head = self.refs.head_ref()?;
        Some(Target {
            commit: head.peeled.unwrap_or(head.oid),
            name: head.name.short().to_owned(),
            is_pinned: false,
            path: String::new(),
        })
    }

    /// The tip of a branch.
    pub(crate) fn branch(&self, name: &str) -> Option<Target> {
        let full = RefName::parse(&format!("refs/heads/{name}")).ok()?;
        let found = self.refs.get(&full)?;
        Some(Target {
            commit: found.peeled.unwrap_or(found.oid),
            name: name.to_owned(),
            is_pinned: false,
            path: String::new(),
        })
    }

    /// The commit that a branch, a tag or an id names, and whether it is an id.
    pub(crate) async fn revision(&self, name: &str) -> Result<Option<(Oid, bool)>, WebError> {
        for space in ["refs/heads/", "refs/tags/"] {
            let full = RefName::parse(&format!("{space}{name}")).ok();
            if let Some(found) = full.and_then(|full| self.refs.get(&full)) {
                let tip = found.peeled.unwrap_or(found.oid);
                return Ok(Some((self.commit(tip).await?, false)));
            }
        }
        let Ok(oid) = name.parse::<Oid>() else {
            return Ok(None);
        };
        let is_here = self.is_reachable(oid).await?;
        Ok(is_here.then_some((oid, true)))
    }

    /// A tag may name any object; only commits have pages.
    async fn commit(&self, oid: Oid) -> Result<Oid, WebError> {
        let found =
            self.read(move |repositories, repo| repositories.commit(&repo.identifier, &oid));
        let found = found.await?.map(|facts| facts.oid);
        found.ok_or(WebError::NotInRepository("commit behind this name"))
    }

    /// Whether a ref of this repository leads to the commit.
    async fn is_reachable(&self, oid: Oid) -> Result<bool, WebError> {
        let tips = |is_wanted: fn(&RefName) -> bool| -> Vec<Oid> {
            let refs = self.refs.iter().filter(|found| is_wanted(&found.name));
            let mut tips: Vec<_> = refs
                .take(MAX_TIPS)
                .map(|found| found.peeled.unwrap_or(found.oid))
                .collect();
            tips.sort_unstable();
            tips.dedup();
            tips
        };
        let heads = tips(RefName::is_state_ref);
        if self.history(heads).await?.contains(&oid) {
            return Ok(true);
        }
        let proposed = self.proposed().await?;
        if !proposed.is_empty() && self.history(proposed).await?.contains(&oid) {
            return Ok(true);
        }
        let kept = self.kept();
        Ok(!kept.is_empty() && self.history(kept).await?.contains(&oid))
    }

    /// The commits that branches and tags of an archived repository led to before.
    fn kept(&self) -> Vec<Oid> {
        let mut tips: Vec<Oid> = self.refs.kept_commits().take(MAX_TIPS).collect();
        tips.sort_unstable();
        tips.dedup();
        tips
    }

    /// The tips of the pull requests whose events are served.
    async fn proposed(&self) -> Result<Vec<Oid>, WebError> {
        let (refs, store) = (Arc::clone(&self.refs), self.cx.app.web.store.clone());
        let read = move || {
            let view = store.read()?;
            let mut tips = Vec::new();
            for found in refs.iter().filter(|found| found.name.is_under_nostr()) {
                let id = found.name.nostr_event_id();
                let id = id.and_then(|id| EventId::from_slice(&id).ok());
                if let Some(id) = id
                    && tips.len() < MAX_TIPS
                    && view.contains(&id)?
                {
                    tips.push(found.oid);
                }
            }
            tips.sort_unstable();
            tips.dedup();
            Ok::<_, grip_store::StoreError>(tips)
        };
        let tips = self.cx.app.blocking("browse", read).await?;
        tips.map_err(|e| WebError::internal("pull requests cannot be read", e))
    }

    /// The commits that `tips` lead to, newest first.
    pub(crate) async fn history(&self, tips: Vec<Oid>) -> Result<Arc<[Oid]>, WebError> {
        let histories = &self.cx.app.browsing.histories;
        if let Some(known) = histories.get(&self.repo.identifier, &tips) {
            return Ok(known);
        }
        let app = Arc::clone(self.cx.app);
        self.read(move |repositories, repo| {
            let histories = &app.browsing.histories;
            histories.read(repositories, &repo.identifier, &tips)
        })
        .await
    }

    /// A tag that changes with the commit, the program and the form of the page.
    pub(crate) fn etag(&self, commit: &Oid) -> ETag {
        let cx = self.cx;
        let uri = cx.head.uri.path_and_query();
        let uri = uri.map_or("", |uri| uri.as_str());
        let (version, header) = (cx.app.web.build.full_version(), &self.header);
        let parts = [
            commit.as_bytes(),
            version.as_bytes(),
            uri.as_bytes(),
            header.name.as_bytes(),
            header.owner.as_bytes(),
        ];
        ETag::of(parts)
    }

    /// The frame of a page of this repository.
    pub(crate) fn frame(&self, title: &str, description: &str) -> Frame {
        let title = match title {
            "" => self.header.name.clone(),
            title => format!("{title} · {}", self.header.name),
        };
        let mut frame = self.cx.frame().about(title, description);
        frame.feed = Some(format!("{}/log.atom", self.header.base));
        frame
    }
}

/// Renders a page of one commit, to be kept by browsers: for a day if it was named by its id.
pub(super) fn render(page: &impl Template, etag: &ETag, is_pinned: bool) -> HttpResult {
    let response = pages::render(StatusCode::OK, page)?;
    Ok(if is_pinned {
        etag.put_for_good(response)
    } else {
        etag.put_on(response)
    })
}
