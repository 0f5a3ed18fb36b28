//! Repositories followed on other relays (GRASP-02), wired over the service.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use grip_follow::{Backoff, Follow, Options, Parts, PlusOptions, RemoteRefs};
use grip_relay::Relay;
use grip_store::EventStore;
use grip_types::Domain;

use super::{base::Base, component_settings};
use crate::config::Settings;

/// Starts to follow.
pub(super) fn start(
    base: &Base<'_>,
    relay: &Relay,
    store: &EventStore,
    remote_refs: Arc<dyn RemoteRefs>,
) -> anyhow::Result<Follow> {
    let options = options(base.settings, relay);
    // What the operator configured may be inside of his network; what events name may not.
    let hosts = configured_hosts(base.settings);
    let set_up = "cannot set up connections to relays";
    Ok(Follow::start(Parts {
        relay: relay.clone(),
        policy: Arc::new(base.grasp.clone()),
        store: store.clone(),
        followed: Arc::new(base.grasp.clone()),
        db: base.db.clone(),
        egress: base.egress(Vec::new()).context(set_up)?,
        bootstrap_egress: base.egress(hosts).context(set_up)?,
        private: Arc::clone(&base.identity.peers),
        options,
        keys: base.identity.keys.clone(),
        remote_refs,
        group: base.front.child("follow"),
    }))
}

/// The hosts of the relays that the operator configured.
pub(super) fn configured_hosts(settings: &Settings) -> Vec<Domain> {
    let plus = plus(settings);
    let plus = plus.iter();
    let plus = plus.flat_map(|plus| plus.index_relays.iter().chain(&plus.fallback_relays));
    let relays = settings.sync.sync_bootstrap_relay_url.iter().chain(plus);
    relays
        .filter_map(|relay| Domain::of(&relay.url()))
        .collect()
}

fn options(settings: &Settings, relay: &Relay) -> Options {
    let (sync, defaults) = (&settings.sync, Options::default());
    Options {
        bootstrap: sync.sync_bootstrap_relay_url.clone(),
        uses_nip77: !sync.sync_disable_negentropy,
        allow_non_global: sync.sync_allow_non_global_targets,
        backoff: Backoff {
            base: Duration::from_secs(sync.sync_base_backoff_secs),
            most: Duration::from_secs(sync.sync_max_backoff_secs),
            faulty: Duration::from_secs(sync.naughty_list_expiration_hours * 3_600),
        },
        refused_lifetime: Duration::from_secs(sync.rejected_cold_index_expiry_secs),
        refused_kept_whole: Duration::from_secs(sync.rejected_hot_cache_duration_secs),
        max_relays: sync.sync_max_relays,
        max_descendants: sync.sync_recursive_descendant_limit,
        look_every: Duration::from_secs(sync.sync_disconnect_check_interval_secs),
        plus: plus(settings),
        networks: relay.limits().networks,
        // What this relay takes others may send, with the name of a subscription.
        max_message_bytes: (settings.message_bytes() + (1 << 10)).max(defaults.max_message_bytes),
    }
}

fn plus(settings: &Settings) -> Option<PlusOptions> {
    let sync = &settings.sync;
    component_settings::uses_lists(settings).then(|| PlusOptions {
        index_relays: sync.user_index_relays.clone(),
        fallback_relays: sync.sync_plus_fallback_relays.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::Fake;

    /// G08-14: a relay that a list names would become a member by its key.
    #[test]
    fn a_private_service_follows_no_lists_of_participants() {
        let public = || Fake::default().env("NGIT_SYNC_PLUS_ENABLED", "true");
        assert!(plus(&public().loaded().settings).is_some());
        let member = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";
        let private = public()
            .env("NGIT_PRIVATE_MODE", "true")
            .env("NGIT_PRIVATE_MEMBERS", member);
        assert!(plus(&private.loaded().settings).is_none());
    }
}
