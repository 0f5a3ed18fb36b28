//! URLs that are left alone for a while because they answered without having anything for us.

use std::{
    collections::{BTreeSet, VecDeque, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    time::Duration,
};

use grip_types::{ByteLru, Identifier, Oid};
use tokio::time::Instant;
use url::Url;

use crate::{
    options::UrlPause,
    weights::{of_pair, of_url},
};

/// Bytes; at the bound the longest unused is forgotten, and may be asked.
const MAX_PAUSES: usize = 16 << 20;
const MAX_NOTED: usize = 8 << 20;
/// Requests of one URL that are remembered; an older one counts as never made.
const MAX_ASKED: usize = 16;

/// The pauses of all URLs, whatever the identifier that asked.
pub(crate) struct UrlPauses {
    by_url: ByteLru<Url, Pause>,
    /// Up to when it was noted for an identifier that a URL is left alone.
    noted: ByteLru<(Identifier, Url), Instant>,
}

struct Pause {
    length: Duration,
    until: Instant,
    why: String,
    /// The objects it was asked for and did not have, newest last.
    asked: VecDeque<u64>,
}

impl Default for UrlPauses {
    fn default() -> Self {
        Self {
            by_url: ByteLru::new(MAX_PAUSES, |url, pause| of_url(url) + pause.weight()),
            noted: ByteLru::new(MAX_NOTED, |pair, _| of_pair(pair)),
        }
    }
}

impl Pause {
    fn weight(&self) -> usize {
        self.why.capacity() + self.asked.capacity() * size_of::<u64>()
    }
}

impl UrlPauses {
    /// Leaves a URL alone that had none of `wants`, each time for twice as long. One
    /// that was asked during its pause is not left alone for longer: else a stream of new events
    /// could keep everybody from it for ever.
    pub(crate) fn add(
        &mut self,
        url: &Url,
        wants: &BTreeSet<Oid>,
        why: String,
        rule: UrlPause,
        now: Instant,
    ) {
        let before = self.by_url.pop(url);
        let mut pause = before
            .filter(|pause| now < pause.until + rule.longest)
            .unwrap_or_else(|| Pause {
                length: Duration::ZERO,
                until: now,
                why: String::new(),
                asked: VecDeque::new(),
            });
        if pause.until <= now {
            pause.length = (pause.length * 2).clamp(rule.first, rule.longest);
            // Attempts come up to a tenth early by chance, which shall not cost them their turn.
            pause.until = now + pause.length - pause.length / 10;
            pause.why = why;
        }
        let print = print_of(wants);
        pause.asked.retain(|asked| *asked != print);
        if pause.asked.len() >= MAX_ASKED {
            pause.asked.pop_front();
        }
        pause.asked.push_back(print);
        self.by_url.put(url.clone(), pause);
    }

    pub(crate) fn end(&mut self, url: &Url) {
        self.by_url.pop(url);
    }

    /// Whether a URL is left alone.
    pub(crate) fn is_on(&mut self, url: &Url, now: Instant) -> bool {
        let pause = self.by_url.get(url);
        pause.is_some_and(|pause| pause.until > now)
    }

    /// Whether its pause began with a request for the same objects.
    pub(crate) fn is_for(&self, url: &Url, wants: &BTreeSet<Oid>) -> bool {
        let pause = self.by_url.peek(url);
        pause.is_some_and(|pause| pause.asked.contains(&print_of(wants)))
    }

    /// What to tell of a pause; once for each and each identifier.
    pub(crate) fn note(
        &mut self,
        identifier: &Identifier,
        url: &Url,
        now: Instant,
    ) -> Option<String> {
        let pause = self.by_url.peek(url)?;
        let key = (identifier.clone(), url.clone());
        if self.noted.put(key, pause.until) == Some(pause.until) {
            return None;
        }
        let left = pause.until.saturating_duration_since(now);
        let seconds = left.as_secs().max(1);
        Some(format!("left alone for {seconds} s after: {}", pause.why))
    }
}

fn print_of(wants: &BTreeSet<Oid>) -> u64 {
    let mut hasher = DefaultHasher::new();
    wants.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{oids, url};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_double_from_twenty_seconds_to_two_minutes_and_begin_anew_after_success() {
        let (mut pauses, a) = (UrlPauses::default(), url("https://a.example/x"));
        let mut now = Instant::now();
        let mut pause = |pauses: &mut UrlPauses| {
            pauses.add(&a, &oids(&[1]), String::new(), UrlPause::default(), now);
            let began = now;
            while pauses.is_on(&a, now) {
                now += SECOND;
            }
            (now - began).as_secs()
        };
        let row: Vec<_> = (0..6).map(|_| pause(&mut pauses)).collect();
        assert_eq!(row, [18, 36, 72, 108, 108, 108]);
        pauses.end(&a);
        assert_eq!(pause(&mut pauses), 18);
    }

    #[test]
    fn a_request_during_a_pause_does_not_prolong_it() {
        let (mut pauses, a) = (UrlPauses::default(), url("https://a.example/x"));
        let (rule, now) = (UrlPause::default(), Instant::now());
        for n in 0..18 {
            pauses.add(
                &a,
                &oids(&[n]),
                String::new(),
                rule,
                now + SECOND * n as u32,
            );
        }
        assert!(!pauses.is_on(&a, now + SECOND * 18));
        assert!(pauses.is_for(&a, &oids(&[17])) && !pauses.is_for(&a, &oids(&[18])));
        assert_eq!(pauses.by_url.peek(&a).unwrap().asked.len(), MAX_ASKED);
    }

    #[test]
    fn pauses_are_bounded_in_bytes() {
        let mut pauses = UrlPauses::default();
        let (rule, now) = (UrlPause::default(), Instant::now());
        let long = "x".repeat(2_000);
        let at = |n: usize| url(&format!("https://a.example/{long}/{n}"));
        for n in 0..10_000 {
            pauses.add(&at(n), &oids(&[1]), String::new(), rule, now);
        }
        assert!(!pauses.is_on(&at(0), now) && pauses.is_on(&at(9_999), now));
    }
}
