use std::sync::Arc;

use grip_store::{EventStore, Options};
use grip_types::Identifier;
use nostr::prelude::Keys;
use tempfile::TempDir;

use super::*;
use crate::testing::event_at;

struct Scene {
    store: EventStore,
    addr: RepoAddr,
    _dir: TempDir,
}

impl Scene {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let identifier = Identifier::parse("tides").unwrap();
        Self {
            store: EventStore::open(dir.path(), Options::default()).unwrap(),
            addr: RepoAddr::new(Keys::generate().public_key(), identifier),
            _dir: dir,
        }
    }

    fn put(&self, event: &Event) {
        self.store
            .write(|view| view.put(event, Timestamp::now()))
            .unwrap();
    }

    fn add(&self, kind: u16, tags: &[[&str; 2]], at: u64) -> Event {
        let event = event_at(kind, "", tags, at);
        self.put(&event);
        event
    }

    fn root(&self, at: u64) -> Event {
        let address = Address::of_announcement(&self.addr).to_string();
        self.add(1621, &[["a", &address]], at)
    }

    fn read(&self, most: usize) -> Threads {
        of(&self.store.read().unwrap(), &self.addr, most)
    }
}

fn ids(events: &[&Event]) -> Vec<EventId> {
    events.iter().map(|event| event.id).collect()
}

#[test]
fn g02_12_answers_are_chosen_breadth_first_by_age_and_only_so_many_of_each_issue() {
    let scene = Scene::new();
    let (busy, quiet) = (scene.root(10), scene.root(20));
    let of_busy = |parent: &Event, at| scene.add(1111, &[["e", &parent.id.to_hex()]], at);
    let first = of_busy(&busy, 30);
    let second = of_busy(&busy, 31);
    let below = of_busy(&first, 12);
    let quoted = scene.add(1, &[["q", &quiet.id.to_hex()]], 50);
    let threads = scene.read(500);
    assert_eq!(threads.roots, ids(&[&busy, &quiet]));
    assert_eq!(
        threads.descendants,
        ids(&[&first, &second, &quoted, &below])
    );
    // One issue does not take the places of another, and its own go by age within a level.
    let threads = scene.read(1);
    assert_eq!(threads.descendants, ids(&[&first, &quoted]));
    assert!(scene.read(0).descendants.is_empty());
}

#[test]
fn g02_12_answers_are_followed_eight_levels_down() {
    let scene = Scene::new();
    let mut parent = scene.root(10);
    let mut chain = Vec::new();
    for n in 0..12 {
        parent = scene.add(1111, &[["e", &parent.id.to_hex()]], 11 + n);
        chain.push(parent.id);
    }
    assert_eq!(scene.read(500).descendants, chain[..8]);
}

#[test]
fn e_1_software_is_followed_by_its_address() {
    let scene = Scene::new();
    let address = Address::of_announcement(&scene.addr).to_string();
    let app = scene.add(32267, &[["d", "app"], ["a", &address]], 10);
    let app_address = address_of(&app).unwrap();
    let release = scene.add(
        30063,
        &[["d", "app@1"], ["a", &app_address.to_string()]],
        20,
    );
    let threads = scene.read(500);
    assert_eq!(threads.descendants, [release.id]);
    assert_eq!(
        threads.addresses,
        [app_address, address_of(&release).unwrap()]
    );
    let class = crate::plan::Class::DescendantAddress;
    let value: Arc<str> = threads.addresses[0].to_string().into();
    assert_eq!(class.filter([&value]).tags[&'a'], [value.to_string()]);
}
