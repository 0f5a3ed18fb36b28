//! Every option, by group, in the order in which people meet them.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use grip_follow::RelayUrl;
use grip_grasp::Selection;
use grip_index::{
    GoFilter, LeftSources, PrivateRepos,
    hosted::Claim,
    proxy::{PathPattern, SumDbKey},
};
use grip_nostr::MaintainerRule;
use grip_types::{Domain, Service};
use ipnet::IpNet;
use nostr::prelude::PublicKey;

use super::{Opt, Values, kinds::*, option::options};

/// A section of help, reference and example.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) title: &'static str,
    pub(crate) options: &'static [Opt],
}

/// Every option.
pub(crate) fn all() -> impl Iterator<Item = &'static Opt> {
    GROUPS.iter().flat_map(|group| group.options)
}

/// The option with this key.
pub(crate) fn find(key: &str) -> Option<&'static Opt> {
    all().find(|option| option.key == key)
}

options! {
    "Where it is reached" in reach: Reach {
        /// Host name under which clients reach this node, as announcements list it. A scheme may be
        /// given (`http://…`); without one, names are https and IP addresses and localhost are
        /// http.
        domain: Option<Service>, derived("the bind address, for use on one machine"), ngit, common,
            example("grasp.example.com");
        /// Address to listen on.
        bind_address: SocketAddr = "127.0.0.1:7334", ngit, common;
        /// Path below which everything is served, when the host is shared with something else.
        base_path: Option<String>, ngit, example("/git");
        /// Other names under which clients reach this node. Data is never fetched from them: it
        /// would be asking ourselves.
        domain_aliases: Vec<Service>, example("www.grasp.example.com");
        /// Networks of reverse proxies, whose `X-Forwarded-For` is believed.
        trusted_proxy_cidrs: Vec<IpNet> = "127.0.0.0/8,::1/128", ngit, live;
    }

    "Where it keeps things" in storage: Storage {
        /// Directory that holds all state.
        data_dir: PathBuf = "./data", common;
        /// Leave nothing behind: what must be on disk is kept in a private directory below the
        /// system's directory for temporary files (`TMPDIR`), and removed when the node ends. All
        /// other places in this group are not used then.
        amnesia: bool = "false";
        /// Directory of the repositories. One laid out by ngit-grasp is taken over as it is.
        git_data_path: Option<PathBuf>, derived("`git` in the data directory"), ngit,
            example("./data/git");
        /// Directory of the event store.
        relay_data_path: Option<PathBuf>, derived("`relay` in the data directory"), ngit,
            example("./data/relay");
        /// Accepted for the sake of ngit-grasp's units: events are always kept in LMDB.
        database_backend: EventBackend = "lmdb", ngit;
        /// Database for everything but events and git data. `postgres://user:password@host/name` is
        /// a server that several instances may share, `sqlite:PATH` a file.
        database_url: Option<DatabasePlace>, derived("`gripfast.sqlite` in the data directory"),
            env_alias("DATABASE_URL"), common,
            example("postgres://gripfast@db.example.com/gripfast");
        /// Most connections to a Postgres server; work beyond waits for one.
        database_connections: Count<u32, 3, 1000> = "10";
        /// Name of this instance, different from those of all others that share its database. It
        /// belongs to the data directory: under another name the node would not know its own.
        node_name: Option<NodeName>,
            derived("made once and kept in `node.name` in the data directory"),
            example("harbour-1");
        /// Pushes and events are refused while less than this is free on the disk of the
        /// repositories, of the events or of the data directory.
        min_free_bytes: Bytes = "256 MiB";
        /// The same for those who maintain nothing that is served here: their events, pull requests and first
        /// pushes are refused, and nothing is fetched for them, while less than this is free. What is between
        /// the two is left to maintainers. A value below `min_free_bytes` has no effect.
        stranger_min_free_bytes: Bytes = "1 GiB";
        /// Most that the event store may ever hold. Address space, not disk: the file grows as it
        /// is filled.
        event_map_bytes: Bytes = "64 GiB";
        /// How long git objects are kept that no ref, event, upload or archived repository needs any
        /// more. Longer than any fetch or push takes: whoever was told of a branch that has moved since
        /// can still fetch it, and build on it, for so long.
        keep_unreachable: Duration = "7days";
        /// The git to run; 2.37 or newer.
        git_program: PathBuf = "git";
    }

    "Several nodes as one" in cluster: Cluster {
        /// Object store that the nodes of a cluster share: `s3://bucket/prefix`, or a directory that all
        /// of them mount. Setting it makes this node part of a cluster, together with all others of the
        /// same Postgres database and `cluster_name`. Keys, region and endpoint of S3 come from the
        /// environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`).
        cluster_packs: Option<String>, example("s3://gripfast/packs");
        /// Name of the cluster, different from the names of its nodes.
        cluster_name: NodeName = "cluster";
        /// Address at which the other nodes of the cluster reach this one. They forward what clients
        /// send them, so their networks belong into `trusted_proxy_cidrs`.
        cluster_address: Option<SocketAddr>, derived("the bind address"),
            example("10.0.0.1:7334");
        /// Most bytes of packs that this node keeps on its disk. Beyond them, packs of the repositories
        /// that were not used for the longest time are removed, and fetched from `cluster_packs` when
        /// somebody asks for them.
        cluster_cache_bytes: Option<Bytes>, derived("no bound: every pack is kept"),
            example("200 GiB");
        /// How long the other nodes wait for a leader that does not answer, before one of them leads.
        cluster_lease: Duration = "10s";
        /// A snapshot of the cluster's log is made after so many records: nodes that join begin with it,
        /// and the log before it is trimmed.
        cluster_snapshot_records: Count<u64, 1> = "10000";
        /// How long the log is kept for a node that is away. One that comes back later begins with the
        /// newest snapshot.
        cluster_away: Duration = "7days";
        /// How long packs stay in `cluster_packs` that no repository has any more. Longer than it takes a
        /// node to fetch the largest; a backup of the database that is older than this cannot be gone
        /// back to.
        cluster_keep_packs: Duration = "2days";
    }

    "What it says of itself" in about: About {
        /// Name shown in the relay information document (NIP-11) and on the pages.
        relay_name: Option<String>, derived("`<domain> grasp relay`"), ngit, live, common,
            example("My grasp relay");
        /// Description shown beside the name.
        relay_description: String = "A git node that never shows a claim it cannot prove", ngit,
            live;
        /// How to reach the operator, such as `mailto:…`.
        relay_contact: Option<String>, live, example("mailto:operator@example.com");
        /// URL of an image for the node.
        relay_icon: Option<String>, derived("our own"), live,
            example("https://example.com/icon.png");
        /// Public key of the operator, shown in the relay information document.
        owner_npub: Option<PublicKey>, derived("the key of `relay_owner_nsec`"), ngit, live,
            example("npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d");
        /// Private key of the relay. Prefer `relay_owner_nsec_file` or a systemd credential.
        relay_owner_nsec: Option<PrivateKey>,
            derived("the systemd credential `relay_owner_nsec`, else the file `.relay-owner.nsec`, else made once and kept in `relay.key` in the data directory"),
            ngit;
        /// File that holds the private key of the relay.
        relay_owner_nsec_file: Option<PathBuf>, ngit, example("/etc/gripfast/relay.nsec");
    }

    "What it accepts" in acceptance: Acceptance {
        /// Who counts as maintainer: of those whom a maintainer lists, who lists one in return
        /// (`reciprocal`), or all of them (`legacy`, the rule of the published GRASP-01).
        maintainer_rule: MaintainerRule = "reciprocal", live;
        /// Only these repositories are accepted: `npub`, `npub/identifier` or `identifier`.
        repository_whitelist: Selection, ngit, live;
        /// These repositories are refused, even if a whitelist names them: `npub`,
        /// `npub/identifier` or `identifier`.
        repository_blacklist: Selection, ngit, live;
        /// Events of these authors (npubs) are refused, before any other check.
        event_blacklist: Authors, ngit, live,
            example("npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d");
        /// Bring back what a blacklist took out of service when it does so no more; without it,
        /// `gripfast holding restore` does.
        blacklist_auto_restore: bool = "false", ngit, live;
        /// Serve members alone (GRASP-08): relay, git, pages and API want the proof of a key that
        /// `private_members` names. It cannot be combined with `dht_enabled` or `grasp06_enable`.
        private_mode: bool = "false", ngit;
        /// Members of a private service (npubs). Private services that a served announcement names
        /// are members too. Who is struck off loses open connections at once.
        private_members: Authors, ngit, live;
        /// Scheme, host and port that members' proofs for git are made for.
        private_public_origin: Option<Origin>,
            derived("`https://<domain>`, or `http://…` where the domain is an address or localhost"),
            ngit;
    }

    "Deletion" in deletion: Deletion {
        /// How long events and repositories are kept unseen that were deleted or left out by a list;
        /// an owner who announces a repository again gets them back. What vanishes (NIP-62) is not kept.
        holding_retention_secs: Count<u64, 1> = "7776000", ngit;
        /// How often what was kept long enough is looked for, held events, archived repositories and
        /// deletion requests.
        holding_cleanup_interval_secs: Count<u64, 1> = "86400", ngit;
        /// How long a deletion request is served that has deleted and refused nothing, from when it
        /// came.
        deletion_request_retention_unused_served_secs: Count<u64, 1> = "2592000", ngit;
        /// How much longer it refuses what it names, without being served.
        deletion_request_retention_unused_unserved_gating_additional_secs: Count<u64, 1>
            = "15552000", ngit;
        /// How long a deletion request is served after it deleted or refused something for the last
        /// time.
        deletion_request_retention_used_served_after_last_used_secs: Count<u64, 1> = "23328000", ngit;
        /// How much longer it refuses what it names, without being served.
        deletion_request_retention_used_unserved_gating_additional_secs: Count<u64, 1>
            = "7776000", ngit;
        /// Keep all deletion requests, and let them delete and refuse nothing: for archives. Bans
        /// still act.
        deletion_request_disrespector: bool = "false", ngit;
        /// Bytes that deletion requests of one key may take up, and as many its requests to vanish,
        /// beside what its network may send (`relay_unrelated_bytes_per_hour`). 0 lifts the limit.
        deletion_request_max_bytes_per_key: ByteCount<usize, 0> = "1 MiB", live;
    }

    "Limits" in limits: Limits {
        /// Largest pack that a push may carry.
        max_pack_bytes: Bytes = "2 GiB", common;
        /// Bytes of pull requests from one address whose events have not come yet.
        staged_max_bytes_per_address: Bytes = "256 MiB";
        /// Bytes of pull requests to all repositories of one name whose events have not come yet. One network
        /// of clients has a quarter of what is free, unless it pushes what a maintainer signed with them.
        staged_max_bytes_per_identifier: Bytes = "512 MiB";
        /// Bytes that pushes of pull requests from one network of clients may add to repositories that
        /// their authors do not maintain, those below `/prs/` included, at once, and as many again in the
        /// course of a day.
        pull_request_max_bytes_per_address: Bytes = "1 GiB", live;
        /// The same for pull requests that one key signed.
        pull_request_max_bytes_per_author: Bytes = "1 GiB", live;
        /// The same for one repository. One network of clients has a quarter of what is free, what it added
        /// in the day included.
        pull_request_max_bytes_per_repository: Bytes = "8 GiB", live;
        /// Memory for all git processes together. One that finds none free waits, then is refused; one
        /// network of clients has a quarter at most and half of what is free, repositories of one name
        /// half, and so has what is fetched from other servers.
        git_memory_bytes: Option<Bytes>, derived("half of the machine's, or of its control group's"),
            example("4 GiB");
        /// Most connections at once.
        max_connections: Positive = "4096", ngit, live;
        /// Most connections at once from one network of clients.
        max_connections_per_ip: Positive = "256", live;
        /// Leading bits of an IPv4 address that name a network: what one client may use up is shared
        /// by all addresses of its network.
        client_ipv4_prefix: Count<u8, 1, 32> = "32";
        /// The same of an IPv6 address; providers commonly give a /56 to one household.
        client_ipv6_prefix: Count<u8, 1, 128> = "56";
        /// Most pushes under way; a git process each. One network of clients has a quarter at most and
        /// half of what is free, one repository half.
        max_pushes: Positive = "64";
        /// Most fetches under way, shared out in the same way.
        max_fetches: Positive = "64";
        /// Bytes a second that a client must send of a push, or take of an answer, on average, not
        /// counting the time it waits for the node. 0 lifts the limit.
        transfer_min_bytes_per_second: ByteCount<u64, 0> = "1 KiB";
        /// Requests a second that one address may make for long; ten times as many in one go. 0
        /// lifts the limit.
        http_requests_per_second: Rate = "100";
        /// Events a second that one connection may send for long, and twice as many one address;
        /// ten times as many in one go. 0 lifts the limit.
        relay_events_per_second: Rate = "1000";
        /// Queries a second that one connection may make for long, and five times as many one
        /// address; ten times as many in one go. 0 lifts the limit.
        relay_requests_per_second: Rate = "200";
        /// Longest message and longest state event; one with 20,000 refs takes about 1.6 MB.
        relay_max_message_bytes: Option<MemoryBytes>,
            derived("`2 MiB`, or what an event of `relay_max_event_size_bytes` takes in its message"),
            example("4 MiB");
        /// Largest event other than a state; at most 5 MiB. Messages may be as much longer as they
        /// must to carry one.
        relay_max_event_size_bytes: EventBytes = "192 KiB", ngit;
        /// Most open subscriptions of one connection.
        relay_max_subscriptions: Positive = "300", ngit;
        /// Memory for what waits to be sent to relay clients, is subscribed to or half received. One
        /// network of clients has an eighth of what is still free.
        relay_memory_bytes: MemoryBytes = "512 MiB";
        /// Memory for events that were read and are not yet answered, shared out in the same way.
        relay_in_flight_bytes: MemoryBytes = "256 MiB";
        /// Index entries that one query may look at before it is ended.
        relay_query_steps: Count<u64, 4096> = "2000000";
        /// How long one query may be worked on, its waiting not counted, before it is ended.
        relay_query_time: Duration = "10s";
        /// Bytes of deletion requests and grasp lists, which need no relation to anything served, and of
        /// pull requests by others than maintainers of all that they name (2 KiB each at least), that one
        /// network of clients may send in an hour for long. 0 lifts the limit.
        relay_unrelated_bytes_per_hour: ByteCount<u32, 0> = "64 KiB";
        /// The same in one go.
        relay_unrelated_burst_bytes: Option<ByteCount<u32, 1>>,
            derived("`1 MiB`, or two events of `relay_max_event_size_bytes`"), example("2 MiB");
        /// Bytes of issues, comments and whatever else relates to something served and waits for no git
        /// data, with their index entries, that one network of clients may send in an hour for long. 0
        /// lifts the limit.
        relay_related_bytes_per_hour: ByteCount<u32, 0> = "32 MiB";
        /// The same in one go.
        relay_related_burst_bytes: ByteCount<u32, 1> = "32 MiB";
        /// Bytes of events, with their index entries, that are read in an hour for long from relays of one
        /// network which repositories name; those that this configuration names have no such limit. What is
        /// more waits, and its relay is asked less often. 0 lifts the limit.
        relay_synced_bytes_per_hour: ByteCount<u32, 0> = "256 MiB";
        /// The same in one go, such as the first time that a relay is read.
        relay_synced_burst_bytes: ByteCount<u32, 1> = "2 GiB";
        /// Most stored events that one filter brings; with the default, 500 where it names no
        /// limit of its own.
        relay_filter_limit: Positive = "5000", ngit;
        /// Most events that wait for git data and whose authors maintain nothing that is served here;
        /// as many again may wait of those who do. One network of clients gets an eighth of what is
        /// still free.
        purgatory_max_entries: Positive = "50000";
        /// Most bytes of such events.
        purgatory_max_bytes: MemoryBytes = "256 MiB";
        /// Most such events of one author, counted apart for what they maintain here.
        purgatory_max_per_author: Positive = "100";
        /// Most bytes of those.
        purgatory_max_bytes_per_author: MemoryBytes = "16 MiB";
        /// Most such events of one kind for one repository and its maintainers, and most new
        /// announcements of one identifier; there the oldest of the network with most of them loses
        /// its empty repository to a new one.
        purgatory_max_per_identifier: Positive = "200";
        /// Most bytes of such events of one kind for one repository and its maintainers; one network
        /// of clients gets a quarter of what is still free for pull requests.
        purgatory_max_bytes_per_identifier: MemoryBytes = "32 MiB";
    }

    "Timeouts" in timeouts: Timeouts {
        /// How long work under way may go on after SIGTERM before it is cut.
        drain_deadline: Duration = "5s", live;
        /// How long a client may send or take nothing in the middle of a push, fetch or answer.
        stall_timeout: Duration = "60s";
        /// How long a client may take to send a push in all, and to read the answer to a request from
        /// its head on.
        transfer_deadline: Duration = "2h";
        /// How long a connection may rest between requests.
        idle_timeout: Duration = "60s", live;
        /// How long a client may take to send its headers.
        header_timeout: Duration = "10s", live;
        /// How long an event waits for its git data; GRASP-01 says 30 minutes.
        purgatory_lifetime: Duration = "30m";
        /// How long a pushed `refs/nostr/…` waits for its event; GRASP-01 says 20 minutes.
        orphan_ref_lifetime: Duration = "20m";
        /// How often what has waited too long is looked for.
        purgatory_sweep_interval: Duration = "60s";
    }

    "Logs and metrics" in logs: Logs {
        /// How much is logged: `error`, `warn`, `info`, `debug`, `trace`, or directives such as
        /// `info,grip_git=debug`.
        log_level: LogFilter = "info", ngit, live, common;
        /// Log lines for people (`text`) or for programs (`json`).
        log_format: LogFormat = "text";
        /// Serve `/metrics`.
        metrics_enabled: bool = "true", ngit, live;
    } meaningless {
        /// How many repositories have bandwidth series of their own.
        metrics_top_n_repos: Any = "10", because
            "no series carries the name of a repository, because strangers choose those", ngit;
        /// Connections from one address from which the metrics count it as suspicious.
        metrics_connection_per_ip_abuse_threshold: Any = "10", because
            "connections of one network are bounded by max_connections_per_ip, and refusals are counted", ngit;
        /// Identifiers to which the integrity pass at start is limited.
        startup_integrity_identifiers: List, because
            "the pass at start finishes what a crash cut off, so it looks at every identifier", ngit;
    }

    "Archive" in archive: Archiving {
        /// Mirror every repository whose announcement is met, whether it lists this node or not
        /// (GRASP-05).
        archive_all: bool = "false", ngit, live;
        /// Repositories to mirror though they do not list this node: `npub`, `npub/identifier` or
        /// `identifier`. A wrong entry is left out with a warning.
        archive_whitelist: Archived, ngit, live,
            example("npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d");
        /// Mirror all repositories that their owners have on these servers.
        archive_grasp_services: Vec<Service>, ngit, live;
        /// Take nothing but what the archive settings name, and no pushes.
        archive_read_only: Option<bool>, derived("true where an archive setting is on"), ngit, live,
            example("true");
        /// How long the tips are kept that branches and tags of a mirrored repository had before
        /// they were moved or deleted.
        archive_tip_lifetime: Option<Duration>, derived("for ever"), live, example("365days");
        /// Most such tips of one repository. Beyond it those go first that stood for the shortest
        /// time.
        archive_max_tips: Positive = "10000", live;
    }

    "Pull requests of contributors" in contributors: Contributors {
        /// Host pull requests below `/prs/` for repositories that need not be here (GRASP-06).
        grasp06_enable: bool = "false", ngit;
        /// Bytes below `/prs/` that came from one network of clients.
        prs_max_bytes_per_address: Bytes = "256 MiB";
        /// Pull requests below `/prs/` that came from one network of clients.
        prs_max_refs_per_address: Count<u64, 1> = "64";
        /// Bytes below `/prs/` of one contributor. Anybody may push there before the event is missed: one
        /// network of clients has a quarter of what is free, and so it has of the three below.
        prs_max_bytes_per_key: Bytes = "1280 MiB";
        /// Pull requests below `/prs/` of one contributor.
        prs_max_refs_per_key: Count<u64, 1> = "320";
        /// Bytes below `/prs/` of all contributors to repositories of one name.
        prs_max_bytes_per_target: Bytes = "4 GiB";
        /// Pull requests below `/prs/` of all contributors to repositories of one name.
        prs_max_refs_per_target: Count<u64, 1> = "2048";
    }

    "Sync with other servers" in sync: Sync {
        /// Follow repositories on the other relays that their announcements name, and fetch git
        /// data that events wait for from the servers that announcements and pull requests name.
        sync_enabled: bool = "true", common;
        /// Requests in flight to one host.
        sync_domain_concurrent: Small = "5", ngit;
        /// Requests to one host in any minute, redirects included.
        sync_domain_rate_limit: Small = "30", ngit;
        /// Limits for single hosts in place of the two above: `host=concurrent/per-minute`, such as
        /// `github.com=10/60`.
        sync_host_limits: Vec<HostLimit>, example("github.com=10/60");
        /// Requests in flight to one network of addresses, under all names that lead there. Half of it
        /// is for hosts that have answered well before.
        sync_network_concurrent: Small = "20";
        /// The same for requests in any minute.
        sync_network_rate_limit: Small = "120";
        /// How long the data of a submitted event is awaited before it is looked for elsewhere: its
        /// author is about to push.
        sync_default_delay_secs: Count<u64, 0, 86_400_000> = "180", ngit;
        /// The same for an event that came from another relay.
        sync_immediate_delay_ms: Count<u64, 0, 86_400_000> = "500", ngit;
        /// Longest sleep near a due attempt, should the clock be set; no attempt waits for it.
        sync_loop_interval_ms: Count<u64, 1, 60_000> = "1000", ngit;
        /// Most repositories whose data is fetched at once, over all hosts, slow ones included; at
        /// least 2. Where slow hosts take more than half, one of the author with most of them is given
        /// up.
        sync_max_tasks: Positive = "64";
        /// Largest pack that is fetched.
        sync_max_pack_bytes: Bytes = "2 GiB";
        /// Nothing is fetched while less than this is free on the disk of the git directory.
        sync_min_free_bytes: Bytes = "256 MiB";
        /// Bytes that the events of one author may make the node download in an hour. What begins while
        /// any are left is fetched to its end.
        sync_author_bytes_per_hour: Bytes = "4 GiB";
        /// The same for all; a quarter of it is for authors who maintain something served here.
        sync_bytes_per_hour: Bytes = "64 GiB";
        /// The least that a host may send on average, once it was waited for two minutes.
        sync_min_bytes_per_second: Bytes = "8 KiB";
        /// How long a host may take to accept a connection.
        sync_connect_timeout: Duration = "10s";
        /// How long a host may send nothing, before its answer and in the middle of it.
        sync_idle_timeout: Duration = "30s";
        /// How long one fetch may take in all.
        sync_total_timeout: Duration = "15m";
        /// Kinds of clone URLs that are fetched from: `https` alone, or `http` as well.
        sync_schemes: Schemes = "https,http";
        /// Let sync reach private, loopback and other addresses that are not public. Anybody can
        /// announce a clone URL, so this lets strangers make the node ask hosts of your network.
        sync_allow_non_global_targets: bool = "false", ngit;
        /// Most states and pull requests whose data is still looked for after they expired; the
        /// oldest leaves for a new one.
        wanted_max: Any = "10000";
        /// How long their data is looked for.
        wanted_lifetime: Duration = "30days";
        /// Longest pause between two tries; GRASP-02 says an hour.
        wanted_interval: Duration = "1h";
        /// Redis through which several instances keep the limits of each host together, such as
        /// `redis://127.0.0.1/` or `rediss://user:password@host/`. Without one each instance counts
        /// for itself.
        redis_url: Option<RedisUrl>, example("redis://127.0.0.1/");
        /// Share of each host's limits that this instance uses while Redis cannot be reached. With n
        /// instances, 100/n keeps their sum within the limits.
        redis_fallback_percent: Percent = "25";
        /// Relays to learn announcements from, beside those that announcements name.
        sync_bootstrap_relay_url: Vec<RelayUrl>, ngit, example("wss://relay.example.com");
        /// First pause after a relay failed; it doubles.
        sync_base_backoff_secs: Count<u64, 1, 86_400> = "5", ngit;
        /// Longest pause after a relay failed.
        sync_max_backoff_secs: Count<u64, 1, 86_400> = "3600", ngit;
        /// How often the relays to follow are looked over though nothing is known to have changed.
        sync_disconnect_check_interval_secs: Count<u64, 1, 86_400> = "60", ngit;
        /// Read history by REQ, not by NIP-77.
        sync_disable_negentropy: bool = "false", ngit;
        /// Answers to issues, patches and pull requests, per issue, whose own answers are followed.
        sync_recursive_descendant_limit: Positive = "500", ngit;
        /// Relays that are followed at once: those of the most owners.
        sync_max_relays: Positive = "256";
        /// How long a refused event is remembered, so as not to fetch it again.
        rejected_cold_index_expiry_secs: Count<u64, 1> = "604800", ngit;
        /// How long a refused announcement or state of another relay is kept whole, to be judged
        /// again when its repository or its maintainers change.
        rejected_hot_cache_duration_secs: Count<u64, 1, 86_400> = "120", ngit;
        /// How long an address that is no relay is left alone.
        naughty_list_expiration_hours: Count<u64, 1, 8_760> = "12", ngit;
        /// Also follow the relays of those who take part in something served here, by their own
        /// lists, and keep their profiles (GRASP-03).
        sync_plus_enabled: bool = "false", ngit;
        /// Relays at which the relay lists of participants are looked up, where that is on.
        user_index_relays: Vec<RelayUrl> =
            "wss://purplepag.es,wss://index.hzrd149.com,wss://indexer.coracle.social", ngit;
        /// Relays of participants who have no list.
        sync_plus_fallback_relays: Vec<RelayUrl> =
            "wss://relay.ditto.pub,wss://relay.damus.io,wss://nos.lol,wss://relay.primal.net", ngit;
    }

    "Index of Go modules" in index: Index {
        /// Keep an index of the Go modules whose versions are tagged here and on GitHub hosts, and
        /// serve it at `/index`.
        index_enabled: bool = "true", common;
        /// Whose repositories on GitHub hosts are indexed: `github.com/orgs/acme`,
        /// `github.com/users/bob`, or `ghe.example.com` for all of a GitHub Enterprise.
        index_github: Vec<IndexedOwner>, example("github.com/orgs/acme,ghe.example.com");
        /// Which repositories of these are indexed that not everybody may see: `none`, `internal` for
        /// those that all members of an enterprise see, or `all`. They are shown to the operator, to
        /// members of a private service, and to readers with an `index_reader_token`.
        index_github_private: PrivateRepos = "none";
        /// Which repositories of these are indexed: `all`, those mostly in Go by `language`, or those
        /// with a `go.mod` at the root of their default branch (`go.mod`; needs a token, without one
        /// the language decides).
        index_github_filter: GoFilter = "all";
        /// Secrets that open the restricted repositories of the index to readers who send one as
        /// `Authorization: Bearer` or as the password of `Basic`. Prefer `index_reader_token_file` or a
        /// systemd credential.
        index_reader_token: Secrets,
            derived("the systemd credential `index_reader_token`, where there is one");
        /// File that holds such secrets, one a line.
        index_reader_token_file: Option<PathBuf>, example("/etc/gripfast/index-readers");
        /// What becomes of the repositories of a source that left `index_github` on every instance for
        /// three `re_indexing_period`s, at once where the database is SQLite: `keep`, `hide` until it
        /// comes back, or `remove`.
        index_left_sources: LeftSources = "keep";
        /// Tokens for the API of GitHub hosts; without one github.com answers 60 calls an hour. A
        /// token is for github.com, or for the host in front of it: `ghe.example.com=token`. Prefer
        /// `github_token_file` or a systemd credential.
        github_token: Vec<HostToken>,
            derived("the systemd credential `github_token`, where there is one");
        /// File that holds such tokens, separated by commas or line ends.
        github_token_file: Option<PathBuf>, example("/etc/gripfast/github.token");
        /// Whose repositories here may claim a module path that is not their place, and all paths
        /// below it: `go.example.com/tools=npub1…`.
        index_modules: Vec<Claim>,
            example("go.example.com/tools=npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d");
        /// How often the list of repositories and the tags of each are read again from other hosts.
        re_indexing_period: Duration = "1d";
        /// How long one piece of indexing is reserved for the instance that took it; another takes
        /// it over when that one is gone for so long.
        indexing_ttl: Duration = "5m";
        /// Pieces of indexing that are taken from the queue at a time, never more than there are
        /// workers free for them. 1 shares them most evenly among instances.
        number_of_items_to_take: Count<usize, 1, 1000> = "4";
        /// Repositories that are indexed at once.
        index_workers: Count<usize, 1, 256> = "4";
        /// Serve the indexed modules of this node to the go command at `/go`, as GOPROXY.
        go_proxy: bool = "true";
        /// Most bytes of files in a module that is served; the go command takes no more than 500
        /// MiB.
        go_proxy_max_zip_bytes: Bytes = "500 MiB";
        /// Most module zips that are made at once; sixteen times as many wait for their turn.
        go_proxy_max_zips: Positive = "4";
        /// Serve the indexed modules of GitHub hosts at `/go` too, each version fetched from there when
        /// it is asked for first. Those of restricted repositories are for their readers alone.
        go_proxy_github: bool = "true";
        /// Most bytes of fetched modules that are kept. What only one client asked for goes first.
        go_proxy_cache_bytes: Bytes = "2 GiB";
        /// Most bytes that one client address may have fetched from other hosts in an hour.
        go_proxy_fetch_bytes_per_hour: Bytes = "256 MiB";
        /// Another checksum database, as in `GOSUMDB`, that fetched modules have to agree with as far
        /// as it knows them. It is told their paths, but never those of restricted repositories.
        go_proxy_sumdb: Option<SumDbKey>, example("sum.golang.org");
        /// Module paths that it is not asked about, as in `GONOSUMDB`.
        go_proxy_nosumdb: Vec<PathPattern>, example("*.corp.example.com,github.com/acme");
        /// Log the checksums of all module versions that are served, for the go command to check
        /// (`GOSUMDB`). A version then stays what it was, wherever its tag is moved.
        sumdb: bool = "true";
        /// Name of the checksum database, which clients know it by. Once its first version is logged
        /// the name stays. Instances that share a database share one, and need the same `sumdb.key`.
        sumdb_name: Option<NodeName>, derived("the host name of the node"),
            example("sum.example.com");
    }

    "Watching GitHub" in watch: Watch {
        /// Lists of events that are read again and again for pushes: `github.com/orgs/acme`,
        /// `github.com/users/bob`, `github.com/repos/acme/tides`, or `github.com/events` for all
        /// that is public. All of one host. A host alone reads no list: its webhooks tell of
        /// pushes.
        watch_github: WatchedLists, common,
            example("github.com/orgs/acme,github.com/repos/bob/tides");
        /// Secret of the webhooks that GitHub delivers to `/webhooks/github`; without one they are
        /// not taken. Several while one takes the place of another. Prefer
        /// `github_webhook_secret_file` or a systemd credential.
        github_webhook_secret: Secrets,
            derived("the systemd credential `github_webhook_secret`, where there is one");
        /// File that holds such secrets, one a line.
        github_webhook_secret_file: Option<PathBuf>, example("/etc/gripfast/webhook.secret");
        /// How often each list is read; less often where the host asks for that.
        watch_poll_interval: Duration = "60s";
        /// Ask for the person and the repository behind each push.
        watch_enrich: bool = "true";
        /// How long what is known of them counts as fresh; afterwards the next push asks again.
        watch_fresh_for: Duration = "1d";
        /// Share of the calls that the host allows which is left to new events: nothing is
        /// refreshed from it.
        watch_refresh_reserve_percent: Percent = "25";
        /// How long pushes are kept, counted from when they came; for ever where this is not set.
        watch_keep_events: Option<Duration>, example("90days");
        /// How long people and repositories are kept that no kept push names; for ever where this
        /// is not set.
        watch_keep_enriched: Option<Duration>, example("90days");
        /// How long events are kept that could not be read.
        watch_keep_rejected: Duration = "30days";
        /// How long holes in the events are remembered after they were filled.
        watch_keep_closed_gaps: Duration = "365days";
        /// How long holes are remembered that nobody has filled.
        watch_keep_open_gaps: Duration = "1825days";
        /// Keep the pictures of people who push.
        watch_avatars: bool = "true";
        /// Where they are kept: a directory, or `s3://bucket/prefix`, whose keys, region and
        /// endpoint come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
        /// `AWS_REGION`, `AWS_ENDPOINT_URL`).
        watch_avatars_store: Option<String>, derived("`avatars` in the data directory"),
            example("./data/avatars");
    }

    "Finding and being found" in discovery: Discovery {
        /// Take part in the network by which nodes find each other's repositories: what is served
        /// here is found by others, and what they serve is found here.
        dht_enabled: bool = "false", common;
        /// Where other nodes reach this one.
        dht_listen: Multiaddrs = "/ip4/0.0.0.0/tcp/7335";
        /// Addresses to tell other nodes beside those that are listened on; needed behind a NAT. A
        /// name (`/dns4/…`) is looked up every five minutes: other nodes are told its addresses.
        dht_external: Multiaddrs, example("/dns4/grasp.example.com/tcp/7335");
        /// Nodes to begin with, each with its name at the end (`…/p2p/12D3KooW…`). Without any,
        /// this node waits to be found.
        dht_bootstrap: Multiaddrs,
            example("/dns4/node.example/tcp/7335/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN");
        /// Stay within private, link-local and loopback addresses.
        dht_lan_only: bool = "false";
        /// Most names and digests that are provided at once, two for a repository. Beyond it the one
        /// published longest ago makes room for the next: other nodes keep both for a day.
        dht_max_published: Count<usize, 2, 10_000_000> = "20000";
        /// Nodes asked at once when something is looked for.
        resolve_alpha: Count<usize, 1, 16> = "3", live;
        /// Nodes asked in addition once `resolve_hedge` has passed without an answer.
        resolve_beta: Count<usize, 0, 16> = "2", live;
        /// How long the first nodes have before further ones are asked.
        resolve_hedge: Duration = "150ms", live;
        /// How long an answer may take in all, waiting included.
        resolve_deadline: Duration = "1200ms", live;
        /// How long one node may take to respond; a first request to a far one takes four round trips.
        resolve_request_timeout: Duration = "1s", live;
        /// Answers looked for at once.
        resolve_workers: Count<usize, 1, 1024> = "64";
        /// Answers that wait for a worker. What comes then is refused at once (429), and so is what
        /// would wait too long for its deadline.
        resolve_queue: Count<usize, 1, 65_536> = "512";
        /// How long an answer counts as fresh.
        resolve_hit_ttl: Duration = "10s", live;
        /// How long it is remembered that nobody has something.
        resolve_negative_ttl: Duration = "2s", live;
        /// How long an answer that is no longer fresh is given at once while it is looked for again.
        resolve_stale_for: Duration = "60s", live;
        /// How far back the failures of a node count.
        resolve_breaker_window: Duration = "30s";
        /// A node is left alone when more than this part of the requests to it failed, in percent.
        resolve_breaker_threshold: Percent = "50";
        /// How long a node is left alone.
        resolve_breaker_cooldown: Duration = "15s";
        /// Requests that must succeed before a node counts as well again.
        resolve_breaker_probes: Count<u32, 1, 64> = "2";
        /// Memory for answers.
        resolve_cache_bytes: Bytes = "64 MiB";
        /// A word for where this node is, such as `eu`: providers with the same word are named
        /// first.
        resolve_region: Option<String>, live, example("eu");
        /// Hosts that are never named as providers, with all below them.
        resolve_deny: Vec<Domain>, live, example("mirror.example.net");
    }
}
