//! The key of the service, and who may use a private one (GRASP-08).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use grip_egress::Bearer;
use grip_follow::PrivatePeers;
use grip_nostr::{PublicKey, Timestamp, repository_proof, repository_root};
use grip_relay::{Access, Members};
use grip_sync::Credentials;
use grip_tasks::TaskGroup;
use grip_types::Service;
use grip_web::Private;
use nostr::prelude::Keys;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::{
    config::{Settings, origin_of},
    private_file,
};

/// The file in the data directory with the key that a service without one makes for itself.
pub(super) const KEY_FILE: &str = "relay.key";
/// How often the members that announcements name are looked over (G08-13).
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The service as others know it.
pub(super) struct Identity {
    pub(super) keys: Keys,
    /// Private services that this one has found.
    pub(super) peers: Arc<PrivatePeers>,
    /// Set where the service is private.
    membership: Option<Arc<Membership>>,
}

/// The members of a private service.
pub(super) struct Membership {
    effective: watch::Sender<Arc<BTreeSet<PublicKey>>>,
    configured: Mutex<BTreeSet<PublicKey>>,
    peers: Arc<PrivatePeers>,
}

impl Identity {
    /// Takes the configured key, or the one of the last run, or makes one.
    pub(super) fn open(settings: &Settings) -> anyhow::Result<Self> {
        let keys = match &settings.about.relay_owner_nsec {
            Some(keys) => keys.clone(),
            None => {
                let file = settings.storage.data_dir.join(KEY_FILE);
                let text = private_file::keep(&file);
                let text = text.with_context(|| {
                    let file = file.display();
                    format!(
                        "cannot use the key of this service in {file}: restore it from a backup; \
                         without the file the node makes itself another key"
                    )
                })?;
                let keys = Keys::parse(&text);
                keys.with_context(|| format!("{} holds no key", file.display()))?
            }
        };
        let acceptance = &settings.acceptance;
        let peers = Arc::new(if acceptance.private_mode {
            PrivatePeers::of_private(keys.clone())
        } else {
            PrivatePeers::of_public()
        });
        let membership = acceptance.private_mode.then(|| {
            let configured = acceptance.private_members.clone();
            Arc::new(Membership {
                effective: watch::Sender::new(Arc::new(configured.clone())),
                configured: Mutex::new(configured),
                peers: Arc::clone(&peers),
            })
        });
        Ok(Self {
            keys,
            peers,
            membership,
        })
    }

    pub(super) fn members(&self) -> Option<Members> {
        let membership = self.membership.as_ref()?;
        Some(Members::new(&membership.effective))
    }

    /// The access that the edge checks.
    pub(super) fn access(&self, settings: &Settings, service: &Service) -> Option<Private> {
        let given = settings.acceptance.private_public_origin.clone();
        Some(Private {
            origin: given.unwrap_or_else(|| origin_of(service)),
            access: Access {
                service: service.clone(),
                members: self.members()?,
            },
        })
    }

    /// Takes other configured members; who is none any more is cut off at once.
    pub(super) fn configure(&self, settings: &Settings) {
        if let Some(membership) = &self.membership {
            *membership.configured.lock() = settings.acceptance.private_members.clone();
            membership.update();
        }
    }

    /// What private services are shown when git data is fetched from them, and nobody else
    /// (G08-16).
    pub(super) fn credentials(&self) -> Option<Credentials> {
        self.membership.as_ref()?;
        let (peers, keys) = (Arc::clone(&self.peers), self.keys.clone());
        Some(Arc::new(move |url| {
            if !peers.is_private(url) {
                return None;
            }
            let proof = repository_proof(&keys, &repository_root(url), Timestamp::now())?;
            let json = serde_json::to_vec(&proof).ok()?;
            Bearer::nostr(&STANDARD.encode(json)).ok()
        }))
    }

    /// Keeps the members up to date with what announcements name.
    pub(super) fn start(&self, group: &TaskGroup) {
        let Some(membership) = self.membership.clone() else {
            return;
        };
        let stop = group.token();
        group.spawn("members", async move {
            let mut tick = interval(LOOK_EVERY);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while stop.run_until_cancelled(tick.tick()).await.is_some() {
                membership.update();
            }
        });
    }
}

impl Membership {
    /// Configured keys and those of private services that served announcements name (G08-13).
    fn update(&self) {
        let configured = self.configured.lock();
        let found = self.peers.members();
        let now: BTreeSet<PublicKey> = configured.union(&found).copied().collect();
        self.effective.send_if_modified(|members| {
            let has_changed = **members != now;
            if has_changed {
                tracing::info!(
                    configured = configured.len(),
                    services = found.len(),
                    "members have changed"
                );
                *members = Arc::new(now);
            }
            has_changed
        });
    }
}
