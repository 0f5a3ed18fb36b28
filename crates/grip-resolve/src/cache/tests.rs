use grip_testkit::Author;

use super::*;
use crate::testing::manifest_of;

fn answer(manifest: &Manifest) -> Arc<Answer> {
    Arc::new(Answer {
        manifest: manifest.clone(),
        providers: Vec::new(),
        source: Source::Dht,
        hops: 1,
        asked: 1,
    })
}

#[tokio::test]
async fn the_manifest_of_a_name_only_gets_newer() {
    let (cache, author) = (Cache::new(1 << 20), Author::new());
    let [old, new] = [1, 2].map(|age| manifest_of(&author, "x", age));
    let key = Key::Name(old.name());
    for (found, known) in [(&old, &old), (&new, &new), (&old, &new)] {
        let kept = cache.put(&key, answer(found)).await;
        assert_eq!(kept.manifest, *known);
        let look = cache.look(&key, &Options::default()).await;
        assert!(matches!(look, CacheLookup::Fresh(answer) if answer.manifest == *known));
    }
    cache.put_unknown(&key).await;
    let look = cache.look(&key, &Options::default()).await;
    assert!(matches!(look, CacheLookup::Unknown));
}
