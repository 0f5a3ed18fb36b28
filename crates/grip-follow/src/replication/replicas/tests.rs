use grip_types::Identifier;
use nostr::prelude::Keys;

use super::{
    super::replica::{GIT_AGAIN, GIT_GAP, RELAY_AGAIN},
    *,
};

const DAY: i64 = 86_400_000;

fn relay(name: &str) -> RelayUrl {
    RelayUrl::parse(&format!("wss://{name}.example")).unwrap()
}

fn clone() -> Arc<str> {
    "https://a.example/x.git".into()
}

fn state(n: u8) -> FollowedState {
    FollowedState {
        id: EventId::from_byte_array([n; 32]),
        created_at: Timestamp::from(u64::from(n) * 100),
    }
}

struct Scene {
    replicas: Replicas,
    addr: RepoAddr,
}

impl Scene {
    fn new() -> Self {
        let owner = Keys::generate().public_key();
        let addr = RepoAddr::new(owner, Identifier::parse("tides").unwrap());
        Self {
            replicas: Replicas::default(),
            addr,
        }
    }

    fn list(&mut self, state: FollowedState, now: i64) {
        let relays = ["a", "b"].map(|name| Place::Relay(relay(name)));
        let places = relays.into_iter().chain([Place::Git(clone())]).collect();
        let addr = self.addr.clone();
        let listed = Listed {
            addr,
            state,
            places,
        };
        self.replicas.update(vec![listed], now);
    }

    fn report(&self) -> Vec<ReplicaReport> {
        self.replicas.report(&self.addr, &|_| None)
    }

    fn of(&self, name: &str) -> ReplicaReport {
        let url = relay(name);
        let mut report = self.report().into_iter();
        report.find(|it| it.url == url.as_str()).unwrap()
    }

    fn git(&self) -> ReplicaReport {
        let mut report = self.report().into_iter();
        report.find(|it| it.kind == ReplicaKind::Git).unwrap()
    }

    fn probed(&mut self, found: (usize, usize, usize), now: i64) {
        let (matching, all, found) = found;
        let probe = Probe::Refs {
            matching,
            all,
            found,
        };
        let state = self.replicas.repositories[&self.addr].state.id;
        let addr = self.addr.clone();
        self.replicas
            .probed(&addr, &clone(), Some(&state), probe, now);
    }
}

#[test]
fn a_relay_is_current_when_it_delivers_the_state_and_behind_when_it_lacks_the_next() {
    let mut scene = Scene::new();
    scene.list(state(1), 1_000);
    assert!(
        scene
            .report()
            .iter()
            .all(|it| it.status == ReplicaStatus::Unknown)
    );
    assert!(scene.report().iter().all(|it| it.since.is_none()));
    scene.replicas.seen(&relay("a"), &[state(1).id], 2_000);
    assert_eq!(scene.of("a").status, ReplicaStatus::Current);
    assert_eq!(scene.of("a").since, Some(2_000));
    assert_eq!(scene.of("b").status, ReplicaStatus::Unknown);
    // Another state is effective; whether they have it is not known.
    scene.list(state(3), 5_000);
    assert_eq!(scene.of("a").status, ReplicaStatus::Unknown);
    let lacking = HashSet::from([state(3).id.to_bytes()]);
    for name in ["a", "b"] {
        let url = relay(name);
        scene
            .replicas
            .compared(&url, &[state(3).id], &lacking, 6_000);
    }
    let a = scene.of("a");
    assert_eq!((a.status, a.since), (ReplicaStatus::Behind, Some(6_000)));
    assert_eq!((a.state_at, a.behind_seconds), (Some(100), Some(200)));
    assert_eq!(scene.of("b").status, ReplicaStatus::Absent);
    let totals = scene.replicas.totals(&|_| None, 66_000);
    assert_eq!((totals.relays["behind"], totals.relays["absent"]), (1, 1));
    assert_eq!(
        (totals.repositories_alone, totals.longest_lag_seconds),
        (1, 60)
    );
    scene
        .replicas
        .compared(&relay("a"), &[state(3).id], &HashSet::new(), 7_000);
    assert_eq!(scene.of("a").status, ReplicaStatus::Current);
    assert_eq!(
        scene.replicas.totals(&|_| None, 66_000).repositories_alone,
        0
    );
}

#[test]
fn a_state_that_was_delivered_before_it_was_effective_counts() {
    let mut scene = Scene::new();
    scene.list(state(1), 1_000);
    scene.replicas.seen(&relay("b"), &[state(2).id], 2_000);
    assert_eq!(scene.of("b").status, ReplicaStatus::Unknown);
    scene.list(state(2), 9_000);
    assert_eq!(scene.of("b").status, ReplicaStatus::Current);
    // What is said of an older state by then changes nothing.
    let lacking = HashSet::from([state(1).id.to_bytes()]);
    scene
        .replicas
        .compared(&relay("b"), &[state(1).id], &lacking, 9_500);
    assert_eq!(scene.of("b").status, ReplicaStatus::Current);
}

#[test]
fn what_is_delivered_ahead_of_its_data_is_bounded_for_each_relay() {
    let mut replicas = Replicas::default();
    for n in 0..3_000_u32 {
        let mut id = [0; 32];
        id[..4].copy_from_slice(&n.to_be_bytes());
        replicas.seen(&relay("a"), &[EventId::from_byte_array(id)], 0);
    }
    assert_eq!(replicas.recent[&relay("a")].len(), MAX_RECENT);
}

#[test]
fn a_relay_is_asked_for_what_it_is_not_known_to_have_less_and_less_often() {
    let mut scene = Scene::new();
    scene.list(state(1), 0);
    let due = |scene: &mut Scene, now| scene.replicas.take_due(&relay("a"), 10, now).len();
    assert_eq!(due(&mut scene, FIRST_CHECK - 1), 0);
    assert_eq!(due(&mut scene, FIRST_CHECK), 1);
    // Without an answer it is not asked at once again.
    assert_eq!(due(&mut scene, FIRST_CHECK + 1), 0);
    let lacking = HashSet::from([state(1).id.to_bytes()]);
    let mut asked = 0;
    for second in 10..DAY / 1_000 {
        let now = second * 1_000;
        if due(&mut scene, now) > 0 {
            asked += 1;
            scene
                .replicas
                .compared(&relay("a"), &[state(1).id], &lacking, now);
        }
    }
    assert!((8..12).contains(&asked), "{asked}");
    scene.replicas.seen(&relay("a"), &[state(1).id], DAY);
    assert!(
        !scene
            .replicas
            .is_news(&relay("a"), &state(1).id, DAY + 1_000)
    );
    assert!(
        scene
            .replicas
            .is_news(&relay("a"), &state(1).id, DAY + 2 * STILL_CURRENT)
    );
    assert_eq!(due(&mut scene, DAY + RELAY_AGAIN - 1), 0);
    assert_eq!(due(&mut scene, DAY + RELAY_AGAIN), 1);
}

#[test]
fn a_clone_url_is_asked_once_a_day_and_at_most_every_ten_minutes_however_often_the_state_changes() {
    let mut scene = Scene::new();
    scene.list(state(1), 0);
    assert!(scene.replicas.next_clone(FIRST_CHECK - 1).is_none());
    assert!(scene.replicas.next_clone(FIRST_CHECK).is_some());
    scene.probed((2, 2, 2), FIRST_CHECK);
    assert_eq!(scene.git().status, ReplicaStatus::Current);
    assert!(
        scene
            .replicas
            .next_clone(FIRST_CHECK + GIT_AGAIN - 1)
            .is_none()
    );
    scene.list(state(2), 20_000);
    assert!(scene.replicas.next_clone(300_000).is_none());
    assert!(scene.replicas.next_clone(FIRST_CHECK + GIT_GAP).is_some());
    scene.probed((1, 2, 2), FIRST_CHECK + GIT_GAP);
    let git = scene.git();
    assert_eq!(
        (git.status, git.behind_seconds),
        (ReplicaStatus::Behind, Some(100))
    );
    assert_eq!(
        git.note.as_deref(),
        Some("1 of 2 refs are as the state says")
    );
    scene.probed((0, 2, 0), DAY);
    assert_eq!(scene.git().status, ReplicaStatus::Absent);
}

#[test]
fn an_owner_with_many_clone_urls_delays_nobody_else() {
    let mut replicas = Replicas::default();
    let [many, one] = [Keys::generate().public_key(), Keys::generate().public_key()];
    let listed = |owner, name: String| Listed {
        addr: RepoAddr::new(owner, Identifier::parse(&name).unwrap()),
        state: state(1),
        places: vec![Place::Git(format!("https://{name}.example/x.git").into())],
    };
    let mut all: Vec<Listed> = (0..50).map(|n| listed(many, format!("m{n}"))).collect();
    all.push(listed(one, "only".to_owned()));
    replicas.update(all, 0);
    let mut asked = Vec::new();
    for n in 0..3 {
        let now = FIRST_CHECK + n;
        let (addr, url) = replicas.next_clone(now).unwrap();
        let id = state(1).id;
        replicas.probed(&addr, &url, Some(&id), Probe::PutOff(1_000), now);
        asked.push(addr.owner);
    }
    assert!(asked[..2].contains(&one), "{asked:?}");
}

#[test]
fn what_is_known_survives_a_restart_and_ends_with_the_repository() {
    let mut scene = Scene::new();
    scene.list(state(1), 1_000);
    scene.replicas.seen(&relay("a"), &[state(1).id], 2_000);
    let (changed, gone) = scene.replicas.take_changes();
    assert!(gone.is_empty() && changed.len() == 1);
    let text = serde_json::to_string(&changed[0].1).unwrap();
    let saved: Saved = serde_json::from_str(&text).unwrap();
    let path = scene.addr.path();
    let mut later = Scene {
        replicas: Replicas::default(),
        addr: scene.addr.clone(),
    };
    later.replicas.restored =
        HashMap::from([(path.clone(), saved), ("gone".into(), changed[0].1.clone())]);
    later.list(state(1), 50_000);
    assert_eq!(later.of("a").since, Some(2_000));
    assert_eq!(later.replicas.take_changes().1, ["gone"]);
    later.replicas.update(Vec::new(), 60_000);
    assert_eq!(later.replicas.take_changes().1, [path]);
    assert!(later.report().is_empty());
}

#[test]
fn a_relay_that_is_not_connected_cannot_be_reached_whatever_it_had() {
    let mut scene = Scene::new();
    scene.list(state(1), 1_000);
    scene.replicas.seen(&relay("a"), &[state(1).id], 2_000);
    let down = |url: &RelayUrl| (*url == relay("a")).then(|| (Some(7_000), Some("gone".into())));
    let report = scene.replicas.report(&scene.addr, &down);
    let a = report
        .iter()
        .find(|it| it.url == relay("a").as_str())
        .unwrap();
    assert_eq!(
        (a.status, a.since),
        (ReplicaStatus::Unreachable, Some(7_000))
    );
    assert_eq!((a.state_at, a.note.as_deref()), (Some(100), Some("gone")));
}
