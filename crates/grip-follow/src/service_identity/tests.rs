use std::collections::BTreeMap;

use grip_nostr::first_value;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{index_relays::AskError, *};

fn identity() -> ServiceIdentity {
    ServiceIdentity {
        keys: Keys::generate(),
        name: "git.example/grasp".into(),
        nip05: None,
        relay_url: "wss://git.example/grasp".into(),
    }
}

/// A store of one key's events, newest by kind.
struct FakeEvents {
    identity: ServiceIdentity,
    stored: Mutex<BTreeMap<Kind, Event>>,
    /// So many reads fail.
    failures: Mutex<usize>,
}

impl FakeEvents {
    fn new() -> Self {
        Self {
            identity: identity(),
            stored: Mutex::default(),
            failures: Mutex::default(),
        }
    }

    fn content(&self) -> Option<String> {
        let stored = self.stored.lock();
        Some(stored.get(&kinds::PROFILE)?.content.clone())
    }

    /// A profile that somebody made with the key.
    fn custom(&self, at: u64) -> Event {
        let builder = EventBuilder::new(kinds::PROFILE, "{\"name\":\"Ada's forge\"}");
        let at = Timestamp::from_secs(at);
        let signed = builder.custom_created_at(at).finalize(&self.identity.keys);
        signed.unwrap()
    }
}

impl OwnEvents for FakeEvents {
    fn key(&self) -> PublicKey {
        self.identity.keys.public_key()
    }

    async fn latest(&self, kind: Kind) -> Result<Option<Event>, Unreadable> {
        let mut failures = self.failures.lock();
        if *failures > 0 {
            *failures -= 1;
            return Err(Unreadable);
        }
        Ok(self.stored.lock().get(&kind).cloned())
    }

    fn make(&self, kind: Kind) -> Option<Event> {
        self.identity.make(kind, Timestamp::from_secs(1_000))
    }

    async fn store(&self, event: &Event) {
        let mut stored = self.stored.lock();
        let known = stored.get(&event.kind).map(|known| known.created_at);
        if known.is_none_or(|at| at < event.created_at) {
            stored.insert(event.kind, event.clone());
        }
    }
}

/// Index relays in memory, some of which do not answer before a moment.
struct FakeIndex {
    began: Instant,
    answers_after: Duration,
    refuses: bool,
    has: Mutex<BTreeMap<RelayUrl, Vec<Event>>>,
    asked: Mutex<Vec<u64>>,
}

impl FakeIndex {
    fn new(answers_after: Duration) -> Self {
        Self {
            began: Instant::now(),
            answers_after,
            refuses: false,
            has: Mutex::default(),
            asked: Mutex::default(),
        }
    }

    fn kinds(&self, relay: &RelayUrl) -> Vec<u16> {
        let has = self.has.lock();
        let events = has.get(relay).into_iter().flatten();
        events.map(|event| event.kind.as_u16()).collect()
    }
}

impl UserIndex for FakeIndex {
    async fn identity(&self, relay: &RelayUrl, _: PublicKey) -> Result<Vec<Event>, AskError> {
        let elapsed = self.began.elapsed();
        self.asked.lock().push(elapsed.as_secs());
        if elapsed < self.answers_after {
            return Err(AskError::Late);
        }
        Ok(self.has.lock().get(relay).cloned().unwrap_or_default())
    }

    async fn publish(&self, relay: &RelayUrl, event: &Event) -> Result<(), AskError> {
        if self.refuses {
            return Err(AskError::Refused("blocked: not here".into()));
        }
        let mut has = self.has.lock();
        has.entry(relay.clone()).or_default().push(event.clone());
        Ok(())
    }
}

fn relay(name: &str) -> RelayUrl {
    RelayUrl::parse(&format!("wss://{name}.example")).unwrap()
}

#[test]
fn e_5_the_profile_names_the_address_and_the_list_the_relay() {
    let mut identity = identity();
    let now = Timestamp::from_secs(7);
    let profile = identity.make(kinds::PROFILE, now).unwrap();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&profile.content).unwrap(),
        json!({ "name": "git.example/grasp", "bot": true })
    );
    identity.nip05 = Some("_@git.example".into());
    let profile = identity.make(kinds::PROFILE, now).unwrap();
    assert!(profile.content.contains(r#""nip05":"_@git.example""#));
    let list = identity.make(kinds::RELAY_LIST, now).unwrap();
    assert_eq!(list.tags.len(), 1);
    assert_eq!(first_value(&list, "r"), Some("wss://git.example/grasp"));
    assert_eq!(list.tags.iter().next().unwrap().as_slice().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn e_5_where_nobody_is_asked_both_are_stored_at_once_and_stay_as_they_are() {
    let (own, index) = (FakeEvents::new(), FakeIndex::new(Duration::ZERO));
    own.store(&own.custom(5)).await;
    publish_to_all(&own, &index, &[]).await;
    assert_eq!(own.stored.lock().len(), 2);
    assert_eq!(own.content().unwrap(), "{\"name\":\"Ada's forge\"}");
    assert!(index.asked.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn e_5_an_identity_that_an_index_relay_has_is_adopted_and_never_overwritten() {
    let (own, index) = (FakeEvents::new(), FakeIndex::new(Duration::ZERO));
    let (first, second) = (relay("first"), relay("second"));
    // Older than anything that would be made here.
    let custom = own.custom(5);
    index.has.lock().insert(second.clone(), vec![custom]);
    publish_to_all(&own, &index, &[first.clone(), second.clone()]).await;
    assert_eq!(own.content().unwrap(), "{\"name\":\"Ada's forge\"}");
    assert_eq!(index.kinds(&second), [0, 10_002], "only the list was added");
    assert_eq!(index.kinds(&first), [0, 10_002]);
    let published = index.has.lock()[&first][0].content.clone();
    assert_eq!(published, "{\"name\":\"Ada's forge\"}");
}

/// What is served stays what it is, and is published when it can be read again.
#[tokio::test(start_paused = true)]
async fn e_5_a_store_that_cannot_be_read_has_nothing_made_in_its_place() {
    let (own, index) = (FakeEvents::new(), FakeIndex::new(Duration::ZERO));
    own.store(&own.custom(5)).await;
    *own.failures.lock() = 4;
    publish_to_all(&own, &index, &[relay("first")]).await;
    assert_eq!(own.content().unwrap(), "{\"name\":\"Ada's forge\"}");
    assert!(index.kinds(&relay("first")).contains(&0));
    let published = index.has.lock()[&relay("first")].clone();
    let profiles = published.iter().filter(|it| it.kind == kinds::PROFILE);
    let contents: Vec<&str> = profiles.map(|it| it.content.as_str()).collect();
    assert_eq!(contents, ["{\"name\":\"Ada's forge\"}"]);
}

#[tokio::test(start_paused = true)]
async fn e_5_relays_that_do_not_answer_are_asked_after_60_s_doubling_to_15_min() {
    let (own, index) = (
        FakeEvents::new(),
        FakeIndex::new(Duration::from_secs(3_000)),
    );
    publish_to_all(&own, &index, &[relay("first")]).await;
    let expected = [0, 60, 180, 420, 900, 1_800, 2_700, 3_600];
    assert_eq!(*index.asked.lock(), expected);
    assert_eq!(index.kinds(&relay("first")), [0, 10_002]);
    assert_eq!(own.stored.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn e_5_a_relay_that_does_not_want_it_is_left_alone() {
    let own = FakeEvents::new();
    let mut index = FakeIndex::new(Duration::ZERO);
    index.refuses = true;
    publish_to_all(&own, &index, &[relay("first")]).await;
    assert_eq!(index.asked.lock().len(), 1);
    assert_eq!(own.stored.lock().len(), 2, "it is served here all the same");
}
