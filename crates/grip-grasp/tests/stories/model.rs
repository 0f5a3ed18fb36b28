//! Random stories of several people on one name, checked after every step against a small model of
//! the protocol.
//!
//! The model knows which events were sent and asks which of them are served and held; what git has to
//! show follows from these alone, by the few rules below. It shares no code with the node. A story
//! that fails shrinks to a short one. `GRIPFAST_MODEL_CASES` sets how many are played,
//! `GRIPFAST_MODEL_SEED` which.

use std::collections::{BTreeMap, BTreeSet};

use grip_grasp::RepositoryStatus;
use grip_nostr::{Event, Timestamp};
use grip_testkit::{Author, WorkTree, wire};
use grip_types::Origin;
use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};

use crate::{
    expiry::in_minutes,
    node::{Node, SERVICE, ZERO, addr},
};

const PEOPLE: usize = 3;
const COMMITS: usize = 3;
const BRANCHES: [&str; 2] = ["refs/heads/main", "refs/heads/next"];
const CASES: u32 = 12;

/// One thing that happens. People and commits are named by their number.
#[derive(Clone, Debug)]
enum Step {
    /// An announcement that lists this server, with maintainers.
    Announce(usize, Vec<usize>),
    /// One that lists another.
    Leave(usize, Vec<usize>),
    /// An announcement of before is sent again.
    Replay(usize),
    /// A state that has each branch at a commit, or not at all.
    State(usize, [Option<usize>; 2]),
    /// The same with the time of the one before.
    Tie(usize, [Option<usize>; 2]),
    /// A push to somebody's repository of the branches that are chosen, as the newest state of the
    /// second person says.
    Push(usize, usize, [bool; 2]),
    /// Objects come by another way.
    Fetch(usize),
    /// Everything at an address up to now is taken back.
    DeleteState(usize),
    DeleteAnnouncement(usize),
    /// One event of before is taken back by its author.
    DeleteEvent(usize),
    /// A key takes back all it made.
    Vanish(usize),
    /// Any event of before comes from another relay.
    Arrive(usize),
    /// An event is made and kept back: it may arrive later.
    Withhold(usize, [Option<usize>; 2]),
    /// The database is away while a state comes, and until the node is started again.
    DatabaseAway(usize, [Option<usize>; 2]),
    /// The disk is full while a state and a push come.
    DiskFull(usize, [Option<usize>; 2]),
    /// The node is started under another name, and again under its own.
    Rename,
    /// A pull request to somebody, at a commit.
    Request(usize, usize, usize),
    Ban(usize),
    Unban(usize),
    /// Half an hour passes.
    Wait,
    Restart,
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    let person = 0..PEOPLE;
    let others = || prop::collection::vec(0..PEOPLE, 0..2);
    let branches = || [prop::option::of(0..COMMITS), prop::option::of(0..COMMITS)];
    prop_oneof![
        5 => (person.clone(), others()).prop_map(|(who, m)| Step::Announce(who, m)),
        1 => (person.clone(), others()).prop_map(|(who, m)| Step::Leave(who, m)),
        2 => (0..8_usize).prop_map(Step::Replay),
        6 => (person.clone(), branches()).prop_map(|(who, at)| Step::State(who, at)),
        1 => (person.clone(), branches()).prop_map(|(who, at)| Step::Tie(who, at)),
        6 => (person.clone(), person.clone(), any::<[bool; 2]>())
            .prop_map(|(to, by, which)| Step::Push(to, by, which)),
        2 => (0..COMMITS).prop_map(Step::Fetch),
        1 => person.clone().prop_map(Step::DeleteState),
        1 => person.clone().prop_map(Step::DeleteAnnouncement),
        3 => (0..12_usize).prop_map(Step::DeleteEvent),
        1 => person.clone().prop_map(Step::Vanish),
        2 => (0..12_usize).prop_map(Step::Arrive),
        2 => (person.clone(), branches()).prop_map(|(who, at)| Step::Withhold(who, at)),
        1 => (person.clone(), person.clone(), 0..COMMITS)
            .prop_map(|(who, to, at)| Step::Request(who, to, at)),
        1 => person.clone().prop_map(Step::Ban),
        1 => person.prop_map(Step::Unban),
        1 => Just(Step::Wait),
        // A start takes longer than all else.
        1 => prop_oneof![
            2 => Just(Step::Restart),
            3 => Just(Step::Kill),
            1 => (0..PEOPLE, branches()).prop_map(|(who, at)| Step::DatabaseAway(who, at)),
            1 => (0..PEOPLE, branches()).prop_map(|(who, at)| Step::DiskFull(who, at)),
            1 => Just(Step::Rename),
        ],
    ]
}

type Refs = BTreeMap<String, String>;

/// What was said, and by whom.
struct Said {
    event: Event,
    who: usize,
    what: What,
}

enum What {
    Announcement {
        lists_us: bool,
        maintainers: Vec<usize>,
    },
    State(Refs),
    Request,
}

/// What an author has taken back, with success: it is never served or held again.
enum TakenBack {
    Event(grip_nostr::EventId),
    Address(usize, u16, Timestamp),
    All(usize, Timestamp),
}

impl TakenBack {
    fn covers(&self, said: &Said) -> bool {
        let event = &said.event;
        match self {
            Self::Event(id) => event.id == *id,
            Self::Address(who, kind, until) => {
                said.who == *who && event.kind.as_u16() == *kind && event.created_at <= *until
            }
            Self::All(who, until) => said.who == *who && event.created_at <= *until,
        }
    }
}

struct Story<'a> {
    node: &'a mut Node,
    tree: &'a WorkTree,
    commits: &'a [String],
    name: String,
    people: Vec<Author>,
    banned: BTreeSet<usize>,
    said: Vec<Said>,
    taken_back: Vec<TakenBack>,
    /// Seconds since the story began: nothing happens in the same one, unless it is meant to.
    clock: u64,
    began: u64,
}

impl Story<'_> {
    fn now(&mut self) -> Timestamp {
        self.clock += 1;
        self.time()
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_secs(self.began + self.clock)
    }

    async fn play(&mut self, step: &Step) {
        match step {
            Step::Announce(who, maintainers) => self.announce(*who, SERVICE, maintainers).await,
            Step::Leave(who, maintainers) => {
                self.announce(*who, "other.example.com", maintainers).await;
            }
            Step::Replay(nth) => {
                let all = self.said.iter();
                let mut old = all.filter(|it| matches!(it.what, What::Announcement { .. }));
                if let Some(event) = old.nth(*nth).map(|it| it.event.clone()) {
                    self.node.send_as(&event, Origin::Submitted).await;
                }
            }
            Step::State(who, at) => {
                let time = self.now();
                self.state(*who, at, time).await;
            }
            Step::Tie(who, at) => {
                let time = self.time();
                self.state(*who, at, time).await;
            }
            Step::Push(to, by, which) => self.push(*to, *by, which).await,
            Step::Fetch(commit) => {
                // Only what somebody waits for is ever fetched.
                let tip = self.commits[*commit].clone();
                let waits = self.said.iter().any(|it| match &it.what {
                    What::State(refs) => refs.values().any(|oid| *oid == tip),
                    _ => false,
                });
                if waits && self.node.has_store(&self.name) {
                    let pack = wire::pack(self.tree, &tip, None).await.unwrap();
                    let received = self.node.receive(&self.name, pack).await;
                    received.promote().unwrap();
                    let name = grip_types::Identifier::parse(&self.name).unwrap();
                    let grasp = self.node.grasp();
                    let source = grip_grasp::DataSource::Fetch;
                    grasp.process_newly_available_git_data(&name, source).await;
                }
            }
            Step::DeleteEvent(nth) => self.delete_event(*nth).await,
            Step::Vanish(who) => {
                let at = self.now();
                let tags = vec![vec!["relay".into(), "ALL_RELAYS".into()]];
                let event = self.people[*who].sign_at(62, "", tags, at);
                if self.node.send(&event).await.accepted {
                    self.taken_back.push(TakenBack::All(*who, at));
                }
            }
            Step::Arrive(nth) => {
                if let Some(said) = self.said.get(*nth) {
                    self.node.send_as(&said.event, Origin::Synced).await;
                }
            }
            Step::Withhold(who, at) => {
                let time = self.now();
                let (event, refs) = self.sign_state(*who, at, time);
                let (who, what) = (*who, What::State(refs));
                self.said.push(Said { event, who, what });
            }
            Step::DatabaseAway(who, at) => {
                self.node.close_journal().await;
                let time = self.now();
                self.state(*who, at, time).await;
                self.push(*who, *who, &[true, true]).await;
                self.node.cut().await;
            }
            Step::DiskFull(who, at) => {
                self.node.restart_full(true).await;
                let time = self.now();
                self.state(*who, at, time).await;
                self.push(*who, *who, &[true, true]).await;
                self.check().await;
                self.node.restart_full(false).await;
            }
            Step::Rename => {
                self.node.restart_as("renamed.example.com").await;
                self.check().await;
                self.node.restart_as(SERVICE).await;
            }
            Step::DeleteState(who) => self.delete(*who, 30618).await,
            Step::DeleteAnnouncement(who) => self.delete(*who, 30617).await,
            Step::Request(who, to, commit) => {
                let (author, owner) = (&self.people[*who], &self.people[*to]);
                let tip = &self.commits[*commit];
                let url = "https://elsewhere.example/x.git";
                let event = author.pull_request(owner, &self.name, tip, url);
                self.node.send(&event).await;
                let (who, what) = (*who, What::Request);
                self.said.push(Said { event, who, what });
            }
            Step::Ban(who) => {
                self.banned.insert(*who);
                self.ban().await;
            }
            Step::Unban(who) => {
                self.banned.remove(who);
                self.ban().await;
            }
            Step::Wait => {
                self.node.grasp().sweep(in_minutes(31)).await;
            }
            Step::Restart => self.node.restart().await,
            Step::Kill => self.node.cut().await,
        }
    }

    async fn announce(&mut self, who: usize, server: &str, maintainers: &[usize]) {
        let mut tag = vec!["maintainers".to_owned()];
        tag.extend(maintainers.iter().map(|it| self.people[*it].hex()));
        let more = if maintainers.is_empty() {
            vec![]
        } else {
            vec![tag]
        };
        let at = self.now();
        let event = self.people[who].announcement_at(server, &self.name, more, at);
        self.node.send(&event).await;
        let what = What::Announcement {
            lists_us: server == SERVICE,
            maintainers: maintainers.to_vec(),
        };
        self.said.push(Said { event, who, what });
    }

    async fn state(&mut self, who: usize, at: &[Option<usize>; 2], time: Timestamp) {
        let (event, refs) = self.sign_state(who, at, time);
        self.node.send(&event).await;
        let what = What::State(refs);
        self.said.push(Said { event, who, what });
    }

    fn sign_state(&self, who: usize, at: &[Option<usize>; 2], time: Timestamp) -> (Event, Refs) {
        let named = BRANCHES.iter().zip(at);
        let named = named.filter_map(|(name, at)| Some((*name, &*self.commits[(*at)?])));
        let refs: Vec<(&str, &str)> = named.collect();
        let event = self.people[who].state_at(&self.name, &refs, None, time);
        let refs = refs
            .into_iter()
            .map(|(name, oid)| (name.into(), oid.into()));
        (event, refs.collect())
    }

    async fn delete_event(&mut self, nth: usize) {
        let at = self.now();
        let Some(said) = self.said.get(nth) else {
            return;
        };
        let id = said.event.id;
        let tags = vec![vec!["e".into(), id.to_hex()]];
        let event = self.people[said.who].sign_at(5, "", tags, at);
        if self.node.send(&event).await.accepted {
            self.taken_back.push(TakenBack::Event(id));
        }
    }

    async fn push(&mut self, to: usize, by: usize, which: &[bool; 2]) {
        let repo = addr(&self.people[to], &self.name);
        let newest = self.said.iter().rev().find_map(|it| match &it.what {
            What::State(refs) if it.who == by => Some(refs.clone()),
            _ => None,
        });
        let Some(says) = newest.filter(|_| self.node.grasp().repository(&repo).is_some()) else {
            return;
        };
        let current = self.node.refs(&repo);
        let mut commands = Vec::new();
        for (name, chosen) in BRANCHES.iter().zip(which) {
            let old = current.get(*name).map_or(ZERO, String::as_str);
            let new = says.get(*name).map_or(ZERO, String::as_str);
            if *chosen && (old, new) != (ZERO, ZERO) {
                commands.push((old, new, *name));
            }
        }
        if !commands.is_empty() {
            self.node.push(&repo, self.tree, &commands).await;
        }
    }

    async fn delete(&mut self, who: usize, kind: u16) {
        let at = self.now();
        let address = format!("{kind}:{}:{}", self.people[who].hex(), self.name);
        let tags = vec![vec!["a".into(), address]];
        let event = self.people[who].sign_at(5, "", tags, at);
        if self.node.send(&event).await.accepted {
            self.taken_back.push(TakenBack::Address(who, kind, at));
        }
    }

    async fn ban(&mut self) {
        let banned = self.banned.iter().map(|who| self.people[*who].pubkey());
        let banned: BTreeSet<_> = banned.collect();
        self.node
            .enforce(|policy| policy.event_blacklist = banned)
            .await;
    }

    /// Compares what git shows with what the model says.
    async fn check(&self) {
        self.node.agrees().await;
        let mut announced: BTreeMap<usize, (&Said, bool)> = BTreeMap::new();
        let (mut served, mut held) = (Vec::new(), Vec::new());
        for said in &self.said {
            let is_served = self.node.serves(&said.event);
            assert!(
                !is_served || !self.banned.contains(&said.who),
                "an event of somebody banned is served"
            );
            if self.taken_back.iter().any(|it| it.covers(said)) {
                assert!(!is_served, "an event is served that its author took back");
                let holds = self.node.holds(&said.event).await;
                assert!(!holds, "an event waits that its author took back");
            }
            match &said.what {
                What::Announcement { .. } if is_served || self.node.holds(&said.event).await => {
                    let known = announced.get(&said.who);
                    if known.is_none_or(|(known, _)| newer(&said.event, &known.event)) {
                        announced.insert(said.who, (said, is_served));
                    }
                }
                What::State(refs) if is_served => served.push((said, refs)),
                What::State(refs) if self.node.holds(&said.event).await => {
                    held.push((said, refs));
                }
                _ => {}
            }
        }
        for who in 0..PEOPLE {
            let repo = addr(&self.people[who], &self.name);
            let status = self.node.grasp().repository(&repo);
            let Some((said, is_served)) = announced.get(&who) else {
                assert_eq!(status, None, "{who} has announced nothing");
                continue;
            };
            let What::Announcement { lists_us, .. } = said.what else {
                unreachable!("only announcements are there");
            };
            if !lists_us {
                continue;
            }
            if status.is_none() && !is_served {
                // Hidden until a state brings it back.
                continue;
            }
            let expected = if *is_served {
                RepositoryStatus::Served
            } else {
                RepositoryStatus::Held
            };
            assert_eq!(status, Some(expected), "the repository of {who}");
            self.check_refs(who, &announced, &served, &held);
        }
    }

    fn check_refs(
        &self,
        who: usize,
        announced: &BTreeMap<usize, (&Said, bool)>,
        served: &[(&Said, &Refs)],
        held: &[(&Said, &Refs)],
    ) {
        let set = maintainers(who, announced);
        let by_members = served.iter().filter(|(said, _)| set.contains(&said.who));
        let effective = by_members.reduce(|best, other| {
            if newer(&other.0.event, &best.0.event) {
                other
            } else {
                best
            }
        });
        let shown = self.node.refs(&addr(&self.people[who], &self.name));
        for name in BRANCHES {
            let is = shown.get(name);
            let says = effective.and_then(|(_, refs)| refs.get(name));
            let pushed = held.iter().any(|(said, refs)| {
                let is_newer = effective.is_none_or(|(e, _)| newer(&said.event, &e.event));
                set.contains(&said.who) && is_newer && refs.get(name) == is
            });
            assert!(
                is == says || pushed,
                "{name} of {who} is {is:?} and has to be {says:?}"
            );
        }
        let (_, is_served) = announced[&who];
        assert!(
            !is_served || effective.is_some(),
            "{who} is served, and no state speaks for it"
        );
    }
}

/// NIP-01's order.
fn newer(event: &Event, than: &Event) -> bool {
    (event.created_at, std::cmp::Reverse(event.id)) > (than.created_at, std::cmp::Reverse(than.id))
}

/// The owner, and everybody whom a maintainer lists and who lists one in return.
fn maintainers(owner: usize, announced: &BTreeMap<usize, (&Said, bool)>) -> BTreeSet<usize> {
    let listed = |who: usize| match announced.get(&who).map(|(said, _)| &said.what) {
        Some(What::Announcement { maintainers, .. }) => maintainers.clone(),
        _ => Vec::new(),
    };
    let mut set = BTreeSet::from([owner]);
    loop {
        let is_new = |who: &usize| {
            let is_listed = set.iter().any(|member| listed(*member).contains(who));
            let answers = listed(*who).iter().any(|it| it != who && set.contains(it));
            !set.contains(who) && is_listed && answers
        };
        let new: Vec<usize> = (0..PEOPLE).filter(is_new).collect();
        if new.is_empty() {
            return set;
        }
        set.extend(new);
    }
}

#[test]
fn random_stories_leave_relay_and_git_in_agreement() {
    let cases = std::env::var("GRIPFAST_MODEL_CASES").ok();
    let cases = cases.map_or(CASES, |cases| cases.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let tree = WorkTree::with_commit().unwrap();
    let mut commits = vec![tree.tip("HEAD").unwrap()];
    while commits.len() < COMMITS {
        commits.push(tree.commit("a", &commits.len().to_string()).unwrap());
    }
    let node = std::cell::RefCell::new(runtime.block_on(Node::start()));
    let number = std::cell::Cell::new(0);
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let seed = std::env::var("GRIPFAST_MODEL_SEED").ok();
    let mut runner = match seed.map(|seed| seed.parse::<u64>().unwrap()) {
        Some(seed) => {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&seed.to_be_bytes());
            let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
            TestRunner::new_with_rng(config, rng)
        }
        None => TestRunner::new(config),
    };
    let started = std::time::Instant::now();
    let stories = prop::collection::vec(step(), 1..14);
    let played = runner.run(&stories, |steps| {
        number.set(number.get() + 1);
        let mut node = node.borrow_mut();
        let mut story = Story {
            node: &mut node,
            tree: &tree,
            commits: &commits,
            name: format!("story-{}", number.get()),
            people: (0..PEOPLE).map(|_| Author::new()).collect(),
            banned: BTreeSet::new(),
            said: Vec::new(),
            taken_back: Vec::new(),
            clock: 0,
            began: Timestamp::now().as_secs() - 1_000,
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(async {
                for step in &steps {
                    story.play(step).await;
                    story.check().await;
                }
                story.banned.clear();
                story.ban().await;
            });
        }));
        outcome.map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            TestCaseError::fail(text.unwrap_or_else(|| "a step failed".into()))
        })
    });
    played.unwrap();
    let (count, took) = (number.get(), started.elapsed());
    println!("{count} stories in {took:.1?}");
}
