//! The memory of the search beside its work; all of it bounded, none of it durable.

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use grip_purgatory::UrlAttempt;
use grip_types::{ByteLru, Domain, Identifier};
use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use url::Url;

use crate::{
    found_providers::FoundProviders,
    paused_attempts::{PausedAttempts, Requested},
    recent_attempts::RecentAttempts,
    url_pauses::UrlPauses,
    weights::of_pair,
};

/// How long a URL that must not be asked stays so.
const FORBIDDEN_FOR: Duration = Duration::from_secs(3600);
/// Bytes; at the bound the longest unused is forgotten, and judged again.
const MAX_FORBIDDEN: usize = 8 << 20;
/// How often an attempt notes that the budget is used up, and bytes of what is remembered for that.
const SPENT_EVERY: Duration = Duration::from_secs(600);
const MAX_SPENT: usize = 4 << 20;
/// A host is warned about once in this time.
const WARN_EVERY: Duration = Duration::from_secs(60);
const MAX_WARNED: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// Times in a row that a URL may ask to be asked again. An honest host needs two.
const MAX_RESUMES: u32 = 3;
/// Bytes of what is remembered for that.
const MAX_RESUMING: usize = 8 << 20;
/// Identifiers of which is known when they are due again. With one that is forgotten nobody can
/// tell that an operator brought it forward.
const MAX_DUE: NonZeroUsize = NonZeroUsize::new(30_000).unwrap();
/// What comes so much too early was brought forward.
const EARLY: Duration = Duration::from_secs(1);

pub(crate) struct SearchMemory {
    pub(crate) counters: Counters,
    tries: Mutex<RecentAttempts>,
    forbidden: Mutex<ByteLru<(Identifier, Url), Instant>>,
    warned: Mutex<LruCache<Option<Domain>, Warned>>,
    resumes: Mutex<ByteLru<(Identifier, Url), u32>>,
    /// When it was noted last that nothing is downloaded for an event.
    spent: Mutex<ByteLru<(Identifier, Url), Instant>>,
    paused: Mutex<PausedAttempts>,
    providers: Mutex<FoundProviders>,
    pauses: Mutex<UrlPauses>,
    due: Mutex<LruCache<Identifier, Instant>>,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) running: AtomicUsize,
    pub(crate) attempts: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) oids_fetched: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) further: AtomicU64,
}

#[derive(Clone, Copy)]
struct Warned {
    at: Instant,
    /// Faults since then that were not warned about.
    suppressed: u64,
}

impl Default for SearchMemory {
    fn default() -> Self {
        Self {
            counters: Counters::default(),
            tries: Mutex::default(),
            forbidden: Mutex::new(ByteLru::new(MAX_FORBIDDEN, |pair, _| of_pair(pair))),
            warned: Mutex::new(LruCache::new(MAX_WARNED)),
            resumes: Mutex::new(ByteLru::new(MAX_RESUMING, |pair, _| of_pair(pair))),
            spent: Mutex::new(ByteLru::new(MAX_SPENT, |pair, _| of_pair(pair))),
            paused: Mutex::default(),
            providers: Mutex::default(),
            pauses: Mutex::default(),
            due: Mutex::new(LruCache::new(MAX_DUE)),
        }
    }
}

impl SearchMemory {
    pub(crate) fn note(&self, attempt: UrlAttempt) {
        self.tries.lock().add(attempt);
    }

    pub(crate) fn attempts_of(&self, identifier: &Identifier) -> Vec<UrlAttempt> {
        self.tries.lock().of(identifier)
    }

    pub(crate) fn recent(&self, limit: usize) -> Vec<UrlAttempt> {
        self.tries.lock().newest(limit)
    }

    pub(crate) fn is_forbidden(&self, identifier: &Identifier, url: &Url, now: Instant) -> bool {
        let key = (identifier.clone(), url.clone());
        let mut forbidden = self.forbidden.lock();
        forbidden.get(&key).is_some_and(|until| *until > now)
    }

    pub(crate) fn forbid(&self, identifier: &Identifier, url: &Url, now: Instant) {
        let key = (identifier.clone(), url.clone());
        self.forbidden.lock().put(key, now + FORBIDDEN_FOR);
    }

    /// Says whether it is news that nothing is downloaded for an event.
    pub(crate) fn may_note_spent(&self, identifier: &Identifier, url: &Url, now: Instant) -> bool {
        let key = (identifier.clone(), url.clone());
        let mut spent = self.spent.lock();
        let is_news = spent
            .get(&key)
            .is_none_or(|at| now.duration_since(*at) >= SPENT_EVERY);
        if is_news {
            spent.put(key, now);
        }
        is_news
    }

    /// Says whether a fault of a host, or with `None` of ours, is worth a warning, and how many
    /// were kept quiet before it.
    pub(crate) fn may_warn(&self, domain: Option<&Domain>, now: Instant) -> Option<u64> {
        let mut warned = self.warned.lock();
        let domain = domain.cloned();
        let mut suppressed = 0;
        if let Some(last) = warned.get_mut(&domain) {
            if now.duration_since(last.at) < WARN_EVERY {
                last.suppressed += 1;
                return None;
            }
            suppressed = last.suppressed;
        }
        let said = Warned {
            at: now,
            suppressed: 0,
        };
        warned.put(domain, said);
        Some(suppressed)
    }

    /// Counts the wishes of a URL to be asked again; false once there were too many in a row.
    pub(crate) fn may_resume(&self, identifier: &Identifier, url: &Url, wishes: bool) -> bool {
        let key = (identifier.clone(), url.clone());
        let mut resumes = self.resumes.lock();
        let so_far = resumes.pop(&key).unwrap_or(0);
        let may = wishes && so_far < MAX_RESUMES;
        if may {
            resumes.put(key, so_far + 1);
        }
        may
    }

    /// Whether a URL is about to be asked again because its response says how to ask better.
    pub(crate) fn is_resuming(&self, identifier: &Identifier, url: &Url) -> bool {
        let key = (identifier.clone(), url.clone());
        self.resumes.lock().contains(&key)
    }

    pub(crate) fn pauses(&self) -> MutexGuard<'_, UrlPauses> {
        self.pauses.lock()
    }

    pub(crate) fn providers(&self) -> MutexGuard<'_, FoundProviders> {
        self.providers.lock()
    }

    pub(crate) fn will_be_due(&self, identifier: &Identifier, at: Instant) {
        self.due.lock().put(identifier.clone(), at);
    }

    /// Whether an attempt begins before it is due by itself.
    pub(crate) fn is_brought_forward(&self, identifier: &Identifier, now: Instant) -> bool {
        let due = self.due.lock().pop(identifier);
        due.is_some_and(|due| now + EARLY < due)
    }

    /// Keeps what was asked in an attempt that is to go on.
    pub(crate) fn pause_attempt(&self, identifier: &Identifier, asked: Requested) {
        self.paused.lock().put(identifier, asked);
    }

    /// What was asked in the attempt that this one carries on; empty if it begins again.
    pub(crate) fn take_paused(&self, identifier: &Identifier) -> Requested {
        self.paused.lock().take(identifier).unwrap_or_default()
    }
}

/// Counts something that is under way until it is dropped.
pub(crate) struct Gauge<'a>(&'a AtomicUsize);

impl<'a> Gauge<'a> {
    pub(crate) fn up(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Gauge<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{identifier, url};

    #[test]
    fn a_host_is_warned_about_once_a_minute_and_the_rest_is_counted() {
        let memory = SearchMemory::default();
        let (now, host) = (Instant::now(), Domain::parse("a.example").unwrap());
        let at = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(memory.may_warn(Some(&host), at(0)), Some(0));
        assert_eq!(memory.may_warn(Some(&host), at(1)), None);
        assert_eq!(memory.may_warn(Some(&host), at(59)), None);
        assert_eq!(memory.may_warn(None, at(59)), Some(0));
        assert_eq!(memory.may_warn(Some(&host), at(60)), Some(2));
        assert_eq!(memory.may_warn(Some(&host), at(120)), Some(0));
    }

    #[test]
    fn a_url_cannot_ask_for_ever_to_be_asked_again() {
        let memory = SearchMemory::default();
        let (x, a) = (identifier("x"), url("https://a.example/x"));
        let row: Vec<_> = (0..5).map(|_| memory.may_resume(&x, &a, true)).collect();
        assert_eq!(row, [true, true, true, false, true]);
        assert!(!memory.may_resume(&x, &a, false));
        let row: Vec<_> = (0..4).map(|_| memory.may_resume(&x, &a, true)).collect();
        assert_eq!(row, [true, true, true, false]);
    }

    #[test]
    fn what_is_forbidden_is_so_for_an_hour() {
        let memory = SearchMemory::default();
        let (x, a, now) = (identifier("x"), url("https://a.example/x"), Instant::now());
        memory.forbid(&x, &a, now);
        assert!(memory.is_forbidden(&x, &a, now + FORBIDDEN_FOR - Duration::from_secs(1)));
        assert!(!memory.is_forbidden(&x, &a, now + FORBIDDEN_FOR));
        assert!(!memory.is_forbidden(&identifier("y"), &a, now));
    }
}
