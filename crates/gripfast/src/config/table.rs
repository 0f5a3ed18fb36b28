//! The table of options. A new setting is one entry here and one field of `Settings`.

use super::option::{
    Default::{Derived, Unset, Value},
    Group::{
        About, Acceptance, Archive, Index, Limits, Logs, Reach, Resolve, Storage, Sync, Timeouts,
        Watch,
    },
    Kind::{
        Address, Bool, Bytes, Choice, Count, DatabaseUrl, Domain, Domains, Duration, GithubEvents,
        GithubPlaces, HostLimits, List, LogFilter, ModuleOwners, Multiaddrs, Name, Networks, Npub,
        Npubs, Path, RedisUrl, Repositories, Schemes, Secret, Secrets, Text, Tokens,
    },
    Opt,
};

const ANY: super::Kind = Count {
    min: 0,
    max: u64::MAX,
};
const POSITIVE: super::Kind = Count {
    min: 1,
    max: u64::MAX,
};
/// What is counted in 32 bits.
const SMALL: super::Kind = Count {
    min: 1,
    max: u32::MAX as u64,
};
/// Seconds or milliseconds that still make sense as a delay.
const DELAY: super::Kind = Count {
    min: 0,
    max: 86_400_000,
};
const PERCENT: super::Kind = Count { min: 1, max: 100 };
/// Nodes that are asked at once; more would be rude.
const FANOUT: super::Kind = Count { min: 1, max: 16 };
const EXTRA: super::Kind = Count { min: 0, max: 16 };
const WORKERS: super::Kind = Count { min: 1, max: 1024 };
/// Bounded so that fifty times the value still fits its bucket.
const RATE: super::Kind = Count {
    min: 0,
    max: 50_000_000,
};

/// Every option, in the order in which people meet them.
pub(crate) static OPTIONS: &[Opt] = &[
    // Where it is reached
    Opt::new(
        "domain",
        Domain,
        Derived("the bind address, for use on one machine"),
        Reach,
        "Host name under which clients reach this node, as announcements list it. \
         A scheme may be given (`http://…`); without one, names are https and IP addresses \
         and localhost are http.",
    )
    .ngit()
    .common(),
    Opt::new(
        "bind_address",
        Address,
        Value("127.0.0.1:7334"),
        Reach,
        "Address to listen on.",
    )
    .ngit()
    .common(),
    Opt::new(
        "base_path",
        Text,
        Unset,
        Reach,
        "Path below which everything is served, when the host is shared with something else.",
    )
    .ngit(),
    Opt::new(
        "domain_aliases",
        Domains,
        Unset,
        Reach,
        "Other names under which clients reach this node. Data is never fetched from them: it \
         would be asking ourselves.",
    ),
    Opt::new(
        "trusted_proxy_cidrs",
        Networks,
        Value("127.0.0.0/8,::1/128"),
        Reach,
        "Networks of reverse proxies, whose `X-Forwarded-For` is believed.",
    )
    .ngit()
    .live(),
    // Where it keeps things
    Opt::new(
        "data_dir",
        Path,
        Value("./data"),
        Storage,
        "Directory that holds all state.",
    )
    .common(),
    Opt::new(
        "amnesia",
        Bool,
        Value("false"),
        Storage,
        "Leave nothing behind: what must be on disk is kept in a private directory below the \
         system's directory for temporary files (`TMPDIR`), and removed when the node ends. All \
         other places in this group are not used then.",
    ),
    Opt::new(
        "git_data_path",
        Path,
        Derived("`git` in the data directory"),
        Storage,
        "Directory of the repositories. One laid out by ngit-grasp is taken over as it is.",
    )
    .ngit(),
    Opt::new(
        "relay_data_path",
        Path,
        Derived("`relay` in the data directory"),
        Storage,
        "Directory of the event store.",
    )
    .ngit(),
    Opt::new(
        "database_backend",
        Choice(&["lmdb", "memory", "nostrdb"]),
        Value("lmdb"),
        Storage,
        "Accepted for the sake of ngit-grasp's units: events are kept in LMDB whatever it says.",
    )
    .ngit(),
    Opt::new(
        "database_url",
        DatabaseUrl,
        Derived("`gripfast.sqlite` in the data directory"),
        Storage,
        "Database for everything but events and git data. `postgres://user:password@host/name` is \
         a server that several instances may share, `sqlite:PATH` a file.",
    )
    .also("DATABASE_URL")
    .common(),
    Opt::new(
        "database_connections",
        Count { min: 3, max: 1000 },
        Value("10"),
        Storage,
        "Most connections to a Postgres server; work beyond waits for one.",
    ),
    Opt::new(
        "node_name",
        Name,
        Derived("made once and kept in `node.name` in the data directory"),
        Storage,
        "Name of this instance, different from those of all others that share its database. It \
         belongs to the data directory: under another name the node would not know its own.",
    ),
    Opt::new(
        "event_map_bytes",
        Bytes,
        Value("64 GiB"),
        Storage,
        "Most that the event store may ever hold. Address space, not disk: the file grows as \
         it is filled.",
    ),
    Opt::new(
        "git_program",
        Path,
        Value("git"),
        Storage,
        "The git to run; 2.37 or newer.",
    ),
    // What it says of itself
    Opt::new(
        "relay_name",
        Text,
        Derived("`<domain> grasp relay`"),
        About,
        "Name shown in the relay information document (NIP-11) and on the pages.",
    )
    .ngit()
    .live()
    .common(),
    Opt::new(
        "relay_description",
        Text,
        Value("A git node that never shows a claim it cannot prove"),
        About,
        "Description shown beside the name.",
    )
    .ngit()
    .live(),
    Opt::new(
        "relay_contact",
        Text,
        Unset,
        About,
        "How to reach the operator, such as `mailto:…`.",
    )
    .live(),
    Opt::new(
        "relay_icon",
        Text,
        Derived("our own"),
        About,
        "URL of an image for the node.",
    )
    .live(),
    Opt::new(
        "owner_npub",
        Npub,
        Derived("the key of `relay_owner_nsec`"),
        About,
        "Public key of the operator, shown in the relay information document.",
    )
    .ngit()
    .live(),
    Opt::new(
        "relay_owner_nsec",
        Secret,
        Derived(
            "the systemd credential `relay_owner_nsec`, else the file `.relay- \
             owner.nsec`, where there is one",
        ),
        About,
        "Private key of the relay. Prefer `relay_owner_nsec_file` or a systemd credential.",
    )
    .ngit(),
    Opt::new(
        "relay_owner_nsec_file",
        Path,
        Unset,
        About,
        "File that holds the private key of the relay.",
    )
    .ngit(),
    // What it accepts
    Opt::new(
        "maintainer_rule",
        Choice(&["legacy", "reciprocal"]),
        Value("legacy"),
        Acceptance,
        "Who counts as maintainer: everybody the owner's announcement leads to (`legacy`), \
         or of those only who names a maintainer back (`reciprocal`).",
    )
    .live(),
    Opt::new(
        "repository_whitelist",
        Repositories,
        Unset,
        Acceptance,
        "Only these repositories are accepted: `npub`, `npub/identifier` or `identifier`.",
    )
    .ngit()
    .live(),
    Opt::new(
        "repository_blacklist",
        Repositories,
        Unset,
        Acceptance,
        "These repositories are refused, whatever the whitelists say: `npub`, \
         `npub/identifier` or `identifier`.",
    )
    .ngit()
    .live(),
    Opt::new(
        "event_blacklist",
        Npubs,
        Unset,
        Acceptance,
        "Events of these authors (npubs) are refused, before any other check.",
    )
    .ngit()
    .live(),
    Opt::new(
        "private_mode",
        Bool,
        Value("false"),
        Acceptance,
        "Private repositories (GRASP-08) are not part of this version: the node refuses to start \
         with it rather than serve to everybody.",
    )
    .ngit(),
    // Limits
    Opt::new(
        "max_pack_bytes",
        Bytes,
        Value("2 GiB"),
        Limits,
        "Largest pack that a push may carry.",
    )
    .common(),
    Opt::new(
        "max_connections",
        POSITIVE,
        Value("4096"),
        Limits,
        "Most connections at once.",
    )
    .ngit()
    .live(),
    Opt::new(
        "max_connections_per_ip",
        POSITIVE,
        Value("256"),
        Limits,
        "Most connections at once from one address; IPv6 by /64.",
    )
    .live(),
    Opt::new(
        "max_pushes",
        POSITIVE,
        Value("64"),
        Limits,
        "Most pushes under way; a git process each.",
    ),
    Opt::new(
        "max_fetches",
        POSITIVE,
        Value("64"),
        Limits,
        "Most fetches under way; a git process each.",
    ),
    Opt::new(
        "http_requests_per_second",
        RATE,
        Value("100"),
        Limits,
        "Requests a second that one address may make for long; ten times as many in one go. \
         0 lifts the limit.",
    ),
    Opt::new(
        "relay_events_per_second",
        RATE,
        Value("1000"),
        Limits,
        "Events a second that one connection may send for long, and twice as many one address; \
         ten times as many in one go. 0 lifts the limit.",
    ),
    Opt::new(
        "relay_requests_per_second",
        RATE,
        Value("200"),
        Limits,
        "Queries a second that one connection may make for long, and five times as many one \
         address; ten times as many in one go. 0 lifts the limit.",
    ),
    Opt::new(
        "relay_max_message_bytes",
        Bytes,
        Value("2 MiB"),
        Limits,
        "Longest message and longest state event; one with 20,000 refs takes about 1.6 MB.",
    ),
    Opt::new(
        "relay_max_subscriptions",
        POSITIVE,
        Value("300"),
        Limits,
        "Most open subscriptions of one connection.",
    )
    .ngit(),
    Opt::new(
        "relay_filter_limit",
        POSITIVE,
        Value("5000"),
        Limits,
        "Most stored events that one filter brings.",
    )
    .ngit(),
    Opt::new(
        "purgatory_max_entries",
        POSITIVE,
        Value("50000"),
        Limits,
        "Most events that wait for git data.",
    ),
    Opt::new(
        "purgatory_max_bytes",
        Bytes,
        Value("256 MiB"),
        Limits,
        "Most bytes of such events.",
    ),
    Opt::new(
        "purgatory_max_per_author",
        POSITIVE,
        Value("100"),
        Limits,
        "Most such events of one author.",
    ),
    Opt::new(
        "purgatory_max_per_identifier",
        POSITIVE,
        Value("200"),
        Limits,
        "Most such events for one repository identifier.",
    ),
    // Timeouts
    Opt::new(
        "drain_deadline",
        Duration,
        Value("5s"),
        Timeouts,
        "How long work under way may go on after SIGTERM before it is cut.",
    )
    .live(),
    Opt::new(
        "stall_timeout",
        Duration,
        Value("60s"),
        Timeouts,
        "How long a client may send or take nothing in the middle of a push, fetch or answer.",
    ),
    Opt::new(
        "idle_timeout",
        Duration,
        Value("60s"),
        Timeouts,
        "How long a connection may rest between requests.",
    )
    .live(),
    Opt::new(
        "header_timeout",
        Duration,
        Value("10s"),
        Timeouts,
        "How long a client may take to send its headers.",
    )
    .live(),
    Opt::new(
        "purgatory_lifetime",
        Duration,
        Value("30m"),
        Timeouts,
        "How long an event waits for its git data; GRASP-01 says 30 minutes.",
    ),
    Opt::new(
        "orphan_ref_lifetime",
        Duration,
        Value("20m"),
        Timeouts,
        "How long a pushed `refs/nostr/…` waits for its event; GRASP-01 says 20 minutes.",
    ),
    Opt::new(
        "purgatory_sweep_interval",
        Duration,
        Value("60s"),
        Timeouts,
        "How often what has waited too long is looked for.",
    ),
    // Logs and metrics
    Opt::new(
        "log_level",
        LogFilter,
        Value("info"),
        Logs,
        "How much is logged: `error`, `warn`, `info`, `debug`, `trace`, or directives such as \
         `info,grip_git=debug`.",
    )
    .ngit()
    .live()
    .common(),
    Opt::new(
        "log_format",
        Choice(&["text", "json"]),
        Value("text"),
        Logs,
        "Log lines for people (`text`) or for programs (`json`).",
    ),
    Opt::new(
        "metrics_enabled",
        Bool,
        Value("true"),
        Logs,
        "Serve `/metrics`.",
    )
    .ngit()
    .live(),
    Opt::new(
        "metrics_top_n_repos",
        ANY,
        Value("10"),
        Logs,
        "How many repositories have bandwidth series of their own.",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "metrics_connection_per_ip_abuse_threshold",
        ANY,
        Value("10"),
        Logs,
        "Connections from one address from which the metrics count it as suspicious.",
    )
    .ngit()
    .no_effect_yet(),
    // Archive and pull request hosting
    Opt::new(
        "archive_all",
        Bool,
        Value("false"),
        Archive,
        "Accept every announcement, whether it lists this node or not (GRASP-05).",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "archive_whitelist",
        Repositories,
        Unset,
        Archive,
        "Repositories to mirror though they do not list this node: `npub`, `npub/identifier` \
         or `identifier`.",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "archive_grasp_services",
        List,
        Unset,
        Archive,
        "Mirror all repositories of these servers.",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "archive_read_only",
        Bool,
        Derived("true where an archive setting is on"),
        Archive,
        "Take nothing but what the archive settings name.",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "grasp06_enable",
        Bool,
        Value("false"),
        Archive,
        "Host pull requests of contributors below `/prs/` (GRASP-06).",
    )
    .ngit()
    .no_effect_yet(),
    // Sync with other servers
    Opt::new(
        "sync_enabled",
        Bool,
        Value("true"),
        Sync,
        "Fetch git data that events wait for from the other servers that announcements and pull \
         requests name.",
    )
    .common(),
    Opt::new(
        "sync_domain_concurrent",
        SMALL,
        Value("5"),
        Sync,
        "Requests in flight to one host.",
    )
    .ngit(),
    Opt::new(
        "sync_domain_rate_limit",
        SMALL,
        Value("30"),
        Sync,
        "Requests to one host in any minute, redirects included.",
    )
    .ngit(),
    Opt::new(
        "sync_host_limits",
        HostLimits,
        Unset,
        Sync,
        "Limits for single hosts in place of the two above: `host=concurrent/per-minute`, such as \
         `github.com=10/60`.",
    ),
    Opt::new(
        "sync_default_delay_secs",
        DELAY,
        Value("180"),
        Sync,
        "How long the data of a submitted event is awaited before it is looked for elsewhere: \
         its author is about to push.",
    )
    .ngit(),
    Opt::new(
        "sync_immediate_delay_ms",
        DELAY,
        Value("500"),
        Sync,
        "The same for an event that came from another relay.",
    )
    .ngit(),
    Opt::new(
        "sync_loop_interval_ms",
        Count {
            min: 1,
            max: 60_000,
        },
        Value("1000"),
        Sync,
        "Longest sleep of the sync loop.",
    )
    .ngit(),
    Opt::new(
        "sync_max_tasks",
        POSITIVE,
        Value("64"),
        Sync,
        "Most repositories whose data is fetched at once, over all hosts.",
    ),
    Opt::new(
        "sync_max_pack_bytes",
        Bytes,
        Value("2 GiB"),
        Sync,
        "Largest pack that is fetched.",
    ),
    Opt::new(
        "sync_min_free_bytes",
        Bytes,
        Value("256 MiB"),
        Sync,
        "Nothing is fetched while less than this is free on the disk of the git directory.",
    ),
    Opt::new(
        "sync_connect_timeout",
        Duration,
        Value("10s"),
        Sync,
        "How long a host may take to accept a connection.",
    ),
    Opt::new(
        "sync_idle_timeout",
        Duration,
        Value("30s"),
        Sync,
        "How long a host may send nothing, before its answer and in the middle of it.",
    ),
    Opt::new(
        "sync_total_timeout",
        Duration,
        Value("15m"),
        Sync,
        "How long one fetch may take in all.",
    ),
    Opt::new(
        "sync_schemes",
        Schemes,
        Value("https,http"),
        Sync,
        "Kinds of clone URLs that are fetched from: `https` alone, or `http` as well.",
    ),
    Opt::new(
        "sync_allow_non_global_targets",
        Bool,
        Value("false"),
        Sync,
        "Let sync reach private, loopback and other addresses that are not public. Anybody can \
         announce a clone URL, so this lets strangers make the node ask hosts of your network.",
    )
    .ngit(),
    Opt::new(
        "wanted_max",
        ANY,
        Value("10000"),
        Sync,
        "Most states and pull requests whose data is still looked for after they expired; the \
         oldest leaves for a new one.",
    ),
    Opt::new(
        "wanted_lifetime",
        Duration,
        Value("30days"),
        Sync,
        "How long their data is looked for.",
    ),
    Opt::new(
        "wanted_interval",
        Duration,
        Value("1h"),
        Sync,
        "Longest pause between two tries; GRASP-02 says an hour.",
    ),
    Opt::new(
        "redis_url",
        RedisUrl,
        Unset,
        Sync,
        "Redis through which several instances keep the limits of each host together, such as \
         `redis://127.0.0.1/` or `rediss://user:password@host/`. Without one each instance \
         counts for itself.",
    ),
    Opt::new(
        "redis_fallback_percent",
        PERCENT,
        Value("25"),
        Sync,
        "Share of each host's limits that this instance uses while Redis is away. With n \
         instances, 100/n keeps their sum within the limits.",
    ),
    Opt::new(
        "sync_bootstrap_relay_url",
        Text,
        Unset,
        Sync,
        "First relay to learn announcements from.",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "sync_base_backoff_secs",
        POSITIVE,
        Value("5"),
        Sync,
        "First pause after a relay failed.",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "sync_max_backoff_secs",
        POSITIVE,
        Value("3600"),
        Sync,
        "Longest pause after a relay failed.",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "sync_disconnect_check_interval_secs",
        POSITIVE,
        Value("60"),
        Sync,
        "How often lost relays are looked at.",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "sync_disable_negentropy",
        Bool,
        Value("false"),
        Sync,
        "Learn history by REQ, not by NIP-77.",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "sync_plus_enabled",
        Bool,
        Value("false"),
        Sync,
        "Keep events of users' own relays (GRASP-03).",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "sync_plus_fallback_relays",
        List,
        Unset,
        Sync,
        "Relays to ask where a user has none.",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "user_index_relays",
        List,
        Unset,
        Sync,
        "Relays that know the relay lists of users.",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "rejected_hot_cache_duration_secs",
        ANY,
        Value("120"),
        Sync,
        "How long a refused announcement is kept whole, to be judged again.",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "rejected_cold_index_expiry_secs",
        ANY,
        Value("604800"),
        Sync,
        "How long a refused announcement is remembered, so as not to fetch it again.",
    )
    .ngit()
    .no_effect_yet(),
    Opt::new(
        "naughty_list_expiration_hours",
        ANY,
        Value("12"),
        Sync,
        "How long a broken relay is left alone.",
    )
    .ngit()
    .no_effect_yet(),
    // Index of Go modules
    Opt::new(
        "index_enabled",
        Bool,
        Value("true"),
        Index,
        "Keep an index of the Go modules whose versions are tagged here and on GitHub hosts, and \
         serve it at `/index`.",
    )
    .common(),
    Opt::new(
        "index_github",
        GithubPlaces,
        Unset,
        Index,
        "Whose repositories on GitHub hosts are indexed: `github.com/orgs/acme`, \
         `github.com/users/bob`, or `ghe.example.com` for all of a GitHub Enterprise.",
    ),
    Opt::new(
        "github_token",
        Tokens,
        Derived("the systemd credential `github_token`, where there is one"),
        Index,
        "Tokens for the API of GitHub hosts; without one github.com answers 60 calls an hour. A \
         token is for github.com, or for the host in front of it: `ghe.example.com=token`. \
         Prefer `github_token_file` or a systemd credential.",
    ),
    Opt::new(
        "github_token_file",
        Path,
        Unset,
        Index,
        "File that holds such tokens, separated by commas or line ends.",
    ),
    Opt::new(
        "index_modules",
        ModuleOwners,
        Unset,
        Index,
        "Whose repositories here may claim a module path that is not their place, and all paths \
         below it: `go.example.com/tools=npub1…`.",
    ),
    Opt::new(
        "re_indexing_period",
        Duration,
        Value("1d"),
        Index,
        "How often the list of repositories and the tags of each are read anew from other hosts.",
    ),
    Opt::new(
        "indexing_ttl",
        Duration,
        Value("5m"),
        Index,
        "How long one piece of indexing is reserved for the instance that took it; another takes \
         it over when that one is gone for so long.",
    ),
    Opt::new(
        "number_of_items_to_take",
        Count { min: 1, max: 1000 },
        Value("4"),
        Index,
        "Pieces of indexing that are taken from the queue at a time, never more than there are \
         workers free for them. 1 shares them most evenly among instances.",
    ),
    Opt::new(
        "index_workers",
        Count { min: 1, max: 256 },
        Value("4"),
        Index,
        "Repositories that are indexed at once.",
    ),
    Opt::new(
        "go_proxy",
        Bool,
        Value("true"),
        Index,
        "Serve the indexed modules of this node to the go command at `/go`, as GOPROXY.",
    ),
    Opt::new(
        "go_proxy_max_zip_bytes",
        Bytes,
        Value("500 MiB"),
        Index,
        "Most bytes of files in a module that is served; the go command takes no more than \
         500 MiB.",
    ),
    Opt::new(
        "go_proxy_max_zips",
        POSITIVE,
        Value("4"),
        Index,
        "Most module zips that are made at once; sixteen times as many wait for their turn.",
    ),
    // Watching GitHub
    Opt::new(
        "watch_github",
        GithubEvents,
        Unset,
        Watch,
        "Lists of events that are read again and again for pushes: `github.com/orgs/acme`, \
         `github.com/users/bob`, `github.com/repos/acme/tides`, or `github.com/events` for all that \
         is public. All of one host. A host alone reads no list: its webhooks tell of pushes.",
    )
    .common(),
    Opt::new(
        "github_webhook_secret",
        Secrets,
        Derived("the systemd credential `github_webhook_secret`, where there is one"),
        Watch,
        "Secret of the webhooks that GitHub delivers to `/webhooks/github`; without one they are \
         not taken. Several while one takes the place of another. Prefer \
         `github_webhook_secret_file` or a systemd credential.",
    ),
    Opt::new(
        "github_webhook_secret_file",
        Path,
        Unset,
        Watch,
        "File that holds such secrets, one a line.",
    ),
    Opt::new(
        "watch_poll_interval",
        Duration,
        Value("60s"),
        Watch,
        "How often each list is read; less often where the host asks for that.",
    ),
    Opt::new(
        "watch_enrich",
        Bool,
        Value("true"),
        Watch,
        "Ask for the person and the repository behind each push.",
    ),
    Opt::new(
        "watch_fresh_for",
        Duration,
        Value("1d"),
        Watch,
        "How long what is known of them counts as fresh; afterwards the next push asks again.",
    ),
    Opt::new(
        "watch_refresh_reserve_percent",
        PERCENT,
        Value("25"),
        Watch,
        "Share of the calls that the host allows which is left to new events: nothing is refreshed \
         from it.",
    ),
    Opt::new(
        "watch_keep_events",
        Duration,
        Unset,
        Watch,
        "How long pushes are kept, counted from when they came; for ever where this is not set.",
    ),
    Opt::new(
        "watch_keep_enriched",
        Duration,
        Unset,
        Watch,
        "How long people and repositories are kept that no kept push names; for ever where this is \
         not set.",
    ),
    Opt::new(
        "watch_keep_rejected",
        Duration,
        Value("30days"),
        Watch,
        "How long events are kept that could not be read.",
    ),
    Opt::new(
        "watch_keep_closed_gaps",
        Duration,
        Value("365days"),
        Watch,
        "How long holes in the events are remembered after they were filled.",
    ),
    Opt::new(
        "watch_keep_open_gaps",
        Duration,
        Value("1825days"),
        Watch,
        "How long holes are remembered that nobody has filled.",
    ),
    Opt::new(
        "watch_avatars",
        Bool,
        Value("true"),
        Watch,
        "Keep the pictures of people who push.",
    ),
    Opt::new(
        "watch_avatars_store",
        Text,
        Derived("`avatars` in the data directory"),
        Watch,
        "Where they are kept: a directory, or `s3://bucket/prefix`, whose keys, region and \
         endpoint come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, \
         `AWS_REGION`, `AWS_ENDPOINT_URL`).",
    ),
    // Finding and being found
    Opt::new(
        "dht_enabled",
        Bool,
        Value("false"),
        Resolve,
        "Take part in the network by which nodes find each other's repositories: what is served \
         here is found by others, and what they serve is found here.",
    )
    .common(),
    Opt::new(
        "dht_listen",
        Multiaddrs,
        Value("/ip4/0.0.0.0/tcp/7335"),
        Resolve,
        "Where other nodes reach this one.",
    ),
    Opt::new(
        "dht_external",
        Multiaddrs,
        Unset,
        Resolve,
        "Addresses to tell other nodes beside those that are listened on; needed behind a NAT.",
    ),
    Opt::new(
        "dht_bootstrap",
        Multiaddrs,
        Unset,
        Resolve,
        "Nodes to begin with, each with its name at the end (`…/p2p/12D3KooW…`). Without any, \
         this node waits to be found.",
    ),
    Opt::new(
        "dht_lan_only",
        Bool,
        Value("false"),
        Resolve,
        "Stay within private, link-local and loopback addresses.",
    ),
    Opt::new(
        "resolve_alpha",
        FANOUT,
        Value("3"),
        Resolve,
        "Nodes asked at once when something is looked for.",
    )
    .live(),
    Opt::new(
        "resolve_beta",
        EXTRA,
        Value("2"),
        Resolve,
        "Nodes asked in addition once `resolve_hedge` has passed without an answer.",
    )
    .live(),
    Opt::new(
        "resolve_hedge",
        Duration,
        Value("150ms"),
        Resolve,
        "How long the first nodes have before further ones are asked.",
    )
    .live(),
    Opt::new(
        "resolve_deadline",
        Duration,
        Value("1200ms"),
        Resolve,
        "How long an answer may take in all.",
    )
    .live(),
    Opt::new(
        "resolve_workers",
        WORKERS,
        Value("64"),
        Resolve,
        "Answers looked for at once; up to 512 more wait, and what comes then is told to come again.",
    ),
    Opt::new(
        "resolve_cache_bytes",
        Bytes,
        Value("64 MiB"),
        Resolve,
        "Memory for answers.",
    ),
    Opt::new(
        "resolve_region",
        Text,
        Unset,
        Resolve,
        "A word for where this node is, such as `eu`: providers with the same word are named first.",
    )
    .live(),
    Opt::new(
        "resolve_deny",
        Domains,
        Unset,
        Resolve,
        "Hosts that are never named as providers, with all below them.",
    )
    .live(),
];

/// The option with this key.
pub(crate) fn find(key: &str) -> Option<&'static Opt> {
    OPTIONS.iter().find(|option| option.key == key)
}
