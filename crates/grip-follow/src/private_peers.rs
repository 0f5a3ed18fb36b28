//! Private services among the followed relays (GRASP-08): a private service exchanges with them alone, a
//! public one leaves them alone.

use std::collections::{BTreeMap, BTreeSet};

use grip_nostr::PublicKey;
use nostr::prelude::Keys;
use parking_lot::Mutex;
use url::Url;

use crate::{
    RelayUrl,
    plan::{Class, Plan},
};

/// The private services that this one has found, and the key by which it gets in.
pub struct PrivatePeers {
    /// Set where this service is private itself.
    pub(crate) keys: Option<Keys>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// Relays that advertise GRASP-08, with the key of their service; among those that are
    /// followed.
    services: BTreeMap<RelayUrl, Option<PublicKey>>,
    /// Relays that a served announcement names.
    served: BTreeSet<RelayUrl>,
}

impl PrivatePeers {
    /// Nothing is found yet; the service with these keys is private.
    pub fn of_private(keys: Keys) -> Self {
        Self {
            keys: Some(keys),
            found: Mutex::default(),
        }
    }

    /// Nothing is found yet by a public service.
    pub fn of_public() -> Self {
        Self {
            keys: None,
            found: Mutex::default(),
        }
    }

    /// Says whether git may be asked for at `url`: a private service tells nobody what it has, except
    /// private ones, and a public one asks those for nothing (G08-16, G08-18).
    pub fn may_ask(&self, url: &Url) -> bool {
        self.is_private(url) == self.keys.is_some()
    }

    /// Keys of the services that served announcements name (G08-13).
    pub fn members(&self) -> BTreeSet<PublicKey> {
        let found = self.found.lock();
        let named = found.services.iter();
        let named = named.filter(|(relay, _)| found.served.contains(*relay));
        named.filter_map(|(_, key)| *key).collect()
    }

    /// Says whether `url` leads to the host, port and kind of connection of a relay that
    /// advertises GRASP-08 (G08-16). A public service leaves alone no more than what is below that
    /// relay's path: a file that anybody pushed may look like a relay's document, and says nothing of
    /// the host that serves it.
    pub fn is_private(&self, url: &Url) -> bool {
        let place = |url: &Url| {
            let is_secure = matches!(url.scheme(), "https" | "wss");
            let host = url.host_str().map(str::to_owned);
            (is_secure, host, url.port_or_known_default())
        };
        let wanted = place(url);
        let is_of = |relay: &Url| {
            place(relay) == wanted && (self.keys.is_some() || is_below(url.path(), relay))
        };
        let found = self.found.lock();
        found.services.keys().any(|relay| is_of(&relay.url()))
    }

    /// Notes what a relay says of itself; none where it is a public one.
    pub(crate) fn note(&self, relay: &RelayUrl, service: Option<Option<PublicKey>>) {
        let mut found = self.found.lock();
        match service {
            Some(key) => drop(found.services.insert(relay.clone(), key)),
            None => drop(found.services.remove(relay)),
        }
    }

    /// Notes what is followed from now on, and forgets all else.
    pub(crate) fn set_plans<P: AsRef<Plan>>(&self, plans: &BTreeMap<RelayUrl, P>) {
        let mut found = self.found.lock();
        found.services.retain(|relay, _| plans.contains_key(relay));
        let is_served = |plan: &Plan| plan.values.contains_key(&Class::Address);
        let served = plans.iter().filter(|(_, plan)| is_served(plan.as_ref()));
        found.served = served.map(|(relay, _)| relay.clone()).collect();
    }
}

fn is_below(path: &str, relay: &Url) -> bool {
    let rest = path.strip_prefix(relay.path().trim_end_matches('/'));
    relay.query().is_none() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// G08-13, G08-16
    #[test]
    fn keys_count_while_a_served_announcement_names_their_relay() {
        let peers = PrivatePeers::of_private(Keys::generate());
        let key = Keys::generate().public_key();
        let relay = RelayUrl::parse("wss://git.example:8443").unwrap();
        peers.note(&relay, Some(Some(key)));
        assert!(peers.members().is_empty(), "nothing served names it");
        let plan = |class| {
            let mut plan = Plan::default();
            plan.add(class, &"x".into());
            BTreeMap::from([(relay.clone(), Arc::new(plan))])
        };
        peers.set_plans(&plan(Class::Held));
        assert!(peers.members().is_empty());
        peers.set_plans(&plan(Class::Address));
        assert_eq!(peers.members(), BTreeSet::from([key]));
        let is_private = |url: &str| peers.is_private(&Url::parse(url).unwrap());
        assert!(is_private("https://git.example:8443/npub1x/x.git"));
        for other in [
            "http://git.example:8443/x.git",
            "https://git.example/x.git",
            "https://other.example:8443/x.git",
        ] {
            assert!(!is_private(other), "{other}");
        }
        peers.set_plans::<Arc<Plan>>(&BTreeMap::new());
        assert!(peers.members().is_empty());
        assert!(!is_private("https://git.example:8443/x.git"));
    }

    #[test]
    fn a_service_asks_its_own_kind_for_git() {
        let relay = RelayUrl::parse("wss://git.example").unwrap();
        let [private, public] = ["git.example", "other.example"]
            .map(|host| Url::parse(&format!("https://{host}/x.git")).unwrap());
        let peers = PrivatePeers::of_public();
        assert!(peers.may_ask(&private), "nothing is known of it yet");
        peers.note(&relay, Some(None));
        assert!(!peers.may_ask(&private) && peers.may_ask(&public));
        peers.note(&relay, None);
        assert!(peers.may_ask(&private), "it has become a public one");
        let peers = PrivatePeers::of_private(Keys::generate());
        peers.note(&relay, Some(None));
        assert!(peers.may_ask(&private) && !peers.may_ask(&public));
    }

    #[test]
    fn a_file_that_looks_like_a_document_closes_no_host() {
        let peers = PrivatePeers::of_public();
        for file in ["/npub1x/x.git/raw/main/doc", "/?file=doc"] {
            let relay = RelayUrl::parse(&format!("wss://git.example{file}")).unwrap();
            peers.note(&relay, Some(None));
        }
        let may_ask = |url: &str| peers.may_ask(&Url::parse(url).unwrap());
        assert!(may_ask("https://git.example/npub1x/x.git") && may_ask("wss://git.example/"));
        assert!(!may_ask(
            "https://git.example/npub1x/x.git/raw/main/doc/x.git"
        ));
        assert!(may_ask(
            "https://git.example/npub1x/x.git/raw/main/document.git"
        ));
    }
}
