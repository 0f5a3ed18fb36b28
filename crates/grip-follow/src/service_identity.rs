//! Identity of the service: the profile (kind 0) and the relay list (kind 10002) of its own key, kept
//! in its own store, and published to user-index relays that have none (E-5).
//!
//! An identity that somebody published with the key is never overwritten, here or elsewhere: what is
//! stored stays, what an index relay has is adopted, and while index relays are to be asked nothing is
//! made before one of them has answered.

mod index_relays;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use grip_nostr::{Address, Event, Kind, PublicKey, Timestamp, kinds};
use grip_relay::{Relay, WritePolicy};
use grip_store::{EventStore, EventView as _};
use grip_tasks::TaskGroup;
use grip_types::{EventSource, Origin};
use nostr::prelude::{EventBuilder, FinalizeEvent as _, Keys, Tag};
use serde_json::json;
use tokio::time::sleep;

use self::index_relays::{IndexRelays, UserIndex};
use crate::RelayUrl;

/// The kinds that an identity consists of.
const KINDS: [Kind; 2] = [kinds::PROFILE, kinds::RELAY_LIST];
/// First and longest pause between two rounds over index relays.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(15 * 60);
/// Index relays that are asked; the settings name them.
const MAX_INDEX_RELAYS: usize = 16;

/// What a service says of itself.
#[derive(Clone, Debug)]
pub struct ServiceIdentity {
    pub keys: Keys,
    /// Its address without a scheme.
    pub name: String,
    /// Set where the service is at the root of its domain.
    pub nip05: Option<String>,
    pub relay_url: String,
}

/// What the identity needs of the node.
pub struct IdentityParts {
    pub identity: ServiceIdentity,
    pub relay: Relay,
    pub policy: Arc<dyn WritePolicy>,
    pub store: EventStore,
    /// For the index relays, which the operator configured.
    pub egress: grip_egress::Egress,
    /// Empty where nothing is to be published.
    pub index_relays: Vec<RelayUrl>,
    /// Owns the task.
    pub group: TaskGroup,
}

impl ServiceIdentity {
    /// Has the identity stored here, then published.
    pub fn start(parts: IdentityParts) {
        let IdentityParts {
            identity,
            relay,
            policy,
            store,
            egress,
            mut index_relays,
            group,
        } = parts;
        index_relays.truncate(MAX_INDEX_RELAYS);
        let own = Node {
            identity,
            relay,
            policy,
            store,
            group: group.clone(),
        };
        let index = IndexRelays::new(egress);
        let stop = group.token();
        group.spawn("follow.identity", async move {
            stop.run_until_cancelled(publish_to_all(&own, &index, &index_relays))
                .await;
        });
    }

    fn make(&self, kind: Kind, now: Timestamp) -> Option<Event> {
        let builder = if kind == kinds::PROFILE {
            let mut content = json!({ "name": self.name, "bot": true });
            if let Some(nip05) = &self.nip05 {
                content["nip05"] = json!(nip05);
            }
            EventBuilder::new(kind, content.to_string())
        } else {
            let tag = Tag::parse(["r", &self.relay_url]).ok()?;
            EventBuilder::new(kind, "").tags([tag])
        };
        builder.custom_created_at(now).finalize(&self.keys).ok()
    }
}

/// The identity events of the service at this node.
trait OwnEvents {
    fn key(&self) -> PublicKey;
    /// The one of a kind that is served.
    async fn latest(&self, kind: Kind) -> Result<Option<Event>, Unreadable>;
    /// Makes one.
    fn make(&self, kind: Kind) -> Option<Event>;
    /// Has one decided like any other; a newer one that is served already stays.
    async fn store(&self, event: &Event);
}

/// What is served cannot be told at this moment: nothing is made in its place.
#[derive(Debug)]
struct Unreadable;

struct Node {
    identity: ServiceIdentity,
    relay: Relay,
    policy: Arc<dyn WritePolicy>,
    store: EventStore,
    group: TaskGroup,
}

impl OwnEvents for Node {
    fn key(&self) -> PublicKey {
        self.identity.keys.public_key()
    }

    async fn latest(&self, kind: Kind) -> Result<Option<Event>, Unreadable> {
        let address = Address {
            kind,
            author: self.key(),
            d: String::new(),
        };
        let store = self.store.clone();
        let look = move || store.read()?.latest(&address);
        match self.group.spawn_blocking("follow.look", look).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => {
                tracing::warn!(%error, "failed to look for the profile of this service");
                Err(Unreadable)
            }
            Err(_) => Err(Unreadable),
        }
    }

    fn make(&self, kind: Kind) -> Option<Event> {
        self.identity.make(kind, Timestamp::now())
    }

    async fn store(&self, event: &Event) {
        let text = json!(["EVENT", event]).to_string().into();
        let source = EventSource::from(Origin::Submitted);
        let admitted = self.relay.admit(&self.policy, vec![text], source).await;
        let kind = event.kind.as_u16();
        for refused in admitted.iter().filter(|it| !it.answer.accepted) {
            let reason = &refused.answer.message;
            tracing::info!(kind, reason, "this service keeps another profile or none");
        }
    }
}

/// Goes round the index relays until each has an identity or does not want one.
async fn publish_to_all(own: &impl OwnEvents, index: &impl UserIndex, relays: &[RelayUrl]) {
    if relays.is_empty() {
        return complete(own).await;
    }
    let mut pending: BTreeSet<&RelayUrl> = relays.iter().collect();
    let mut pause = FIRST_PAUSE;
    loop {
        round(own, index, &mut pending).await;
        if pending.is_empty() {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Asks all that are left before anything is published, and drops those that need nothing more.
async fn round(own: &impl OwnEvents, index: &impl UserIndex, pending: &mut BTreeSet<&RelayUrl>) {
    let mut answered = Vec::new();
    for relay in pending.iter().copied() {
        match index.identity(relay, own.key()).await {
            Ok(found) => {
                for event in &found {
                    own.store(event).await;
                }
                let has: BTreeSet<Kind> = found.iter().map(|event| event.kind).collect();
                answered.push((relay, has));
            }
            Err(error) => {
                tracing::debug!(%relay, %error, "failed to ask for the profile of this service");
                if error.is_final() {
                    answered.push((relay, BTreeSet::from(KINDS)));
                }
            }
        }
    }
    if answered.is_empty() {
        return;
    }
    complete(own).await;
    for (relay, has) in answered {
        if publish(own, index, relay, &has).await {
            pending.remove(relay);
        }
    }
}

/// Makes and stores what is missing.
async fn complete(own: &impl OwnEvents) {
    for kind in KINDS {
        if matches!(own.latest(kind).await, Ok(None))
            && let Some(event) = own.make(kind)
        {
            own.store(&event).await;
        }
    }
}

/// Publishes what one relay lacks; says whether it needs to be asked no more.
async fn publish(
    own: &impl OwnEvents,
    index: &impl UserIndex,
    relay: &RelayUrl,
    has: &BTreeSet<Kind>,
) -> bool {
    let mut is_done = true;
    for kind in KINDS.into_iter().filter(|kind| !has.contains(kind)) {
        let event = match own.latest(kind).await {
            Ok(Some(event)) => event,
            Ok(None) => continue,
            Err(Unreadable) => {
                is_done = false;
                continue;
            }
        };
        let kind = kind.as_u16();
        match index.publish(relay, &event).await {
            Ok(()) => tracing::info!(%relay, kind, "published the profile of this service"),
            Err(error) => {
                tracing::debug!(%relay, kind, %error, "failed to publish the profile of this service");
                is_done &= error.is_final();
            }
        }
    }
    is_done
}

#[cfg(test)]
mod tests;
