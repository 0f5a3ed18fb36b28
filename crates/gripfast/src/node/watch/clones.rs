//! Whose data may be found at a clone URL. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use grip_types::Identifier;
use tokio::time::Instant;
use url::Url;

/// Identifiers whose URLs are known at most. Beyond it, further ones are looked for when their own
/// time has come.
const MAX_IDENTIFIERS: usize = 100_000;
/// URLs of one identifier at most.
const MAX_URLS: usize = 64;
/// Pushes that are remembered for data that is asked for after them; the oldest go first.
const MAX_PUSHES: usize = 10_000;
/// How long. A state is signed before or soon after the push that it speaks of.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// A repository on another host, however it is written: without scheme, case and `.git`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place(String);

impl Place {
    /// The place that a URL names. Case counts nowhere: GitHub ignores it, and to look once too
    /// often on a host that does not is no harm.
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
        let place = format!("{host}{}/{path}", port.unwrap_or_default());
        Some(Self(place.to_lowercase()))
    }
}

/// Which identifiers wait for data that may be at which place, and where was pushed lately.
#[derive(Default)]
pub(super) struct Clones {
    waiting: HashMap<Identifier, Waiting>,
    by_place: HashMap<Place, BTreeSet<Identifier>>,
    pushes: HashMap<Place, Instant>,
    by_time: BTreeMap<(Instant, Place), ()>,
}

struct Waiting {
    places: Vec<Place>,
    /// How many attempts there were when it was looked at.
    attempts: u32,
}

impl Clones {
    /// Forgets who does not wait any more; says who has to be looked at: who is new, and who was
    /// tried since, or got something new.
    pub(super) fn compare(&mut self, queue: &[(Identifier, u32)]) -> Vec<(Identifier, u32)> {
        let now: BTreeSet<&Identifier> = queue.iter().map(|(identifier, _)| identifier).collect();
        let gone = self.waiting.keys().filter(|known| !now.contains(known));
        let gone: Vec<Identifier> = gone.cloned().collect();
        for identifier in gone {
            self.remove(&identifier);
        }
        let is_other = |(identifier, attempts): &&(Identifier, u32)| {
            let known = self.waiting.get(identifier);
            known.is_none_or(|known| known.attempts != *attempts)
        };
        queue.iter().filter(is_other).cloned().collect()
    }

    /// Notes where the data of an identifier may be. Says whether somebody has pushed there lately
    /// and this was not known then.
    pub(super) fn set(&mut self, identifier: &Identifier, urls: &[Url], attempts: u32) -> bool {
        let before = self.remove(identifier);
        if self.waiting.len() >= MAX_IDENTIFIERS {
            return false;
        }
        let places: BTreeSet<Place> = urls.iter().filter_map(Place::of).take(MAX_URLS).collect();
        let places: Vec<Place> = places.into_iter().collect();
        let is_new = |place: &&Place| before.as_ref().is_none_or(|b| !b.contains(place));
        let mut new = places.iter().filter(is_new);
        let is_awaited = new.any(|place| self.pushes.contains_key(place));
        for place in &places {
            let all = self.by_place.entry(place.clone()).or_default();
            all.insert(identifier.clone());
        }
        let waiting = Waiting { places, attempts };
        self.waiting.insert(identifier.clone(), waiting);
        is_awaited
    }

    fn remove(&mut self, identifier: &Identifier) -> Option<Vec<Place>> {
        let places = self.waiting.remove(identifier)?.places;
        for place in &places {
            if let Some(all) = self.by_place.get_mut(place) {
                all.remove(identifier);
                if all.is_empty() {
                    self.by_place.remove(place);
                }
            }
        }
        Some(places)
    }

    /// Somebody has pushed there; says who waits for that.
    pub(super) fn pushed(&mut self, place: &Place, now: Instant) -> BTreeSet<Identifier> {
        if let Some(before) = self.pushes.insert(place.clone(), now) {
            self.by_time.remove(&(before, place.clone()));
        }
        self.by_time.insert((now, place.clone()), ());
        if self.pushes.len() > MAX_PUSHES {
            self.forget_first();
        }
        self.by_place.get(place).cloned().unwrap_or_default()
    }

    /// Forgets pushes of long ago; says whether there are others.
    pub(super) fn forget_old(&mut self, now: Instant) -> bool {
        let is_old = |at: Instant| now.saturating_duration_since(at) > REMEMBERED;
        while let Some(((at, _), ())) = self.by_time.first_key_value()
            && is_old(*at)
        {
            self.forget_first();
        }
        !self.pushes.is_empty()
    }

    fn forget_first(&mut self) {
        if let Some(((_, place), ())) = self.by_time.pop_first() {
            self.pushes.remove(&place);
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

    fn place(text: &str) -> Place {
        Place::of(&url(text)).unwrap()
    }

    #[test]
    fn a_repository_is_the_same_however_it_is_written_and_no_other() {
        let one = place("https://github.com/Acme/Tides.git");
        for same in [
            "http://GitHub.com/acme/tides",
            "https://github.com:443/acme/tides/",
            "https://x:y@github.com/acme/tides.git?a#b",
        ] {
            assert_eq!(place(same), one, "{same}");
        }
        for other in [
            "https://github.com.evil.net/acme/tides",
            "https://mygithub.com/acme/tides",
            "https://github.com:8443/acme/tides",
            "https://github.com/acme/tides2",
            "https://github.com/x/acme/tides",
        ] {
            assert_ne!(place(other), one, "{other}");
        }
        for none in ["https://github.com/", "ssh://git@github.com/a/b"] {
            assert_eq!(Place::of(&url(none)), None, "{none}");
        }
    }

    #[test]
    fn who_waits_is_found_by_place_and_forgotten_when_it_waits_no_more() {
        let mut clones = Clones::default();
        let urls = [url("https://github.com/acme/tides.git")];
        for name in ["a", "b"] {
            assert!(!clones.set(&id(name), &urls, 0));
        }
        let queue = [(id("a"), 0), (id("b"), 1), (id("c"), 0)];
        let other = clones.compare(&queue);
        assert_eq!(other, queue[1..], "one was tried, one is new");
        let tides = place("https://github.com/acme/tides");
        let woken = clones.pushed(&tides, Instant::now());
        assert_eq!(woken, BTreeSet::from([id("a"), id("b")]));
        clones.compare(&[(id("b"), 0)]);
        let woken = clones.pushed(&tides, Instant::now());
        assert_eq!(woken, BTreeSet::from([id("b")]));
        clones.set(&id("b"), &[url("https://elsewhere.example/b")], 0);
        assert!(clones.pushed(&tides, Instant::now()).is_empty());
        assert_eq!(clones.by_place.len(), 1);
    }

    #[test]
    fn a_push_is_remembered_for_who_comes_to_wait_soon_after() {
        let (mut clones, now) = (Clones::default(), Instant::now());
        let urls = [url("https://github.com/acme/tides.git")];
        let tides = Place::of(&urls[0]).unwrap();
        assert!(clones.pushed(&tides, now).is_empty());
        assert!(clones.set(&id("a"), &urls, 0));
        assert!(!clones.set(&id("a"), &urls, 1), "it was told already");
        assert!(clones.forget_old(now + REMEMBERED));
        let later = now + REMEMBERED + Duration::from_secs(1);
        assert!(!clones.forget_old(later));
        assert!(!clones.set(&id("b"), &urls, 0));
    }

    #[test]
    fn of_many_pushes_the_latest_are_remembered() {
        let mut clones = Clones::default();
        let start = Instant::now();
        for n in 0..=MAX_PUSHES as u64 {
            let place = Place(format!("h/{n}"));
            clones.pushed(&place, start + Duration::from_millis(n));
        }
        assert_eq!(clones.pushes.len(), MAX_PUSHES);
        assert_eq!(clones.by_time.len(), MAX_PUSHES);
        assert!(!clones.pushes.contains_key(&Place("h/0".to_owned())));
    }
}
