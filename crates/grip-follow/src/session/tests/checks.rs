//! Questions whether a relay has states that are here.

use serde_json::json;

use super::*;

const IDS: [[u8; 32]; 3] = [[1; 32], [2; 32], [3; 32]];

fn items() -> Vec<Item> {
    IDS.map(|id| (1_000, id)).to_vec()
}

/// The filter of the last message of a kind.
fn last(said: &[Value], kind: &str) -> Value {
    let mut of_kind = said.iter().rev().filter(|message| message[0] == kind);
    of_kind.next().expect("it was said").clone()
}

#[tokio::test(start_paused = true)]
async fn a_relay_without_nip77_is_asked_by_id_and_what_does_not_come_is_lacking() {
    let mut scene = Scene::new(one(Class::States));
    let (name, _) = scene.requests().remove(0);
    scene.hear(json!(["EOSE", name]));
    assert!(scene.is_complete());
    scene.said();
    scene.session.check(items(), scene.now);
    scene.pass(2);
    let request = last(&scene.said(), "REQ");
    assert_eq!(request[2]["ids"].as_array().unwrap().len(), 3);
    scene.deliver(request[1].as_str().unwrap(), 1_000);
    while let Some(batch) = scene.session.inbox.take() {
        let fates: Vec<_> = batch
            .iter()
            .map(|it| (it.job, IDS[0], Fate::Known))
            .collect();
        scene.session.inbox.decided();
        scene.session.admitted(&fates, scene.now);
    }
    scene.hear(json!(["EOSE", request[1]]));
    let mut lacking = scene.lacking.clone();
    lacking.sort_unstable();
    assert_eq!(lacking, IDS[1..]);
    // It confirms nothing and leaves nothing behind.
    assert!(scene.is_complete() && !scene.session.is_asking());
}

#[tokio::test(start_paused = true)]
async fn a_relay_with_nip77_tells_what_it_lacks_without_sending_an_event() {
    let limits = RemoteLimits::default();
    let mut scene = Scene::with(one(Class::States), limits, true, Progress::default());
    let relay = |scene: &mut Scene, has: &[[u8; 32]]| {
        let open = last(&scene.said(), "NEG-OPEN");
        let has: Vec<Item> = has.iter().map(|id| (1_000, *id)).collect();
        let answer = Peer::new(&has).answer(&open[3]);
        scene.hear(json!(["NEG-MSG", open[1], answer]));
    };
    // The history, of which all three are here and the relay has two.
    assert!(scene.wants_set);
    scene.session.set_loaded(Some(items()), scene.now);
    scene.collect();
    relay(&mut scene, &IDS[..2]);
    assert_eq!(scene.lacking, IDS[2..]);
    scene.lacking.clear();
    scene.session.check(items(), scene.now);
    scene.pass(2);
    relay(&mut scene, &IDS[1..]);
    assert_eq!(scene.lacking, IDS[..1]);
    assert!(scene.session.inbox.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_refuses_a_check_is_found_to_lack_nothing() {
    let mut scene = Scene::new(one(Class::States));
    let (name, _) = scene.requests().remove(0);
    scene.hear(json!(["EOSE", name]));
    scene.session.check(items(), scene.now);
    scene.pass(2);
    let request = last(&scene.said(), "REQ");
    scene.hear(json!(["CLOSED", request[1], "error: shutting down"]));
    assert!(scene.lacking.is_empty() && !scene.session.is_asking());
    // Nobody asks twice at once.
    scene.session.check(items(), scene.now);
    scene.session.check(items(), scene.now);
    scene.pass(7_200);
    let said = scene.said();
    let checks = said.iter().filter(|it| !it[2]["ids"].is_null());
    assert_eq!(checks.count(), 1);
}
