//! What an option is.

use url::Url;

/// One setting of the node, with all that its users and documents need to know of it.
#[derive(Debug)]
pub(crate) struct Opt {
    /// Its name in `gripfast.toml`; flag and environment names follow from it.
    pub(crate) key: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: Default,
    pub(crate) group: Group,
    /// One sentence; the first is what `-h` shows.
    pub(crate) help: &'static str,
    pub(crate) reload: Reload,
    pub(crate) status: Status,
    /// Whether ngit-grasp has it, so that `NGIT_…` is read too.
    pub(crate) ngit: bool,
    /// A name in the environment that other programs use for the same thing.
    pub(crate) also: Option<&'static str>,
    /// Whether the short help shows it.
    pub(crate) common: bool,
}

/// The shape of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// `host[:port]`, optionally with a scheme.
    Domain,
    /// `IP:PORT`.
    Address,
    Path,
    /// A private key; never shown.
    Secret,
    Npub,
    Bool,
    Count {
        min: u64,
        max: u64,
    },
    Bytes,
    Duration,
    /// Values separated by commas.
    List,
    /// `npub`, `npub/identifier` or `identifier`, separated by commas.
    Repositories,
    /// Public keys separated by commas.
    Npubs,
    /// Networks separated by commas.
    Networks,
    /// Hosts or services, as for `Domain`, separated by commas.
    Domains,
    /// `host=concurrent/per-minute`, separated by commas.
    HostLimits,
    /// URL schemes separated by commas.
    Schemes,
    /// `redis://…` or `rediss://…`; its password is never shown.
    RedisUrl,
    /// `postgres://…` or `sqlite:PATH`; its password is never shown.
    DatabaseUrl,
    /// A word that is safe in file names and database rows.
    Name,
    /// Places of GitHub hosts, separated by commas.
    GithubPlaces,
    /// Lists of events of a GitHub host, separated by commas.
    GithubEvents,
    /// `token` or `host=token`, separated by commas; never shown.
    Tokens,
    /// Passwords separated by commas; never shown.
    Secrets,
    /// `module-prefix=npub`, separated by commas.
    ModuleOwners,
    /// Addresses such as `/ip4/0.0.0.0/tcp/7335`, separated by commas.
    Multiaddrs,
    /// A level or filter directives.
    LogFilter,
    Choice(&'static [&'static str]),
}

impl Kind {
    /// Says whether a TOML value of this type can be one of ours.
    pub(crate) fn takes(self, toml_type: &str) -> bool {
        match toml_type {
            "string" => true,
            "boolean" => self == Self::Bool,
            "integer" => matches!(self, Self::Count { .. } | Self::Bytes),
            "array" => self.is_list(),
            _ => false,
        }
    }

    /// Says whether the value is a list: separated by commas, or an array in the file.
    pub(crate) fn is_list(self) -> bool {
        matches!(
            self,
            Self::List
                | Self::Repositories
                | Self::Npubs
                | Self::Networks
                | Self::Domains
                | Self::HostLimits
                | Self::Schemes
                | Self::GithubPlaces
                | Self::GithubEvents
                | Self::Tokens
                | Self::Secrets
                | Self::ModuleOwners
                | Self::Multiaddrs
        )
    }

    /// What stands for the value in help texts.
    pub(crate) fn placeholder(self) -> &'static str {
        match self {
            Self::Text => "TEXT",
            Self::Domain => "HOST",
            Self::Address => "IP:PORT",
            Self::Path => "PATH",
            Self::Secret => "NSEC",
            Self::Npub => "NPUB",
            Self::Bool => "BOOL",
            Self::Count { .. } => "NUMBER",
            Self::Bytes => "SIZE",
            Self::Duration => "DURATION",
            Self::List | Self::Repositories | Self::Npubs | Self::Schemes => "LIST",
            Self::Domains => "HOSTS",
            Self::HostLimits => "HOST=N/M",
            Self::RedisUrl | Self::DatabaseUrl => "URL",
            Self::Name => "NAME",
            Self::GithubPlaces | Self::GithubEvents => "PLACES",
            Self::Tokens => "TOKENS",
            Self::Secrets => "SECRETS",
            Self::ModuleOwners => "PREFIX=NPUB",
            Self::Multiaddrs => "ADDRESSES",
            Self::LogFilter => "LEVEL",
            Self::Networks => "CIDRS",
            Self::Choice(_) => "CHOICE",
        }
    }

    /// How the reference names the type.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Text => "text".into(),
            Self::Domain => "host name, with port if it is not the usual one".into(),
            Self::Address => "IP:PORT".into(),
            Self::Path => "path".into(),
            Self::Secret => "private key (nsec or hex)".into(),
            Self::Npub => "npub or hex public key".into(),
            Self::Bool => "true or false".into(),
            Self::Count { min, max: u64::MAX } => format!("number, at least {min}"),
            Self::Count { min, max } => format!("number from {min} to {max}"),
            Self::Bytes => "size, such as `500 MB` or `2 GiB`".into(),
            Self::Duration => "duration, such as `500ms` or `5s`".into(),
            Self::List => "comma-separated list (an array in the file)".into(),
            Self::Repositories => {
                "comma-separated `npub`, `npub/identifier` or `identifier` (an array in the file)"
                    .into()
            }
            Self::Npubs => "comma-separated npubs (an array in the file)".into(),
            Self::Domains => {
                "comma-separated host names, with ports if they are not the usual ones (an array \
                 in the file)"
                    .into()
            }
            Self::HostLimits => {
                "comma-separated `host=concurrent/per-minute` (an array in the file)".into()
            }
            Self::Schemes => "`https`, `http` or both (an array in the file)".into(),
            Self::RedisUrl => "URL of a Redis server".into(),
            Self::DatabaseUrl => "`postgres://…` or `sqlite:PATH`".into(),
            Self::Name => "letters, digits, `-`, `_` and `.`".into(),
            Self::GithubPlaces => "comma-separated `host/orgs/name`, `host/users/name` or `host` \
                                   (an array in the file)"
                .into(),
            Self::GithubEvents => "comma-separated `host/events`, `host/orgs/name`, \
                                   `host/users/name`, `host/repos/owner/name` or `host` (an array \
                                   in the file)"
                .into(),
            Self::Secrets => "comma-separated secrets (an array in the file)".into(),
            Self::Tokens => "comma-separated `token` or `host=token` (an array in the file)".into(),
            Self::ModuleOwners => "comma-separated `prefix=npub` (an array in the file)".into(),
            Self::Multiaddrs => "comma-separated addresses, such as `/ip4/0.0.0.0/tcp/7335` or \
                                 `/dns4/a.example/tcp/7335/p2p/12D3KooW…` (an array in the file)"
                .into(),
            Self::LogFilter => "level or filter directives".into(),
            Self::Networks => "comma-separated networks, such as `10.0.0.0/8`".into(),
            Self::Choice(values) => values
                .iter()
                .map(|v| format!("`{v}`"))
                .collect::<Vec<_>>()
                .join(" or "),
        }
    }
}

/// What holds when nobody says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Default {
    Value(&'static str),
    /// Follows from other settings; the text says how.
    Derived(&'static str),
    Unset,
}

/// Whether SIGHUP is enough for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    Live,
    Restart,
}

/// Whether the option does something in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Active,
    /// Known and checked, but what it governs is not part of this version.
    NoEffectYet,
}

/// The sections of help, reference and example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Reach,
    Storage,
    About,
    Acceptance,
    Limits,
    Timeouts,
    Logs,
    Archive,
    Sync,
    Index,
    Watch,
    Resolve,
}

impl Group {
    pub(crate) const ALL: [Self; 12] = [
        Self::Reach,
        Self::Storage,
        Self::About,
        Self::Acceptance,
        Self::Limits,
        Self::Timeouts,
        Self::Logs,
        Self::Archive,
        Self::Sync,
        Self::Index,
        Self::Watch,
        Self::Resolve,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Reach => "Where it is reached",
            Self::Storage => "Where it keeps things",
            Self::About => "What it says of itself",
            Self::Acceptance => "What it accepts",
            Self::Limits => "Limits",
            Self::Timeouts => "Timeouts",
            Self::Logs => "Logs and metrics",
            Self::Archive => "Archive and pull request hosting",
            Self::Sync => "Sync with other servers",
            Self::Index => "Index of Go modules",
            Self::Watch => "Watching GitHub",
            Self::Resolve => "Finding and being found",
        }
    }
}

impl Opt {
    /// An active option of our own that needs a restart; the methods below say otherwise.
    pub(crate) const fn new(
        key: &'static str,
        kind: Kind,
        default: Default,
        group: Group,
        help: &'static str,
    ) -> Self {
        Self {
            key,
            kind,
            default,
            group,
            help,
            reload: Reload::Restart,
            status: Status::Active,
            ngit: false,
            also: None,
            common: false,
        }
    }

    pub(crate) const fn also(mut self, name: &'static str) -> Self {
        self.also = Some(name);
        self
    }

    pub(crate) const fn ngit(mut self) -> Self {
        self.ngit = true;
        self
    }

    pub(crate) const fn live(mut self) -> Self {
        self.reload = Reload::Live;
        self
    }

    pub(crate) const fn common(mut self) -> Self {
        self.common = true;
        self
    }

    pub(crate) const fn no_effect_yet(mut self) -> Self {
        self.status = Status::NoEffectYet;
        self
    }

    /// `--bind-address`, without the dashes in front.
    pub(crate) fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// Environment names, the strongest first.
    pub(crate) fn env_names(&self) -> Vec<String> {
        let key = self.key.to_ascii_uppercase();
        let mut names = vec![format!("GRIPFAST_{key}")];
        if self.ngit {
            names.push(format!("NGIT_{key}"));
        }
        names.extend(self.also.map(str::to_owned));
        names
    }

    /// The default as plain text, where there is one.
    pub(crate) fn default_text(&self) -> Option<String> {
        match self.default {
            Default::Value(text) => Some(text.to_owned()),
            Default::Derived(how) => Some(how.replace('`', "")),
            Default::Unset => None,
        }
    }

    /// Says whether the value as such must not be shown.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(
            self.kind,
            Kind::Secret | Kind::Secrets | Kind::Tokens | Kind::RedisUrl | Kind::DatabaseUrl
        )
    }

    /// The value as it may be shown to anybody.
    pub(crate) fn shown(&self, text: &str) -> String {
        match self.kind {
            Kind::Secret | Kind::Secrets | Kind::Tokens => MASK.to_owned(),
            Kind::RedisUrl | Kind::DatabaseUrl => without_password(text),
            _ => text.to_owned(),
        }
    }
}

/// What is shown of a secret.
const MASK: &str = "••••••";

/// Host and path of a URL; user, password and parameters, any of which may be secret, are hidden.
fn without_password(text: &str) -> String {
    let Ok(url) = Url::parse(text) else {
        return MASK.to_owned();
    };
    if !url.has_host() {
        return text.to_owned();
    }
    let has_user = !url.username().is_empty() || url.password().is_some();
    let user = if has_user {
        format!("{MASK}@")
    } else {
        String::new()
    };
    let port = url.port().map(|p| format!(":{p}")).unwrap_or_default();
    let query = url.query().map(|_| format!("?{MASK}")).unwrap_or_default();
    let host = url.host_str().unwrap_or_default();
    format!("{}://{user}{host}{port}{}{query}", url.scheme(), url.path())
}
