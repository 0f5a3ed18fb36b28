//! Served repositories, found from every member for as long as they are served.

use grip_dht::Dht as _;
use grip_testkit::{Author, events::tag, until};

use super::members::{Bootstrap as _, Member, manifest, patient};
use crate::{Key, Manifest, NamedBy, ResolveError, ResolveParams, Source, testing::FRESH};

const MEMBERS: u8 = 8;

fn keys(manifest: &Manifest) -> [Key; 2] {
    [Key::Name(manifest.name()), Key::Manifest(manifest.id())]
}

#[tokio::test]
async fn every_name_and_every_digest_resolves_from_every_member() {
    let members = Member::net(MEMBERS, &patient()).await;
    let mut served = Vec::new();
    for member in &members {
        let manifest = manifest(&Author::new(), "x", 1, vec![]);
        member.serve(&manifest).await;
        served.push(manifest);
    }
    let (mut hops, mut took) = (Vec::new(), Vec::new());
    for (at, member) in members.iter().enumerate() {
        for (owner, manifest) in served.iter().enumerate() {
            for key in keys(manifest) {
                let found = member
                    .resolver
                    .resolve(&key, ResolveParams::default())
                    .await;
                let found = found.unwrap_or_else(|error| panic!("{key} from {at}: {error}"));
                assert_eq!(found.id, manifest.id());
                let is_local = found.source == Source::Local;
                assert_eq!(
                    (is_local, found.source == Source::Dht),
                    (at == owner, at != owner)
                );
                if found.source == Source::Dht {
                    // A digest may be settled by what the owner left with us.
                    let is_held = matches!(key, Key::Manifest(_)) && found.asked == 0;
                    assert_eq!(found.hops == 0, is_held, "{key} from {at}");
                    hops.push(found.hops);
                    took.push(found.took);
                }
            }
        }
    }
    took.sort_unstable();
    let of = |percent: usize| took[(took.len() - 1) * percent / 100];
    println!(
        "{MEMBERS} members: {} resolutions, p50 {:.1?}, p99 {:.1?}, most hops {:?}",
        took.len(),
        of(50),
        of(99),
        hops.iter().max(),
    );
    // In a network where everybody knows everybody, the first one asked may have it.
    assert!(hops.iter().all(|hops| *hops <= 2), "{hops:?}");

    // Who has it is known as well, and where that is by its own word.
    let key = Key::Name(served[0].name());
    let ranked = members[5].resolver.providers(&key, 20, None, FRESH).await;
    let ranked = ranked.unwrap().providers;
    let owner = NamedBy::Node(members[0].peer().id);
    let named = ranked.iter().find(|provider| provider.named_by == owner);
    let url = &named.unwrap_or_else(|| panic!("{ranked:?}")).url;
    assert!(url.as_str().starts_with(members[0].url.as_str()), "{url}");
    for member in &members {
        member.stop().await;
    }
}

#[tokio::test]
async fn what_is_too_long_to_be_stored_comes_from_its_owner_until_it_is_withdrawn() {
    let members = Member::net(4, &patient()).await;
    let (author, long) = (Author::new(), "x".repeat(70 << 10));
    let large = manifest(&author, "large", 1, vec![tag(["description", &long])]);
    assert!(!large.fits_a_record());
    members[0].serve(&large).await;
    for member in &members[1..] {
        for key in keys(&large) {
            let found = member
                .resolver
                .resolve(&key, ResolveParams::default())
                .await
                .unwrap();
            assert_eq!((found.id, found.source), (large.id(), Source::Dht));
        }
    }

    members[0].repos.remove(&large.name());
    for key in keys(&large) {
        // Its provider responds so to all requests, and its earlier responses are forgotten.
        let (owner, record) = (members[0].peer(), key.record());
        let withdrawn = || async {
            let response = members[1].dht.request(&owner, &record).await.ok()?;
            (response.value.is_none() && response.providers.is_empty()).then_some(())
        };
        until("the owner has withdrawn it", withdrawn)
            .await
            .unwrap();
        for member in &members {
            let found = member.resolver.resolve(&key, FRESH).await;
            assert_eq!(found.unwrap_err(), ResolveError::Unknown);
        }
    }
    assert_eq!(members[0].resolver.counters().withdrawn_total, 1);
}

#[tokio::test]
async fn what_the_owner_left_with_us_is_found_after_its_death() {
    let members = Member::net(2, &patient()).await;
    let manifest = manifest(&Author::new(), "x", 1, vec![]);
    members[0].serve(&manifest).await;
    // Of its name, of its manifest, and of the node.
    let stored = || async { (members[1].dht.status().records >= 3).then_some(()) };
    until("its records lie here", stored).await.unwrap();
    members[0].stop().await;
    for key in keys(&manifest) {
        let found = members[1].resolver.resolve(&key, FRESH).await.unwrap();
        assert_eq!((found.id, found.source), (manifest.id(), Source::Dht));
        assert_eq!(found.hops, 0);
    }
    members[1].stop().await;
}

#[tokio::test]
async fn a_newer_state_is_what_everybody_finds() {
    let members = Member::net(4, &patient()).await;
    let author = Author::new();
    let old = manifest(&author, "x", 1, vec![]);
    members[0].serve(&old).await;
    let key = Key::Name(old.name());
    let found = members[3].resolver.resolve(&key, FRESH).await.unwrap();
    assert_eq!(found.id, old.id());
    let new = manifest(&author, "x", 2, vec![]);
    members[0].serve(&new).await;
    for member in &members[1..] {
        let newer = || async {
            let found = member.resolver.resolve(&key, FRESH).await.ok()?;
            (found.id == new.id()).then_some(())
        };
        until("the newer one is found", newer).await.unwrap();
    }
}

#[tokio::test]
async fn a_manifest_that_outgrows_a_record_is_what_everybody_finds() {
    let members = Member::net(4, &patient()).await;
    let (author, long) = (Author::new(), "x".repeat(70 << 10));
    let small = manifest(&author, "x", 1, vec![]);
    members[0].serve(&small).await;
    let key = Key::Name(small.name());
    for member in &members[1..] {
        member.holds(&key, &members[0]).await;
    }
    let large = manifest(&author, "x", 2, vec![tag(["description", &long])]);
    assert!(small.fits_a_record() && !large.fits_a_record());
    members[0].serve(&large).await;
    for member in &members[1..] {
        let by_id = Key::Manifest(large.id());
        let found = member.resolver.resolve(&by_id, FRESH).await.unwrap();
        assert_eq!((found.id, found.source), (large.id(), Source::Dht));
        // Two that still hold the small one may respond before its owner.
        let larger = || async {
            let found = member.resolver.resolve(&key, FRESH).await.ok()?;
            (found.id == large.id()).then_some(())
        };
        until("the larger one is found", larger).await.unwrap();
        let kept = member
            .resolver
            .resolve(&key, ResolveParams::default())
            .await
            .unwrap();
        assert_eq!(kept.id, large.id());
    }
}
