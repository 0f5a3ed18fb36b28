//! Members that stall or lie, over the wire.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::join_all;
use grip_dht::{Dht as _, PeerName};
use grip_testkit::{Author, until};

use super::members::{Bootstrap, Lies, Member, Stranger, knows, manifest, patient};
use crate::{Key, Manifest, ManifestId, Options, ResolveError, ResolveParams, testing::FRESH};

/// Everybody in the network knows everybody.
async fn all_know_all(members: &[Member], strangers: &[Stranger]) {
    let members = members.iter().map(|member| member as &dyn Bootstrap);
    let strangers = strangers.iter().map(|stranger| stranger as &dyn Bootstrap);
    let all: Vec<&dyn Bootstrap> = members.chain(strangers).collect();
    for one in &all {
        knows(*one, all.len() - 1).await;
    }
}

fn names(all: &[impl Bootstrap]) -> Vec<PeerName> {
    all.iter().map(|one| one.peer().id).collect()
}

/// A manifest such that, of all, `nearest` are the nearest to its digest, in whatever order; made
/// in the second second or later.
fn near(author: &Author, nearest: &[PeerName], others: &[PeerName]) -> Manifest {
    (2..2_000)
        .map(|age| manifest(author, "x", age, vec![]))
        .find(|manifest| is_near(&Key::Manifest(manifest.id()), nearest, others))
        .expect("there is one among so many")
}

/// An author such that, of all, `nearest` are the nearest to the name of his repository.
fn near_by_name(nearest: &[PeerName], others: &[PeerName]) -> Author {
    let name = |author: &Author| Key::Name(manifest(author, "x", 1, vec![]).name());
    (0..2_000)
        .map(|_| Author::new())
        .find(|author| is_near(&name(author), nearest, others))
        .expect("there is one among so many")
}

fn is_near(key: &Key, nearest: &[PeerName], others: &[PeerName]) -> bool {
    let record = key.record();
    let far = nearest.iter().map(|peer| record.distance(peer)).max();
    let near = others.iter().map(|peer| record.distance(peer)).min();
    far < near
}

#[tokio::test]
async fn the_hedge_wins_over_peers_that_stall_and_their_streams_are_closed() {
    let members = Member::net(2, &patient()).await;
    let mut stallers = Vec::new();
    for seed in 101..104 {
        stallers.push(Stranger::start(seed, &members[0], Lies::Nothing).await);
    }
    all_know_all(&members, &stallers).await;
    let wanted = near(&Author::new(), &names(&stallers), &names(&members));
    members[0].serve(&wanted).await;
    let key = Key::Manifest(wanted.id());
    members[1].holds(&key, &members[0]).await;
    // Joins after all is published, so that it stores nothing of it.
    let late = Member::start(50, Some(&members[0]), patient()).await;
    knows(&late, members.len() + stallers.len()).await;

    let began = Instant::now();
    let found = late.resolver.resolve(&key, ResolveParams::default()).await;
    let found = found.unwrap();
    assert_eq!(found.id, wanted.id());
    // After the hedge's time, and long before any of the silent was given up.
    assert!(found.took >= Duration::from_millis(120), "{found:?}");
    assert!(began.elapsed() < Duration::from_secs(8), "{found:?}");
    let counters = late.resolver.counters();
    assert!(counters.hedges_total >= 1, "{counters:?}");
    assert!(counters.abandoned_total >= 3, "{counters:?}");
    for staller in &stallers {
        assert_eq!(staller.records.asked.load(Relaxed), 1);
        // Seen where the answer was being made: the stream was closed, and the work with it.
        let closed = || async { (staller.records.left.load(Relaxed) == 1).then_some(()) };
        until("the staller sees the end", closed).await.unwrap();
        let counted = || async { (staller.dht.status().counters.broken_total == 1).then_some(()) };
        until("and counts it", counted).await.unwrap();
    }
    println!("three stalled; the hedge won after {:.1?}", found.took);
    late.stop().await;
}

#[tokio::test]
async fn lies_from_every_side_change_no_answer() {
    let settings = Options {
        // Two responses are awaited, however slow this machine is.
        hedge: Duration::from_secs(5),
        // One after the other, the nearest first, so that it is known who is asked.
        alpha: 1,
        ..patient()
    };
    let mut members = Member::net(5, &settings).await;
    let mut liars = Vec::new();
    for seed in 101..105 {
        let silent = Lies::These(BTreeMap::new());
        liars.push(Stranger::start(seed, &members[0], silent).await);
    }
    all_know_all(&members, &liars).await;
    // The first to be asked for the name and for the digest never says a true word.
    let others = [names(&members), names(&liars[1..])].concat();
    let author = near_by_name(&names(&liars[..1]), &others);
    let stale = manifest(&author, "x", 1, vec![]);
    let current = near(&author, &names(&liars[..1]), &others);
    let foreign = manifest(&Author::new(), "x", 1, vec![]);
    let keys = [Key::Name(current.name()), Key::Manifest(current.id())];
    let by_name = BTreeMap::from([(keys[0].record(), stale.bytes().clone())]);
    let cut = current.bytes().slice(..current.bytes().len() - 1);
    let lies = [
        Lies::Always(Bytes::from("nonsense")),
        Lies::Always(foreign.bytes().clone()),
        Lies::Always(cut),
        Lies::These(by_name),
    ];
    for (liar, lie) in liars.iter().zip(lies) {
        *liar.records.lies.lock() = Arc::new(lie);
    }
    members[0].serve(&current).await;
    for liar in &liars {
        for key in &keys {
            // Each says that it has the thing, and lays what is false where the true one lies.
            liar.dht.publish(key.record(), None).await.unwrap();
            let lie = Some(foreign.bytes().clone());
            liar.dht.publish(key.record(), lie).await.unwrap();
        }
        let lie = Some(stale.bytes().clone());
        liar.dht.publish(keys[0].record(), lie).await.unwrap();
    }
    // One joins after all is published: it stores nothing, and depends on the others.
    let late = Member::start(50, Some(&members[0]), settings).await;
    knows(&late, members.len() + liars.len()).await;
    members.push(late);
    for member in &members {
        for key in &keys {
            for params in [FRESH, FRESH] {
                let found = member.resolver.resolve(key, params).await;
                let found = found.unwrap_or_else(|error| panic!("{key}: {error}"));
                assert_eq!(found.id, current.id(), "{key}");
            }
        }
    }
    let lies = |it: &Member| it.resolver.counters().lies_total;
    assert!(members[1..].iter().all(|member| lies(member) > 0));
    assert!(liars[0].records.asked.load(Relaxed) >= 4);
    let refused = || async {
        let refused = |it: &Member| it.dht.status().counters.refused_total > 0;
        members[..5].iter().all(refused).then_some(())
    };
    until("what is false is stored nowhere", refused)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_stop_in_the_middle_of_requests_ends_them_all_and_leaves_no_task() {
    let members = Member::net(1, &patient()).await;
    let mut stallers = Vec::new();
    for seed in 101..103 {
        stallers.push(Stranger::start(seed, &members[0], Lies::Nothing).await);
    }
    all_know_all(&members, &stallers).await;
    let resolver = &members[0].resolver;
    let keys: Vec<Key> = (0..4_u8)
        .map(|n| Key::Manifest(ManifestId::of(&[n])))
        .collect();
    let asking = keys
        .iter()
        .map(|key| resolver.resolve(key, ResolveParams::default()));
    let stop = async {
        for staller in &stallers {
            let asked = || async { (staller.records.asked.load(Relaxed) == 4).then_some(()) };
            until("all requests are there", asked).await.unwrap();
        }
        members[0].stop().await;
    };
    let (answers, ()) = tokio::join!(join_all(asking), stop);
    for answer in answers {
        assert_eq!(answer.unwrap_err(), ResolveError::Canceled);
    }
    let late = resolver.resolve(&keys[0], ResolveParams::default()).await;
    assert_eq!(late.unwrap_err(), ResolveError::Canceled);
    assert_eq!(resolver.status().pipeline.workers_busy, 0);
    for staller in &stallers {
        let left = || async { (staller.records.left.load(Relaxed) == 4).then_some(()) };
        until("nobody is left waiting", left).await.unwrap();
    }
}
