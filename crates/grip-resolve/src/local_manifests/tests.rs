use grip_dht::{PeerName, RecordValidator as _, Verdict};
use grip_testkit::Author;

use super::*;
use crate::{
    NodeKey, node_record_key,
    testing::{Repos, manifest_of},
};

const OID: &str = "1111111111111111111111111111111111111111";

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
            validate(&key.record(), bytes, None, 0),
            Verdict::Keep(bytes.clone())
        );
        assert_eq!(
            validate(&key.record(), bytes, Some(bytes), 0),
            Verdict::Ignore
        );
        assert!(refused(validate(&key.record(), b"nonsense", None, 0)));
        assert!(refused(validate(&key.record(), other.bytes(), None, 0)));
    }
    let peer = PeerName::from_bytes(&[1; 38]).unwrap();
    assert!(refused(validate(&node_record_key(&peer), bytes, None, 0)));
}

#[test]
fn an_older_manifest_never_replaces_a_newer_one() {
    let author = Author::new();
    let (old, new) = (manifest_of(&author, "x", 1), manifest_of(&author, "x", 2));
    let key = Key::Name(old.name()).record();
    assert_eq!(
        validate(&key, old.bytes(), Some(new.bytes()), 0),
        Verdict::Ignore
    );
    let kept = validate(&key, new.bytes(), Some(old.bytes()), 0);
    assert_eq!(kept, Verdict::Keep(new.bytes().clone()));
    // What cannot be read any more is replaced.
    let kept = validate(&key, old.bytes(), Some(b"rotten"), 0);
    assert_eq!(kept, Verdict::Keep(old.bytes().clone()));
}

#[test]
fn a_node_record_lies_under_its_peer_while_it_is_current() {
    let key = NodeKey::from_seed(&[3; 32]);
    let sign = |issued| {
        let urls = vec![url::Url::parse("https://a.example/").unwrap()];
        key.sign(urls, None, issued).unwrap()
    };
    let record = node_record_key(key.peer());
    let (old, new) = (sign(1_000_000), sign(1_000_001));
    assert_eq!(
        validate(&record, &new, Some(&old), 1_000_002),
        Verdict::Keep(new.clone())
    );
    assert_eq!(
        validate(&record, &old, Some(&new), 1_000_002),
        Verdict::Ignore
    );
    assert!(refused(validate(&record, &new, None, 9_000_000)));
    assert!(refused(validate(&record, &new, None, 1)));
    let other = node_record_key(NodeKey::from_seed(&[4; 32]).peer());
    assert!(refused(validate(&other, &new, None, 1_000_002)));
}

#[test]
fn too_long_records_are_refused_before_they_are_read() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let record = Key::Name(manifest.name()).record();
    let local_manifests = Arc::new(Repos::default()).local_manifests();
    let verdict = local_manifests.validate(&record, &vec![b'['; 61 << 10], None);
    assert!(refused(verdict));
}

#[tokio::test]
async fn peers_get_what_is_served_pinned_or_signed_and_nothing_else() {
    let author = Author::new();
    let (served, pinned) = (manifest_of(&author, "x", 2), manifest_of(&author, "x", 1));
    let repos = Arc::new(Repos::default());
    repos.serve(&served);
    let local_manifests = repos.local_manifests();
    let value = async |key: &Key| local_manifests.value(&key.record()).await;
    let name = Key::Name(served.name());
    // Nothing is looked up for a stranger's key that is not published.
    assert_eq!(value(&name).await, None);
    assert_eq!(repos.reads.load(std::sync::atomic::Ordering::Relaxed), 0);

    assert!(local_manifests.pin(&pinned));
    let ids = [served.id(), pinned.id()].into();
    local_manifests.published(|published| published.set(&served.name(), ids, 1));
    assert_eq!(value(&name).await.as_ref(), Some(served.bytes()));
    for held in [&served, &pinned] {
        assert_eq!(
            value(&Key::Manifest(held.id())).await.as_ref(),
            Some(held.bytes())
        );
    }
    let record = node_record_key(NodeKey::from_seed(&[1; 32]).peer());
    local_manifests.set_node_record(record.clone(), "node_record".into());
    assert_eq!(local_manifests.value(&record).await.unwrap(), "node_record");

    local_manifests.published(|published| published.set(&served.name(), [].into(), 2));
    assert_eq!(value(&name).await, None);
    assert_eq!(local_manifests.published(|published| published.len()), 0);
}

#[tokio::test]
async fn long_manifests_are_made_off_the_runtime_and_short_ones_where_they_are() {
    let author = Author::new();
    let short = manifest_of(&author, "short", 1);
    let names: Vec<String> = (0..300).map(|n| format!("refs/heads/b{n}")).collect();
    let refs: Vec<_> = names.iter().map(|name| (name.as_str(), OID)).collect();
    let announcement = author.announcement("git.example", "long", vec![]);
    let state = author.state("long", &refs, None);
    let long = Manifest::make(announcement, vec![], Some(state)).unwrap();
    assert!(short.bytes().len() < 16 << 10 && long.bytes().len() > 16 << 10);

    let repos = Arc::new(Repos::default());
    let group = TaskGroup::new("test");
    let local_manifests =
        LocalManifests::new(Arc::clone(&repos) as _, Arc::default(), group.clone());
    for (manifest, threads) in [(&short, 0), (&long, 1)] {
        repos.serve(manifest);
        let found = local_manifests.find(&Key::Name(manifest.name())).await;
        assert_eq!(found.unwrap().unwrap().id(), manifest.id());
        let tasks = group.status();
        let decoded = tasks.iter().filter(|task| task.kind == "resolve.decode");
        let started: u64 = decoded.map(|task| task.started_total).sum();
        assert_eq!(started, threads);
    }
}

#[test]
fn pins_have_a_bound() {
    let author = Author::new();
    let local_manifests = Arc::new(Repos::default()).local_manifests();
    let first = manifest_of(&author, "x", 0);
    assert!(local_manifests.pin(&first));
    for age in 1..MAX_PINS as u64 {
        assert!(local_manifests.pin(&manifest_of(&author, "x", age)));
    }
    let one_more = manifest_of(&author, "y", 1);
    assert!(!local_manifests.pin(&one_more) && local_manifests.pin(&first));
    assert_eq!(
        (local_manifests.pins(), local_manifests.pinned_names().len()),
        (MAX_PINS, 1)
    );
    let changed = local_manifests.set_pins(&Key::Manifest(first.id()), &[]);
    assert_eq!(changed, BTreeSet::from([first.name()]));
    assert!(local_manifests.pin(&one_more));
}
