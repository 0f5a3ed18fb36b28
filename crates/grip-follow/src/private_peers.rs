//! Private services among the followed relays (GRASP-08): a private service exchanges with them alone, a
//! public one leaves them alone.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use grip_egress::{DocumentResponse, Forbidden, Preflight, Request};
use grip_nostr::PublicKey;
use grip_types::{ByteLru, Domain, percent_decode};
use http::{StatusCode, header::WWW_AUTHENTICATE};
use nostr::prelude::Keys;
use parking_lot::Mutex;
use tokio::time::Instant;
use url::Url;

use crate::{
    RelayUrl,
    document::{self, Document},
    plan::{Class, Plan},
};

/// How long it counts what a service said of itself, and that nothing came of asking.
const DOCUMENT_LIFETIME: Duration = Duration::from_secs(3_600);
const SILENCE_LIFETIME: Duration = Duration::from_secs(600);
/// Memory of what services said. Strangers who name many of them have others read again, at the cost of
/// the hosts they name.
const MAX_DOCUMENT_BYTES: usize = 1 << 20;

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
    /// Where all that are followed are.
    places: HashSet<Place>,
    documents: Documents,
}

/// What services said of themselves, by the address of each without a slash at the end.
struct Documents(ByteLru<String, Said>);

#[derive(Clone, Copy)]
struct Said {
    is_private: bool,
    until: Instant,
}

/// Whether it is encrypted, host and port: where a URL leads.
type Place = (bool, Option<String>, Option<u16>);

fn place(url: &Url) -> Place {
    let is_secure = matches!(url.scheme(), "https" | "wss");
    let host = url.host_str().map(str::to_owned);
    (is_secure, host, url.port_or_known_default())
}

impl Default for Documents {
    fn default() -> Self {
        Self(ByteLru::new(MAX_DOCUMENT_BYTES, |root, _| root.len()))
    }
}

impl Documents {
    fn key(root: &Url) -> String {
        root.as_str().trim_end_matches('/').to_owned()
    }

    /// Whether the service at `root` said that it is private, if it was asked lately.
    fn is_private(&self, root: &Url) -> Option<bool> {
        let said = self.0.peek(&Self::key(root))?;
        (Instant::now() < said.until).then_some(said.is_private)
    }

    fn note(&mut self, root: &Url, is_private: bool, lifetime: Duration) {
        let until = Instant::now() + lifetime;
        self.0.put(Self::key(root), Said { is_private, until });
    }
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
        let wanted = place(url);
        let is_of = |relay: &Url| {
            place(relay) == wanted && (self.keys.is_some() || is_below(url.path(), relay))
        };
        let found = self.found.lock();
        found.services.keys().any(|relay| is_of(&relay.url()))
            || self.keys.is_none() && found.documents.is_private(&root(url).0) == Some(true)
    }

    /// What finds out whether a host is a private service before it is asked for git; none where this
    /// one is private itself, and shows its key to those that are known alone.
    pub fn preflight(self: &Arc<Self>) -> Option<Arc<dyn Preflight>> {
        let is_public = self.keys.is_none();
        is_public.then(|| Arc::clone(self) as Arc<dyn Preflight>)
    }

    /// Notes what a relay says of itself; none where it is a public one.
    pub(crate) fn note(&self, relay: &RelayUrl, service: Option<Option<PublicKey>>) {
        let mut found = self.found.lock();
        let root = document::page_url(&relay.url());
        let is_private = service.is_some();
        found.documents.note(&root, is_private, DOCUMENT_LIFETIME);
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
        found.places = plans.keys().map(|relay| place(&relay.url())).collect();
    }
}

/// A public service reads what a service says of itself before it asks it for git (G08-18).
impl Preflight for PrivatePeers {
    /// The document of the service that a clone URL of GRASP names, or of the host where a relay is
    /// followed. Other hosts are no services of GRASP as far as anybody said.
    fn document(&self, url: &Url) -> Option<Request> {
        let (root, is_service) = root(url);
        let is_private = self.is_private(url);
        let found = self.found.lock();
        let is_named = is_service || found.places.contains(&place(url));
        let is_known = is_private || found.documents.is_private(&root).is_some();
        (is_named && !is_known).then(|| document::request(&root))
    }

    fn note(&self, document: &Url, response: Option<&DocumentResponse>) {
        let text = response.and_then(|response| response.text.as_deref());
        let said = text.and_then(Document::parse);
        let is_private = match said {
            Some(document) => document.is_private(),
            None => response.is_some_and(wants_a_key),
        };
        let lifetime = if response.is_some() {
            DOCUMENT_LIFETIME
        } else {
            SILENCE_LIFETIME
        };
        let mut found = self.found.lock();
        found.documents.note(document, is_private, lifetime);
    }

    fn check(&self, url: &Url) -> Result<(), Forbidden> {
        if self.is_private(url) {
            let domain = Domain::of(url).ok_or(Forbidden::NoHost)?;
            return Err(Forbidden::PrivateService(domain));
        }
        Ok(())
    }
}

/// Says whether a page is for those who prove a key (G08-10), as those of a private service are that is
/// not where the clone URL says.
fn wants_a_key(response: &DocumentResponse) -> bool {
    let challenges = response.headers.get_all(WWW_AUTHENTICATE).iter();
    let mut challenges = challenges.filter_map(|value| value.to_str().ok());
    let is_nostr = |challenge: &str| {
        let scheme = challenge.split_ascii_whitespace().next();
        scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("nostr"))
    };
    response.status == StatusCode::UNAUTHORIZED && challenges.any(is_nostr)
}

/// The service that a URL of git belongs to, and whether it has the form of GRASP
/// (`<service>/<npub>/<identifier>.git`); without it, the root of its host.
fn root(url: &Url) -> (Url, bool) {
    let segments: Vec<&str> = url.path().split('/').collect();
    let decoded = |segment: &str| {
        let bytes = percent_decode(segment).unwrap_or_default();
        bytes.to_ascii_lowercase()
    };
    let is_repository = |pair: &[&str]| {
        decoded(pair[0]).starts_with(b"npub1") && decoded(pair[1]).ends_with(b".git")
    };
    // The first of them: no service is below a repository.
    let found = segments.windows(2).position(is_repository);
    let path = found.map(|at| {
        let base = &segments[..at];
        base.strip_suffix(&["prs"]).unwrap_or(base).join("/")
    });
    let mut root = url.clone();
    root.set_query(None);
    root.set_fragment(None);
    root.set_path(path.as_deref().unwrap_or_default());
    (root, path.is_some())
}

fn is_below(path: &str, relay: &Url) -> bool {
    let rest = path.strip_prefix(relay.path().trim_end_matches('/'));
    relay.query().is_none() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use tokio::time::advance;

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

    const NPUB: &str = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";

    fn url(text: &str) -> Url {
        Url::parse(&text.replace("NPUB", NPUB)).unwrap()
    }

    fn saying(status: u16, text: Option<&str>) -> DocumentResponse {
        DocumentResponse {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            text: text.map(|text| text.as_bytes().to_vec()),
        }
    }

    const PRIVATE: &str = r#"{"supported_grasps": ["GRASP-01", "GRASP-08"]}"#;

    #[test]
    fn a_clone_url_names_its_service_however_it_is_spelled() {
        for (clone, service) in [
            ("https://a.example/NPUB/x.git", "https://a.example/"),
            (
                "https://a.example/NPUB/x.git/info/refs?service=git-upload-pack",
                "https://a.example/",
            ),
            ("https://a.example/git/NPUB/x.git", "https://a.example/git"),
            ("https://a.example/prs/NPUB/x.git", "https://a.example/"),
            (
                "https://a.example/%6Epub1x/x%2Egit/git-upload-pack",
                "https://a.example/",
            ),
            (
                "https://a.example/NPUB/x.git/NPUB/y.git",
                "https://a.example/",
            ),
        ] {
            assert_eq!(root(&url(clone)), (url(service), true), "{clone}");
        }
        for clone in ["https://a.example/x.git", "https://a.example/x/y/z?npub1"] {
            assert_eq!(root(&url(clone)), (url("https://a.example/"), false));
        }
    }

    /// G08-18
    #[tokio::test(start_paused = true)]
    async fn what_a_service_says_is_read_before_it_is_asked_and_counts_for_an_hour() {
        let peers = Arc::new(PrivatePeers::of_public());
        let preflight = peers.preflight().unwrap();
        let clone = url("https://git.example/NPUB/x.git/info/refs");
        let asked = |url: &Url| preflight.document(url).map(|request| request.url);
        let service = url("https://git.example/");
        for _ in 0..2 {
            assert_eq!(asked(&clone), Some(service.clone()));
            preflight.note(&service, Some(&saying(200, Some(PRIVATE))));
            assert_eq!(asked(&clone), None);
            for path in ["NPUB/y.git", "y.git"] {
                let other = url(&format!("https://git.example/{path}"));
                assert!(preflight.check(&other).is_err() && !peers.may_ask(&other));
            }
            assert!(
                preflight
                    .check(&url("http://git.example/NPUB/x.git"))
                    .is_ok()
            );
            advance(DOCUMENT_LIFETIME).await;
            assert!(
                preflight.check(&clone).is_ok(),
                "it is asked again who it is"
            );
        }
        for response in [Some(saying(200, Some("{}"))), Some(saying(404, None)), None] {
            preflight.note(&service, response.as_ref());
            assert!(asked(&clone).is_none() && preflight.check(&clone).is_ok());
        }
        advance(SILENCE_LIFETIME).await;
        assert!(asked(&clone).is_some(), "silence is forgotten sooner");
        let private = Arc::new(PrivatePeers::of_private(Keys::generate()));
        assert!(private.preflight().is_none());
    }

    #[test]
    fn a_page_that_wants_a_key_is_that_of_a_private_service() {
        let peers = PrivatePeers::of_public();
        let clone = url("https://git.example/elsewhere/NPUB/x.git");
        let service = url("https://git.example/elsewhere");
        let mut refusal = saying(401, None);
        let basic = "Basic realm=\"x\"".parse().unwrap();
        refusal.headers.append(WWW_AUTHENTICATE, basic);
        Preflight::note(&peers, &service, Some(&refusal));
        assert!(peers.check(&clone).is_ok());
        let nostr = "Nostr realm=\"x\", method=\"GET\"".parse().unwrap();
        refusal.headers.append(WWW_AUTHENTICATE, nostr);
        Preflight::note(&peers, &service, Some(&refusal));
        assert!(peers.check(&clone).is_err());
    }

    #[test]
    fn hosts_that_nobody_calls_a_service_are_not_asked_for_a_document() {
        let peers = PrivatePeers::of_public();
        let clone = url("https://git.example/x.git");
        assert!(peers.document(&clone).is_none());
        let relay = RelayUrl::parse("wss://git.example/relay").unwrap();
        let plans = BTreeMap::from([(relay.clone(), Arc::new(Plan::default()))]);
        peers.set_plans(&plans);
        let document = peers.document(&clone).unwrap();
        assert_eq!(document.url, url("https://git.example/"));
        // What a relay said when it was dialled is not asked for again.
        let service = url("https://git.example/relay/NPUB/x.git");
        assert!(peers.document(&service).is_some());
        peers.note(&relay, None);
        assert!(peers.document(&service).is_none() && peers.check(&service).is_ok());
        peers.note(&relay, Some(None));
        assert!(peers.document(&service).is_none() && peers.check(&service).is_err());
    }
}
