//! Gateways and hosts shared by the tests.

use std::time::{Duration, SystemTime};

use grip_egress::Egress;
use grip_limits::{RedisOptions, Throttle};
use grip_tasks::TaskGroup;
use grip_testkit::{
    FakeGitHub, RedisServer,
    github::{Limits, Setup},
};
use grip_types::{Domain, Oid};

use crate::{GitHub, GitHubError, Options, RepoName, Token};

pub(super) const ADDRESS: &str = "127.0.0.1";

/// Where the ledger is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Backend {
    #[default]
    Memory,
    Redis,
}

/// Runs each test with the ledger in memory, and with that in Redis.
macro_rules! on_both_backends {
    ($(async fn $name:ident($on:ident: Backend) $body:block)*) => {
        $(async fn $name($on: Backend) $body)*

        mod memory {
            $(#[tokio::test] async fn $name() {
                super::$name($crate::tests::support::Backend::Memory).await;
            })*
        }

        mod redis {
            $(#[tokio::test] async fn $name() {
                super::$name($crate::tests::support::Backend::Redis).await;
            })*
        }
    };
}
pub(super) use on_both_backends;

/// A gateway and the host that it asks.
pub(super) struct Pair {
    pub host: FakeGitHub,
    pub github: GitHub,
    pub egress: Egress,
    pub redis: Option<RedisServer>,
    options: Options,
    idle: Duration,
    /// Owns the task that serves Redis.
    pub group: TaskGroup,
}

/// What a test wants different from the usual.
pub(super) struct With {
    pub on: Backend,
    pub tokens: Vec<&'static str>,
    pub options: Options,
    pub limits: Limits,
    pub base: &'static str,
    pub idle: Duration,
    /// What the throttle lets go at once: more than any test by default.
    pub in_flight: u32,
}

impl Default for With {
    fn default() -> Self {
        Self {
            on: Backend::default(),
            tokens: vec!["s3cret-a"],
            options: Options::default(),
            limits: Limits::default(),
            base: "",
            idle: Duration::from_secs(60),
            in_flight: 1_000,
        }
    }
}

impl With {
    pub fn tokens(tokens: &[&'static str]) -> Self {
        Self::tokens_on(Backend::Memory, tokens)
    }

    pub fn tokens_on(on: Backend, tokens: &[&'static str]) -> Self {
        Self {
            on,
            tokens: tokens.to_vec(),
            ..Self::default()
        }
    }

    /// With budgets of so many calls, which are whole again every second.
    pub fn short_windows(on: Backend, per_token: u32) -> Self {
        Self {
            on,
            options: Options {
                margin: Duration::ZERO,
                reserve: 0,
                ..Options::default()
            },
            limits: Limits {
                per_token,
                window: Duration::from_secs(1),
                ..Limits::default()
            },
            ..Self::default()
        }
    }

    /// Starts a host with one repository, `acme/one`.
    pub async fn start_with_repository(self) -> Pair {
        let pair = self.start().await;
        pair.host.add("acme/one");
        pair
    }

    pub async fn start(self) -> Pair {
        let setup = Setup {
            tokens: self.tokens.iter().map(|text| (*text).to_owned()).collect(),
            base: self.base.to_owned(),
            limits: self.limits,
        };
        let host = FakeGitHub::with(ADDRESS, setup).await.unwrap();
        let redis = match self.on {
            Backend::Memory => None,
            Backend::Redis => Some(RedisServer::start().await.unwrap()),
        };
        let group = TaskGroup::new("gateways");
        let throttle = throttle(redis.as_ref(), self.in_flight, &group).await;
        let egress = egress(&host, self.idle, throttle);
        let options = Options {
            api: host.api().parse().unwrap(),
            tokens: self
                .tokens
                .iter()
                .map(|text| Token::new(text).unwrap())
                .collect(),
            ..self.options
        };
        let github = GitHub::new(options.clone(), egress.clone()).unwrap();
        Pair {
            host,
            github,
            egress,
            redis,
            options,
            idle: self.idle,
            group,
        }
    }
}

/// A throttle that hardly narrows anything.
async fn throttle(redis: Option<&RedisServer>, in_flight: u32, group: &TaskGroup) -> Throttle {
    let options = grip_limits::Options {
        limits: grip_limits::Limits {
            in_flight,
            per_window: 1_000_000,
            window: Duration::from_secs(1),
        },
        ..grip_limits::Options::default()
    };
    let Some(redis) = redis else {
        return Throttle::memory(options);
    };
    let redis = RedisOptions {
        url: redis.url(),
        ..RedisOptions::default()
    };
    Throttle::redis(options, redis, group).await.unwrap()
}

fn egress(host: &FakeGitHub, idle: Duration, throttle: Throttle) -> Egress {
    let options = grip_egress::Options {
        private_hosts: vec![Domain::parse(&host.domain()).unwrap()],
        connect: idle,
        idle,
        ..grip_egress::Options::default()
    };
    Egress::new(options, throttle).unwrap()
}

/// A gateway with one token and a host with one repository, `acme/one`.
pub(super) async fn pair() -> Pair {
    With::default().start_with_repository().await
}

impl Pair {
    /// Asks for a repository that is there.
    pub async fn ask(&self) -> Result<(), GitHubError> {
        self.github.repository(&repo("acme/one")).await.map(drop)
    }

    /// A gateway of another instance, with the same settings.
    pub async fn another(&self) -> GitHub {
        let throttle = throttle(self.redis.as_ref(), 1_000, &self.group).await;
        let egress = egress(&self.host, self.idle, throttle);
        GitHub::new(self.options.clone(), egress).unwrap()
    }
}

pub(super) fn repo(name: &str) -> RepoName {
    RepoName::parse(name).unwrap()
}

pub(super) fn oid(hex: &str) -> Oid {
    hex.parse().unwrap()
}

/// Whole seconds from now, rounded up.
pub(super) fn seconds_until(until: SystemTime) -> u64 {
    let wait = until.duration_since(SystemTime::now()).unwrap_or_default();
    wait.as_millis().div_ceil(1_000) as u64
}
