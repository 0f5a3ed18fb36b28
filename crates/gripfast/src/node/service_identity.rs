//! Profile and relay list of the service (E-5), wired over the relay.

use std::sync::Arc;

use anyhow::Context as _;
use grip_follow::{IdentityParts, RelayUrl, ServiceIdentity};
use grip_relay::Relay;
use grip_store::EventStore;
use grip_types::{Domain, Service};
use nostr::prelude::Keys;

use super::{base::Base, component_settings};
use crate::config::Settings;

/// Stores the identity, and publishes it where the settings say so.
pub(super) fn start(base: &Base<'_>, relay: &Relay, store: &EventStore) -> anyhow::Result<()> {
    let index_relays = index_relays(base.settings);
    let hosts = index_relays.iter();
    let hosts = hosts.filter_map(|relay| Domain::of(&relay.url())).collect();
    let egress = base.egress(hosts);
    ServiceIdentity::start(IdentityParts {
        identity: identity(base.service, base.identity.keys.clone()),
        relay: relay.clone(),
        policy: Arc::new(base.grasp.clone()),
        store: store.clone(),
        egress: egress.context("cannot set up connections to relays")?,
        index_relays,
        group: base.front.child("identity"),
    });
    Ok(())
}

fn identity(service: &Service, keys: Keys) -> ServiceIdentity {
    let name = service.authority();
    // NIP-05 knows no path.
    let is_root = service.base().is_empty();
    ServiceIdentity {
        keys,
        nip05: is_root.then(|| format!("_@{name}")),
        name,
        relay_url: service.relay_url(),
    }
}

/// Where the identity is published: at user-index relays, which are used where GRASP-03 is on
/// (G03-13), by a service that has a name, and never by a private one.
fn index_relays(settings: &Settings) -> Vec<RelayUrl> {
    if component_settings::uses_lists(settings) && settings.reach.domain.is_some() {
        settings.sync.user_index_relays.clone()
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::Fake;

    /// E-5
    #[test]
    fn the_name_is_the_address_and_nip05_is_for_the_root_of_a_domain() {
        let identity =
            |service: &str| identity(&Service::parse(service).unwrap(), Keys::generate());
        let root = identity("git.example:8443");
        assert_eq!(root.name, "git.example:8443");
        assert_eq!(root.nip05.as_deref(), Some("_@git.example:8443"));
        assert_eq!(root.relay_url, "wss://git.example:8443");
        let below = identity("git.example/grasp");
        assert_eq!(below.name, "git.example/grasp");
        assert_eq!(below.nip05, None);
        assert_eq!(below.relay_url, "wss://git.example/grasp");
    }

    /// E-5, G03-13, G08-14
    #[test]
    fn it_is_published_by_public_services_with_a_name_where_index_relays_are_used() {
        let plus = || Fake::default().env("NGIT_SYNC_PLUS_ENABLED", "true");
        let named = || plus().env("NGIT_DOMAIN", "git.example");
        let count = |fake: Fake| index_relays(&fake.loaded().settings).len();
        assert_eq!(count(named()), 3);
        assert_eq!(count(Fake::default().env("NGIT_DOMAIN", "git.example")), 0);
        assert_eq!(count(named().env("GRIPFAST_SYNC_ENABLED", "false")), 0);
        assert_eq!(count(plus()), 0);
        let npub = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";
        let private = named()
            .env("NGIT_PRIVATE_MODE", "true")
            .env("NGIT_PRIVATE_MEMBERS", npub);
        assert_eq!(count(private), 0);
    }
}
