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

    fn mistakes(&self) -> Vec<String> {
        self.load().expect_err("the configuration is wrong").0
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

fn source(loaded: &Loaded, key: &str) -> String {
    loaded.values[key].source.to_string()
}

fn text(loaded: &Loaded, key: &str) -> Option<String> {
    loaded.values[key].text.clone()
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
    assert_eq!(loaded.warnings, Vec::<String>::new());
}

#[test]
fn the_stronger_layer_wins() {
    let all = Fake::default()
        .flag("relay_name", "flag")
        .env("GRIPFAST_RELAY_NAME", "gripfast")
        .env("NGIT_RELAY_NAME", "ngit")
        .file(".env", "# top\nNGIT_RELAY_NAME=dotenv\n")
        .file("gripfast.toml", "relay_name = \"file\"\n");
    type Step = (&'static str, &'static str, fn(&mut Fake));
    let steps: [Step; 5] = [
        ("flag", "flag --relay-name", |f| f.flags.values.clear()),
        ("gripfast", "environment GRIPFAST_RELAY_NAME", |f| {
            f.env.remove(0);
        }),
        ("ngit", "environment NGIT_RELAY_NAME", |f| f.env.clear()),
        ("dotenv", ".env:2", |f| {
            f.files.remove(".env");
        }),
        ("file", "gripfast.toml:1", |f| f.files.clear()),
    ];
    let mut fake = all;
    for (value, from, take_away) in steps {
        let loaded = fake.loaded();
        assert_eq!(loaded.settings.relay_name(), value);
        assert_eq!(source(&loaded, "relay_name"), from);
        take_away(&mut fake);
    }
    assert_eq!(
        fake.loaded().settings.relay_name(),
        "127.0.0.1:7334 grasp relay"
    );
}

#[test]
fn an_empty_value_is_none() {
    let loaded = Fake::default()
        .env("NGIT_BIND_ADDRESS", "")
        .env("NGIT_RELAY_NAME", "  ")
        .file(
            "gripfast.toml",
            "relay_name = \"file\"\nrepository_whitelist = []\n",
        )
        .loaded();
    assert_eq!(loaded.settings.reach.bind_address.port(), 7334);
    assert_eq!(loaded.settings.relay_name(), "file");
    assert!(loaded.settings.acceptance.repository_whitelist.is_empty());
}

#[test]
fn two_names_of_one_option_that_disagree_are_named() {
    let loaded = Fake::default()
        .env("NGIT_DOMAIN", "a.example")
        .env("GRIPFAST_DOMAIN", "b.example")
        .loaded();
    assert_eq!(loaded.settings.service().authority(), "b.example");
    assert_eq!(
        loaded.warnings,
        ["NGIT_DOMAIN is set too, but GRIPFAST_DOMAIN counts"]
    );
}

#[test]
fn unknown_names_are_warned_of_with_a_suggestion() {
    let loaded = Fake::default()
        .env("NGIT_DOMIAN", "x")
        .env("PATH", "/bin")
        .env("GRIPFAST_FAULT", "")
        .file(".env", "GRIPFAST_WHATEVER=1\nnonsense\n")
        .file(
            "gripfast.toml",
            "bind_adress = \"x\"\n[relay]\nname = \"x\"\n",
        )
        .loaded();
    assert_eq!(
        loaded.warnings,
        [
            "gripfast.toml:1: bind_adress is no setting of gripfast; did you mean bind_address?",
            "gripfast.toml:2: relay is no setting of gripfast",
            ".env:2: is no KEY=value line",
            ".env:1: GRIPFAST_WHATEVER is no setting of gripfast",
            "the environment variable NGIT_DOMIAN is no setting of gripfast; did you mean NGIT_DOMAIN?",
        ]
    );
}

#[test]
fn every_bad_value_is_named_with_its_place() {
    let mistakes = Fake::default()
        .flag("drain_deadline", "5")
        .env("NGIT_BIND_ADDRESS", "localhost")
        .env("NGIT_RELAY_OWNER_NSEC", "nsec1secret")
        .file(".env", "\n\nNGIT_MAX_CONNECTIONS=0\n")
        .file(
            "gripfast.toml",
            "max_pack_bytes = \"big\"\nlog_format = \"xml\"\ndomain = 1.5\nevent_blacklist = 7\n",
        )
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
fn a_config_file_that_was_asked_for_must_be_there() {
    let mistakes = Fake::default()
        .env("GRIPFAST_CONFIG", "/etc/none.toml")
        .mistakes();
    assert_eq!(mistakes.len(), 1);
    assert!(
        mistakes[0].starts_with("/etc/none.toml: cannot be read"),
        "{mistakes:?}"
    );
    let mistakes = Fake::default().file("gripfast.toml", "a = \n").mistakes();
    assert!(
        mistakes[0].starts_with("gripfast.toml:1: is no TOML"),
        "{mistakes:?}"
    );
}

#[test]
fn an_idle_option_is_accepted_and_said_to_be_idle() {
    let loaded = Fake::default()
        .env("NGIT_SYNC_BOOTSTRAP_RELAY_URL", "wss://relay.example")
        .env("NGIT_SYNC_DOMAIN_CONCURRENT", "5")
        .loaded();
    assert_eq!(
        loaded.warnings,
        [
            "environment NGIT_SYNC_BOOTSTRAP_RELAY_URL: sync_bootstrap_relay_url is accepted but has no effect yet"
        ]
    );
}

#[test]
fn the_five_of_the_sync_document_have_their_defaults_and_names() {
    let sync = Fake::default().loaded().settings.sync;
    assert!(sync.sync_enabled && !sync.sync_allow_non_global_targets);
    assert_eq!(
        (sync.sync_domain_concurrent, sync.sync_domain_rate_limit),
        (5, 30)
    );
    assert_eq!(sync.sync_default_delay_secs.as_secs(), 180);
    assert_eq!(sync.sync_immediate_delay_ms.as_millis(), 500);
    assert_eq!(sync.sync_loop_interval_ms.as_millis(), 1000);
    let sync = Fake::default()
        .env("NGIT_SYNC_LOOP_INTERVAL_MS", "50")
        .env("NGIT_SYNC_DOMAIN_CONCURRENT", "2")
        .env("NGIT_SYNC_DOMAIN_RATE_LIMIT", "7")
        .env("NGIT_SYNC_DEFAULT_DELAY_SECS", "0")
        .env("NGIT_SYNC_IMMEDIATE_DELAY_MS", "1")
        .env("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true")
        .loaded()
        .settings
        .sync;
    assert!(sync.sync_allow_non_global_targets);
    assert_eq!(
        (sync.sync_domain_concurrent, sync.sync_domain_rate_limit),
        (2, 7)
    );
    assert_eq!(sync.sync_loop_interval_ms.as_millis(), 50);
    assert!(sync.sync_default_delay_secs.is_zero());
    assert_eq!(sync.sync_immediate_delay_ms.as_millis(), 1);
}

#[test]
fn sync_is_set_in_all_its_parts() {
    let loaded = Fake::default()
        .file(
            "gripfast.toml",
            "sync_enabled = false\nsync_host_limits = [\"github.com=10/60\"]\n\
             sync_schemes = [\"https\"]\nwanted_max = 0\nwanted_lifetime = \"2days\"\n\
             domain_aliases = [\"www.example.com\", \"example.com:8443\"]\n\
             redis_url = \"redis://:secret@cache.example/\"\nredis_fallback_percent = 50\n",
        )
        .loaded();
    let sync = &loaded.settings.sync;
    assert!(!sync.sync_enabled);
    assert_eq!(sync.sync_host_limits[0].host.as_str(), "github.com");
    assert_eq!(sync.sync_schemes, ["https"]);
    assert_eq!(sync.wanted_max, 0);
    assert_eq!(sync.wanted_lifetime.as_secs(), 2 * 86_400);
    assert_eq!(sync.redis_fallback_percent, 50);
    let redis = sync.redis_url.as_ref().unwrap();
    assert_eq!(redis.reveal(), "redis://:secret@cache.example/");
    assert_eq!(
        loaded.settings.reach.domain_aliases[1].authority(),
        "example.com:8443"
    );
}

#[test]
fn the_password_of_redis_is_never_shown() {
    let option = find("redis_url").unwrap();
    let shown = option.shown("redis://me:secret@cache.example/2");
    assert_eq!(shown, "redis://••••••@cache.example/2");
    assert_eq!(option.shown("redis://127.0.0.1/"), "redis://127.0.0.1/");
    let mistakes = Fake::default()
        .env("GRIPFAST_REDIS_URL", "redis:/:secret@cache")
        .mistakes();
    assert!(!mistakes[0].contains("secret"), "{mistakes:?}");
}

#[test]
fn the_index_is_on_by_default_and_asks_nobody() {
    let settings = Fake::default().loaded().settings;
    assert!(settings.github_hosts().is_empty() && settings.watched().is_none());
    let index = settings.index;
    assert!(index.index_enabled && index.index_modules.is_empty());
    assert_eq!(index.indexing_ttl.as_secs(), 5 * 60);
    assert_eq!(index.re_indexing_period.as_secs(), 86_400);
    assert_eq!((index.number_of_items_to_take, index.index_workers), (4, 4));
    assert_eq!(index.go_proxy_max_zip_bytes, 500 << 20);
}

#[test]
fn each_github_host_has_its_owners_and_its_own_tokens() {
    let loaded = Fake::default()
        .env("GRIPFAST_GITHUB_TOKEN_FILE", "/t")
        .file(
            "/t",
            "ghp_one, ghe.corp.example=ghp_two\n# old\nghp_three\n",
        )
        .file(
            "gripfast.toml",
            "index_github = [\"github.com/orgs/acme\", \"ghe.corp.example\", \
             \"github.com/users/bob\"]\ngo_proxy = false\n",
        )
        .loaded();
    assert_eq!(source(&loaded, "github_token"), "/t");
    assert_eq!(loaded.warnings, Vec::<String>::new());
    assert!(!loaded.settings.index.go_proxy);
    let shown: Vec<_> = loaded
        .settings
        .github_hosts()
        .iter()
        .map(|host| {
            let tokens: Vec<_> = host.tokens.iter().map(|t| t.reveal()).collect();
            format!("{} {} {}", host.api, host.owners.len(), tokens.join("+"))
        })
        .collect();
    assert_eq!(
        shown,
        [
            "https://api.github.com/ 2 ghp_one+ghp_three",
            "https://ghe.corp.example/api/v3/ 1 ghp_two",
        ]
    );
}

#[test]
fn a_token_for_a_host_that_nobody_asks_is_named_but_not_shown() {
    let loaded = Fake::default()
        .env("GRIPFAST_GITHUB_TOKEN", "ghp_secret")
        .env("GRIPFAST_INDEX_GITHUB", "ghe.corp.example")
        .loaded();
    assert_eq!(
        loaded.warnings,
        [
            "environment GRIPFAST_GITHUB_TOKEN: github_token: a token is for github.com, which is \
             neither indexed nor watched; write host=token for another host"
        ]
    );
    let option = find("github_token").unwrap();
    assert_eq!(option.shown("ghp_secret"), "••••••");
    let mistakes = Fake::default()
        .env("GRIPFAST_GITHUB_TOKEN", "ghp secret")
        .mistakes();
    assert!(!mistakes[0].contains("secret"), "{mistakes:?}");
    let mistakes = Fake::default()
        .env("GRIPFAST_GITHUB_TOKEN_FILE", "/none")
        .mistakes();
    assert!(
        mistakes[0].starts_with("/none: github_token_file cannot be read"),
        "{mistakes:?}"
    );
}

#[test]
fn what_is_watched_shares_host_and_tokens_with_the_index() {
    let loaded = Fake::default()
        .env("GRIPFAST_INDEX_GITHUB", "github.com/orgs/acme")
        .env(
            "GRIPFAST_WATCH_GITHUB",
            "github.com/orgs/acme,github.com/users/bob",
        )
        .env("GRIPFAST_GITHUB_TOKEN", "ghp_one")
        .loaded();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let settings = &loaded.settings;
    let hosts = settings.github_hosts();
    assert_eq!(hosts.len(), 1);
    assert_eq!((hosts[0].owners.len(), hosts[0].tokens.len()), (1, 1));
    let watched = settings.watched().unwrap();
    assert_eq!(watched.host.authority(), "github.com");
    assert_eq!(watched.sources.len(), 2);
    assert!(settings.watch.github_webhook_secret.is_empty());
    assert_eq!(settings.avatars_store(), "./data/avatars");
    let (ours, theirs) = (&settings.watch, grip_ingest::Options::default());
    assert_eq!(ours.watch_poll_interval, theirs.poll_every);
    assert_eq!(ours.watch_fresh_for, theirs.fresh_for);
    let percent = theirs.refresh_reserve_percent;
    assert_eq!(ours.watch_refresh_reserve_percent, percent);
    assert_eq!(ours.keep(), theirs.keep);
}

#[test]
fn a_webhook_secret_alone_is_for_github_and_is_never_shown() {
    let loaded = Fake::default()
        .env("CREDENTIALS_DIRECTORY", "/c")
        .file("/c/github_webhook_secret", "one,two\nthree\n")
        .loaded();
    assert_eq!(
        source(&loaded, "github_webhook_secret"),
        "/c/github_webhook_secret"
    );
    let watch = &loaded.settings.watch;
    let secrets = watch.github_webhook_secret.iter().map(|s| s.reveal());
    assert_eq!(secrets.collect::<Vec<_>>(), ["one,two", "three"]);
    let watched = loaded.settings.watched().unwrap();
    assert_eq!(
        (watched.host.authority().as_str(), watched.sources.len()),
        ("github.com", 0)
    );
    assert!(!format!("{watch:?}").contains("three"));
    let option = find("github_webhook_secret").unwrap();
    assert_eq!(option.shown("one"), "••••••");
    let mistakes = Fake::default()
        .env("GRIPFAST_GITHUB_WEBHOOK_SECRET_FILE", "/none")
        .mistakes();
    assert!(
        mistakes[0].contains("github_webhook_secret_file cannot be read"),
        "{mistakes:?}"
    );
}

#[test]
fn the_database_is_a_file_of_the_data_directory_or_where_the_url_says() {
    let usual = Fake::default()
        .env("GRIPFAST_DATA_DIR", "/d")
        .loaded()
        .settings;
    assert_eq!(
        usual.database(),
        DatabasePlace::File("/d/gripfast.sqlite".into())
    );
    assert_eq!(
        (usual.storage.database_connections, usual.storage.node_name),
        (10, None)
    );
    let url = "postgres://me:hunter2@db.example/x";
    let shared = Fake::default()
        .env("DATABASE_URL", url)
        .env("GRIPFAST_NODE_NAME", "harbour-1")
        .loaded()
        .settings;
    assert_eq!(shared.storage.node_name.as_deref(), Some("harbour-1"));
    assert!(!format!("{shared:?}").contains("hunter2"));
    assert_eq!(
        shared.database(),
        DatabasePlace::Server(SecretText::new(url))
    );
    let loaded = Fake::default()
        .env("DATABASE_URL", "sqlite:theirs.db")
        .env("GRIPFAST_DATABASE_URL", "sqlite:ours.db")
        .loaded();
    assert_eq!(
        loaded.settings.database(),
        DatabasePlace::File("ours.db".into())
    );
    assert_eq!(
        loaded.warnings,
        ["DATABASE_URL is set too, but GRIPFAST_DATABASE_URL counts"]
    );
}

#[test]
fn nothing_secret_of_the_database_is_shown() {
    let option = find("database_url").unwrap();
    for (text, shown) in [
        (
            "postgres://me:se@cret@db.example:5/x?sslmode=require",
            "postgres://••••••@db.example:5/x?••••••",
        ),
        (
            "postgres://db.example/x?password=a@secret",
            "postgres://db.example/x?••••••",
        ),
        ("sqlite:/var/x.db", "sqlite:/var/x.db"),
    ] {
        assert_eq!(option.shown(text), shown);
    }
    let mistakes = Fake::default()
        .env("DATABASE_URL", "mysql://me:secret@db.example/x")
        .mistakes();
    assert!(!mistakes[0].contains("secret"), "{mistakes:?}");
}

#[test]
fn a_zip_that_go_would_refuse_is_not_promised() {
    let mistakes = Fake::default()
        .env("GRIPFAST_GO_PROXY_MAX_ZIP_BYTES", "1 GiB")
        .mistakes();
    assert!(mistakes[0].contains("500 MiB"), "{mistakes:?}");
}

#[test]
fn what_could_not_be_kept_is_refused() {
    let mistakes = Fake::default().env("NGIT_PRIVATE_MODE", "true").mistakes();
    assert!(
        mistakes[0].contains("serves every repository to everybody"),
        "{mistakes:?}"
    );
    let loaded = Fake::default()
        .env("NGIT_DATABASE_BACKEND", "memory")
        .loaded();
    assert!(
        loaded.warnings[0].contains("kept in LMDB"),
        "{:?}",
        loaded.warnings
    );
}

#[test]
fn the_domain_takes_scheme_port_and_base_path() {
    let loaded = Fake::default()
        .env("NGIT_DOMAIN", "example.com")
        .env("NGIT_BASE_PATH", "/grasp/")
        .loaded();
    assert_eq!(
        loaded.settings.service().http_url(),
        "https://example.com/grasp"
    );
    let loaded = Fake::default()
        .env("NGIT_BIND_ADDRESS", "0.0.0.0:80")
        .loaded();
    assert_eq!(loaded.settings.service().http_url(), "http://127.0.0.1");
    assert!(
        loaded.warnings[0].starts_with("domain is not set"),
        "{:?}",
        loaded.warnings
    );
}

#[test]
fn the_relay_key_comes_from_value_file_credential_or_the_key_of_before() {
    let cases = [
        (
            Fake::default().env("NGIT_RELAY_OWNER_NSEC", NSEC),
            "environment NGIT_RELAY_OWNER_NSEC",
        ),
        (
            Fake::default()
                .env("NGIT_RELAY_OWNER_NSEC_FILE", "/k")
                .file("/k", &format!("{NSEC}\n")),
            "/k",
        ),
        (
            Fake::default()
                .env("CREDENTIALS_DIRECTORY", "/c")
                .file("/c/relay_owner_nsec", NSEC),
            "/c/relay_owner_nsec",
        ),
        (
            Fake::default().file(".relay-owner.nsec", NSEC),
            ".relay-owner.nsec",
        ),
    ];
    for (fake, from) in cases {
        let loaded = fake.loaded();
        assert!(loaded.settings.owner().is_some(), "{from}");
        assert_eq!(source(&loaded, "relay_owner_nsec"), from);
        assert!(text(&loaded, "owner_npub").unwrap().starts_with("npub1"));
    }
    let mistakes = Fake::default()
        .env("NGIT_RELAY_OWNER_NSEC_FILE", "/none")
        .mistakes();
    assert!(
        mistakes[0].starts_with("/none: relay_owner_nsec_file cannot be read"),
        "{mistakes:?}"
    );
}

#[test]
fn a_mistyped_key_in_a_list_is_an_error() {
    let good = format!("{NPUB},{NPUB}/linux,rust");
    let loaded = Fake::default()
        .env("NGIT_REPOSITORY_WHITELIST", &good)
        .loaded();
    let whitelist = loaded.settings.acceptance.repository_whitelist;
    assert_eq!(whitelist, good.parse().unwrap());
    for bad in [
        "npub1xyz",
        "npub1xyz/linux",
        "alice/linux",
        &format!("{NPUB}/"),
    ] {
        let mistakes = Fake::default()
            .env("NGIT_REPOSITORY_BLACKLIST", bad)
            .mistakes();
        assert_eq!(mistakes.len(), 1, "{bad}");
    }
    assert_eq!(
        Fake::default()
            .env("NGIT_EVENT_BLACKLIST", "rust")
            .mistakes()
            .len(),
        1
    );
}

#[test]
fn keys_are_unique_and_defaults_have_the_right_shape() {
    let mut names: Vec<_> = options::all().flat_map(Opt::env_names).collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "two options share an environment name");
    for option in options::all() {
        assert!(
            option.help().ends_with('.'),
            "{} is explained in a sentence",
            option.key
        );
    }
    // Loading checks every given value, so giving each its own default checks the defaults.
    let mut fake = Fake::default();
    for option in options::all() {
        if let Some(value) = option.default {
            fake.flags.values.insert(option.key, value.into());
        }
    }
    fake.loaded();
}

#[test]
fn the_example_loads_when_every_line_is_switched_on() {
    let text: String = docs::example()
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest)
                if rest
                    .split_once(" = ")
                    .is_some_and(|(k, _)| find(k).is_some()) =>
            {
                format!("{rest}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let loaded = Fake::default()
        .file("gripfast.toml", &text)
        .file("/etc/gripfast/relay.nsec", NSEC)
        .file("/etc/gripfast/github.token", "ghp_x\n")
        .file("/etc/gripfast/webhook.secret", "s\n")
        .loaded();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let is_from_file = |o: &&Opt| matches!(loaded.values[o.key].source, Source::File { .. });
    let from_file = options::all().filter(is_from_file);
    let active = options::all().filter(|o| o.has_effect).count();
    assert!(
        from_file.count() + 5 >= active,
        "nearly every active option is in the example"
    );
}

#[test]
fn the_written_documents_are_those_of_the_table() {
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
