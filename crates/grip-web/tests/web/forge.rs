//! A remote host in memory, whose tags are whatever a test says.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use grip_go::ModulePath;
use grip_index::{
    Audience, GoMod, Listed, Listing, Source, SourceError, TagAt, TagPage, Tags, TagsQuery, Trust,
};
use grip_types::Oid;
use parking_lot::Mutex;

pub const SOURCE: &str = "forge.example/orgs/acme";

/// Repositories by name: what their go.mod says, and their tags with the number of a commit.
#[derive(Default)]
pub struct Forge {
    repos: Mutex<BTreeMap<String, Repo>>,
}

#[derive(Clone, Default)]
struct Repo {
    module: String,
    tags: BTreeMap<String, u32>,
    is_restricted: bool,
}

impl Forge {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Adds `forge.example/acme/<name>`, which is the module of its place.
    pub fn add(&self, name: &str, tags: &[&str]) {
        let full = format!("forge.example/acme/{name}");
        self.add_as(name, &full, tags);
    }

    /// The same with another module path.
    pub fn add_as(&self, name: &str, module: &str, tags: &[&str]) {
        let tags = tags.iter().zip(1..);
        let repo = Repo {
            module: module.to_owned(),
            tags: tags.map(|(tag, n)| ((*tag).to_owned(), n)).collect(),
            is_restricted: false,
        };
        let full = format!("forge.example/acme/{name}");
        self.repos.lock().insert(full, repo);
    }

    /// Makes a repository one that not everybody may see.
    pub fn restrict(&self, name: &str) {
        let mut repos = self.repos.lock();
        let full = format!("forge.example/acme/{name}");
        repos.entry(full).or_default().is_restricted = true;
    }

    fn audience(&self, name: &str) -> Option<Audience> {
        self.repo(name).map(|repo| {
            if repo.is_restricted {
                Audience::Readers
            } else {
                Audience::Anybody
            }
        })
    }

    /// Sets, moves or removes a tag.
    pub fn tag(&self, name: &str, tag: &str, commit: Option<u32>) {
        let mut repos = self.repos.lock();
        let full = format!("forge.example/acme/{name}");
        let tags = &mut repos.entry(full).or_default().tags;
        match commit {
            Some(commit) => tags.insert(tag.to_owned(), commit),
            None => tags.remove(tag),
        };
    }

    fn repo(&self, name: &str) -> Option<Repo> {
        self.repos.lock().get(name).cloned()
    }
}

pub fn oid(n: u32) -> Oid {
    Oid::from_hex(format!("{n:040x}").as_bytes()).expect("forty digits are an id")
}

impl Source for Forge {
    fn name(&self) -> &str {
        SOURCE
    }

    fn list(&self, _: Option<String>) -> BoxFuture<'_, Result<Listing, SourceError>> {
        let names: Vec<String> = self.repos.lock().keys().cloned().collect();
        let listed = names.into_iter().map(|name| Listed {
            audience: self.audience(&name).unwrap_or_default(),
            name,
        });
        let repos = listed.collect();
        async { Ok(Listing { repos, next: None }) }.boxed()
    }

    fn admits<'a>(&'a self, repo: &'a str) -> BoxFuture<'a, Result<Option<Audience>, SourceError>> {
        async { Ok(self.audience(repo)) }.boxed()
    }

    fn tags<'a>(&'a self, repo: &'a str, _: TagsQuery) -> BoxFuture<'a, Result<Tags, SourceError>> {
        let found = self.repo(repo).map_or(Tags::Gone, |repo| {
            let tags = repo.tags.into_iter().map(|(name, commit)| TagAt {
                name,
                object: oid(commit),
                commit: oid(commit),
            });
            Tags::Page(TagPage {
                tags: tags.collect(),
                ..TagPage::default()
            })
        });
        async { Ok(found) }.boxed()
    }

    fn created<'a>(
        &'a self,
        _: &'a str,
        tag: &'a TagAt,
    ) -> BoxFuture<'a, Result<i64, SourceError>> {
        // A later tag has an earlier commit here: the two clocks of the feed disagree.
        let number = u32::from_str_radix(&tag.commit.to_hex()[32..], 16).unwrap_or(0);
        async move { Ok(1_700_000_000_000 - i64::from(number) * 1000) }.boxed()
    }

    fn go_mod<'a>(
        &'a self,
        repo: &'a str,
        _: &'a Oid,
        _: &'a str,
    ) -> BoxFuture<'a, Result<GoMod, SourceError>> {
        let module = self.repo(repo).unwrap_or_default().module;
        async move { Ok(GoMod::Text(Bytes::from(format!("module {module}\n")))) }.boxed()
    }

    fn location(&self, repo: &str) -> Option<ModulePath> {
        ModulePath::parse(repo).ok()
    }

    fn trusts(&self, repo: &str, path: &ModulePath) -> Trust {
        if path.as_str() == repo {
            Trust::Proven
        } else {
            Trust::Chosen
        }
    }
}
