//! Configuration from all sources; no real environment or file is touched.

use std::{collections::BTreeMap, io, path::Path};

use super::{kinds::SecretText, options::find, *};

const NSEC: &str = "nsec1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqsmhltgl";
const NPUB: &str = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";

/// An environment and a file system in memory.
#[derive(Default)]
pub(crate) struct Fake {
    env: Vec<(String, String)>,
    files: BTreeMap<String, String>,
    flags: Flags,
}

impl Fake {
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    pub(crate) fn file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(path.into(), text.into());
        self
    }

    fn flag(mut self, key: &'static str, value: &str) -> Self {
        self.flags.values.insert(key, value.into());
        self
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        load(&self.flags, self)
    }

    pub(crate) fn loaded(&self) -> Loaded {
        self.load().unwrap_or_else(|error| panic!("{error}"))
    }

    fn settings(&self) -> Settings {
        self.loaded().settings
    }

    fn mistakes(&self) -> Vec<String> {
        self.load().expect_err("the configuration is wrong").0
    }

    fn warnings(&self) -> Vec<String> {
        self.loaded().warnings
    }
}

impl Environment for Fake {
    fn variables(&self) -> Vec<(String, String)> {
        self.env.clone()
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        let found = self.files.get(&path.to_string_lossy().into_owned());
        found.cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn env(name: &str, value: &str) -> Fake {
    Fake::default().env(name, value)
}

fn toml(text: &str) -> Fake {
    Fake::default().file("gripfast.toml", text)
}

fn source(loaded: &Loaded, key: &str) -> String {
    loaded.values[key].source.to_string()
}

#[test]
fn nothing_set_gives_a_node_for_this_machine() {
    let loaded = Fake::default().loaded();
    let settings = &loaded.settings;
    assert_eq!(settings.reach.bind_address.to_string(), "127.0.0.1:7334");
    assert_eq!(settings.service().http_url(), "http://127.0.0.1:7334");
    assert_eq!(settings.git_data_path(), Path::new("./data/git"));
    assert_eq!(settings.relay_data_path(), Path::new("./data/relay"));
    assert_eq!(settings.limits.max_pack_bytes, 2 << 30);
    assert_eq!(settings.timeouts.drain_deadline.as_secs(), 5);
    assert_eq!(settings.relay_name(), "127.0.0.1:7334 grasp relay");
    assert_eq!(settings.owner(), None);
    assert!(settings.github_hosts().is_empty() && settings.watched().is_none());
    let index = &settings.index;
    assert!(index.index_enabled && index.index_modules.is_empty());
    assert_eq!(index.indexing_ttl.as_secs(), 5 * 60);
    assert_eq!(index.re_indexing_period.as_secs(), 86_400);
    assert_eq!((index.number_of_items_to_take, index.index_workers), (4, 4));
    assert_eq!(index.go_proxy_max_zip_bytes, 500 << 20);
    assert_eq!(loaded.warnings, Vec::<String>::new());
}

#[test]
fn the_stronger_source_wins() {
    let mut fake = toml("relay_name = \"file\"\n")
        .flag("relay_name", "flag")
        .env("GRIPFAST_RELAY_NAME", "gripfast")
        .env("NGIT_RELAY_NAME", "ngit")
        .file(".env", "# top\nNGIT_RELAY_NAME=dotenv\n");
    type Step = (&'static str, &'static str, fn(&mut Fake));
    let steps: [Step; 5] = [
        ("flag", "flag --relay-name", |f| f.flags.values.clear()),
        ("gripfast", "environment GRIPFAST_RELAY_NAME", |f| {
            drop(f.env.remove(0));
        }),
        ("ngit", "environment NGIT_RELAY_NAME", |f| f.env.clear()),
        ("dotenv", ".env:2", |f| drop(f.files.remove(".env"))),
        ("file", "gripfast.toml:1", |f| f.files.clear()),
    ];
    for (value, from, take_away) in steps {
        let loaded = fake.loaded();
        assert_eq!(loaded.settings.relay_name(), value);
        assert_eq!(source(&loaded, "relay_name"), from);
        take_away(&mut fake);
    }
    assert_eq!(fake.settings().relay_name(), "127.0.0.1:7334 grasp relay");
}

#[test]
fn an_empty_value_is_none() {
    let settings = toml("relay_name = \"file\"\nrepository_whitelist = []\n")
        .env("NGIT_BIND_ADDRESS", "")
        .env("NGIT_RELAY_NAME", "  ")
        .settings();
    assert_eq!(settings.reach.bind_address.port(), 7334);
    assert_eq!(settings.relay_name(), "file");
    assert!(settings.acceptance.repository_whitelist.is_empty());
}

#[test]
fn two_names_of_one_option_that_disagree_are_named() {
    let fake = env("NGIT_DOMAIN", "a.example").env("GRIPFAST_DOMAIN", "b.example");
    assert_eq!(fake.settings().service().authority(), "b.example");
    let expected = "NGIT_DOMAIN is set too, but GRIPFAST_DOMAIN counts";
    assert_eq!(fake.warnings(), [expected]);
}

#[test]
fn unknown_names_are_warned_of_with_a_suggestion() {
    let loaded = toml("bind_adress = \"x\"\n[relay]\nname = \"x\"\n")
        .env("NGIT_DOMIAN", "x")
        .env("GRIPFAST_COLOUR", "x")
        .env("PATH", "/bin")
        .env("GRIPFAST_FAULT", "")
        .file(".env", "GRIPFAST_WHATEVER=1\nnonsense\n")
        .loaded();
    assert_eq!(
        loaded.warnings,
        [
            "gripfast.toml:1: bind_adress is no setting of gripfast; did you mean bind_address?",
            "gripfast.toml:2: relay is no setting of gripfast",
            ".env:2: is no KEY=value line",
            ".env:1: GRIPFAST_WHATEVER is no setting of gripfast",
            "the environment variable NGIT_DOMIAN is no setting of gripfast; did you mean NGIT_DOMAIN?",
            "the environment variable GRIPFAST_COLOUR is no setting of gripfast",
        ]
    );
}

#[test]
fn every_bad_value_is_named_with_its_place() {
    let text =
        "max_pack_bytes = \"big\"\nlog_format = \"xml\"\ndomain = 1.5\nevent_blacklist = 7\n";
    let mistakes = toml(text)
        .flag("drain_deadline", "5")
        .env("NGIT_BIND_ADDRESS", "localhost")
        .env("NGIT_RELAY_OWNER_NSEC", "nsec1secret")
        .file(".env", "\n\nNGIT_MAX_CONNECTIONS=0\n")
        .mistakes();
    assert_eq!(
        mistakes,
        [
            "gripfast.toml:3: domain cannot be of type float",
            "gripfast.toml:4: event_blacklist cannot be of type integer",
            "environment NGIT_BIND_ADDRESS: bind_address — `localhost` is no IP:PORT such as 127.0.0.1:7334 or [::]:7334",
            "flag --drain-deadline: drain_deadline — `5` has no unit; write `5s` or `5ms`",
            "gripfast.toml:2: log_format — `xml` is none of text, json",
            ".env:3: max_connections — `0` is less than 1",
            "gripfast.toml:1: max_pack_bytes — `big` is no size such as `500 MB`, `2 GiB` or a number of bytes",
            "environment NGIT_RELAY_OWNER_NSEC: relay_owner_nsec — the value given is no private key; it should start with `nsec1` or be 64 hex digits",
        ]
    );
}

#[test]
fn a_file_that_was_asked_for_must_be_there_and_right() {
    for (fake, start) in [
        (env("GRIPFAST_CONFIG", "/none"), "/none: cannot be read"),
        (toml("a = \n"), "gripfast.toml:1: is no TOML"),
        (
            env("NGIT_RELAY_OWNER_NSEC_FILE", "/k").file("/k", "x"),
            "/k: relay_owner_nsec — the value given is no private key",
        ),
    ] {
        let mistakes = fake.mistakes();
        assert_eq!(mistakes.len(), 1);
        assert!(mistakes[0].starts_with(start), "{mistakes:?}");
    }
    for key in ["relay_owner_nsec", "github_token", "github_webhook_secret"] {
        let name = format!("GRIPFAST_{}_FILE", key.to_uppercase());
        let start = format!("/none: {key}_file cannot be read");
        let mistakes = env(&name, "/none").mistakes();
        assert!(mistakes[0].starts_with(&start), "{mistakes:?}");
    }
}

#[test]
fn an_option_that_means_nothing_here_is_accepted_and_named() {
    let warnings = env("NGIT_METRICS_TOP_N_REPOS", "20")
        .env("NGIT_SYNC_MAX_BACKOFF_SECS", "3600")
        .env("NGIT_SYNC_DOMAIN_CONCURRENT", "5")
        .warnings();
    let expected = "environment NGIT_METRICS_TOP_N_REPOS: metrics_top_n_repos means nothing here: ";
    assert!(
        warnings.len() == 1 && warnings[0].starts_with(expected),
        "{warnings:?}"
    );
}

#[test]
fn g05_8_an_archive_is_read_only_unless_it_says_otherwise() {
    let archive = |fake: Fake| fake.settings().archive();
    assert!(!archive(Fake::default()).read_only && archive(Fake::default()).mode.is_none());
    for (name, value) in [
        ("NGIT_ARCHIVE_ALL", "true"),
        ("NGIT_ARCHIVE_WHITELIST", "tides"),
        ("NGIT_ARCHIVE_GRASP_SERVICES", "grasp.example.com"),
    ] {
        assert!(archive(env(name, value)).read_only, "{name}");
        let open = env(name, value).env("NGIT_ARCHIVE_READ_ONLY", "false");
        let open = archive(open);
        assert!(!open.read_only && open.mode.is_some(), "{name}");
    }
}

#[test]
fn g05_6_a_wrong_entry_of_the_archive_is_left_out_with_a_warning() {
    let fake = env("NGIT_ARCHIVE_WHITELIST", "tides, npub1wrong");
    let warnings = fake.warnings();
    assert!(warnings[0].contains("entry left out") && warnings[0].contains("npub1wrong"));
    // Nothing left of it is no open server.
    let archive = env("NGIT_ARCHIVE_WHITELIST", "npub1wrong")
        .settings()
        .archive();
    assert!(archive.read_only && archive.mode.is_some());
}

#[test]
fn g05_10_what_contradicts_an_archive_is_no_configuration() {
    let services = || env("NGIT_ARCHIVE_GRASP_SERVICES", "grasp.example.com");
    let all = || env("NGIT_ARCHIVE_ALL", "true");
    for (fake, key) in [
        (
            services().env("NGIT_ARCHIVE_ALL", "true"),
            "archive_grasp_services",
        ),
        (
            services().env("NGIT_ARCHIVE_WHITELIST", "x"),
            "archive_grasp_services",
        ),
        (env("NGIT_ARCHIVE_READ_ONLY", "true"), "archive_read_only"),
        (
            all().env("NGIT_REPOSITORY_WHITELIST", "x"),
            "repository_whitelist",
        ),
        (all().env("GRIPFAST_SYNC_ENABLED", "false"), "sync_enabled"),
    ] {
        let mistakes = fake.mistakes();
        assert!(mistakes[0].contains(key), "{key}: {mistakes:?}");
    }
    let open = all()
        .env("NGIT_ARCHIVE_READ_ONLY", "false")
        .env("NGIT_REPOSITORY_WHITELIST", "x");
    assert!(!open.settings().archive().read_only);
}

#[test]
fn the_five_of_the_sync_document_have_their_defaults_and_names() {
    let shown = |fake: Fake| {
        let sync = fake.settings().sync;
        let delays = (sync.sync_default_delay_secs, sync.sync_immediate_delay_ms);
        let limits = (sync.sync_domain_concurrent, sync.sync_domain_rate_limit);
        let interval = sync.sync_loop_interval_ms;
        (limits, delays, interval, sync.sync_allow_non_global_targets)
    };
    let usual = ((5, 30), (180, 500), 1000, false);
    assert_eq!(shown(Fake::default()), usual);
    let all = env("NGIT_SYNC_LOOP_INTERVAL_MS", "50")
        .env("NGIT_SYNC_DOMAIN_CONCURRENT", "2")
        .env("NGIT_SYNC_DOMAIN_RATE_LIMIT", "7")
        .env("NGIT_SYNC_DEFAULT_DELAY_SECS", "0")
        .env("NGIT_SYNC_IMMEDIATE_DELAY_MS", "1")
        .env("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true");
    assert_eq!(shown(all), ((2, 7), (0, 1), 50, true));
}

#[test]
fn sync_is_set_in_all_its_parts() {
    let settings = toml(
        "sync_enabled = false\nsync_host_limits = [\"github.com=10/60\"]\n\
         sync_schemes = [\"https\"]\nwanted_max = 0\nwanted_lifetime = \"2days\"\n\
         domain_aliases = [\"www.example.com\", \"example.com:8443\"]\n\
         redis_url = \"redis://:secret@cache.example/\"\nredis_fallback_percent = 50\n",
    )
    .settings();
    let sync = &settings.sync;
    assert!(!sync.sync_enabled);
    assert_eq!(sync.sync_host_limits[0].host.as_str(), "github.com");
    assert_eq!(sync.sync_schemes, ["https"]);
    assert_eq!((sync.wanted_max, sync.redis_fallback_percent), (0, 50));
    assert_eq!(sync.wanted_lifetime.as_secs(), 2 * 86_400);
    let redis = sync.redis_url.as_ref().unwrap();
    assert_eq!(redis.reveal(), "redis://:secret@cache.example/");
    assert_eq!(
        settings.reach.domain_aliases[1].authority(),
        "example.com:8443"
    );
}

#[test]
fn secrets_are_never_shown() {
    // A table: one value a line.
    #[rustfmt::skip]
    let cases = [
        ("redis_url", "redis://me:secret@cache.example/2", "redis://••••••@cache.example/2"),
        ("redis_url", "redis://127.0.0.1/", "redis://127.0.0.1/"),
        ("github_token", "ghp_secret", "••••••"),
        ("github_webhook_secret", "secret", "••••••"),
        ("relay_owner_nsec", NSEC, "••••••"),
        ("database_url", "postgres://me:se@cret@db.example:5/x?sslmode=require", "postgres://••••••@db.example:5/x?••••••"),
        ("database_url", "postgres://db.example/x?password=a@secret", "postgres://db.example/x?••••••"),
        ("database_url", "sqlite:/var/x.db", "sqlite:/var/x.db"),
    ];
    for (key, text, shown) in cases {
        assert_eq!(find(key).unwrap().shown(text), shown);
    }
    for (name, wrong) in [
        ("GRIPFAST_REDIS_URL", "redis:/:hunter2@cache"),
        ("GRIPFAST_GITHUB_TOKEN", "ghp hunter2"),
        ("DATABASE_URL", "mysql://me:hunter2@db.example/x"),
        ("NGIT_RELAY_OWNER_NSEC", "nsec1hunter2"),
    ] {
        let mistakes = env(name, wrong).mistakes();
        assert!(!mistakes[0].contains("hunter2"), "{mistakes:?}");
    }
    let settings = env("DATABASE_URL", "postgres://me:hunter2@db.example/x")
        .env("GRIPFAST_REDIS_URL", "redis://:hunter2@cache.example/")
        .env("GRIPFAST_GITHUB_TOKEN", "hunter2")
        .env("GRIPFAST_GITHUB_WEBHOOK_SECRET", "hunter2")
        .settings();
    assert!(!format!("{settings:?}").contains("hunter2"));
}

#[test]
fn each_github_host_has_its_owners_and_its_own_tokens() {
    let loaded = toml(
        "index_github = [\"github.com/orgs/acme\", \"ghe.corp.example\", \
         \"github.com/users/bob\"]\ngo_proxy = false\n",
    )
    .env("GRIPFAST_GITHUB_TOKEN_FILE", "/t")
    .file(
        "/t",
        "ghp_one, ghe.corp.example=ghp_two\n# old\nghp_three\n",
    )
    .loaded();
    assert_eq!(source(&loaded, "github_token"), "/t");
    assert_eq!(loaded.warnings, Vec::<String>::new());
    assert!(!loaded.settings.index.go_proxy);
    let hosts = loaded.settings.github_hosts();
    let shown = hosts.iter().map(|host| {
        let tokens: Vec<_> = host.tokens.iter().map(|t| t.reveal()).collect();
        format!("{} {} {}", host.api, host.owners.len(), tokens.join("+"))
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "https://api.github.com/ 2 ghp_one+ghp_three",
            "https://ghe.corp.example/api/v3/ 1 ghp_two",
        ]
    );
}

#[test]
fn packs_that_are_removed_soon_are_warned_of() {
    let cluster = |grace: &str| {
        env("DATABASE_URL", "postgres://me@db.example/x")
            .env("NGIT_DOMAIN", "grasp.example.com")
            .env("GRIPFAST_CLUSTER_PACKS", "/packs")
            .env("GRIPFAST_CLUSTER_KEEP_PACKS", grace)
            .warnings()
    };
    let expected = "environment GRIPFAST_CLUSTER_KEEP_PACKS: cluster_keep_packs is shorter than an hour: \
                    packs may be removed that a node is still to fetch, and no backup of the database can \
                    be gone back to";
    assert_eq!(cluster("59m"), [expected]);
    assert_eq!(cluster("1h"), Vec::<String>::new());
}

#[test]
fn a_token_for_a_host_that_is_not_used_is_named() {
    let warnings = env("GRIPFAST_GITHUB_TOKEN", "ghp_secret")
        .env("GRIPFAST_INDEX_GITHUB", "ghe.corp.example")
        .warnings();
    let expected = "environment GRIPFAST_GITHUB_TOKEN: github_token: a token is for github.com, \
                    which is neither indexed nor watched; write host=token for another host";
    assert_eq!(warnings, [expected]);
}

#[test]
fn the_watched_host_shares_tokens_with_the_index() {
    let lists = "github.com/orgs/acme,github.com/users/bob";
    let loaded = env("GRIPFAST_INDEX_GITHUB", "github.com/orgs/acme")
        .env("GRIPFAST_WATCH_GITHUB", lists)
        .env("GRIPFAST_GITHUB_TOKEN", "ghp_one")
        .loaded();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let settings = &loaded.settings;
    let hosts = settings.github_hosts();
    assert_eq!(hosts.len(), 1);
    assert_eq!((hosts[0].owners.len(), hosts[0].tokens.len()), (1, 1));
    assert_eq!(watched(settings), ("github.com".into(), 2));
    let watch = &settings.watch;
    assert!(watch.github_webhook_secret.is_empty());
    assert_eq!(settings.avatars_store(), "./data/avatars");
    let theirs = grip_ingest::Options::default();
    assert_eq!(
        (watch.watch_poll_interval, watch.watch_fresh_for),
        (theirs.poll_every, theirs.fresh_for)
    );
    assert_eq!(
        watch.watch_refresh_reserve_percent,
        theirs.refresh_reserve_percent
    );
    assert_eq!(watch.keep(), theirs.keep);
}

/// The watched host, and how many of its lists are read.
fn watched(settings: &Settings) -> (String, usize) {
    let watched = settings.watched().expect("something is watched");
    (watched.host.authority(), watched.sources.len())
}

#[test]
fn a_webhook_secret_alone_is_for_github() {
    let loaded = env("CREDENTIALS_DIRECTORY", "/c")
        .file("/c/github_webhook_secret", "one,two\nthree\n")
        .loaded();
    let from = source(&loaded, "github_webhook_secret");
    assert_eq!(from, "/c/github_webhook_secret");
    let secrets = loaded.settings.watch.github_webhook_secret.iter();
    let secrets: Vec<_> = secrets.map(|secret| secret.reveal()).collect();
    assert_eq!(secrets, ["one,two", "three"]);
    assert_eq!(watched(&loaded.settings), ("github.com".into(), 0));
}

#[test]
fn the_database_is_a_file_of_the_data_directory_or_where_the_url_says() {
    let file = |path: &str| DatabasePlace::File(path.into());
    let usual = env("GRIPFAST_DATA_DIR", "/d").settings();
    assert_eq!(usual.database(), file("/d/gripfast.sqlite"));
    let storage = usual.storage;
    assert_eq!(
        (storage.database_connections, storage.node_name),
        (10, None)
    );
    let url = "postgres://me:hunter2@db.example/x";
    let shared = env("DATABASE_URL", url).env("GRIPFAST_NODE_NAME", "harbour-1");
    let shared = shared.settings();
    assert_eq!(shared.storage.node_name.as_deref(), Some("harbour-1"));
    let server = DatabasePlace::Server(SecretText::new(url));
    assert_eq!(shared.database(), server);
    let both =
        env("DATABASE_URL", "sqlite:theirs.db").env("GRIPFAST_DATABASE_URL", "sqlite:ours.db");
    assert_eq!(both.settings().database(), file("ours.db"));
    let expected = "DATABASE_URL is set too, but GRIPFAST_DATABASE_URL counts";
    assert_eq!(both.warnings(), [expected]);
}

#[test]
fn combinations_that_cannot_be_kept_are_refused() {
    let path = || env("NGIT_BASE_PATH", "a?b");
    let nobody = "name members in private_members";
    let members = || env("NGIT_PRIVATE_MEMBERS", NPUB);
    let private = || members().env("NGIT_PRIVATE_MODE", "true");
    for (fake, why) in [
        (env("NGIT_PRIVATE_MODE", "true"), nobody),
        (members(), "would keep nobody out"),
        (
            private().env("NGIT_GRASP06_ENABLE", "true"),
            "pull requests of strangers",
        ),
        (
            private().env("GRIPFAST_DHT_ENABLED", "true"),
            "would tell other nodes",
        ),
        (
            private().env("NGIT_PRIVATE_PUBLIC_ORIGIN", "git.example"),
            "is no origin",
        ),
        (
            private().env("NGIT_PRIVATE_PUBLIC_ORIGIN", "https://git.example/x"),
            "is no origin",
        ),
        (
            private().env("NGIT_PRIVATE_MEMBERS", "npub1x"),
            "has a wrong entry",
        ),
        (
            env("NGIT_RELAY_MAX_EVENT_SIZE_BYTES", "6 MiB"),
            "is more than 5 MiB",
        ),
        (env("NGIT_RELAY_MAX_EVENT_SIZE_BYTES", "0"), "is no size"),
        (env("GRIPFAST_GO_PROXY_MAX_ZIP_BYTES", "1 GiB"), "500 MiB"),
        (path(), "is no path such as `/git`"),
        (path().env("NGIT_DOMAIN", "example.com"), "is no path"),
    ] {
        let mistakes = fake.mistakes();
        assert!(mistakes[0].contains(why), "{mistakes:?}");
    }
    let warnings = env("NGIT_DATABASE_BACKEND", "memory").warnings();
    assert!(warnings[0].contains("kept in LMDB"), "{warnings:?}");
}

/// S-4: as ngit-grasp refuses it.
#[test]
fn zero_is_no_retention_interval_or_limit() {
    for name in [
        "HOLDING_RETENTION_SECS",
        "HOLDING_CLEANUP_INTERVAL_SECS",
        "DELETION_REQUEST_RETENTION_UNUSED_SERVED_SECS",
        "DELETION_REQUEST_RETENTION_UNUSED_UNSERVED_GATING_ADDITIONAL_SECS",
        "DELETION_REQUEST_RETENTION_USED_SERVED_AFTER_LAST_USED_SECS",
        "DELETION_REQUEST_RETENTION_USED_UNSERVED_GATING_ADDITIONAL_SECS",
        "SYNC_RECURSIVE_DESCENDANT_LIMIT",
        "SYNC_BASE_BACKOFF_SECS",
        "SYNC_MAX_BACKOFF_SECS",
        "SYNC_DISCONNECT_CHECK_INTERVAL_SECS",
        "REJECTED_HOT_CACHE_DURATION_SECS",
        "REJECTED_COLD_INDEX_EXPIRY_SECS",
        "NAUGHTY_LIST_EXPIRATION_HOURS",
        "MAX_CONNECTIONS",
        "RELAY_MAX_SUBSCRIPTIONS",
        "RELAY_FILTER_LIMIT",
    ] {
        let name = format!("NGIT_{name}");
        let loaded = env(&name, "0").load();
        let mistakes = loaded
            .err()
            .unwrap_or_else(|| panic!("{name}: 0 is taken"))
            .0;
        assert!(mistakes[0].ends_with("`0` is less than 1"), "{mistakes:?}");
        env(&name, "1").loaded();
    }
}

/// S-1, S-3
#[test]
fn every_setting_of_ngit_grasp_is_known_and_says_what_it_does_not_do() {
    let named = "DOMAIN BASE_PATH BIND_ADDRESS TRUSTED_PROXY_CIDRS RELAY_OWNER_NSEC RELAY_NAME \
                 RELAY_DESCRIPTION GIT_DATA_PATH RELAY_DATA_PATH DATABASE_BACKEND \
                 STARTUP_INTEGRITY_IDENTIFIERS METRICS_ENABLED \
                 METRICS_CONNECTION_PER_IP_ABUSE_THRESHOLD METRICS_TOP_N_REPOS \
                 SYNC_BOOTSTRAP_RELAY_URL SYNC_PLUS_ENABLED USER_INDEX_RELAYS \
                 SYNC_PLUS_FALLBACK_RELAYS SYNC_RECURSIVE_DESCENDANT_LIMIT SYNC_BASE_BACKOFF_SECS \
                 SYNC_MAX_BACKOFF_SECS SYNC_DISCONNECT_CHECK_INTERVAL_SECS \
                 SYNC_DISABLE_NEGENTROPY SYNC_ALLOW_NON_GLOBAL_TARGETS \
                 REJECTED_HOT_CACHE_DURATION_SECS REJECTED_COLD_INDEX_EXPIRY_SECS \
                 NAUGHTY_LIST_EXPIRATION_HOURS HOLDING_RETENTION_SECS \
                 HOLDING_CLEANUP_INTERVAL_SECS DELETION_REQUEST_RETENTION_UNUSED_SERVED_SECS \
                 DELETION_REQUEST_RETENTION_UNUSED_UNSERVED_GATING_ADDITIONAL_SECS \
                 DELETION_REQUEST_RETENTION_USED_SERVED_AFTER_LAST_USED_SECS \
                 DELETION_REQUEST_RETENTION_USED_UNSERVED_GATING_ADDITIONAL_SECS \
                 DELETION_REQUEST_DISRESPECTOR BLACKLIST_AUTO_RESTORE ARCHIVE_ALL \
                 ARCHIVE_WHITELIST \
                 ARCHIVE_GRASP_SERVICES ARCHIVE_READ_ONLY GRASP06_ENABLE PRIVATE_MODE \
                 PRIVATE_MEMBERS PRIVATE_PUBLIC_ORIGIN REPOSITORY_WHITELIST REPOSITORY_BLACKLIST \
                 EVENT_BLACKLIST MAX_CONNECTIONS RELAY_MAX_SUBSCRIPTIONS \
                 RELAY_MAX_EVENT_SIZE_BYTES RELAY_FILTER_LIMIT LOG_LEVEL OWNER_NPUB \
                 RELAY_OWNER_NSEC_FILE SYNC_DEFAULT_DELAY_SECS SYNC_IMMEDIATE_DELAY_MS \
                 SYNC_LOOP_INTERVAL_MS SYNC_DOMAIN_CONCURRENT SYNC_DOMAIN_RATE_LIMIT";
    let known: Vec<_> = options::all().flat_map(Opt::env_names).collect();
    for name in named.split_whitespace().map(|name| format!("NGIT_{name}")) {
        assert!(known.contains(&name), "{name}");
    }
    let warnings = env("NGIT_METRICS_TOP_N_REPOS", "3").warnings();
    assert!(warnings[0].contains("metrics_top_n_repos means nothing here: no series"));
    let warnings = env("NGIT_AUTH_REQUIRED", "true")
        .env("NGIT_TEST", "1")
        .warnings();
    let expected = "NGIT_AUTH_REQUIRED has no effect, and none in ngit-grasp either";
    assert_eq!(warnings, [expected]);
}

/// Defaults of ngit-grasp 3.0.10, as the migration guide writes them.
const DEFAULTS_OF_NGIT_GRASP: &[(&str, &str)] = &[
    ("domain", "has to be set"),
    ("base_path", "none"),
    ("bind_address", "`127.0.0.1:7334`"),
    ("trusted_proxy_cidrs", "none"),
    (
        "relay_owner_nsec",
        "made once and kept in `.relay-owner.nsec`",
    ),
    ("relay_name", "`<domain> grasp relay`"),
    (
        "relay_description",
        "`Git Nostr Relay - a grasp implementation`",
    ),
    ("git_data_path", "`./data/git`"),
    ("relay_data_path", "`./data/relay`"),
    ("database_backend", "`lmdb`"),
    ("startup_integrity_identifiers", "none"),
    ("metrics_enabled", "`true`"),
    ("metrics_connection_per_ip_abuse_threshold", "`10`"),
    ("metrics_top_n_repos", "`10`"),
    ("sync_bootstrap_relay_url", "none"),
    ("sync_plus_enabled", "`true`"),
    (
        "user_index_relays",
        "`wss://purplepag.es,wss://index.hzrd149.com,wss://indexer.coracle.social`",
    ),
    (
        "sync_plus_fallback_relays",
        "`wss://relay.ditto.pub,wss://relay.damus.io,wss://nos.lol,wss://relay.primal.net`",
    ),
    ("sync_recursive_descendant_limit", "`500`"),
    ("sync_base_backoff_secs", "`5`"),
    ("sync_max_backoff_secs", "`3600`"),
    ("sync_disconnect_check_interval_secs", "`60`"),
    ("sync_disable_negentropy", "`false`"),
    ("sync_allow_non_global_targets", "`false`"),
    ("sync_domain_concurrent", "`5`"),
    ("sync_domain_rate_limit", "fixed at 60"),
    ("rejected_hot_cache_duration_secs", "`120`"),
    ("rejected_cold_index_expiry_secs", "`604800`"),
    ("naughty_list_expiration_hours", "`12`"),
    ("holding_retention_secs", "`7776000`"),
    ("holding_cleanup_interval_secs", "`86400`"),
    ("deletion_request_retention_unused_served_secs", "`2592000`"),
    (
        "deletion_request_retention_unused_unserved_gating_additional_secs",
        "`15552000`",
    ),
    (
        "deletion_request_retention_used_served_after_last_used_secs",
        "`23328000`",
    ),
    (
        "deletion_request_retention_used_unserved_gating_additional_secs",
        "`7776000`",
    ),
    ("deletion_request_disrespector", "`false`"),
    ("archive_all", "`false`"),
    ("archive_whitelist", "none"),
    ("archive_grasp_services", "none"),
    ("archive_read_only", "true where an archive setting is on"),
    ("grasp06_enable", "`false`"),
    ("private_mode", "`false`"),
    ("private_members", "none"),
    (
        "private_public_origin",
        "`https://<domain>`, or `http://…` where the domain is an address or localhost",
    ),
    ("repository_whitelist", "none"),
    ("repository_blacklist", "none"),
    ("blacklist_auto_restore", "`false`"),
    ("event_blacklist", "none"),
    ("max_connections", "unlimited"),
    ("relay_max_subscriptions", "`500`"),
    ("relay_max_event_size_bytes", "`192 KiB`"),
    ("relay_filter_limit", "`500`"),
    ("log_level", "`info`"),
];

/// S-1
#[test]
fn the_migration_guide_names_every_default_that_differs() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let guide = std::fs::read_to_string(file).unwrap();
    let (_, guide) = guide.split_once("## Coming from ngit-grasp").unwrap();
    let (guide, _) = guide.split_once("\n## ").unwrap();
    let (_, table) = guide.split_once("| setting | ngit-grasp |").unwrap();
    let written = table.lines().skip(2);
    let written = written.take_while(|line| line.starts_with("| `"));
    let expected = DEFAULTS_OF_NGIT_GRASP.iter().filter_map(|(key, theirs)| {
        let option = find(key).unwrap();
        let ours = match (option.default, option.derived) {
            (Some(default), _) => format!("`{default}`"),
            (None, derived) => derived.unwrap_or("none").to_owned(),
        };
        (ours != *theirs).then(|| format!("| `{key}` | {theirs} | {ours} |"))
    });
    let (mut written, mut expected) = (
        written.map(str::to_owned).collect::<Vec<_>>(),
        expected.collect::<Vec<_>>(),
    );
    written.sort();
    expected.sort();
    assert_eq!(written, expected);
}

/// Operators of ngit-grasp bring a size of events alone.
#[test]
fn the_longest_message_carries_the_largest_event_or_the_start_says_why_not() {
    let event = |bytes: &str| env("NGIT_RELAY_MAX_EVENT_SIZE_BYTES", bytes);
    let (message, memory) = (
        "GRIPFAST_RELAY_MAX_MESSAGE_BYTES",
        "GRIPFAST_RELAY_MEMORY_BYTES",
    );
    for (fake, bytes) in [
        (event(""), 2 << 20),
        (event("2 MiB"), (2 << 20) + 1024),
        (event("5242880"), (5 << 20) + 1024),
        (event("").env(message, "64 KiB"), 64 << 10),
        (event("1 MiB").env(message, "1048592"), 1_048_592),
        (event("5 MiB").env(message, "16 MiB"), 16 << 20),
    ] {
        assert_eq!(fake.settings().message_bytes(), bytes);
    }
    let loaded = event("5 MiB").loaded();
    assert_eq!(
        loaded.values["relay_max_message_bytes"].text.as_deref(),
        Some("5121 KiB")
    );
    let mistakes = event("5 MiB").env(message, "2 MiB").mistakes();
    assert_eq!(
        mistakes,
        [
            "environment GRIPFAST_RELAY_MAX_MESSAGE_BYTES: relay_max_message_bytes — `2 MiB` is too \
             short for an event of relay_max_event_size_bytes: leave it out, or give it at least \
             5242896 bytes"
        ]
    );
    let mistakes = event("5 MiB").env(memory, "32 MiB").mistakes();
    assert!(
        mistakes[0].ends_with(
            "relay_memory_bytes — `32 MiB` is too little: of it one network of clients has a ninth, \
             which must hold a message of 5243904 bytes; give it at least 47195136 bytes"
        ),
        "{mistakes:?}"
    );
    assert_eq!(
        event("").env(memory, "32 MiB").settings().message_bytes(),
        2 << 20
    );
}

/// G08-8
#[test]
fn the_origin_of_a_private_service_follows_from_its_domain_unless_it_is_given() {
    let private = || env("NGIT_PRIVATE_MODE", "true").env("NGIT_PRIVATE_MEMBERS", NPUB);
    for (domain, origin) in [
        ("git.example.com", "https://git.example.com"),
        ("localhost:7334", "http://localhost:7334"),
        ("https://git.example.com/grasp", "https://git.example.com"),
    ] {
        let settings = private().env("NGIT_DOMAIN", domain).settings();
        assert_eq!(settings.private_origin(), origin);
    }
    let given = private().env("NGIT_PRIVATE_PUBLIC_ORIGIN", "https://g.example:8443");
    assert_eq!(given.settings().private_origin(), "https://g.example:8443");
}

#[test]
fn amnesia_names_what_it_does_not_use_and_refuses_what_would_keep_something() {
    let mistakes = env("GRIPFAST_AMNESIA", "true")
        .env("DATABASE_URL", "postgres://db.example/x")
        .env("GRIPFAST_REDIS_URL", "redis://127.0.0.1/")
        .mistakes();
    assert_eq!(mistakes.len(), 2);
    for (key, mistake) in ["database_url", "redis_url"].iter().zip(&mistakes) {
        let is_named = mistake.contains(key) && mistake.contains("amnesia must not");
        assert!(is_named, "{mistake}");
    }
    let fake = env("GRIPFAST_AMNESIA", "true").env("NGIT_GIT_DATA_PATH", "/g");
    let warning =
        "environment NGIT_GIT_DATA_PATH: git_data_path is not used: amnesia keeps nothing";
    assert_eq!(fake.warnings(), [warning]);
}

#[test]
fn the_domain_takes_scheme_port_and_base_path() {
    for (domain, url) in [
        ("example.com", "https://example.com/grasp"),
        ("http://example.com:81", "http://example.com:81/grasp"),
        ("localhost:7334", "http://localhost:7334/grasp"),
    ] {
        let settings = env("NGIT_DOMAIN", domain)
            .env("NGIT_BASE_PATH", "/grasp/")
            .settings();
        assert_eq!(settings.service().http_url(), url);
    }
    let loaded = env("NGIT_BIND_ADDRESS", "0.0.0.0:80").loaded();
    assert_eq!(loaded.settings.service().http_url(), "http://127.0.0.1");
    let warnings = loaded.warnings;
    assert!(warnings[0].starts_with("domain is not set"), "{warnings:?}");
}

#[test]
fn the_relay_key_comes_from_value_file_credential_or_the_key_of_before() {
    let file = |path: &str| Fake::default().file(path, NSEC);
    // A table: one place a line.
    #[rustfmt::skip]
    let cases = [
        (env("NGIT_RELAY_OWNER_NSEC", NSEC), "environment NGIT_RELAY_OWNER_NSEC"),
        (file("/k").env("NGIT_RELAY_OWNER_NSEC_FILE", "/k"), "/k"),
        (file("/c/relay_owner_nsec").env("CREDENTIALS_DIRECTORY", "/c"), "/c/relay_owner_nsec"),
        (file(".relay-owner.nsec"), ".relay-owner.nsec"),
    ];
    for (fake, from) in cases {
        let loaded = fake.loaded();
        assert!(loaded.settings.owner().is_some(), "{from}");
        assert_eq!(source(&loaded, "relay_owner_nsec"), from);
        let npub = loaded.values["owner_npub"].text.clone().unwrap();
        assert!(npub.starts_with("npub1"), "{npub}");
    }
}

#[test]
fn a_unit_needs_no_file_and_finds_the_one_in_its_configuration_directory() {
    let unit = || env("CONFIGURATION_DIRECTORY", "/etc/gripfast");
    let loaded = unit().loaded();
    assert!(source(&loaded, "domain").starts_with("default"));
    let text = "domain = \"grasp.example.com\"\n";
    let loaded = unit().file("/etc/gripfast/gripfast.toml", text).loaded();
    assert_eq!(source(&loaded, "domain"), "/etc/gripfast/gripfast.toml:1");
}

#[test]
fn a_mistyped_key_in_a_list_is_an_error() {
    let good = format!("{NPUB},{NPUB}/linux,rust");
    let settings = env("NGIT_REPOSITORY_WHITELIST", &good).settings();
    let whitelist = settings.acceptance.repository_whitelist;
    assert_eq!(whitelist, good.parse().unwrap());
    let no_identifier = format!("{NPUB}/");
    for bad in ["npub1xyz", "npub1xyz/linux", "alice/linux", &no_identifier] {
        let mistakes = env("NGIT_REPOSITORY_BLACKLIST", bad).mistakes();
        assert_eq!(mistakes.len(), 1, "{bad}");
    }
    assert_eq!(env("NGIT_EVENT_BLACKLIST", "rust").mistakes().len(), 1);
}

#[test]
fn names_are_unique_and_defaults_have_the_right_kind() {
    let mut names: Vec<_> = options::all().flat_map(Opt::env_names).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "two options share an environment name");
    // Loading checks every given value, so giving each its own default checks the defaults.
    let mut fake = Fake::default();
    for option in options::all() {
        let (key, help) = (option.key, option.help());
        assert!(help.ends_with('.'), "{key} is explained in a sentence");
        if let Some(value) = option.default {
            fake.flags.values.insert(option.key, value.into());
        }
    }
    fake.loaded();
}

#[test]
fn the_example_loads_when_every_line_is_switched_on() {
    let key = |text: &str| text.split_once(" = ").and_then(|(key, _)| find(key));
    let example = docs::example();
    let lines = example.lines().filter_map(|line| line.strip_prefix("# "));
    let set = lines.filter(|text| key(text).is_some());
    let loaded = toml(&set.collect::<Vec<_>>().join("\n"))
        .file("/etc/gripfast/relay.nsec", NSEC)
        .file("/etc/gripfast/github.token", "ghp_x\n")
        .file("/etc/gripfast/webhook.secret", "s\n")
        .file("/etc/gripfast/index-readers", "r\n")
        .loaded();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let is_from_file = |o: &&Opt| matches!(loaded.values[o.key].source, Source::File { .. });
    let from_file = options::all().filter(is_from_file).count();
    let active = options::all().filter(|o| o.has_effect()).count();
    assert!(
        from_file + 10 >= active,
        "nearly every active option is in the example"
    );
}

#[test]
fn the_written_documents_are_those_of_the_options() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, expected) in [
        ("docs/configuration.md", docs::markdown()),
        ("gripfast.example.toml", docs::example()),
    ] {
        let written = std::fs::read_to_string(root.join(file)).unwrap_or_default();
        assert!(
            written == expected,
            "{file} is out of date: run `cargo xtask docs`"
        );
    }
}
