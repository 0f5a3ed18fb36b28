//! Identifiers that wait for git data, by the remote repository that may have it. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use grip_types::Identifier;
use tokio::time::Instant;
use url::Url;

/// Most identifiers whose URLs are kept. Further ones wait for their next scheduled attempt.
const MAX_IDENTIFIERS: usize = 100_000;
/// Most URLs of one identifier.
const MAX_URLS: usize = 64;
/// Most pushes remembered for identifiers that begin to wait after them; the oldest go first.
const MAX_PUSHES: usize = 10_000;
/// How long a push is remembered. A state is signed before or soon after its push.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// A repository on another host: its URL without scheme, case, credentials and `.git`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RemoteRepository(String);

impl RemoteRepository {
    /// Ignores case, as GitHub does; on a host that does not, one needless attempt is harmless.
    pub(super) fn of(url: &Url) -> Option<Self> {
        if !["http", "https"].contains(&url.scheme()) {
            return None;
        }
        let host = url.host_str()?;
        let port = url.port().map(|port| format!(":{port}"));
        let path = url.path().trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        if path.is_empty() {
            return None;
        }
        let text = format!("{host}{}/{path}", port.unwrap_or_default());
        Some(Self(text.to_lowercase()))
    }
}

/// The waiting identifiers and their remote repositories, and the repositories pushed to recently.
#[derive(Default)]
pub(super) struct WaitingIdentifiers {
    entries: HashMap<Identifier, Entry>,
    by_remote: HashMap<RemoteRepository, BTreeSet<Identifier>>,
    pushes: HashMap<RemoteRepository, Instant>,
    by_time: BTreeSet<(Instant, RemoteRepository)>,
}

struct Entry {
    remotes: Vec<RemoteRepository>,
    /// Attempts to fetch at the time of the entry.
    attempts: u32,
}

impl WaitingIdentifiers {
    /// Removes identifiers that no longer wait. Returns those whose URLs have to be read: new ones,
    /// and those with an attempt or new data since.
    pub(super) fn compare(&mut self, queue: &[(Identifier, u32)]) -> Vec<(Identifier, u32)> {
        let now: BTreeSet<&Identifier> = queue.iter().map(|(identifier, _)| identifier).collect();
        let gone = self.entries.keys().filter(|known| !now.contains(known));
        let gone: Vec<Identifier> = gone.cloned().collect();
        for identifier in gone {
            self.remove(&identifier);
        }
        let is_other = |(identifier, attempts): &&(Identifier, u32)| {
            let known = self.entries.get(identifier);
            known.is_none_or(|known| known.attempts != *attempts)
        };
        queue.iter().filter(is_other).cloned().collect()
    }

    /// Sets the URLs of an identifier. Returns whether there was a recent push to one of them that
    /// the identifier did not name then.
    pub(super) fn set(&mut self, identifier: &Identifier, urls: &[Url], attempts: u32) -> bool {
        let before = self.remove(identifier);
        if self.entries.len() >= MAX_IDENTIFIERS {
            return false;
        }
        let remotes: BTreeSet<RemoteRepository> = urls
            .iter()
            .filter_map(RemoteRepository::of)
            .take(MAX_URLS)
            .collect();
        let remotes: Vec<RemoteRepository> = remotes.into_iter().collect();
        let is_new =
            |remote: &&RemoteRepository| before.as_ref().is_none_or(|b| !b.contains(remote));
        let mut new = remotes.iter().filter(is_new);
        let has_push = new.any(|remote| self.pushes.contains_key(remote));
        for remote in &remotes {
            let all = self.by_remote.entry(remote.clone()).or_default();
            all.insert(identifier.clone());
        }
        let entry = Entry { remotes, attempts };
        self.entries.insert(identifier.clone(), entry);
        has_push
    }

    fn remove(&mut self, identifier: &Identifier) -> Option<Vec<RemoteRepository>> {
        let remotes = self.entries.remove(identifier)?.remotes;
        for remote in &remotes {
            if let Some(all) = self.by_remote.get_mut(remote) {
                all.remove(identifier);
                if all.is_empty() {
                    self.by_remote.remove(remote);
                }
            }
        }
        Some(remotes)
    }

    /// Records a push and returns the identifiers that wait for it.
    pub(super) fn pushed(
        &mut self,
        remote: &RemoteRepository,
        now: Instant,
    ) -> BTreeSet<Identifier> {
        if let Some(before) = self.pushes.insert(remote.clone(), now) {
            self.by_time.remove(&(before, remote.clone()));
        }
        self.by_time.insert((now, remote.clone()));
        if self.pushes.len() > MAX_PUSHES {
            self.forget_oldest();
        }
        self.by_remote.get(remote).cloned().unwrap_or_default()
    }

    /// Forgets old pushes; returns whether any are left.
    pub(super) fn forget_old(&mut self, now: Instant) -> bool {
        let is_old = |at: Instant| now.saturating_duration_since(at) > REMEMBERED;
        while let Some((at, _)) = self.by_time.first()
            && is_old(*at)
        {
            self.forget_oldest();
        }
        !self.pushes.is_empty()
    }

    fn forget_oldest(&mut self) {
        if let Some((_, remote)) = self.by_time.pop_first() {
            self.pushes.remove(&remote);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn id(text: &str) -> Identifier {
        Identifier::parse(text).unwrap()
    }

    fn remote(text: &str) -> RemoteRepository {
        RemoteRepository::of(&url(text)).unwrap()
    }

    #[test]
    fn a_repository_is_the_same_however_it_is_written_and_no_other() {
        let one = remote("https://github.com/Acme/Tides.git");
        for same in [
            "http://GitHub.com/acme/tides",
            "https://github.com:443/acme/tides/",
            "https://x:y@github.com/acme/tides.git?a#b",
        ] {
            assert_eq!(remote(same), one, "{same}");
        }
        for other in [
            "https://github.com.evil.net/acme/tides",
            "https://mygithub.com/acme/tides",
            "https://github.com:8443/acme/tides",
            "https://github.com/acme/tides2",
            "https://github.com/x/acme/tides",
        ] {
            assert_ne!(remote(other), one, "{other}");
        }
        for none in ["https://github.com/", "ssh://git@github.com/a/b"] {
            assert_eq!(RemoteRepository::of(&url(none)), None, "{none}");
        }
    }

    #[test]
    fn waiting_identifiers_are_found_by_remote_and_forgotten_when_they_wait_no_more() {
        let mut waiting = WaitingIdentifiers::default();
        let urls = [url("https://github.com/acme/tides.git")];
        for name in ["a", "b"] {
            assert!(!waiting.set(&id(name), &urls, 0));
        }
        let queue = [(id("a"), 0), (id("b"), 1), (id("c"), 0)];
        let other = waiting.compare(&queue);
        assert_eq!(other, queue[1..], "one was tried, one is new");
        let tides = remote("https://github.com/acme/tides");
        let woken = waiting.pushed(&tides, Instant::now());
        assert_eq!(woken, BTreeSet::from([id("a"), id("b")]));
        waiting.compare(&[(id("b"), 0)]);
        let woken = waiting.pushed(&tides, Instant::now());
        assert_eq!(woken, BTreeSet::from([id("b")]));
        waiting.set(&id("b"), &[url("https://elsewhere.example/b")], 0);
        assert!(waiting.pushed(&tides, Instant::now()).is_empty());
        assert_eq!(waiting.by_remote.len(), 1);
    }

    #[test]
    fn a_push_is_remembered_for_identifiers_that_begin_to_wait_soon_after() {
        let (mut waiting, now) = (WaitingIdentifiers::default(), Instant::now());
        let urls = [url("https://github.com/acme/tides.git")];
        let tides = RemoteRepository::of(&urls[0]).unwrap();
        assert!(waiting.pushed(&tides, now).is_empty());
        assert!(waiting.set(&id("a"), &urls, 0));
        assert!(!waiting.set(&id("a"), &urls, 1), "it was woken already");
        assert!(waiting.forget_old(now + REMEMBERED));
        let later = now + REMEMBERED + Duration::from_secs(1);
        assert!(!waiting.forget_old(later));
        assert!(!waiting.set(&id("b"), &urls, 0));
    }

    #[test]
    fn of_many_pushes_the_latest_are_remembered() {
        let mut waiting = WaitingIdentifiers::default();
        let start = Instant::now();
        for n in 0..=MAX_PUSHES as u64 {
            let remote = RemoteRepository(format!("h/{n}"));
            waiting.pushed(&remote, start + Duration::from_millis(n));
        }
        assert_eq!(waiting.pushes.len(), MAX_PUSHES);
        assert_eq!(waiting.by_time.len(), MAX_PUSHES);
        assert!(
            !waiting
                .pushes
                .contains_key(&RemoteRepository("h/0".to_owned()))
        );
    }
}
