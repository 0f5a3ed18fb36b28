//! Ranking of providers. Pure.
//!
//! Invariants:
//! - The order is total and depends on what is given alone: hosts with an open breaker come last;
//!   before them what the owner named comes before what nodes named, a host that has answered before
//!   one that has not, the better score first, and of equal ones the lower URL.
//! - A node has few places, however many URLs it names.

use std::{cmp::Ordering, collections::BTreeMap, time::Duration};

use grip_dht::PeerName;
use grip_types::Domain;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

/// Most places of one node. Anybody may run one, and names what it likes.
const MAX_URLS_PER_NODE: usize = 2;

/// A host that takes so long to respond is worth half of one that takes no time.
const SLOW: Duration = Duration::from_secs(1);

/// Looks up the health of a host that serves git, as far as this node knows it.
pub type HealthOf = dyn Fn(&Domain) -> HostHealth + Send + Sync;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostHealth {
    /// Its breaker is open.
    pub is_open: bool,
    pub successes: u64,
    pub failures: u64,
    /// How soon it responds on average, where it has.
    pub latency: Option<Duration>,
}

/// Weights of the ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// After how long a claim to have something is worth half. Default 24 hours.
    pub half_life: Duration,
    /// Where this node is; empty if that does not matter.
    pub region: String,
    /// How much more, in percent, a provider of the wanted region is worth. Default 50.
    pub region_bias_percent: u32,
    /// Hosts that are never named, with their subdomains.
    pub deny: Vec<Domain>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            half_life: Duration::from_secs(24 * 60 * 60),
            region: String::new(),
            region_bias_percent: 50,
            deny: Vec::new(),
        }
    }
}

/// The source of a clone URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NamedBy {
    /// The repository's owner, in the announcement.
    Owner,
    /// A provider, in its node record.
    Node(
        #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
        #[schemars(with = "String")]
        PeerName,
    ),
}

/// One clone URL, before it is scored.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub url: Url,
    pub named_by: NamedBy,
    /// How long ago it was signed.
    pub age: Duration,
    pub region: Option<String>,
    pub health: HostHealth,
}

/// One clone URL with its score.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Provider {
    pub url: Url,
    pub named_by: NamedBy,
    pub region: Option<String>,
    /// Between 0 and 1 and a bias, the higher the better; orders providers of one class.
    pub score: f64,
    /// The breaker of its host is open: last resort.
    pub is_shut: bool,
    /// The reasons for its place, in words.
    #[serde(default)]
    pub why: String,
}

/// The best `limit` of them, the best first; a URL named by several is there once, at its best.
pub fn rank(
    candidates: Vec<Candidate>,
    options: &Options,
    region: Option<&str>,
    limit: usize,
) -> Vec<Provider> {
    let wanted = region.unwrap_or(&options.region);
    let mut best: BTreeMap<Url, Scored> = BTreeMap::new();
    for candidate in candidates {
        if is_denied(&candidate.url, &options.deny) {
            continue;
        }
        let scored = score(candidate, options, wanted);
        let known = best.get(&scored.provider.url);
        if known.is_none_or(|known| scored.order(known).is_lt()) {
            best.insert(scored.provider.url.clone(), scored);
        }
    }
    let mut ranked: Vec<Scored> = best.into_values().collect();
    ranked.sort_by(Scored::order);
    let mut places: BTreeMap<PeerName, usize> = BTreeMap::new();
    ranked.retain(|scored| match &scored.provider.named_by {
        NamedBy::Owner => true,
        NamedBy::Node(peer) => {
            let taken = places.entry(peer.clone()).or_default();
            *taken += 1;
            *taken <= MAX_URLS_PER_NODE
        }
    });
    let ranked = ranked.into_iter().map(|scored| scored.provider);
    ranked.take(limit).collect()
}

struct Scored {
    provider: Provider,
    /// Its host has answered a request of ours.
    has_answered: bool,
}

impl Scored {
    /// The better one is the lesser.
    fn order(&self, other: &Self) -> Ordering {
        let class = |it: &Self| {
            let is_owner = it.provider.named_by == NamedBy::Owner;
            (it.provider.is_shut, !is_owner, !it.has_answered)
        };
        let rest = |it: &Self| {
            let provider = it.provider.clone();
            (
                provider.url,
                provider.named_by,
                provider.region,
                provider.why,
            )
        };
        class(self)
            .cmp(&class(other))
            .then_with(|| other.provider.score.total_cmp(&self.provider.score))
            .then_with(|| rest(self).cmp(&rest(other)))
    }
}

fn score(candidate: Candidate, options: &Options, wanted: &str) -> Scored {
    let is_near = !wanted.is_empty() && candidate.region.as_deref() == Some(wanted);
    let bias = f64::from(options.region_bias_percent) / 100.0;
    let near = if is_near { 1.0 + bias } else { 1.0 };
    Scored {
        has_answered: candidate.health.successes > 0,
        provider: Provider {
            score: freshness(&candidate, options.half_life)
                * health(candidate.health)
                * speed(candidate.health)
                * near,
            is_shut: candidate.health.is_open,
            why: why(&candidate, is_near),
            url: candidate.url,
            named_by: candidate.named_by,
            region: candidate.region,
        },
    }
}

/// Halves with every half-life. What the owner says ages no further than one: he has no reason to
/// say it again.
fn freshness(candidate: &Candidate, half_life: Duration) -> f64 {
    let lives = candidate.age.as_secs_f64() / half_life.as_secs_f64().max(1.0);
    let lives = match candidate.named_by {
        NamedBy::Owner => lives.min(1.0),
        NamedBy::Node(_) => lives,
    };
    (-lives).exp2()
}

/// The share of good answers, where nothing known is as good as not.
fn health(health: HostHealth) -> f64 {
    let good = health.successes as f64 + 1.0;
    good / (good + health.failures as f64 + 1.0)
}

/// Half where a response takes [`SLOW`].
fn speed(health: HostHealth) -> f64 {
    let slow = SLOW.as_secs_f64();
    let took = health.latency.unwrap_or_default().as_secs_f64();
    slow / (slow + took)
}

/// What speaks for and against a candidate, in the order in which it counts.
fn why(candidate: &Candidate, is_near: bool) -> String {
    let named = match candidate.named_by {
        NamedBy::Owner => "named by the owner".to_owned(),
        NamedBy::Node(_) => "offered by a node".to_owned(),
    };
    let HostHealth {
        is_open,
        successes,
        failures,
        latency,
    } = candidate.health;
    let health = match successes + failures {
        _ if is_open => "failed recently".to_owned(),
        0 => "not asked before".to_owned(),
        all => format!("answered {successes} of {all} requests"),
    };
    let soon = latency.filter(|_| successes > 0 && !is_open);
    let soon = soon.map(|took| format!("responds after {} ms", took.as_millis()));
    let signed = format!("signed {} ago", rounded(candidate.age));
    let near = candidate.region.iter().filter(|_| is_near);
    let mut near = near.map(|region| format!("in {region}"));
    let parts = [Some(named), Some(health), soon, Some(signed), near.next()];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

/// A time in its largest unit.
fn rounded(time: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let seconds = time.as_secs();
    let fits = UNITS.iter().find(|(unit, _)| seconds >= *unit);
    let (unit, name) = fits.unwrap_or(&(1, "s"));
    format!("{} {name}", seconds / unit)
}

fn is_denied(url: &Url, deny: &[Domain]) -> bool {
    let Some(host) = Domain::of(url) else {
        return true;
    };
    let is_below = |denied: &Domain| {
        let rest = host.as_str().strip_suffix(denied.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    deny.iter().any(is_below)
}

fn as_text<S: serde::Serializer>(peer: &PeerName, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(peer)
}

fn from_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<PeerName, D::Error> {
    let text = String::deserialize(deserializer)?;
    PeerName::parse(&text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests;
