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

async fn is_fresh(cache: &Cache, key: &Key, manifest: &Manifest) -> bool {
    let look = cache.look(key, &Options::default()).await;
    matches!(look, CacheLookup::Fresh(answer) if answer.manifest == *manifest)
}

#[tokio::test]
async fn what_is_known_of_a_name_only_gets_newer() {
    let (cache, author) = (Cache::new(1 << 20), Author::new());
    let [old, new] = [1, 2].map(|age| manifest_of(&author, "x", age));
    let key = Key::Name(old.name());
    let since = cache.generation(&key);
    for (found, known) in [(&old, &old), (&new, &new), (&old, &new)] {
        let kept = cache.put(&key, answer(found), since).await;
        assert_eq!(kept.manifest, *known);
        assert!(is_fresh(&cache, &key, known).await);
    }
    cache.put_unknown(&key, since).await;
    let look = cache.look(&key, &Options::default()).await;
    assert!(matches!(look, CacheLookup::Unknown));
}

#[tokio::test]
async fn what_was_read_before_a_key_was_forgotten_is_not_kept_after() {
    let cache = Cache::new(1 << 20);
    let manifest = manifest_of(&Author::new(), "x", 1);
    let key = Key::Name(manifest.name());
    for is_cleared in [false, true] {
        let since = cache.generation(&key);
        cache.put(&key, answer(&manifest), since).await;
        assert!(is_fresh(&cache, &key, &manifest).await);
        match is_cleared {
            true => cache.clear(),
            false => cache.forget(&key).await,
        }
        let given = cache.put(&key, answer(&manifest), since).await;
        assert_eq!(given.manifest, manifest);
        cache.put_unknown(&key, since).await;
        let look = cache.look(&key, &Options::default()).await;
        assert!(matches!(look, CacheLookup::Miss));
    }
    let since = cache.generation(&key);
    cache.put(&key, answer(&manifest), since).await;
    assert!(is_fresh(&cache, &key, &manifest).await);
}
