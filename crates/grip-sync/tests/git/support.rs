//! A place to fetch into.

use std::collections::BTreeSet;

use grip_egress::Egress;
use grip_git::Repositories;
use grip_limits::{Lane, Throttle};
use grip_sync::{Fetch, FetchError, Fetched, GitFetch, GitOptions, Job, Meter};
use grip_testkit::remote::{RemoteHost, Seen};
use grip_types::{Domain, Identifier, Oid, Service};
use tempfile::TempDir;
use url::Url;

pub struct Desk {
    pub fetch: GitFetch,
    pub repositories: Repositories,
    pub throttle: Throttle,
    pub identifier: Identifier,
    pub meter: Meter,
    dir: TempDir,
}

pub struct Settings {
    pub git: GitOptions,
    pub egress: grip_egress::Options,
}

impl Default for Settings {
    fn default() -> Self {
        let egress = grip_egress::Options {
            allow_non_global: true,
            own: vec![Service::parse("grip.example").unwrap()],
            ..grip_egress::Options::default()
        };
        let git = GitOptions::default();
        Self { git, egress }
    }
}

impl Desk {
    pub fn new() -> Self {
        Self::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Self {
        let dir = TempDir::new().unwrap();
        let options = grip_git::Options::new(dir.path().join("git"));
        let repositories = Repositories::open(options).unwrap();
        let throttle = Throttle::memory(grip_limits::Options::default());
        let egress = Egress::new(settings.egress, throttle.clone()).unwrap();
        let fetch = GitFetch::new(egress, repositories.clone(), settings.git);
        Self {
            fetch,
            repositories,
            throttle,
            identifier: Identifier::parse("project").unwrap(),
            meter: Meter::unpaid(),
            dir,
        }
    }

    /// Asks once, as an attempt does.
    pub async fn ask(&self, url: &str, wants: &[&str]) -> Result<Fetched, FetchError> {
        self.ask_with(url, wants, &[]).await
    }

    /// Asks once for all of `wants`, of which `first` are for states.
    pub async fn ask_with(
        &self,
        url: &str,
        wants: &[&str],
        first: &[&str],
    ) -> Result<Fetched, FetchError> {
        let url = Url::parse(url).unwrap();
        let domain = Domain::of(&url).unwrap();
        let (wants, first) = (oids(wants), oids(first));
        let job = Job {
            identifier: &self.identifier,
            url: &url,
            wants: &wants,
            first: &first,
            meter: &self.meter,
            disk_user: grip_git::DiskUser::Maintainer,
        };
        let permit = self.throttle.acquire(&domain, Lane::Git).await.unwrap();
        let result = self.fetch.fetch(job, permit).await;
        self.assert_nothing_is_left();
        result
    }

    /// Asks until it is not worth asking again at once.
    pub async fn ask_on(&self, url: &str, wants: &[&str]) -> Result<Fetched, FetchError> {
        for _ in 0..5 {
            let fetched = self.ask(url, wants).await?;
            if !fetched.resume {
                return Ok(fetched);
            }
            assert!(fetched.arrived.is_empty() && !fetched.note.is_empty());
        }
        panic!("it goes on for ever");
    }

    pub fn has(&self, oid: &str) -> bool {
        let kinds = self.repositories.kinds(&self.identifier, &[parse(oid)]);
        kinds.unwrap()[0].is_some()
    }

    /// No host's slot is taken, and nothing is in quarantine.
    pub fn assert_nothing_is_left(&self) {
        let hosts = self.throttle.hosts();
        assert!(hosts.iter().all(|host| host.in_flight == 0), "{hosts:?}");
        assert_eq!(self.packs_in_quarantine(), 0);
    }

    pub fn packs_in_quarantine(&self) -> usize {
        fn files(path: &std::path::Path) -> usize {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            let count = |path: std::path::PathBuf| if path.is_dir() { files(&path) } else { 1 };
            entries.map(|entry| count(entry.path())).sum()
        }
        let root = std::fs::read_dir(self.dir.path().join("git")).unwrap();
        let quarantines = root.flatten().filter(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().contains("quarantine")
        });
        let found: Vec<_> = quarantines.map(|entry| files(&entry.path())).collect();
        assert_eq!(found.len(), 1, "the place of the quarantine has moved");
        found[0]
    }
}

pub fn parse(oid: &str) -> Oid {
    oid.parse().unwrap()
}

pub fn oids(wants: &[&str]) -> BTreeSet<Oid> {
    wants.iter().copied().map(parse).collect()
}

/// What a host was asked, request by request.
pub fn steps(host: &RemoteHost) -> Vec<String> {
    let name = |seen: &Seen| match (seen.method.as_str(), &seen.command) {
        ("GET", _) => "info/refs".to_owned(),
        (_, Some(command)) => command.clone(),
        (_, None) => "old fetch".to_owned(),
    };
    host.requests().iter().map(name).collect()
}

/// An object that nobody has.
pub const NOWHERE: &str = "00000000000000000000000000000000000000aa";
