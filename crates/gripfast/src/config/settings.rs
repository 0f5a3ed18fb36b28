//! Settings derived from several options, and combinations that are refused.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use grip_github::Owner;
use grip_grasp::{Archive, ArchiveMode, Selection, TipRetention};
use grip_ingest::Keep;
use grip_types::Service;
use nostr::prelude::{Keys, PublicKey, ToBech32 as _};
use url::Url;

use super::{
    DatabasePlace, Settings, Source, Values, Watched,
    kinds::{EventBackend, HostToken, IndexedOwner, Kind, PUBLIC, SecretText},
    load::Notes,
    options::{Watch, find},
};

/// The shortest lease of a leader.
const MIN_LEASE: Duration = Duration::from_secs(1);
/// Below it a node that is slow may still need what is removed.
const SHORT_GRACE: Duration = Duration::from_secs(3_600);

/// The longest message, unless events are larger: a state with 20,000 refs.
const MESSAGE_BYTES: usize = 2 << 20;
/// What a message holds beside its event, with blanks that a client may put around it.
const FRAME_BYTES: usize = 1 << 10;
/// One network of clients has at most this part of the relay's memory (an eighth of what is free).
const PER_NETWORK: usize = 9;
/// Events that need no relation to anything served, in one go: unless events are larger, so many bytes.
const UNRELATED_BURST_BYTES: u32 = 1 << 20;

/// The go command refuses larger modules.
const GO_MAX_ZIP_BYTES: u64 = 500 << 20;

/// A GitHub host whose API is used.
#[derive(Clone, Debug)]
pub(crate) struct GithubHost {
    pub(crate) service: Service,
    /// With a slash at the end.
    pub(crate) api: Url,
    /// Whose repositories are indexed.
    pub(crate) owners: Vec<Owner>,
    pub(crate) tokens: Vec<SecretText>,
}

impl GithubHost {
    fn new(service: Service) -> Self {
        let api = match service.authority().as_str() {
            PUBLIC => "https://api.github.com/".to_owned(),
            _ => format!("{}/api/v3/", service.http_url()),
        };
        Self {
            api: Url::parse(&api).expect("a host that was parsed makes a URL"),
            service,
            owners: Vec::new(),
            tokens: Vec::new(),
        }
    }
}

/// The name of a node without a `domain`: the address it listens on.
pub(crate) fn service_at(address: SocketAddr, base: &str) -> Service {
    try_service_at(address, base).expect("an address and a checked path make a service")
}

/// Where a node that listens on `address` answers on its machine.
pub(crate) fn local_url(mut address: SocketAddr, base: &str) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let url = format!("http://{address}/{base}");
    url.trim_end_matches('/').to_owned()
}

fn try_service_at(address: SocketAddr, base: &str) -> Option<Service> {
    let host = match address.ip() {
        // Listening everywhere is no name; from this machine, loopback is one.
        ip if ip.is_unspecified() => format!("127.0.0.1:{}", address.port()),
        _ => address.to_string(),
    };
    Service::parse(&format!("{host}/{}", base.trim_matches('/'))).ok()
}

impl Settings {
    /// The service under the name that clients know.
    pub(crate) fn service(&self) -> Service {
        self.try_service()
            .expect("the base path is checked when settings are loaded")
    }

    fn try_service(&self) -> Option<Service> {
        let base = self.reach.base_path.as_deref().unwrap_or_default();
        match (&self.reach.domain, base.trim_matches('/')) {
            (None, base) => try_service_at(self.reach.bind_address, base),
            (Some(domain), "") => Some(domain.clone()),
            (Some(domain), base) => Service::parse(&format!("{}/{base}", domain.http_url())).ok(),
        }
    }

    fn in_data_dir(&self, given: Option<&PathBuf>, name: &str) -> PathBuf {
        given.map_or_else(|| self.storage.data_dir.join(name), PathBuf::clone)
    }

    pub(crate) fn git_data_path(&self) -> PathBuf {
        self.in_data_dir(self.storage.git_data_path.as_ref(), "git")
    }

    pub(crate) fn relay_data_path(&self) -> PathBuf {
        self.in_data_dir(self.storage.relay_data_path.as_ref(), "relay")
    }

    pub(crate) fn database(&self) -> DatabasePlace {
        let usual = || DatabasePlace::File(self.in_data_dir(None, "gripfast.sqlite"));
        self.storage.database_url.clone().unwrap_or_else(usual)
    }

    /// The directory or bucket of avatars.
    pub(crate) fn avatars_store(&self) -> String {
        let usual = || text(&self.in_data_dir(None, "avatars"));
        self.watch.watch_avatars_store.clone().unwrap_or_else(usual)
    }

    pub(crate) fn relay_name(&self) -> String {
        let usual = || format!("{} grasp relay", self.service());
        self.about.relay_name.clone().unwrap_or_else(usual)
    }

    /// The operator's public key: named outright, or that of the relay's private key.
    pub(crate) fn owner(&self) -> Option<PublicKey> {
        let relay = self.about.relay_owner_nsec.as_ref();
        self.about.owner_npub.or(relay.map(Keys::public_key))
    }

    /// The watched host: the one named, or github.com where only webhooks report pushes.
    pub(crate) fn watched(&self) -> Option<Watched> {
        let of_webhooks = || Watched {
            host: Service::parse(PUBLIC).expect("it is a host"),
            sources: Vec::new(),
        };
        let has_secret = !self.watch.github_webhook_secret.is_empty();
        let named = self.watch.watch_github.clone();
        named.or_else(|| has_secret.then(of_webhooks))
    }

    /// Every host once: those whose repositories are indexed, and the one that is watched.
    pub(crate) fn github_hosts(&self) -> Vec<GithubHost> {
        let mut hosts: Vec<GithubHost> = Vec::new();
        let indexed = self.index.index_github.iter().cloned();
        let indexed = indexed.map(|IndexedOwner { host, owner }| (host, Some(owner)));
        let watched = self.watched().map(|watched| (watched.host, None));
        for (service, owner) in indexed.chain(watched) {
            let is_it = |host: &GithubHost| host.service.http_url() == service.http_url();
            let at = hosts.iter().position(is_it).unwrap_or_else(|| {
                hosts.push(GithubHost::new(service));
                hosts.len() - 1
            });
            hosts[at].owners.extend(owner);
        }
        for HostToken { host, token } in &self.index.github_token {
            let name = authority(host.as_ref());
            if let Some(host) = hosts.iter_mut().find(|h| h.service.authority() == name) {
                host.tokens.push(token.clone());
            }
        }
        hosts
    }

    /// The secrets that may be in a file, and the file that was named for each.
    pub(super) fn secret_files(&self) -> [(&'static str, Option<PathBuf>); 4] {
        let (about, index, watch) = (&self.about, &self.index, &self.watch);
        [
            ("relay_owner_nsec", &about.relay_owner_nsec_file),
            ("github_token", &index.github_token_file),
            ("index_reader_token", &index.index_reader_token_file),
            ("github_webhook_secret", &watch.github_webhook_secret_file),
        ]
        .map(|(key, file)| (key, file.clone()))
    }

    /// Shows derived values in `values` and notes combinations that cannot be, or would mean
    /// something else than they say.
    pub(super) fn review(&self, values: &mut Values, notes: &mut Notes) {
        self.review_names(values, notes);
        self.review_places(values, notes);
        self.review_tokens(values, notes);
        self.review_archive(values, notes);
        if self.storage.database_backend != EventBackend::Lmdb {
            let source = &values["database_backend"].source;
            let warning = format!("{source}: database_backend: events are kept in LMDB");
            notes.warnings.push(warning);
        }
        self.review_privacy(values, notes);
        self.review_cluster(values, notes);
        self.review_messages(values, notes);
        let mut refuse = |key, why| notes.mistake(key, &values[key], why);
        if self.index.go_proxy_max_zip_bytes > GO_MAX_ZIP_BYTES {
            let why = "is more than the go command takes, which is 500 MiB";
            refuse("go_proxy_max_zip_bytes", why);
        }
    }

    /// The longest message of a relay client. Where none is chosen it carries the largest event, since
    /// operators of ngit-grasp bring a setting for events alone.
    pub(crate) fn message_bytes(&self) -> usize {
        let needed = self.limits.relay_max_event_size_bytes + FRAME_BYTES;
        let chosen = self.limits.relay_max_message_bytes;
        chosen.unwrap_or(needed.max(MESSAGE_BYTES))
    }

    /// What one network of clients may send in one go of events without a relation.
    pub(crate) fn unrelated_burst_bytes(&self) -> u32 {
        let two = self.limits.relay_max_event_size_bytes.saturating_mul(2);
        let two = u32::try_from(two).unwrap_or(u32::MAX);
        let chosen = self.limits.relay_unrelated_burst_bytes;
        chosen.unwrap_or(two.max(UNRELATED_BURST_BYTES))
    }

    /// Refuses sizes of which one makes another untrue.
    fn review_messages(&self, values: &mut Values, notes: &mut Notes) {
        let (limits, message_bytes) = (&self.limits, self.message_bytes());
        let needed = limits.relay_max_event_size_bytes + grip_relay::EVENT_FRAME_BYTES;
        let is_chosen = !values["relay_max_event_size_bytes"].source.is_default();
        if message_bytes < needed && is_chosen {
            let why = format!(
                "is too short for an event of relay_max_event_size_bytes: leave it out, or give it \
                 at least {needed} bytes"
            );
            let key = "relay_max_message_bytes";
            notes.mistake(key, &values[key], why);
        }
        let needed = message_bytes.saturating_mul(PER_NETWORK);
        if limits.relay_memory_bytes < needed {
            let why = format!(
                "is too little: of it one network of clients has a ninth, which must hold a message \
                 of {message_bytes} bytes; give it at least {needed} bytes"
            );
            let key = "relay_memory_bytes";
            notes.mistake(key, &values[key], why);
        }
        show(values, "relay_max_message_bytes", size(message_bytes));
        let burst = self.unrelated_burst_bytes().to_string();
        show(values, "relay_unrelated_burst_bytes", burst);
    }

    /// Refuses what a private service cannot be, or would betray (G08-2).
    fn review_privacy(&self, values: &mut Values, notes: &mut Notes) {
        let acceptance = &self.acceptance;
        let has_members = !acceptance.private_members.is_empty();
        if !acceptance.private_mode {
            if has_members {
                let why = "would keep nobody out without private_mode = true";
                notes.mistake("private_members", &values["private_members"], why);
            }
            if acceptance.private_public_origin.is_some() {
                let source = &values["private_public_origin"].source;
                let warning = format!("{source}: private_public_origin is used with private_mode");
                notes.warnings.push(warning);
            }
            return;
        }
        if !has_members {
            let why = "lets nobody in: name members in private_members";
            notes.mistake("private_mode", &values["private_mode"], why);
        }
        if self.discovery.dht_enabled {
            let why = "would tell other nodes what a private service has: leave one of them out";
            notes.mistake("dht_enabled", &values["dht_enabled"], why);
        }
        let pull_requests = values["grasp06_enable"].text.as_deref().unwrap_or_default();
        if <bool as Kind>::parse(pull_requests) == Ok(true) {
            let why = "takes pull requests of strangers, whom private_mode keeps out: leave one of \
                       them out";
            notes.mistake("grasp06_enable", &values["grasp06_enable"], why);
        }
        if self.try_service().is_some() {
            show(values, "private_public_origin", self.private_origin());
        }
    }

    /// The address at which other nodes of a cluster reach this one.
    pub(crate) fn cluster_address(&self) -> SocketAddr {
        let given = self.cluster.cluster_address;
        given.unwrap_or(self.reach.bind_address)
    }

    /// Refuses what a cluster cannot be, or cannot do yet.
    fn review_cluster(&self, values: &mut Values, notes: &mut Notes) {
        if self.cluster.cluster_packs.is_none() {
            return;
        }
        let mut refuse = |key, why| notes.mistake(key, &values[key], why);
        if !matches!(self.database(), DatabasePlace::Server(_)) {
            let why =
                "needs a database that all nodes share: set database_url to a Postgres server";
            refuse("cluster_packs", why);
        }
        if self.storage.amnesia {
            let why = "would leave nothing of what a cluster keeps: leave one of them out";
            refuse("amnesia", why);
        }
        if self.reach.domain.is_none() {
            let why = "is needed in a cluster: the name that clients know all its nodes by";
            refuse("domain", why);
        }
        let address = self.cluster_address();
        if address.ip().is_unspecified() || address.port() == 0 {
            let why = "is needed where the bind address names no single address: other nodes of the \
                       cluster reach this one at it";
            refuse("cluster_address", why);
        }
        if self.reach.bind_address.port() == 0 {
            let why = "must name a port in a cluster: a node listens again when it begins to lead";
            refuse("bind_address", why);
        }
        if self.acceptance.private_mode {
            let why =
                "cannot be combined with cluster_packs yet: nodes that follow ask for no proof";
            refuse("private_mode", why);
        }
        let pull_requests = values["grasp06_enable"].text.as_deref().unwrap_or_default();
        if <bool as Kind>::parse(pull_requests) == Ok(true) {
            let why = "cannot be combined with cluster_packs yet: contributor repositories are not \
                       replicated";
            notes.mistake("grasp06_enable", &values["grasp06_enable"], why);
        }
        if self.cluster.cluster_lease < MIN_LEASE {
            let why = "is shorter than a second: a busy database would be taken for a dead leader";
            notes.mistake("cluster_lease", &values["cluster_lease"], why);
        }
        if self.cluster.cluster_keep_packs < SHORT_GRACE {
            let source = &values["cluster_keep_packs"].source;
            notes.warnings.push(format!(
                "{source}: cluster_keep_packs is shorter than an hour: packs may be removed that a node is \
                 still to fetch, and no backup of the database can be gone back to"
            ));
        }
        show(
            values,
            "cluster_address",
            self.cluster_address().to_string(),
        );
    }

    /// The origin that members' proofs are made for (G08-8).
    pub(crate) fn private_origin(&self) -> String {
        let given = self.acceptance.private_public_origin.clone();
        given.unwrap_or_else(|| origin_of(&self.service()))
    }

    fn review_names(&self, values: &mut Values, notes: &mut Notes) {
        let Some(service) = self.try_service() else {
            let why = "is no path such as `/git`";
            return notes.mistake("base_path", &values["base_path"], why);
        };
        if self.reach.domain.is_none() && self.reach.bind_address.ip().is_unspecified() {
            notes.warnings.push(format!(
                "domain is not set: only clients of this machine can use the node, as {service}"
            ));
        }
        show(values, "domain", service.authority());
        show(values, "relay_name", self.relay_name());
        if let Some(owner) = self.owner() {
            let npub = owner.to_bech32().expect("a public key has an npub");
            show(values, "owner_npub", npub);
        }
    }

    fn review_places(&self, values: &mut Values, notes: &mut Notes) {
        show(values, "git_data_path", text(&self.git_data_path()));
        show(values, "relay_data_path", text(&self.relay_data_path()));
        show(values, "watch_avatars_store", self.avatars_store());
        if let DatabasePlace::File(file) = self.database() {
            show(values, "database_url", format!("sqlite:{}", file.display()));
        }
        if !self.storage.amnesia {
            return;
        }
        for key in ["data_dir", "git_data_path", "relay_data_path"] {
            let source = &values[key].source;
            if !source.is_default() {
                let warning = format!("{source}: {key} is not used: amnesia keeps nothing");
                notes.warnings.push(warning);
            }
        }
        let is_server = matches!(self.storage.database_url, Some(DatabasePlace::Server(_)));
        let kept = [
            ("database_url", is_server),
            ("redis_url", self.sync.redis_url.is_some()),
        ];
        for (key, _) in kept.into_iter().filter(|(_, is_kept)| *is_kept) {
            let why = "would keep what amnesia must not: leave one of them out";
            notes.mistake(key, &values[key], why);
        }
    }

    /// What the archive selects, and whether it takes anything else.
    pub(crate) fn archive(&self) -> Archive {
        let archive = &self.archive;
        let listed = archive.archive_whitelist.clone().map(ArchiveMode::Listed);
        let services = archive.archive_grasp_services.clone();
        let services = (!services.is_empty()).then_some(ArchiveMode::Services(services));
        let all = archive.archive_all.then_some(ArchiveMode::All);
        let mode = all.or(listed).or(services);
        Archive {
            read_only: archive.archive_read_only.unwrap_or(mode.is_some()),
            mode,
            retention: TipRetention {
                time: archive.archive_tip_lifetime,
                tips: archive.archive_max_tips,
            },
        }
    }

    /// Combinations of which nobody could say what they mean (G05-10).
    fn review_archive(&self, values: &mut Values, notes: &mut Notes) {
        let (archive, is_on) = (&self.archive, self.archive().mode.is_some());
        let listed = values["archive_whitelist"].text.clone().unwrap_or_default();
        for invalid in Selection::parse_leniently(&listed).1 {
            let source = &values["archive_whitelist"].source;
            let warning = format!("{source}: archive_whitelist: entry left out: {invalid}");
            notes.warnings.push(warning);
        }
        let mut refuse = |key, why| notes.mistake(key, &values[key], why);
        let has_services = !archive.archive_grasp_services.is_empty();
        if has_services && archive.archive_all {
            let why = "cannot be chosen beside archive_all, which takes everything";
            refuse("archive_grasp_services", why);
        }
        if has_services && archive.archive_whitelist.is_some() {
            let why = "cannot be chosen beside archive_whitelist: leave one of them out";
            refuse("archive_grasp_services", why);
        }
        if archive.archive_read_only == Some(true) && !is_on {
            let why = "needs archive_all, archive_whitelist or archive_grasp_services";
            refuse("archive_read_only", why);
        }
        if self.archive().read_only && is_on && !self.acceptance.repository_whitelist.is_empty() {
            let why = "chooses among repositories that list this node, of which a read-only \
                       archive takes none: set archive_read_only to false, or leave it out";
            refuse("repository_whitelist", why);
        }
        if is_on && !self.sync.sync_enabled {
            let why = "leaves an archive without data: it cannot be switched off beside it";
            refuse("sync_enabled", why);
        }
        show(
            values,
            "archive_read_only",
            self.archive().read_only.to_string(),
        );
    }

    fn review_tokens(&self, values: &Values, notes: &mut Notes) {
        let hosts = self.github_hosts();
        let is_used = |name: &String| hosts.iter().any(|host| host.service.authority() == *name);
        let tokens = self.index.github_token.iter();
        let names = tokens.map(|token| authority(token.host.as_ref()));
        for name in names.filter(|name| !hosts.is_empty() && !is_used(name)) {
            let source = &values["github_token"].source;
            notes.warnings.push(format!(
                "{source}: github_token: a token is for {name}, which is neither indexed nor \
                 watched; write host=token for another host"
            ));
        }
    }
}

impl Watch {
    /// How long what was taken in is kept.
    pub(crate) fn keep(&self) -> Keep {
        Keep {
            events: self.watch_keep_events,
            enriched: self.watch_keep_enriched,
            rejected: Some(self.watch_keep_rejected),
            closed_gaps: Some(self.watch_keep_closed_gaps),
            open_gaps: Some(self.watch_keep_open_gaps),
        }
    }
}

/// The host that a token is for.
fn authority(host: Option<&Service>) -> String {
    host.map_or_else(|| PUBLIC.to_owned(), Service::authority)
}

/// A number of bytes as settings are written.
fn size(bytes: usize) -> String {
    match bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Scheme, host and port of a service.
pub(crate) fn origin_of(service: &Service) -> String {
    let url = Url::parse(&service.http_url()).expect("a service has a URL");
    url.origin().ascii_serialization()
}

/// Shows a derived value in its place, unless one was given.
fn show(values: &mut Values, key: &'static str, text: impl Into<String>) {
    let option = find(key).expect("the key is that of an option");
    if let Some(how) = option.derived
        && values[key].source.is_default()
    {
        values.set(key, text.into(), Source::Derived { how });
    }
}
