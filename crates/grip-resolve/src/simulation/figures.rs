//! Figures of the lookups of a simulation.

use std::time::Duration;

use super::view::Traffic;
use crate::{Manifest, ResolveError, lookup::Found};

#[derive(Default)]
pub(super) struct Figures {
    /// Times of those that found the newest manifest.
    took: Vec<Duration>,
    hops: Vec<u32>,
    /// Found a manifest before the newest.
    pub outdated: u64,
    /// Found what nobody signed.
    pub wrong: u64,
    pub late: u64,
    pub failed: u64,
    pub requests: u64,
    pub bytes: u64,
}

impl Figures {
    pub const HEAD: &'static str = "| conditions | newest found | outdated | late | not found | p50 | p99 | hops, mean and most | requests | kB |\n|---|---|---|---|---|---|---|---|---|---|";

    pub fn note(
        &mut self,
        found: Result<&Found, &ResolveError>,
        newest: &Manifest,
        took: Duration,
        traffic: Traffic,
    ) {
        self.requests += traffic.requests;
        self.bytes += traffic.bytes;
        match found {
            Ok(found) if found.manifest == *newest => {
                self.took.push(took);
                self.hops.push(found.hops);
            }
            Ok(found) if found.manifest.name() == newest.name() => self.outdated += 1,
            Ok(_) => self.wrong += 1,
            Err(ResolveError::Timeout) => self.late += 1,
            Err(_) => self.failed += 1,
        }
    }

    pub fn all(&self) -> u64 {
        self.took.len() as u64 + self.outdated + self.wrong + self.late + self.failed
    }

    /// Of a hundred, how many found the newest manifest.
    pub fn percent(&self) -> f64 {
        self.took.len() as f64 * 100.0 / self.all() as f64
    }

    pub fn requests_per_lookup(&self) -> f64 {
        self.requests as f64 / self.all() as f64
    }

    pub fn bytes_per_lookup(&self) -> f64 {
        self.bytes as f64 / self.all() as f64
    }

    pub fn row(&mut self, name: &str) -> String {
        self.took.sort_unstable();
        let all = self.all() as f64;
        let share = |n: u64| n as f64 * 100.0 / all;
        let at = |percent: usize| {
            let last = self.took.len().saturating_sub(1);
            let took = self.took.get(last * percent / 100);
            took.map_or(0, |took| took.as_millis())
        };
        let hops: u32 = self.hops.iter().sum();
        format!(
            "| {name} | {:.2} % | {:.2} % | {:.2} % | {:.2} % | {} ms | {} ms | {:.2}, {} | {:.1} | {:.1} |",
            self.percent(),
            share(self.outdated + self.wrong),
            share(self.late),
            share(self.failed),
            at(50),
            at(99),
            f64::from(hops) / self.hops.len().max(1) as f64,
            self.hops.iter().max().copied().unwrap_or_default(),
            self.requests_per_lookup(),
            self.bytes_per_lookup() / 1e3,
        )
    }
}
