//! Who else may have what an identifier lacks, found out when nobody named was left to be asked.

use std::{collections::HashMap, num::NonZeroUsize, time::Duration};

use grip_nostr::EventId;
use grip_types::Identifier;
use lru::LruCache;
use tokio::time::Instant;
use url::Url;

use crate::context::{Further, Need};

/// Most identifiers with finds; the longest unused is forgotten, and looked for anew.
const MAX_IDENTIFIERS: NonZeroUsize = NonZeroUsize::new(2_000).unwrap();
/// Most URLs of one event, and of one identifier; the later ones are left out.
const MAX_PER_EVENT: usize = 8;
const MAX_PER_IDENTIFIER: usize = 64;
/// How long finds count. Beyond it a find may be a node that is long gone.
const FRESH_FOR: Duration = Duration::from_secs(600);

/// What was found for each identifier.
pub(crate) struct Finds(LruCache<Identifier, Found>);

struct Found {
    at: Instant,
    urls: HashMap<EventId, Vec<Url>>,
}

impl Default for Finds {
    fn default() -> Self {
        Self(LruCache::new(MAX_IDENTIFIERS))
    }
}

impl Finds {
    /// Keeps what was found in place of what was known; says whether any of it is news.
    pub(crate) fn put(
        &mut self,
        identifier: &Identifier,
        needs: &[Need],
        found: Vec<Further>,
        now: Instant,
    ) -> bool {
        let before = self.0.pop(identifier);
        let mut urls: HashMap<EventId, Vec<Url>> = HashMap::new();
        let (mut room, mut is_news) = (MAX_PER_IDENTIFIER, false);
        for Further { event, urls: told } in found {
            let Some(need) = needs.iter().find(|need| need.event == event) else {
                continue;
            };
            let kept = urls.entry(event).or_default();
            for url in told {
                let has_room = room > 0 && kept.len() < MAX_PER_EVENT;
                if has_room && !need.urls.contains(&url) && !kept.contains(&url) {
                    let known = before.as_ref().and_then(|found| found.urls.get(&event));
                    is_news |= !known.is_some_and(|known| known.contains(&url));
                    kept.push(url);
                    room -= 1;
                }
            }
        }
        urls.retain(|_, urls| !urls.is_empty());
        if !urls.is_empty() {
            self.0.put(identifier.clone(), Found { at: now, urls });
        }
        is_news
    }

    /// Adds what was found to the URLs of each event, after those that it names.
    pub(crate) fn add_to(&mut self, identifier: &Identifier, needs: &mut [Need], now: Instant) {
        let Some(found) = self.0.get(identifier) else {
            return;
        };
        if now.duration_since(found.at) >= FRESH_FOR {
            self.0.pop(identifier);
            return;
        }
        for need in needs {
            let urls = found.urls.get(&need.event).into_iter().flatten();
            let urls: Vec<Url> = urls
                .filter(|url| !need.urls.contains(url))
                .cloned()
                .collect();
            need.urls.extend(urls);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{identifier, need, url};

    fn found(need: &Need, urls: &[String]) -> Further {
        Further {
            event: need.event,
            urls: urls.iter().map(|text| url(text)).collect(),
        }
    }

    fn many(n: usize) -> Vec<String> {
        (0..n).map(|n| format!("https://n{n}.example/x")).collect()
    }

    #[test]
    fn finds_come_after_what_the_event_names_and_only_for_that_event() {
        let (mut finds, x, now) = (Finds::default(), identifier("x"), Instant::now());
        let mut needs = [
            need(&[1], &["https://n0.example/x"]),
            need(&[2], &["https://b.example/x"]),
        ];
        let told = vec![
            found(&needs[0], &many(2)),
            found(&need(&[9], &[]), &many(3)),
        ];
        assert!(finds.put(&x, &needs, told, now));
        finds.add_to(&x, &mut needs, now);
        assert_eq!(
            needs[0].urls,
            [url("https://n0.example/x"), url("https://n1.example/x")]
        );
        assert_eq!(needs[1].urls, [url("https://b.example/x")]);
    }

    #[test]
    fn the_same_finds_again_are_no_news() {
        let (mut finds, x, now) = (Finds::default(), identifier("x"), Instant::now());
        let needs = [need(&[1], &[])];
        assert!(finds.put(&x, &needs, vec![found(&needs[0], &many(2))], now));
        assert!(!finds.put(&x, &needs, vec![found(&needs[0], &many(1))], now));
        assert!(finds.put(&x, &needs, vec![found(&needs[0], &many(2))], now));
    }

    #[test]
    fn finds_are_bounded_and_grow_old() {
        let (mut finds, x, now) = (Finds::default(), identifier("x"), Instant::now());
        let needs: Vec<_> = (0..20).map(|n| need(&[n], &[])).collect();
        let told = needs.iter().map(|need| found(need, &many(100))).collect();
        finds.put(&x, &needs, told, now);
        let mut filled = needs.clone();
        finds.add_to(&x, &mut filled, now);
        assert_eq!(filled[0].urls.len(), MAX_PER_EVENT);
        let all: usize = filled.iter().map(|need| need.urls.len()).sum();
        assert_eq!(all, MAX_PER_IDENTIFIER);
        let mut later = needs;
        finds.add_to(&x, &mut later, now + FRESH_FOR);
        assert!(later.iter().all(|need| need.urls.is_empty()));
    }
}
