//! Missing objects of waiting events, and the clone URLs that may be asked for them.

use std::{collections::BTreeSet, num::NonZero};

use grip_nostr::{Event, PullRequest, State};
use grip_purgatory::{CompactEvent, Need, can_be_here};
use grip_types::{Identifier, Oid};
use url::Url;

use crate::{
    DataSource, Grasp, LookError, Policy,
    admission::{Announcements, EventStatus, Found, Outcome, View, ViewError, admit, targets},
    error::GraspError,
    grasp::Core,
    node_view::NodeView,
    release::again,
};

/// How many clone URLs are asked for one event.
const MAX_URLS: usize = 32;
/// How many of them one announcement or pull request may name, so that it leaves room for others.
const MAX_URLS_OF_ONE: usize = 16;
/// Most owners named for one event.
const MAX_OWNERS: usize = 8;
/// No clone URL is longer.
const MAX_URL_BYTES: usize = 2_048;

/// How many identifiers are looked at side by side: half of what the machine can do, so that ten
/// thousand that are due at once leave the other half to those who ask something.
pub(crate) fn max_looks() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    (cores / 2).max(1)
}

struct Looked {
    needs: Vec<Need>,
    /// Something that waits has its data, or will never be served.
    unsettled: bool,
}

impl Grasp {
    /// What the waiting events of an identifier lack that would be served if they had it.
    ///
    /// What turns out to wait for nothing is settled on the way: served, or dropped.
    pub(super) async fn look_up_needs(
        &self,
        identifier: &Identifier,
    ) -> Result<Vec<Need>, LookError> {
        let waiting = self.core.waiting_for_data(identifier);
        if waiting.is_empty() {
            return Ok(Vec::new());
        }
        let look = {
            let identifier = identifier.clone();
            move |core: &Core| core.look_for_needs(&identifier, waiting)
        };
        let place = self.core.looks.acquire().await;
        let place = place.expect("because the places are never closed");
        let looked = self.core.blocking("grasp.look", look).await??;
        drop(place);
        if looked.unsettled {
            let released = self.process_newly_available_git_data(identifier, DataSource::Fetch);
            released.await.log(identifier);
        }
        Ok(looked.needs)
    }
}

impl Core {
    /// Blocks.
    fn look_for_needs(
        &self,
        identifier: &Identifier,
        waiting: Vec<CompactEvent>,
    ) -> Result<Looked, GraspError> {
        let policy = self.policy.load();
        let events = self.events()?;
        let announcements =
            Announcements::load(identifier, &NodeView::new(self, &events), &policy)?;
        let mut looked = Looked {
            needs: Vec::new(),
            unsettled: false,
        };
        for event in waiting {
            let event = event.unpack();
            let view = NodeView::leaving_out(self, &events, event.id);
            match admit(&event, &view, &policy, again())?.outcome {
                // One that is served and wanted has lost its data.
                Outcome::Hold | Outcome::Duplicate(EventStatus::Served) => {
                    let asks = asks(&event, &announcements, identifier, &view, &policy)?;
                    let asks = asks.filter(|need| !need.oids.is_empty());
                    looked.unsettled |= asks.is_none();
                    looked.needs.extend(asks);
                }
                _ => looked.unsettled = true,
            }
        }
        Ok(looked)
    }
}

/// What `event` lacks of an identifier's data; none if it wants nothing there, or something that
/// no search can bring: then the rest would not serve it either.
pub(crate) fn asks(
    event: &Event,
    announcements: &Announcements,
    identifier: &Identifier,
    view: &dyn View,
    policy: &Policy,
) -> Result<Option<Need>, ViewError> {
    let mut urls = Urls::new(policy);
    let mut owners = Vec::new();
    let (is_state, oids) = if let Ok(state) = State::parse(event.clone()) {
        if !state.is_satisfiable() {
            return Ok(None);
        }
        for announcement in announcements.family(&event.pubkey) {
            urls.add(&announcement.clone);
            owners.push(announcement.event.pubkey);
        }
        (true, state.oids())
    } else if let Ok(request) = PullRequest::parse(event.clone()) {
        let mut targets = targets(&request, view, policy)?;
        targets.retain(|target| target.identifier == *identifier);
        if targets.is_empty() {
            return Ok(None);
        }
        urls.add(&request.clone);
        for target in &targets {
            for announcement in announcements.family(&target.owner) {
                urls.add(&announcement.clone);
                owners.push(announcement.event.pubkey);
            }
        }
        (false, vec![request.tip])
    } else {
        return Ok(None);
    };
    let grants = announcements.grants(&event.pubkey);
    let is_served = grants.iter().any(|it| it.status == EventStatus::Served);
    let found = view.objects(identifier, &oids)?;
    let missing = oids.iter().zip(found).filter(|(_, f)| *f == Found::Missing);
    let oids: BTreeSet<Oid> = missing.map(|(oid, _)| *oid).collect();
    let mut seen = BTreeSet::new();
    owners.retain(|owner| seen.insert(*owner));
    owners.truncate(MAX_OWNERS);
    let need = Need {
        event: event.id,
        is_state,
        author: event.pubkey,
        is_served,
        urls: urls.listed,
        owners,
        oids,
    };
    Ok(need.oids.iter().all(can_be_here).then_some(need))
}

/// Collects clone URLs that can be asked.
struct Urls<'a> {
    policy: &'a Policy,
    listed: Vec<Url>,
}

impl<'a> Urls<'a> {
    fn new(policy: &'a Policy) -> Self {
        Self {
            policy,
            listed: Vec::new(),
        }
    }

    /// Adds the URLs of one list in its order, as far as there is room.
    fn add(&mut self, values: &[String]) {
        let usable = values.iter().filter_map(|value| self.usable(value));
        let usable: Vec<Url> = usable.take(MAX_URLS_OF_ONE).collect();
        for url in usable {
            if self.listed.len() < MAX_URLS && !self.listed.contains(&url) {
                self.listed.push(url);
            }
        }
    }

    /// Reads a URL that names a foreign host plainly: one with a user name or a password is left
    /// out.
    fn usable(&self, value: &str) -> Option<Url> {
        if value.len() > MAX_URL_BYTES {
            return None;
        }
        let mut url = Url::parse(value).ok()?;
        let is_http = ["http", "https"].contains(&url.scheme());
        let is_plain = url.username().is_empty() && url.password().is_none();
        if !is_http || !is_plain || !url.has_host() || self.policy.is_own(&url) {
            return None;
        }
        url.set_fragment(None);
        Some(url)
    }
}

#[cfg(test)]
mod tests;
