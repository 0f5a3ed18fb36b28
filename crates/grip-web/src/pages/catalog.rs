//! The catalog of repositories as pages share it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use grip_browse::{
    Profile,
    catalog::{Catalog, Entry},
    profiles,
};
use grip_nostr::PublicKey;
use nostr::prelude::ToBech32 as _;
use tokio::{sync::Mutex, time::Instant};

use super::{
    Frame, short_npub,
    time::{Moment, Now},
};
use crate::{app::App, error::WebError};

/// How old the catalog may be at least: however often pages are asked for, the store is not.
const FRESH: Duration = Duration::from_secs(2);
/// It is read again after so many times the time that reading took.
const REST: u32 = 50;

/// The catalog of a moment ago.
#[derive(Default)]
pub(crate) struct CatalogCache {
    last: ArcSwapOption<Cached>,
    /// Held by the one request that reads it again.
    reading: Mutex<()>,
}

struct Cached {
    catalog: Arc<Catalog>,
    until: Instant,
}

impl CatalogCache {
    pub(crate) async fn get(&self, app: &App) -> Result<Arc<Catalog>, WebError> {
        let last = self.last.load_full();
        if let Some(last) = &last
            && Instant::now() < last.until
        {
            return Ok(Arc::clone(&last.catalog));
        }
        let _turn = match last {
            // Somebody else is at it: what is here will do.
            Some(last) => match self.reading.try_lock() {
                Ok(turn) => turn,
                Err(_) => return Ok(Arc::clone(&last.catalog)),
            },
            None => self.reading.lock().await,
        };
        let read = self.last.load_full();
        if let Some(read) = read.filter(|read| Instant::now() < read.until) {
            return Ok(Arc::clone(&read.catalog));
        }
        let began = Instant::now();
        let catalog = Arc::new(read_now(app).await?);
        let rest = (began.elapsed() * REST).max(FRESH);
        self.last.store(Some(Arc::new(Cached {
            catalog: Arc::clone(&catalog),
            until: Instant::now() + rest,
        })));
        Ok(catalog)
    }
}

async fn read_now(app: &App) -> Result<Catalog, WebError> {
    let (served, rule) = (
        app.web.grasp.served(),
        app.web.grasp.policy().maintainer_rule,
    );
    let store = app.web.store.clone();
    app.blocking("catalog", move || Catalog::read(&store, served, rule))
        .await?
        .map_err(|e| WebError::internal("the repositories cannot be listed", e))
}

/// One repository in a list.
#[derive(Clone)]
pub(super) struct RepositoryLine {
    pub(super) name: String,
    pub(super) href: String,
    pub(super) owner: String,
    pub(super) owner_href: String,
    pub(super) description: String,
    pub(super) topics: Vec<String>,
    pub(super) updated: Option<Moment>,
}

impl RepositoryLine {
    pub(super) fn new(entry: &Entry, catalog: &Catalog, frame: &Frame, now: Now) -> Self {
        let owner = &entry.addr.owner;
        let updated_ms = i64::try_from(entry.updated_at).unwrap_or(0) * 1000;
        Self {
            name: entry.name.clone(),
            href: frame.repository(&entry.addr),
            owner: person(owner, catalog),
            owner_href: frame.author(owner),
            description: entry.description.clone(),
            topics: entry.topics.iter().take(4).cloned().collect(),
            updated: (updated_ms > 0).then(|| now.ago(&updated_ms)),
        }
    }
}

/// The names of owners, and of those who take part in a conversation.
pub(super) struct People {
    catalog: Arc<Catalog>,
    others: HashMap<PublicKey, Profile>,
}

impl People {
    /// Reads the profiles of `keys`, as far as they are served here.
    pub(super) async fn read(
        app: &App,
        keys: impl IntoIterator<Item = PublicKey>,
    ) -> Result<Self, WebError> {
        let catalog = app.catalog.get(app).await?;
        let unknown = keys
            .into_iter()
            .filter(|key| catalog.profile(key).is_none());
        let (unknown, store) = (unknown.collect::<Vec<_>>(), app.web.store.clone());
        let others = app
            .blocking("catalog", move || profiles(&store, unknown))
            .await?
            .map_err(|e| WebError::internal("profiles cannot be read", e))?;
        Ok(Self { catalog, others })
    }

    pub(super) fn name(&self, key: &PublicKey) -> String {
        match self.others.get(key) {
            Some(profile) => profile.name.clone(),
            None => person(key, &self.catalog),
        }
    }
}

/// The name of an owner, or a part of the key.
pub(super) fn person(key: &PublicKey, catalog: &Catalog) -> String {
    match catalog.profile(key) {
        Some(profile) => profile.name.clone(),
        None => short_npub(&npub(key)),
    }
}

pub(super) fn npub(key: &PublicKey) -> String {
    key.to_bech32().expect("every public key has an npub")
}
