//! G06-5 … G06-9: pull requests whose tips are below `/prs/`.

use grip_nostr::{Event, Kind, RepoAddr, kinds};
use grip_types::{Oid, Origin, Service};
use nostr::prelude::Keys;

use crate::admission::{Cause, Effect, Outcome, fake::*};

struct Scene {
    view: FakeView,
    signer: Keys,
    owner: Keys,
}

impl Scene {
    fn new() -> Self {
        let mut view = FakeView::new();
        view.policy.contributors = true;
        Self {
            view,
            signer: Keys::generate(),
            owner: Keys::generate(),
        }
    }

    fn contributor(&self) -> RepoAddr {
        RepoAddr::contributor(self.signer.public_key(), identifier())
    }

    fn url(&self) -> String {
        format!("https://{SERVICE}/{}", self.contributor().path())
    }

    fn request_of(&self, kind: Kind, clone: &str, tip: Oid) -> Event {
        let (target, tip) = (coordinate(30617, &self.owner.public_key()), tip.to_hex());
        let tags: &[&[&str]] = &[&["a", &target], &["c", &tip], &["clone", clone]];
        sign(&self.signer, kind, tags, 100)
    }

    fn request(&self, tip: Oid) -> Event {
        self.request_of(kinds::PULL_REQUEST, &self.url(), tip)
    }

    /// Has `refs/nostr/<id>` of the contributor at `tip`, without its event.
    fn push(&mut self, event: &Event, tip: Oid) {
        let contributor = self.contributor();
        self.view.placeholders.push((event.id, contributor.clone()));
        self.view.staged.push((contributor, event.id, tip));
    }
}

#[test]
fn g06_6_it_is_held_until_its_tip_is_here_however_it_came() {
    let mut scene = Scene::new();
    for kind in [kinds::PULL_REQUEST, kinds::PULL_REQUEST_UPDATE] {
        let event = scene.request_of(kind, &scene.url(), oid(1));
        for origin in [Origin::Submitted, Origin::Synced] {
            let decision = scene.view.ask_as(&event, origin);
            assert_eq!(decision.outcome, Outcome::Hold);
            assert_eq!(decision.families[0].repository, scene.contributor());
        }
        scene.push(&event, oid(1));
        let decision = scene.view.ask(&event);
        assert_eq!(decision.outcome, Outcome::Serve);
        decision.must_do(&Effect::SetPullRequestRef {
            event: event.id,
            tip: oid(1),
            repositories: Vec::new(),
            source: Some(scene.contributor()),
        });
    }
    // A commit of that name in the store of others is not in the contributor's repository.
    let other = scene.request(oid(2));
    scene.view.has(&[oid(2)]);
    assert_eq!(scene.view.outcome(&other), Outcome::Hold);
}

#[test]
fn g06_2_it_is_refused_where_it_is_off() {
    let mut scene = Scene::new();
    scene.view.policy.contributors = false;
    let event = scene.request(oid(1));
    scene.push(&event, oid(1));
    assert_eq!(scene.view.cause(&event), Cause::Unrelated);
}

#[test]
fn g06_7_the_clone_value_must_name_service_signer_and_target() {
    let scene = Scene::new();
    let (url, npub) = (scene.url(), scene.contributor().npub());
    let stranger = RepoAddr::contributor(Keys::generate().public_key(), identifier());
    let hex = scene.signer.public_key().to_hex();
    for good in [
        url.clone(),
        url.replace("https", "http"),
        url.replace(SERVICE, "GRASP.Example.com"),
        url.replace(SERVICE, &format!("{SERVICE}:443")),
    ] {
        let event = scene.request_of(kinds::PULL_REQUEST, &good, oid(1));
        assert_eq!(scene.view.outcome(&event), Outcome::Hold, "{good}");
    }
    for bad in [
        format!("{url}?x"),
        format!("{url}#x"),
        format!("{url}/x"),
        url.replace("https", "ssh"),
        url.replace(SERVICE, &format!("{SERVICE}.evil.net")),
        url.replace(SERVICE, &format!("{SERVICE}:8443")),
        url.replace(SERVICE, &format!("user@{SERVICE}")),
        url.replace("/prs/", "/PRS/"),
        url.replace("/prs/", "/"),
        url.replace(&npub, &hex),
        url.replace(D, "other"),
        url.replace(".git", ""),
        format!("https://{SERVICE}/{}", stranger.path()),
    ] {
        let event = scene.request_of(kinds::PULL_REQUEST, &bad, oid(1));
        assert_eq!(scene.view.cause(&event), Cause::Unrelated, "{bad}");
    }
    // Only a base path that is ours counts.
    let mut scene = Scene::new();
    scene.view.policy.service = Service::parse(&format!("https://{SERVICE}/base")).unwrap();
    let event = scene.request(oid(1));
    assert_eq!(scene.view.cause(&event), Cause::Unrelated);
    let based = scene.url().replace("/prs/", "/base/prs/");
    let event = scene.request_of(kinds::PULL_REQUEST, &based, oid(1));
    assert_eq!(scene.view.outcome(&event), Outcome::Hold);
}

#[test]
fn g06_8_an_event_that_does_not_match_the_pushed_ref_clears_it_and_waits() {
    let mut scene = Scene::new();
    let event = scene.request(oid(1));
    scene.push(&event, oid(2));
    let stranger = RepoAddr::contributor(Keys::generate().public_key(), identifier());
    scene.view.placeholders.push((event.id, stranger.clone()));
    let decision = scene.view.ask(&event);
    assert_eq!(decision.outcome, Outcome::Hold);
    for (repository, unless) in [(stranger, None), (scene.contributor(), Some(oid(1)))] {
        decision.must_do(&Effect::ClearPullRequestRef {
            event: event.id,
            repositories: vec![repository],
            unless,
        });
    }
}

#[test]
fn g06_9_the_tip_belongs_into_every_repository_it_is_meant_for() {
    let mut scene = Scene::new();
    scene.owner = scene.view.hosting(&[]);
    let event = scene.request(oid(1));
    assert_eq!(scene.view.outcome(&event), Outcome::Hold);
    scene.push(&event, oid(1));
    let decision = scene.view.ask(&event);
    decision.must_do(&Effect::SetPullRequestRef {
        event: event.id,
        tip: oid(1),
        repositories: vec![addr(&scene.owner)],
        source: Some(scene.contributor()),
    });
}

#[test]
fn a_banned_target_or_contributor_has_no_such_exception() {
    let mut scene = Scene::new();
    let event = scene.request(oid(1));
    for banned in [
        D.to_owned(),
        addr(&scene.owner).npub(),
        addr(&scene.signer).npub(),
    ] {
        scene.view.policy.repository_blacklist = banned.parse().unwrap();
        assert_eq!(scene.view.cause(&event), Cause::Unrelated, "{banned}");
    }
}
