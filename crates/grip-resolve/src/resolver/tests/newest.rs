//! Answers that never get older.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_was_found_elsewhere_is_not_given_up_for_something_older_here() {
    let (node, here, there) = older_here().await;
    let key = Key::Name(here.name());
    let found = node.resolve_fresh(&key).await.unwrap();
    assert_eq!((found.source, found.id), (Source::Dht, there.id()));
    advance(ms(10_000)).await;
    let stale = node.resolve(&key).await.unwrap();
    assert_eq!((stale.source, stale.id), (Source::Stale, there.id()));
    tokio::time::sleep(ms(30)).await;
    let renewed = node.resolve(&key).await.unwrap();
    assert_eq!((renewed.source, renewed.id), (Source::Cache, there.id()));
    advance(ms(70_000)).await;
    let again = node.resolve(&key).await.unwrap();
    assert_eq!((again.source, again.id), (Source::Local, there.id()));
}

#[tokio::test(start_paused = true)]
async fn what_was_read_before_a_push_is_not_given_after_it() {
    let author = Author::new();
    let [old, new] = [1, 2].map(|age| manifest_of(&author, "x", age));
    let script = Script::new(vec![peer(1)], |_, _| Ok(Response::default()));
    let node = Node::new(Some(script), Options::default());
    let key = Key::Name(old.name());
    // Nobody knows it, then it is served, and then there is a newer one.
    for (before, now) in [(None, &old), (Some(&old), &new)] {
        let push = async {
            tokio::time::sleep(ms(5)).await;
            node.repos.serve(now);
        };
        let (found, ()) = tokio::join!(node.resolve_fresh(&key), push);
        assert_eq!(found.ok().map(|found| found.id), before.map(Manifest::id));
        let next = node.resolve(&key).await.unwrap();
        assert_eq!((next.source, next.id), (Source::Local, now.id()));
    }
}
