use grip_git::remote::RemoteRef;

use super::*;
use crate::testing::{identifier, oid, oids, url};

const A: &str = "https://a.example/x.git";

struct Host {
    knowledge: Negotiations,
    /// What states want.
    first: BTreeSet<Oid>,
    now: Instant,
}

impl Host {
    fn new() -> Self {
        Self {
            knowledge: Negotiations::default(),
            first: BTreeSet::new(),
            now: Instant::now(),
        }
    }

    /// Has the negotiations look at a fetch from `at`.
    fn with<T>(
        &mut self,
        at: &str,
        wants: &[u64],
        look: impl FnOnce(&mut Negotiations, Job<'_>, Instant) -> T,
    ) -> T {
        let job = Job {
            identifier: &identifier("x"),
            url: &url(at),
            wants: &oids(wants),
            first: &self.first,
            meter: &crate::Meter::unpaid(),
            disk_user: grip_git::DiskUser::Maintainer,
        };
        look(&mut self.knowledge, job, self.now)
    }

    fn step(&mut self, wants: &[u64]) -> Step {
        self.with(A, wants, Negotiations::step)
    }

    fn learn(&mut self, wants: &[u64], step: &Step, response: Response) -> Lesson {
        self.with(A, wants, |knowledge, job, now| {
            knowledge.learn(job, step, &response, now)
        })
    }

    /// Steps and answers; gives whether to go on at once.
    fn go(&mut self, wants: &[u64], step: Step, response: Response) -> bool {
        assert_eq!(self.step(wants), step);
        self.learn(wants, &step, response).resume
    }

    fn advertise(&mut self, wants: &[u64], advertised: Advertisement) -> bool {
        self.go(wants, Step::Advertise, Response::Advertised(advertised))
    }
}

fn fetch(numbers: &[u64]) -> Step {
    Step::FetchV2(numbers.iter().copied().map(oid).collect())
}

fn pack(numbers: &[u64]) -> Response {
    Response::Pack(oids(numbers))
}

fn remote_refs(numbers: &[u64]) -> Vec<RemoteRef> {
    let refs = numbers.iter().map(|n| RemoteRef {
        name: format!("refs/heads/b{n}"),
        oid: oid(*n),
        peeled: None,
    });
    refs.collect()
}

fn refs(numbers: &[u64]) -> Response {
    Response::Refs(oids(numbers))
}

fn old(numbers: &[u64], capabilities: &[&str]) -> Advertisement {
    Advertisement {
        version: Version::V0,
        capabilities: capabilities.iter().map(|&c| c.to_owned()).collect(),
        refs: remote_refs(numbers),
        digest: numbers.iter().fold(0, |sum, n| sum + n + 1),
    }
}

#[test]
fn an_unknown_host_is_asked_for_everything_in_one_request() {
    let mut host = Host::new();
    assert!(!host.go(&[1, 2], fetch(&[1, 2]), pack(&[1, 2])));
    assert_eq!(host.step(&[3]), fetch(&[3]));
}

#[test]
fn a_partial_host_lists_its_refs_and_is_asked_for_those_it_has() {
    let mut host = Host::new();
    assert!(host.go(&[1, 2, 3], fetch(&[1, 2, 3]), Response::Lacks(oid(1))));
    assert!(host.go(&[1, 2, 3], Step::ListRefs, refs(&[2, 9])));
    assert!(!host.go(&[1, 2, 3], fetch(&[2]), pack(&[2])));
    // From then on it begins with its refs; none of them helps, so it is asked in hope.
    assert!(!host.go(&[1, 3], Step::ListRefs, refs(&[2, 9])));
    assert!(!host.go(&[1, 3], fetch(&[3]), Response::Lacks(oid(3))));
    assert!(!host.go(&[1, 3], Step::ListRefs, refs(&[2, 9])));
    // It said that it lacks all of them: only its refs can tell when that changes.
    assert!(!host.go(&[1, 3], Step::ListRefs, refs(&[2, 9])));
    assert!(host.go(&[1, 3], Step::ListRefs, refs(&[1])));
    assert!(!host.go(&[1, 3], fetch(&[1]), pack(&[1])));
}

#[test]
fn one_object_that_a_host_refuses_without_naming_it_does_not_hold_up_the_others() {
    let mut host = Host::new();
    let (wants, step) = ([1, 2], fetch(&[1, 2]));
    assert_eq!(host.step(&wants), step);
    let lesson = host.learn(&wants, &step, Response::Refused);
    assert_eq!(
        lesson,
        Lesson::default(),
        "it stays a failure, with its words"
    );
    assert!(host.go(&wants, Step::ListRefs, refs(&[2, 9])));
    assert!(!host.go(&wants, fetch(&[2]), pack(&[2])));
    // A single one is refused for itself.
    let mut host = Host::new();
    assert!(!host.go(&[1], fetch(&[1]), Response::Refused));
    assert_eq!(host.step(&[1]), fetch(&[1]));
}

#[test]
fn made_up_tips_of_pull_requests_do_not_hold_up_a_state_that_is_not_a_tip() {
    let wants: Vec<u64> = (1..500).collect();
    // One request for everything as long as it may have everything.
    let mut host = Host::new();
    host.first = oids(&[400, 401]);
    let step = host.step(&wants);
    let Step::FetchV2(asked) = &step else {
        panic!("it is unknown");
    };
    assert_eq!((asked.len(), asked[0]), (wants.len(), oid(400)));
    assert!(host.learn(&wants, &step, Response::Lacks(oid(1))).resume);
    assert!(!host.go(&wants, Step::ListRefs, refs(&[9_000])));
    assert!(!host.go(&wants, fetch(&[400, 401]), pack(&[400, 401])));
}

#[test]
fn a_state_that_nobody_has_does_not_hold_up_pull_requests() {
    let (mut host, wants) = (Host::new(), [1, 2, 3, 4, 5]);
    host.first = oids(&[3, 4, 5]);
    assert!(host.go(&wants, fetch(&[3, 4, 5, 1, 2]), Response::Lacks(oid(3))));
    let mut asked = Vec::new();
    for _ in 0..4 {
        assert!(!host.go(&wants, Step::ListRefs, refs(&[])));
        let step = host.step(&wants);
        asked.push(step.clone());
        // Without a word which one it lacks.
        host.learn(&wants, &step, Response::Refused);
    }
    let (states, requests) = (fetch(&[4, 5]), fetch(&[1, 2]));
    assert_eq!(
        asked,
        [&states, &requests, &states, &requests].map(Step::clone)
    );
}

#[test]
fn a_host_that_lacks_the_only_want_is_not_asked_again_at_once() {
    let mut host = Host::new();
    assert!(!host.go(&[1], fetch(&[1]), Response::Lacks(oid(1))));
    assert_eq!(host.step(&[1]), Step::ListRefs);
}

#[test]
fn a_host_that_lists_what_it_does_not_serve_is_not_believed_for_ever() {
    let mut host = Host::new();
    assert!(host.go(&[1, 2], fetch(&[1, 2]), Response::Lacks(oid(1))));
    let mut requests = 1;
    let mut goes_on = true;
    while goes_on {
        let step = host.step(&[1, 2]);
        let response = match &step {
            Step::ListRefs => refs(&[1, 2]),
            _ => Response::Lacks(oid(2)),
        };
        goes_on = host.learn(&[1, 2], &step, response).resume;
        requests += 1;
        assert!(requests < 5, "it goes on for ever");
    }
}

#[test]
fn facts_are_believed_for_ten_minutes() {
    let mut host = Host::new();
    assert!(!host.go(&[1], fetch(&[1]), Response::Lacks(oid(1))));
    host.now += BELIEVED_FOR - Duration::from_secs(1);
    assert_eq!(host.step(&[1, 2]), Step::ListRefs);
    host.now += Duration::from_secs(1);
    assert_eq!(host.step(&[1, 2]), fetch(&[1, 2]));
}

#[test]
fn a_long_line_for_a_busy_host_does_not_make_it_unknown_between_two_steps() {
    let hours = Duration::from_secs(5 * 3600);
    let mut host = Host::new();
    assert!(host.go(&[1, 2], fetch(&[1, 2]), Response::Lacks(oid(1))));
    host.now += hours;
    assert!(host.go(&[1, 2], Step::ListRefs, refs(&[2])));
    host.now += hours;
    assert!(!host.go(&[1, 2], fetch(&[2]), pack(&[2])));
    host.now += BELIEVED_FOR;
    assert_eq!(host.step(&[1]), fetch(&[1]), "the last step ends it");

    let mut host = Host::new();
    assert!(host.go(&[1], fetch(&[1]), Response::NotUnderstood));
    host.now += hours;
    assert!(host.advertise(&[1], old(&[1], &[])));
    host.now += hours;
    assert!(matches!(host.step(&[1]), Step::FetchV0(_)));
}

#[test]
fn an_old_host_is_old_at_all_its_urls() {
    let mut host = Host::new();
    assert!(host.go(&[1], fetch(&[1]), Response::NotUnderstood));
    assert!(host.advertise(&[1], old(&[1], &[])));
    let at = |text: &str, host: &mut Host| host.with(text, &[2], Negotiations::step);
    assert_eq!(at("https://a.example/y.git", &mut host), Step::Advertise);
    assert_eq!(at("https://a.example:444/y.git", &mut host), fetch(&[2]));
    assert_eq!(at("https://b.example/y.git", &mut host), fetch(&[2]));
}

#[test]
fn a_prepared_fetch_that_would_bring_nothing_is_not_made() {
    let mut host = Host::new();
    assert!(host.go(&[1], fetch(&[1]), Response::NotUnderstood));
    assert!(host.advertise(&[1], old(&[1, 2], &[])));
    assert_eq!(host.step(&[3]), Step::Advertise);
}

#[test]
fn an_old_host_lists_its_refs_first_and_serves_what_they_point_at() {
    let mut host = Host::new();
    assert!(host.go(&[1], fetch(&[1]), Response::NotUnderstood));
    assert!(host.advertise(&[1], old(&[1, 2], &[])));
    let Step::FetchV0(request) = host.step(&[1]) else {
        panic!("it is an old one");
    };
    assert_eq!(
        (request.oids.as_slice(), request.is_everything),
        (&[oid(1)][..], false)
    );
    assert!(request.advertised.refs.is_empty());
    assert!(!host.learn(&[1], &Step::FetchV0(request), pack(&[1])).resume);
    assert_eq!(host.step(&[3]), Step::Advertise, "it is remembered as old");
}

#[test]
fn an_old_host_that_serves_no_ids_is_asked_for_heads_and_tags() {
    let mut host = Host::new();
    assert!(host.go(&[1, 5], fetch(&[1, 5]), Response::NotUnderstood));
    assert!(host.advertise(&[1, 5], old(&[2, 1, 3], &[])));
    let Step::FetchV0(request) = host.step(&[1, 5]) else {
        panic!("it is an old one");
    };
    assert_eq!(request.oids, [oid(1), oid(2), oid(3)]);
    assert!(
        !host
            .learn(&[1, 5], &Step::FetchV0(request), pack(&[1]))
            .resume
    );
    // The same refs again do not lead further; others may.
    assert!(!host.advertise(&[5], old(&[3, 2, 1], &[])));
    assert_eq!(host.step(&[5]), Step::Advertise);
    host.now += BELIEVED_FOR * 2;
    assert!(host.go(&[5], fetch(&[5]), Response::NotUnderstood));
    assert!(
        !host.advertise(&[5], old(&[1, 2, 3], &[])),
        "remembered longer than the rest"
    );
    assert!(host.advertise(&[5], old(&[1, 2, 4], &[])));
}

#[test]
fn an_old_host_that_serves_ids_is_asked_for_those_it_may_have() {
    let mut host = Host::new();
    let any = &["allow-reachable-sha1-in-want"];
    assert!(host.go(&[1, 5, 6], fetch(&[1, 5, 6]), Response::NotUnderstood));
    assert!(host.advertise(&[1, 5, 6], old(&[1, 2], any)));
    let step = host.step(&[1, 5, 6]);
    assert!(matches!(&step, Step::FetchV0(request) if request.oids == [oid(1), oid(5), oid(6)]));
    assert!(
        !host
            .learn(&[1, 5, 6], &step, Response::Lacks(oid(5)))
            .resume
    );
    assert!(host.advertise(&[1, 5, 6], old(&[1, 2], any)));
    let step = host.step(&[1, 5, 6]);
    assert!(matches!(&step, Step::FetchV0(request) if request.oids == [oid(1), oid(6)]));
}

#[test]
fn an_empty_old_host_is_left_alone() {
    let mut host = Host::new();
    assert!(host.go(&[1], fetch(&[1]), Response::NotUnderstood));
    assert!(!host.advertise(&[1], old(&[], &[])));
}

#[test]
fn a_host_that_fell_over_is_asked_in_the_old_way_at_the_next_attempt() {
    let mut host = Host::new();
    let step = host.step(&[1]);
    let lesson = host.learn(&[1], &step, Response::Doubtful);
    assert!(!lesson.is_answer && !lesson.resume, "it stays a failure");
    let new = Advertisement {
        version: Version::V2,
        ..Advertisement::default()
    };
    assert!(host.advertise(&[1], new), "it speaks the new one after all");
    let step = host.step(&[1]);
    assert_eq!(step, fetch(&[1]));
    // Now that is certain: a fault stays a fault.
    for response in [Response::Doubtful, Response::NotUnderstood] {
        assert_eq!(host.learn(&[1], &step, response), Lesson::default());
        assert_eq!(host.step(&[1]), fetch(&[1]));
    }
}

#[test]
fn a_host_that_has_spoken_the_new_version_is_not_taken_for_old() {
    let mut host = Host::new();
    assert!(!host.go(&[1], fetch(&[1]), pack(&[1])));
    let step = host.step(&[2]);
    assert_eq!(
        host.learn(&[2], &step, Response::NotUnderstood),
        Lesson::default()
    );
    assert_eq!(host.step(&[2]), fetch(&[2]));
}

#[test]
fn too_many_wants_are_asked_for_in_parts() {
    let many: Vec<u64> = (0..MAX_WANTS as u64 + 10).collect();
    let mut host = Host::new();
    let step = host.step(&many);
    let Step::FetchV2(asked) = &step else {
        panic!("it is unknown");
    };
    assert_eq!(asked.len(), MAX_WANTS);
    assert!(host.learn(&many, &step, pack(&many[..MAX_WANTS])).resume);
    assert!(!host.learn(&many, &step, pack(&[])).resume);
}
