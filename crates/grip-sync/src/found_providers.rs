//! Providers found by lookup, for identifiers of which nobody named is left to be asked.

use std::{collections::HashMap, num::NonZeroUsize, time::Duration};

use grip_nostr::EventId;
use grip_types::Identifier;
use lru::LruCache;
use tokio::time::Instant;
use url::Url;

use grip_purgatory::{Need, Providers};

/// Most identifiers with providers; the longest unused is forgotten, and looked up again.
const MAX_IDENTIFIERS: NonZeroUsize = NonZeroUsize::new(2_000).unwrap();
/// Most URLs of one event, and of one identifier. Each event has its first before any has its
/// second, states before all others, and beyond the bound chance decides whose are left out: the
/// next time it is others.
const MAX_PER_EVENT: usize = 8;
const MAX_PER_IDENTIFIER: usize = 64;
/// How long providers count. Beyond it a provider may be a node that is long gone.
const FRESH_FOR: Duration = Duration::from_secs(600);

/// What was found for each identifier.
pub(crate) struct FoundProviders(LruCache<Identifier, Found>);

/// What was found for each event, the best first.
type Found = HashMap<EventId, Vec<Provider>>;

#[derive(Clone)]
struct Provider {
    url: Url,
    at: Instant,
}

impl Provider {
    fn is_fresh(&self, now: Instant) -> bool {
        now.duration_since(self.at) < FRESH_FOR
    }
}

impl Default for FoundProviders {
    fn default() -> Self {
        Self(LruCache::new(MAX_IDENTIFIERS))
    }
}

impl FoundProviders {
    /// Keeps what was found, and after it what was known where not all were response; says whether
    /// any of it is news.
    pub(crate) fn put(
        &mut self,
        identifier: &Identifier,
        needs: &[Need],
        found: Vec<Providers>,
        now: Instant,
    ) -> bool {
        let before = self.0.pop(identifier).unwrap_or_default();
        let found_now = found.into_iter().filter_map(|further| {
            let need = needs.iter().find(|need| need.event == further.event)?;
            let known = before.get(&need.event).map_or(&[][..], Vec::as_slice);
            Some((need, merged(need, further, known, now)))
        });
        let kept = share_out(found_now.collect());
        let is_known = |event: &EventId, provider: &Provider| {
            let known = before.get(event);
            known.is_some_and(|known| known.iter().any(|known| known.url == provider.url))
        };
        let is_news = kept
            .iter()
            .any(|(event, providers)| providers.iter().any(|provider| !is_known(event, provider)));
        if !kept.is_empty() {
            self.0.put(identifier.clone(), kept);
        }
        is_news
    }

    /// Adds what was found to the URLs of each event, after those that it names.
    pub(crate) fn add_to(&mut self, identifier: &Identifier, needs: &mut [Need], now: Instant) {
        let Some(found) = self.0.get(identifier) else {
            return;
        };
        let mut is_fresh = false;
        for need in needs {
            let providers = found.get(&need.event).into_iter().flatten();
            for provider in providers.filter(|provider| provider.is_fresh(now)) {
                is_fresh = true;
                if !need.urls.contains(&provider.url) {
                    need.urls.push(provider.url.clone());
                }
            }
        }
        if !is_fresh {
            self.0.pop(identifier);
        }
    }
}

/// All that counts for one event: what was found now, then what was known if that still counts.
fn merged(need: &Need, further: Providers, known: &[Provider], now: Instant) -> Vec<Provider> {
    let found_now = further
        .urls
        .into_iter()
        .map(|url| Provider { url, at: now });
    let known = known.iter().filter(|provider| provider.is_fresh(now));
    let known = known.filter(|_| !further.is_whole).cloned();
    let mut providers: Vec<Provider> = Vec::new();
    for provider in found_now.chain(known) {
        let is_there = providers.iter().any(|other| other.url == provider.url);
        if providers.len() < MAX_PER_EVENT && !is_there && !need.urls.contains(&provider.url) {
            providers.push(provider);
        }
    }
    providers
}

/// Gives each event its part of the room.
fn share_out(mut found_now: Vec<(&Need, Vec<Provider>)>) -> Found {
    found_now.retain(|(_, providers)| !providers.is_empty());
    let first = rand::random::<u32>() as usize;
    let first = first.checked_rem(found_now.len()).unwrap_or(0);
    found_now.rotate_left(first);
    found_now.sort_by_key(|(need, _)| !need.is_state);
    let ranked = (0..MAX_PER_EVENT).flat_map(|rank| {
        let of_rank = found_now.iter();
        of_rank.filter_map(move |(need, providers)| Some((need.event, providers.get(rank)?)))
    });
    let mut kept = Found::new();
    for (event, provider) in ranked.take(MAX_PER_IDENTIFIER) {
        kept.entry(event).or_default().push(provider.clone());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{identifier, need, url};

    fn found(need: &Need, urls: &[String]) -> Providers {
        Providers {
            event: need.event,
            urls: urls.iter().map(|text| url(text)).collect(),
            is_whole: true,
        }
    }

    fn partly(need: &Need, urls: &[String]) -> Providers {
        Providers {
            is_whole: false,
            ..found(need, urls)
        }
    }

    /// How many providers each event has.
    fn counts(providers: &mut FoundProviders, needs: &[Need], now: Instant) -> Vec<usize> {
        let mut needs = needs.to_vec();
        providers.add_to(&identifier("x"), &mut needs, now);
        needs.iter().map(|need| need.urls.len()).collect()
    }

    fn many(n: usize) -> Vec<String> {
        (0..n).map(|n| format!("https://n{n}.example/x")).collect()
    }

    #[test]
    fn finds_come_after_what_the_event_names_and_only_for_that_event() {
        let (mut providers, x, now) = (FoundProviders::default(), identifier("x"), Instant::now());
        let mut needs = [
            need(&[1], &["https://n0.example/x"]),
            need(&[2], &["https://b.example/x"]),
        ];
        let told = vec![
            found(&needs[0], &many(2)),
            found(&need(&[9], &[]), &many(3)),
        ];
        assert!(providers.put(&x, &needs, told, now));
        providers.add_to(&x, &mut needs, now);
        assert_eq!(
            needs[0].urls,
            [url("https://n0.example/x"), url("https://n1.example/x")]
        );
        assert_eq!(needs[1].urls, [url("https://b.example/x")]);
    }

    #[test]
    fn the_same_finds_again_are_no_news() {
        let (mut providers, x, now) = (FoundProviders::default(), identifier("x"), Instant::now());
        let needs = [need(&[1], &[])];
        assert!(providers.put(&x, &needs, vec![found(&needs[0], &many(2))], now));
        assert!(!providers.put(&x, &needs, vec![found(&needs[0], &many(1))], now));
        assert!(providers.put(&x, &needs, vec![found(&needs[0], &many(2))], now));
    }

    #[test]
    fn finds_are_bounded_and_grow_old() {
        let (mut providers, x, now) = (FoundProviders::default(), identifier("x"), Instant::now());
        let needs: Vec<_> = (0..20).map(|n| need(&[n], &[])).collect();
        let told = needs.iter().map(|need| found(need, &many(100))).collect();
        providers.put(&x, &needs, told, now);
        let counted = counts(&mut providers, &needs, now);
        assert_eq!(counted.iter().sum::<usize>(), MAX_PER_IDENTIFIER);
        let one = &needs[..1];
        providers.put(&x, one, vec![found(&needs[0], &many(100))], now);
        assert_eq!(counts(&mut providers, one, now), [MAX_PER_EVENT]);
        assert_eq!(counts(&mut providers, one, now + FRESH_FOR), [0]);
        assert_eq!(providers.0.len(), 0);
    }

    #[test]
    fn events_with_many_finds_leave_room_to_each_other() {
        let (mut providers, x, now) = (FoundProviders::default(), identifier("x"), Instant::now());
        let needs: Vec<_> = (0..20).map(|n| need(&[n], &[])).collect();
        let told = needs.iter().map(|need| found(need, &many(100))).collect();
        providers.put(&x, &needs, told, now);
        let counted = counts(&mut providers, &needs, now);
        assert!(counted.iter().all(|n| (3..=4).contains(n)), "{counted:?}");
    }

    #[test]
    fn of_more_events_than_there_is_room_for_each_has_its_turn_and_states_always() {
        let (mut providers, x, now) = (FoundProviders::default(), identifier("x"), Instant::now());
        let mut needs: Vec<_> = (0..MAX_PER_IDENTIFIER as u64 * 2)
            .map(|n| need(&[n], &[]))
            .collect();
        needs.push(crate::testing::state(&[1_000], &[]));
        let mut served = vec![false; needs.len()];
        for _ in 0..10_000 {
            let told = needs.iter().map(|need| found(need, &many(1))).collect();
            providers.put(&x, &needs, told, now);
            let counted = counts(&mut providers, &needs, now);
            assert_eq!(counted.last(), Some(&1), "states come first");
            let got = counted.iter().map(|n| *n > 0);
            served
                .iter_mut()
                .zip(got)
                .for_each(|(all, now)| *all |= now);
            if served.iter().all(|served| *served) {
                return;
            }
        }
        panic!("somebody never had a turn");
    }

    #[test]
    fn a_look_that_failed_takes_nothing_away_and_one_that_did_not_does() {
        let (mut providers, x, now) = (FoundProviders::default(), identifier("x"), Instant::now());
        let needs = [need(&[1], &[]), need(&[2], &[])];
        let told = needs.iter().map(|need| found(need, &many(2))).collect();
        assert!(providers.put(&x, &needs, told, now));
        let later = now + FRESH_FOR / 2;
        let third = ["https://n2.example/x".to_owned()];
        let told = vec![partly(&needs[0], &third), found(&needs[1], &[])];
        assert!(providers.put(&x, &needs, told, later));
        assert_eq!(counts(&mut providers, &needs, later), [3, 0]);
        let told = vec![partly(&needs[0], &[])];
        assert!(
            !providers.put(&x, &needs, told, later),
            "nothing of it is news"
        );
        let end = now + FRESH_FOR;
        assert_eq!(
            counts(&mut providers, &needs, end),
            [1, 0],
            "each has its time"
        );
    }
}
