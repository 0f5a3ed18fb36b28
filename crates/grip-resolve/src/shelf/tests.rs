use grip_dht::{Judge as _, PeerName, Verdict};
use grip_testkit::Author;

use super::{judge::judge, *};
use crate::{
    NodeKey, node_record,
    testing::{Repos, manifest_of},
};

fn refused(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Refuse(_))
}

#[test]
fn a_manifest_lies_under_its_name_and_its_id_and_nowhere_else() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let other = manifest_of(&Author::new(), "x", 1);
    let bytes = manifest.bytes();
    for key in [Key::Name(manifest.name()), Key::Manifest(manifest.id())] {
        assert_eq!(
            judge(&key.record(), bytes, None, 0),
            Verdict::Keep(bytes.clone())
        );
        assert_eq!(judge(&key.record(), bytes, Some(bytes), 0), Verdict::Ignore);
        assert!(refused(judge(&key.record(), b"nonsense", None, 0)));
        assert!(refused(judge(&key.record(), other.bytes(), None, 0)));
    }
    let peer = PeerName::from_bytes(&[1; 38]).unwrap();
    assert!(refused(judge(&node_record(&peer), bytes, None, 0)));
}

#[test]
fn an_older_manifest_never_replaces_a_newer_one() {
    let author = Author::new();
    let (old, new) = (manifest_of(&author, "x", 1), manifest_of(&author, "x", 2));
    let key = Key::Name(old.name()).record();
    assert_eq!(
        judge(&key, old.bytes(), Some(new.bytes()), 0),
        Verdict::Ignore
    );
    let kept = judge(&key, new.bytes(), Some(old.bytes()), 0);
    assert_eq!(kept, Verdict::Keep(new.bytes().clone()));
    // What cannot be read any more is replaced.
    let kept = judge(&key, old.bytes(), Some(b"rotten"), 0);
    assert_eq!(kept, Verdict::Keep(old.bytes().clone()));
}

#[test]
fn a_card_lies_under_its_peer_while_it_is_current() {
    let key = NodeKey::from_seed(&[3; 32]);
    let sign = |issued| {
        let urls = vec![url::Url::parse("https://a.example/").unwrap()];
        key.sign(urls, None, issued).unwrap()
    };
    let record = node_record(key.peer());
    let (old, new) = (sign(1_000_000), sign(1_000_001));
    assert_eq!(
        judge(&record, &new, Some(&old), 1_000_002),
        Verdict::Keep(new.clone())
    );
    assert_eq!(judge(&record, &old, Some(&new), 1_000_002), Verdict::Ignore);
    assert!(refused(judge(&record, &new, None, 9_000_000)));
    assert!(refused(judge(&record, &new, None, 1)));
    let other = node_record(NodeKey::from_seed(&[4; 32]).peer());
    assert!(refused(judge(&other, &new, None, 1_000_002)));
}

#[test]
fn what_is_too_long_for_a_record_is_refused_before_it_is_read() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let record = Key::Name(manifest.name()).record();
    let shelf = Shelf::new(Arc::new(Repos::default()));
    let verdict = shelf.judge(&record, &vec![b'['; 61 << 10], None);
    assert!(refused(verdict));
}

#[tokio::test]
async fn peers_get_what_is_served_pinned_or_signed_and_nothing_else() {
    let author = Author::new();
    let (served, pinned) = (manifest_of(&author, "x", 2), manifest_of(&author, "x", 1));
    let repos = Arc::new(Repos::default());
    repos.serve(&served);
    let shelf = Shelf::new(repos.clone());
    let value = async |key: &Key| shelf.value(&key.record()).await;
    let name = Key::Name(served.name());
    // Nothing is looked up for a stranger's key that was never told of.
    assert_eq!(value(&name).await, None);
    assert_eq!(repos.reads.load(std::sync::atomic::Ordering::Relaxed), 0);

    assert!(shelf.pin(&pinned));
    let ids = [served.id(), pinned.id()].into();
    shelf.told(|told| told.set(&served.name(), ids, 1));
    assert_eq!(value(&name).await.as_ref(), Some(served.bytes()));
    for held in [&served, &pinned] {
        assert_eq!(
            value(&Key::Manifest(held.id())).await.as_ref(),
            Some(held.bytes())
        );
    }
    let record = node_record(NodeKey::from_seed(&[1; 32]).peer());
    shelf.set_card(record.clone(), "card".into());
    assert_eq!(shelf.value(&record).await.unwrap(), "card");

    shelf.told(|told| told.set(&served.name(), [].into(), 2));
    assert_eq!(value(&name).await, None);
    assert_eq!(shelf.told(|told| told.len()), 0);
}

#[test]
fn pins_have_a_bound() {
    let author = Author::new();
    let shelf = Shelf::new(Arc::new(Repos::default()));
    let first = manifest_of(&author, "x", 0);
    assert!(shelf.pin(&first));
    for age in 1..MAX_PINS as u64 {
        assert!(shelf.pin(&manifest_of(&author, "x", age)));
    }
    let one_more = manifest_of(&author, "y", 1);
    assert!(!shelf.pin(&one_more) && shelf.pin(&first));
    assert_eq!((shelf.pins(), shelf.pinned_names().len()), (MAX_PINS, 1));
    let changed = shelf.set_pins(&Key::Manifest(first.id()), &[]);
    assert_eq!(changed, BTreeSet::from([first.name()]));
    assert!(shelf.pin(&one_more));
}
