//! What the tests share.

use std::time::{Duration, SystemTime};

use grip_egress::Egress;
use grip_testkit::{
    FakeGitHub,
    github::{Limits, Setup},
};
use grip_throttle::Throttle;
use grip_types::{Domain, Oid};

use crate::{GitHub, GitHubError, Options, RepoName, Token};

pub(super) const ADDRESS: &str = "127.0.0.1";

/// A gateway and the host that it asks.
pub(super) struct Pair {
    pub host: FakeGitHub,
    pub github: GitHub,
    pub egress: Egress,
}

/// What a test wants different from the usual.
pub(super) struct With {
    pub tokens: Vec<&'static str>,
    pub options: Options,
    pub limits: Limits,
    pub base: &'static str,
    pub idle: Duration,
}

impl Default for With {
    fn default() -> Self {
        Self {
            tokens: vec!["s3cret-a"],
            options: Options::default(),
            limits: Limits::default(),
            base: "",
            idle: Duration::from_secs(60),
        }
    }
}

impl With {
    pub fn tokens(tokens: &[&'static str]) -> Self {
        Self {
            tokens: tokens.to_vec(),
            ..Self::default()
        }
    }

    pub async fn start(self) -> Pair {
        let setup = Setup {
            tokens: self.tokens.iter().map(|text| (*text).to_owned()).collect(),
            base: self.base.to_owned(),
            limits: self.limits,
        };
        let host = FakeGitHub::with(ADDRESS, setup).await.unwrap();
        let egress = egress(&host, self.idle);
        let options = Options {
            api: host.api().parse().unwrap(),
            tokens: self
                .tokens
                .iter()
                .map(|text| Token::new(text).unwrap())
                .collect(),
            ..self.options
        };
        let github = GitHub::new(options, egress.clone()).unwrap();
        Pair {
            host,
            github,
            egress,
        }
    }
}

/// A way out that the throttle hardly narrows.
pub(super) fn egress(host: &FakeGitHub, idle: Duration) -> Egress {
    let throttle = Throttle::memory(grip_throttle::Options {
        limits: grip_throttle::Limits {
            in_flight: 1_000,
            per_window: 1_000_000,
            window: Duration::from_secs(1),
        },
        ..grip_throttle::Options::default()
    });
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
    let pair = With::default().start().await;
    pair.host.add("acme/one");
    pair
}

impl Pair {
    /// Asks for a repository that is there.
    pub async fn ask(&self) -> Result<(), GitHubError> {
        self.github.repository(&repo("acme/one")).await.map(drop)
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
